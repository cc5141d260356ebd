package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// matched is the data of store.EventImageMatched.
type matched struct {
	Database string       `json:"database"`
	Counts   store.Counts `json:"counts"`
	// AllNamespaces says that decisions apply in some places only, so that other findings can count for who sees some namespaces.
	AllNamespaces bool `json:"allNamespaces,omitempty"`
}

// matchedImage is what FinishImage and ReplaceCatalog need of an image.
type matchedImage struct {
	ID              int64
	State           string
	Reason, Message string
	MatchedAt       int64
	Counts          countsRow `gorm:"embedded"`
}

const (
	// failedPackage is the condition that one of the packages of image i has a failure for an answer; the values are the
	// current result set, twice.
	failedPackage = `EXISTS (SELECT 1 FROM image_packages ip JOIN package_answers a ON a.package_pk = ip.package_pk
		WHERE ip.image_pk = i.id AND ip.excluded = 0 AND a.from_gen <= ? AND a.until_gen > ? AND a.failure <> '')`
	// unanswered is the condition that a package of image_packages ip has no answer; the values are the current result set,
	// twice.
	unanswered = `NOT EXISTS (SELECT 1 FROM package_answers a WHERE a.package_pk = ip.package_pk AND a.from_gen <= ? AND a.until_gen > ?)`
)

// waitingImages selects the keys of images that FinishImage has not finished, nor noted a failure of that is still there. Of images that
// are still to be cataloged it is those with the components of a report, and nothing is noted.
const waitingImages = `SELECT i.image_id, i.platform FROM images i
	WHERE i.state = ? AND (i.state = ? AND i.reason <> ? OR (i.state = ? OR i.from_report = 1 AND i.matched_at = 0) AND NOT ` + failedPackage + `)
	AND NOT ` + symbolsLeftOut + ` AND ` + behindImage + ` ORDER BY i.image_id, i.platform LIMIT ?`

