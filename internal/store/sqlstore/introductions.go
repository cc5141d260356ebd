package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dueIntroductions selects those whose images are matched, and those that time out. The order does not tell which image was known first, also to who sees
// only one namespace.
const dueIntroductions = `SELECT n.image_pk, n.namespace FROM introductions n JOIN images i ON i.id = n.image_pk WHERE i.matched_at > 0 OR n.at < ?
	ORDER BY n.namespace, i.image_id, i.platform LIMIT ?`

// introducedBy is the condition that a workload of a namespace runs image i other than by a rollout.
const introducedBy = `EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id AND u.namespace = ? AND NOT EXISTS (SELECT 1 FROM rollouts r
	WHERE r.namespace = u.namespace AND r.kind = u.kind AND r.name = u.name AND r.container = u.container AND r.to_image = i.image_id AND r.to_platform = i.platform))`

// introduction is a row of introductions.
type introduction struct {
	ImagePk   int64
	Namespace string
}

// ReportIntroductions implements store.Introductions.
func (s *Store) ReportIntroductions(ctx context.Context, timeOutBefore time.Time, limit int) (int, error) {
	const what = "report images that began to run in namespaces"
	limit = min(limit, store.MaxIntroduced)
	var due []introduction
	read := func(tx *gorm.DB) error {
		due = nil
		return tx.Raw(dueIntroductions, micros(timeOutBefore), limit).Scan(&due).Error
	}
	if err := s.read(ctx, what, read); err != nil || len(due) == 0 {
		return 0, err
	}
	err := s.write(ctx, what, func(tx *txn) error {
		// Another process may have reported some of them.
		if err := read(tx.DB); err != nil {
			return err
		}
		for rest := due; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Namespace == rest[0].Namespace {
				n++
			}
			if err := tx.reportIntroductions(rest[0].Namespace, rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(due), nil
}

// reportIntroductions reports images that began to run in a namespace.
func (t *txn) reportIntroductions(namespace string, due []introduction) error {
	ids := make([]int64, len(due))
	for i := range due {
		ids[i] = due[i].ImagePk
		if err := t.Execute("DELETE FROM introductions WHERE image_pk = ? AND namespace = ?", due[i].ImagePk, namespace); err != nil {
			return err
		}
	}
	rows, owners, err := introducedImages(t.DB, namespace, "i.id IN ? AND "+introducedBy, ids, namespace)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		counts := row.Counts.counts()
		if counts.Total() == 0 {
			continue
		}
		err := t.event(store.EventImageIntroduced, row.ImageID, row.Platform, store.IntroducedEvent{
			Namespace: namespace, Findings: counts.SeverityCounts, KEV: counts.KEV, Owners: owners.of([]int64{row.ID}),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// introducedImages reads those matched images i that meet a condition, with their counts in a namespace, and the owners of the workloads there.
func introducedImages(tx *gorm.DB, namespace, condition string, values ...any) ([]imageRow, imageOwners, error) {
	in := store.OnlyNamespaces(namespace)
	view, err := seenIn(tx, in)
	if err != nil {
		return nil, nil, err
	}
	current, err := currentNumber(tx)
	if err != nil {
		return nil, nil, err
	}
	var rows []imageRow
	err = tx.Raw("SELECT i.id, i.image_id, i.platform, "+strings.Join(countColumns, ", ")+" FROM images i WHERE i.matched_at > 0 AND "+condition+
		" ORDER BY i.image_id, i.platform", values...).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, nil, err
	}
	if err := view.limitCounts(tx, rows, current); err != nil {
		return nil, nil, err
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	owners, err := ownersOfImages(tx, visibleUses(tx, in), ids)
	return rows, owners, err
}

// PresentIntroductions implements store.Notifications.
func (s *Store) PresentIntroductions(ctx context.Context, introductions []store.Introduction) (map[store.Introduction]store.Counts, error) {
	images := map[string][]string{}
	for _, one := range introductions {
		images[one.Namespace] = append(images[one.Namespace], one.Image.ImageID)
	}
	var present map[store.Introduction]store.Counts
	err := s.read(ctx, "count the findings of images in namespaces", func(tx *gorm.DB) error {
		present = map[store.Introduction]store.Counts{}
		for namespace, ids := range images {
			slices.Sort(ids)
			err := inParts(slices.Compact(ids), func(part []string) error {
				rows, _, err := introducedImages(tx, namespace, "i.image_id IN ?", part)
				for i := range rows {
					key, keyErr := keyOf(rows[i].ImageID, rows[i].Platform)
					if keyErr != nil {
						return keyErr
					}
					present[store.Introduction{Namespace: namespace, Image: key}] = rows[i].Counts.counts()
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return present, err
}
