package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxObjectName bounds names, namespaces and UIDs of Kubernetes objects.
const maxObjectName = 253

// scanJobRow is a row of scan_jobs, with whether its attempt is the current one.
type scanJobRow struct {
	Name, Namespace, UID, ImageID, Platform string
	Attempt                                 int
	ScannerUID, ForNamespace                string
	SizeClass, Spec                         string
	SbomSha256                              string `gorm:"column:sbom_sha256"`
	Lookup                                  string
	IsCurrent                               int64
}

// selectScanJobs reads rows of scanJobRow without the spec; the values are the states in which an image waits for its first SBOM. No image and no lookup have
// the same nonce.
const selectScanJobs = `SELECT j.name, j.namespace, j.uid, j.image_id, j.platform, j.attempt, j.scanner_uid, j.for_namespace, j.size_class, j.sbom_sha256%s,
	COALESCE(l.id, '') AS lookup, CASE WHEN i.id IS NOT NULL OR l.attempts = j.attempt THEN 1 ELSE 0 END AS is_current FROM scan_jobs j
	LEFT JOIN images i ON i.image_id = j.image_id AND i.platform = j.platform AND i.nonce = j.nonce AND i.attempts = j.attempt
	AND (i.state IN ? OR ` + isRecataloged + `)
	LEFT JOIN tag_lookups l ON l.nonce = j.nonce`

// waitingStates are the states in which an image waits for its first SBOM.
var waitingStates = []string{string(store.StatePending), string(store.StateFailed)}

// spec is nil if it was not read.
func (r *scanJobRow) spec() json.RawMessage {
	if r.Spec == "" {
		return nil
	}
	return json.RawMessage(r.Spec)
}

func (r *scanJobRow) job() (store.ScanJob, error) {
	key, err := keyOf(r.ImageID, r.Platform)
	return store.ScanJob{
		Name: r.Name, Namespace: r.Namespace, UID: r.UID, Key: key, Attempt: r.Attempt, ScannerUID: r.ScannerUID,
		Lookup: r.Lookup, For: r.ForNamespace, SizeClass: model.SizeClass(r.SizeClass).OrSmall(), Spec: r.spec(), Open: r.IsCurrent != 0, SBOMSHA256: r.SbomSha256,
	}, err
}

// scanJobs reads the Jobs that a condition selects.
func scanJobs(tx *gorm.DB, condition string, values ...any) ([]store.ScanJob, error) {
	return queryScanJobs(tx, fmt.Sprintf(selectScanJobs, ", j.spec")+" "+condition, values...)
}