// WaitingImages implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) WaitingImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var keys []model.ImageKey
	err := s.read(ctx, "list the images to match", func(tx *gorm.DB) error {
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		keys = nil
		// Each state is in the order of an index.
		for _, state := range []store.State{store.StateCataloged, store.StatePending, store.StateFailed} {
			found, err := imageKeys(tx.Raw(waitingImages, string(state), string(store.StateCataloged), string(model.ReasonMatchFailed),
				string(store.StateCataloged), current, current, int64(model.SymbolsLeftOut), after.ImageID, after.ImageID, after.Platform.String(), limit))
			if err != nil {
				return err
			}
			keys = append(keys, found...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(keys, func(a, b model.ImageKey) int {
		return cmp.Or(cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform.String(), b.Platform.String()))
	})
	return keys[:min(len(keys), limit)], nil
}

// behindImage is the condition that image i comes behind a key; the values are its image ID, twice, and its platform.
const behindImage = "i.image_id >= ? AND (i.image_id > ? OR i.platform > ?)"

// imageKeys reads the keys that a query selects.
func imageKeys(query *gorm.DB) ([]model.ImageKey, error) {
	var rows []imageRow
	if err := query.Scan(&rows).Error; err != nil {
		return nil, err
	}
	keys := make([]model.ImageKey, len(rows))
	for i := range rows {
		var err error
		if keys[i], err = rows[i].key(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// UnansweredPackages implements store.ResultSets.
func (s *Store) UnansweredPackages(ctx context.Context, key model.ImageKey) (string, []store.StoredPackage, error) {
	var digest string
	var packages []store.StoredPackage
	err := s.read(ctx, "list the packages to match", func(tx *gorm.DB) error {
		var images []struct {
			ID     int64
			Digest string
		}
		err := tx.Raw("SELECT id, sbom_sha256 AS digest FROM images WHERE image_id = ? AND platform = ? AND sbom_sha256 <> ''",
			key.ImageID, key.Platform.String()).Scan(&images).Error
		if err != nil {
			return err
		}
		if len(images) == 0 {
			return fmt.Errorf("SBOM of image %s: %w", key, store.ErrNotFound)
		}
		digest = images[0].Digest
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		var rows []storedPackageRow
		err = tx.Raw("SELECT p.id, "+distinctColumns+` FROM image_packages ip JOIN packages p ON p.id = ip.package_pk
			WHERE ip.image_pk = ? AND ip.excluded = 0 AND `+unanswered+" ORDER BY p.id", images[0].ID, current, current).Scan(&rows).Error
		if err != nil {
			return err
		}
		packages, err = storedPackages(rows)
		return err
	})
	return digest, packages, err
}

// FinishImage implements store.ResultSets. Noting the same failure again changes nothing.
func (s *Store) FinishImage(ctx context.Context, key model.ImageKey, sbomDigest string) error {
	return s.write(ctx, "finish an image", func(tx *txn) error {
		image, err := imageWithSBOM(tx.DB, key, sbomDigest)
		if err != nil {
			return err
		}
		current, _, err := liveResultSets(tx.DB)
		if err != nil {
			return err
		}
		if current == nil {
			return fmt.Errorf("current result set: %w", store.ErrNotFound)
		}
		if err := completelyAnswered(tx.DB, image.ID, current.Number); err != nil {
			return err
		}
		failed, found, err := failureOf(tx.DB, image.ID, current.Number)
		if err != nil {
			return err
		}
		pending := uncataloged(store.State(image.State))
		if found && pending {
			return nil // What keeps the image from being cataloged is told instead.
		}
		if found {
			return noteMatchFailure(tx, key, image, failed)
		}
		counts, err := countFindings(tx.DB, image.ID, current.Number)
		if err != nil {
			return err
		}
		if err := tx.Execute("UPDATE images SET matched_at = ? WHERE id = ?", tx.now, image.ID); err != nil {
			return err
		}
		if err := tx.raiseCounted(image.ID, heldMatched); err != nil {
			return err
		}
		if !pending {
			err := tx.Execute("UPDATE images SET state = ?, reason = '', message = '' WHERE id = ?", string(store.StateScanned), image.ID)
			if err != nil {
				return err
			}
		}
		return setCounts(tx, key, image.ID, current, counts)
	})
}

// setCounts keeps the counts of an image and tells of them.
func setCounts(tx *txn, key model.ImageKey, image int64, current *resultSetRow, counts store.Counts) error {
	tx.noteFixes(nil, image)
	tx.noteTags(nil, nil, image)
	err := tx.Execute("UPDATE images SET "+strings.Join(countColumns, " = ?, ")+" = ? WHERE id = ?", append(countValues(counts), image)...)
	if err != nil {
		return err
	}
	if err := tx.recountReachedOf([]int64{image}); err != nil {
		return err
	}
	placed, err := somePlaced(tx.DB)
	if err != nil {
		return err
	}
	return tx.event(store.EventImageMatched, key.ImageID, key.Platform.String(), matched{Database: current.BuildID, Counts: counts, AllNamespaces: placed})
}

// imageWithSBOM reads an image, or returns ErrNotFound when it has not that SBOM.
func imageWithSBOM(tx *gorm.DB, key model.ImageKey, sbomDigest string) (*matchedImage, error) {
	var images []matchedImage
	err := tx.Raw("SELECT id, state, reason, message, matched_at, "+strings.Join(countColumns, ", ")+
		" FROM images WHERE image_id = ? AND platform = ? AND sbom_sha256 = ? AND sbom_sha256 <> ''",
		key.ImageID, key.Platform.String(), sbomDigest).Scan(&images).Error
	if err != nil {
		return nil, err
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("image %s with the SBOM %s: %w", key, sbomDigest, store.ErrNotFound)
	}
	return &images[0], nil
}

// completelyAnswered returns ErrNotFound when a package of the image has no answer.
func completelyAnswered(tx *gorm.DB, image, current int64) error {
	var missing int64
	err := tx.Raw("SELECT COUNT(*) FROM image_packages ip WHERE ip.image_pk = ? AND ip.excluded = 0 AND "+unanswered,
		image, current, current).Scan(&missing).Error
	if err == nil && missing > 0 {
		return fmt.Errorf("match results for %d packages of the image: %w", missing, store.ErrNotFound)
	}
	return err
}

// failureOf tells why the first package of the image that could not be matched could not be.
func failureOf(tx *gorm.DB, image, current int64) (string, bool, error) {
	var rows []struct{ Name, Version, Failure string }
	err := tx.Raw(`SELECT p.name, p.version, a.failure FROM image_packages ip JOIN package_answers a ON a.package_pk = ip.package_pk
		JOIN packages p ON p.id = ip.package_pk
		WHERE ip.image_pk = ? AND ip.excluded = 0 AND a.from_gen <= ? AND a.until_gen > ? AND a.failure <> ''
		ORDER BY p.name, p.version, p.fingerprint LIMIT 1`, image, current, current).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return "", false, err
	}
	return fmt.Sprintf("package %s %s: %s", rows[0].Name, rows[0].Version, rows[0].Failure), true, nil
}

func noteMatchFailure(tx *txn, key model.ImageKey, image *matchedImage, message string) error {
	reason, message := model.ReasonMatchFailed, sqldb.Truncate(message, maxMessage)
	if image.Reason == string(reason) && image.Message == message {
		return nil
	}
	if err := tx.Execute("UPDATE images SET reason = ?, message = ? WHERE id = ?", string(reason), message, image.ID); err != nil {
		return err
	}
	return tx.event(store.EventImageFailed, key.ImageID, key.Platform.String(), failure{Reason: reason, Message: message})
}

// ofImage is the condition for open findings f of an image; the values are the image and the result set, twice.
const ofImage = "ip.image_pk = ? AND ip.excluded = 0 AND f.package_pk = ip.package_pk AND " + open

// countFindings sums up the open findings of an image under a result set. It is a CROSS JOIN since that tells SQLite to begin with
// the packages of the image; it would begin with all findings.
func countFindings(tx *gorm.DB, image, resultSet int64) (store.Counts, error) {
	row, err := countWhere(tx, ofImage, image, resultSet, resultSet)
	return row.counts(), err
}

// countedColumns sum up findings f of vulnerabilities v to the columns of countsRow.
func countedColumns() string {
	columns := make([]string, 0, len(countColumns))
	for _, severity := range model.Severities() {
		columns = append(columns, fmt.Sprintf("COALESCE(SUM(CASE WHEN v.severity = %d THEN 1 ELSE 0 END), 0) AS %s",
			severity, strings.ToLower(severity.String())))
	}
	columns = append(columns, "COALESCE(SUM(v.kev), 0) AS kev", "COALESCE(SUM(f.fixable), 0) AS fixable")
	return strings.Join(columns, ", ")
}

// countWhere sums up findings f of packages ip of images.
func countWhere(tx *gorm.DB, condition string, values ...any) (countsRow, error) {
	var row countsRow
	err := tx.Raw("SELECT "+countedColumns()+` FROM image_packages ip CROSS JOIN findings f
		JOIN vulnerabilities v ON v.id = f.vulnerability_pk WHERE `+condition, values...).Scan(&row).Error
	return row, err
}
