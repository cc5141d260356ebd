package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dueIntroductions selects those whose images are matched, and those that time out. The order does not tell which image was known first, also to who sees
// only one namespace.
const dueIntroductions = `SELECT n.image_pk, n.namespace, n.at FROM introductions n JOIN images i ON i.id = n.image_pk WHERE i.matched_at > 0 OR n.at < ?
	ORDER BY n.namespace, i.image_id, i.platform LIMIT ?`

// introducedThere is the condition that image i is new in a namespace: a workload runs it there other than by a rollout, and the image is not known there for
// another platform. The values are the namespace, three times.
const introducedThere = `EXISTS (SELECT 1 FROM introductions n JOIN image_uses u ON u.image_pk = n.image_pk AND u.namespace = n.namespace
		WHERE n.image_pk = i.id AND n.namespace = ? AND NOT EXISTS (SELECT 1 FROM rollouts r WHERE r.namespace = u.namespace AND r.kind = u.kind AND r.name = u.name
			AND r.container = u.container AND r.to_image = i.image_id AND r.at >= n.at))
	AND NOT EXISTS (SELECT 1 FROM images o JOIN image_namespaces m ON m.image_pk = o.id JOIN introductions n ON n.image_pk = i.id AND n.namespace = ?
		WHERE o.image_id = i.image_id AND o.platform <> i.platform AND m.namespace = ? AND (m.since < n.at OR m.since = n.at AND o.platform < i.platform))`

// introduction is a row of introductions.
type introduction struct {
	ImagePk   int64
	Namespace string
	At        int64
}

// introduced is an image that is new in a namespace.
type introduced struct {
	row  imageRow
	data store.IntroducedEvent
}

// ReportIntroductions implements store.Introductions.
func (s *Store) ReportIntroductions(ctx context.Context, timeOutBefore time.Time, limit int) (int, error) {
	const what = "report images that began to run in namespaces"
	var due []introduction
	var found map[introduction]*introduced
	// Counting takes a while, and must not hold up those who write.
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		due, found = nil, map[introduction]*introduced{}
		if err := tx.Raw(dueIntroductions, micros(timeOutBefore), min(limit, store.MaxIntroduced)).Scan(&due).Error; err != nil {
			return err
		}
		for rest := due; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Namespace == rest[0].Namespace {
				n++
			}
			if err := findIntroduced(tx, rest[:n], found); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
	if err != nil || len(due) == 0 {
		return 0, err
	}
	err = s.write(ctx, what, func(tx *txn) error {
		for _, one := range due {
			// Another process may have reported it, or it left the namespace and is there again.
			taken, err := tx.Change("DELETE FROM introductions WHERE image_pk = ? AND namespace = ? AND at = ?", one.ImagePk, one.Namespace, one.At)
			if err != nil {
				return err
			}
			if image := found[one]; taken > 0 && image != nil {
				if err := tx.event(store.EventImageIntroduced, image.row.ImageID, image.row.Platform, image.data); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(due), nil
}

// findIntroduced adds those images of a namespace that are new there and have findings.
func findIntroduced(tx *gorm.DB, due []introduction, found map[introduction]*introduced) error {
	namespace, byImage := due[0].Namespace, map[int64]introduction{}
	for _, one := range due {
		byImage[one.ImagePk] = one
	}
	return inParts(slices.Sorted(maps.Keys(byImage)), func(part []int64) error {
		rows, err := introducedImages(tx, namespace, "i.id IN ? AND "+introducedThere, part, namespace, namespace, namespace)
		if err != nil || len(rows) == 0 {
			return err
		}
		owners, err := ownersOfImages(tx, visibleUses(tx, store.OnlyNamespaces(namespace)), part)
		for i := range rows {
			if counts := rows[i].Counts.counts(); counts.Total() > 0 {
				found[byImage[rows[i].ID]] = &introduced{rows[i], store.IntroducedEvent{
					Namespace: namespace, Findings: counts.SeverityCounts, KEV: counts.KEV, Owners: owners.of([]int64{rows[i].ID}),
				}}
			}
		}
		return err
	})
}

// introducedImages reads those matched images i that meet a condition, with their counts in a namespace.
func introducedImages(tx *gorm.DB, namespace, condition string, values ...any) ([]imageRow, error) {
	view, err := seenIn(tx, store.OnlyNamespaces(namespace))
	if err != nil {
		return nil, err
	}
	var rows []imageRow
	err = tx.Raw("SELECT i.id, i.image_id, i.platform, "+strings.Join(countColumns, ", ")+" FROM images i WHERE i.matched_at > 0 AND "+condition+
		" ORDER BY i.image_id, i.platform", values...).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows, view.limitCounts(tx, rows)
}

// introduceTimedOut notes the image of a rollout that timed out as new in the namespace, if it came with the rollout: nothing says what the rollout opened.
func (t *txn) introduceTimedOut(rollout int64) error {
	var rows []introduction
	err := t.Raw(`SELECT i.id AS image_pk, r.namespace FROM rollouts r JOIN images i ON i.image_id = r.to_image AND i.platform = r.to_platform
		JOIN image_namespaces m ON m.image_pk = i.id AND m.namespace = r.namespace WHERE r.id = ? AND m.since >= r.at`, rollout).Scan(&rows).Error
	var values []any
	for _, one := range rows {
		values = append(values, one.Namespace, one.ImagePk, t.now)
	}
	return errors.Join(err, t.Insert("introductions", []string{"namespace", "image_pk", "at"}, values, t.Dialect.IgnoreConflict("image_pk", "namespace")))
}

// PresentIntroductions implements store.Notifications.
func (s *Store) PresentIntroductions(ctx context.Context, introductions []store.Introduction) (map[store.Introduction]store.Counts, error) {
	images, wanted := map[string][]string{}, map[store.Introduction]bool{}
	for _, one := range introductions {
		wanted[one] = true
		images[one.Namespace] = append(images[one.Namespace], one.Image.ImageID)
	}
	var present map[store.Introduction]store.Counts
	err := s.read(ctx, "count the findings of images in namespaces", func(tx *gorm.DB) error {
		present = map[store.Introduction]store.Counts{}
		for namespace, ids := range images {
			slices.Sort(ids)
			err := inParts(slices.Compact(ids), func(part []string) error {
				rows, err := introducedImages(tx, namespace, "i.image_id IN ?", part)
				for i := range rows {
					key, keyErr := keyOf(rows[i].ImageID, rows[i].Platform)
					if keyErr != nil {
						return keyErr
					}
					if one := (store.Introduction{Namespace: namespace, Image: key}); wanted[one] {
						present[one] = rows[i].Counts.counts()
					}
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