// queryScanJobs reads the Jobs that a query selects, which begins as selectScanJobs.
func queryScanJobs(tx *gorm.DB, query string, values ...any) ([]store.ScanJob, error) {
	var rows []scanJobRow
	if err := tx.Raw(query, append([]any{waitingStates}, values...)...).Scan(&rows).Error; err != nil {
		return nil, err
	}
	jobs := make([]store.ScanJob, len(rows))
	for i := range rows {
		var err error
		if jobs[i], err = rows[i].job(); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// ReserveScanJob implements store.ScanJobs.
func (s *Store) ReserveScanJob(ctx context.Context, job store.ScanJob) (kept store.ScanJob, reserved bool, err error) {
	const what = "reserve a scan Job"
	if err := checkScanJob(&job); err != nil {
		return store.ScanJob{}, false, fmt.Errorf("%s: %w", what, err)
	}
	err = s.write(ctx, what, func(tx *txn) error {
		reserved = false
		jobs, err := scanJobs(tx.DB, "WHERE j.name = ?", job.Name)
		if err != nil {
			return err
		}
		if len(jobs) > 0 {
			kept = jobs[0]
			return nil
		}
		nonce, err := nonceOf(tx.DB, &job)
		if err != nil {
			return err
		}
		err = tx.Insert("scan_jobs", []string{
			"name", "namespace", "uid", "image_id", "platform", "nonce", "attempt", "scanner_uid", "for_namespace", "size_class", "spec", "sbom_sha256",
		}, []any{
			job.Name, job.Namespace, "", job.Key.ImageID, job.Key.Platform.String(), nonce, job.Attempt, job.ScannerUID, job.For,
			string(job.SizeClass.OrSmall()), string(job.Spec), "",
		}, "")
		if err != nil {
			return err
		}
		kept, reserved = job, true
		kept.UID, kept.SizeClass, kept.Open, kept.SBOMSHA256 = "", job.SizeClass.OrSmall(), true, ""
		return nil
	})
	return kept, reserved && err == nil, err
}

// nonceOf returns the nonce of the image or of the lookup whose current attempt a Job makes.
func nonceOf(tx *gorm.DB, job *store.ScanJob) (string, error) {
	what, query, values := "image "+job.Key.String(),
		"SELECT i.nonce FROM images i WHERE i.image_id = ? AND i.platform = ? AND i.attempts = ? AND (i.state IN ? OR "+isRecataloged+")",
		[]any{job.Key.ImageID, job.Key.Platform.String(), job.Attempt, waitingStates}
	if job.Lookup != "" {
		what, query, values = "newer tags of "+job.Key.String(), "SELECT nonce FROM tag_lookups WHERE id = ? AND attempts = ? AND unwanted_since = 0", []any{job.Lookup, job.Attempt}
	}
	var nonces []string
	if err := tx.Raw(query, values...).Scan(&nonces).Error; err != nil {
		return "", err
	}
	if len(nonces) == 0 {
		return "", fmt.Errorf("attempt %d at %s: %w", job.Attempt, what, store.ErrNotFound)
	}
	return nonces[0], nil
}

func checkScanJob(job *store.ScanJob) error {
	for _, text := range []string{job.Name, job.Namespace} {
		if text == "" || len(text) > maxObjectName {
			return fmt.Errorf("a name or namespace has %d bytes, expected 1 to %d", len(text), maxObjectName)
		}
	}
	for _, text := range []string{job.ScannerUID, job.For} {
		if len(text) > maxObjectName {
			return fmt.Errorf("the UID of the Scanner or a namespace has %d bytes, the maximum is %d", len(text), maxObjectName)
		}
	}
	if !json.Valid(job.Spec) || len(job.Spec) > store.MaxJobSpec {
		return fmt.Errorf("the spec has %d bytes, expected JSON of at most %d", len(job.Spec), store.MaxJobSpec)
	}
	return checkKeys([]model.ImageKey{job.Key})
}

// RecordScanJob implements store.ScanJobs.
func (s *Store) RecordScanJob(ctx context.Context, name, uid string) error {
	const what = "record a scan Job"
	if uid == "" || len(uid) > maxObjectName {
		return fmt.Errorf("%s: the UID has %d bytes, expected 1 to %d", what, len(uid), maxObjectName)
	}
	return s.write(ctx, what, func(tx *txn) error {
		jobs, err := scanJobs(tx.DB, "WHERE j.name = ?", name)
		switch {
		case err != nil:
			return err
		case len(jobs) == 0:
			return fmt.Errorf("scan Job %q: %w", name, store.ErrNotFound)
		case jobs[0].UID == uid:
			return nil
		case jobs[0].UID != "":
			return fmt.Errorf("scan Job %q is recorded with another UID", name)
		}
		return tx.Execute("UPDATE scan_jobs SET uid = ? WHERE name = ?", uid, name)
	})
}

// ScanJob implements store.ScanJobs.
func (s *Store) ScanJob(ctx context.Context, uid string) (store.ScanJob, error) {
	var job store.ScanJob
	err := s.read(ctx, "read a scan Job", func(tx *gorm.DB) (err error) {
		job, err = scanJobOf(tx, uid)
		return err
	})
	return job, err
}

// ReservedScanJob implements store.ScanJobs.
func (s *Store) ReservedScanJob(ctx context.Context, namespace, name string) (bool, error) {
	var jobs []store.ScanJob
	err := s.read(ctx, "read a reserved scan Job", func(tx *gorm.DB) (err error) {
		jobs, err = scanJobs(tx, "WHERE j.name = ? AND j.namespace = ? AND j.uid = ''", name, namespace)
		return err
	})
	return len(jobs) == 1 && jobs[0].Open, err
}

// scanJobOf reads the recorded Job with a UID.
func scanJobOf(tx *gorm.DB, uid string) (store.ScanJob, error) {
	var jobs []store.ScanJob
	if uid != "" {
		var err error
		if jobs, err = scanJobs(tx, "WHERE j.uid = ?", uid); err != nil {
			return store.ScanJob{}, err
		}
	}
	if len(jobs) == 0 {
		return store.ScanJob{}, fmt.Errorf("scan Job with UID %q: %w", sqldb.Truncate(uid, maxObjectName), store.ErrNotFound)
	}
	return jobs[0], nil
}

// ListScanJobs implements store.ScanJobs.
func (s *Store) ListScanJobs(ctx context.Context) ([]store.ScanJob, error) {
	var jobs []store.ScanJob
	err := s.read(ctx, "list scan Jobs", func(tx *gorm.DB) (err error) {
		jobs, err = queryScanJobs(tx, fmt.Sprintf(selectScanJobs, "")+" ORDER BY is_current DESC, j.name LIMIT ?", store.MaxKeys)
		return err
	})
	return jobs, err
}

// ScanJobSpec implements store.ScanJobs.
func (s *Store) ScanJobSpec(ctx context.Context, name string) (json.RawMessage, error) {
	var specs []string
	err := s.read(ctx, "read the spec of a scan Job", func(tx *gorm.DB) error {
		return tx.Raw("SELECT spec FROM scan_jobs WHERE name = ?", name).Scan(&specs).Error
	})
	if err == nil && len(specs) == 0 {
		err = fmt.Errorf("scan Job %q: %w", sqldb.Truncate(name, maxObjectName), store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return json.RawMessage(specs[0]), nil
}

// ForgetScanJobs implements store.ScanJobs.
func (s *Store) ForgetScanJobs(ctx context.Context, names []string) error {
	const what = "delete scan Jobs"
	if len(names) > store.MaxKeys {
		return fmt.Errorf("%s: %d names, the maximum is %d", what, len(names), store.MaxKeys)
	}
	if len(names) == 0 {
		return nil
	}
	return s.write(ctx, what, func(tx *txn) error {
		for part := range slices.Chunk(names, sqldb.MaxIn) {
			if err := tx.Execute("DELETE FROM scan_jobs WHERE name IN ?", part); err != nil {
				return err
			}
		}
		return nil
	})
}

// deliver notes that a Job delivers an SBOM, and returns the Job. It is nil when the SBOM is the one that the Job delivered before.
func deliver(tx *txn, key model.ImageKey, sbom *store.SBOM) (*store.ScanJob, error) {
	job, err := delivered(tx, sbom.Job, sbom.SHA256, "SBOM")
	switch {
	case err != nil || job == nil:
		return nil, err
	case job.Key != key || job.Lookup != "":
		return nil, fmt.Errorf("%w: Job %s/%s does not catalog this image", store.ErrAttemptClosed, job.Namespace, job.Name)
	}
	return job, nil
}

// delivered notes that the Job with a UID delivers something with a digest, and returns the Job, nil if it has delivered the same before.
func delivered(tx *txn, uid, digest, what string) (*store.ScanJob, error) {
	job, err := scanJobOf(tx.DB, uid)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("%w: the Job is not recorded", store.ErrAttemptClosed)
	case err != nil:
		return nil, err
	case job.SBOMSHA256 != "" && job.SBOMSHA256 == digest:
		return nil, nil
	case job.SBOMSHA256 != "":
		return nil, fmt.Errorf("%w: Job %s/%s delivered another %s before", store.ErrAttemptClosed, job.Namespace, job.Name, what)
	case !job.Open:
		return nil, fmt.Errorf("%w: the attempt of Job %s/%s has ended", store.ErrAttemptClosed, job.Namespace, job.Name)
	}
	return &job, tx.Execute("UPDATE scan_jobs SET sbom_sha256 = ? WHERE name = ?", digest, job.Name)
}
