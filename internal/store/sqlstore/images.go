package sqlstore

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var nonceEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newNonce is 80 random bits in 16 characters that may stand in the name of a Kubernetes object.
func newNonce() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // It never fails: the program ends when the system gives no random numbers.
	return nonceEncoding.EncodeToString(random[:])
}

// WantImages implements store.Images.
func (s *Store) WantImages(ctx context.Context, keys []model.ImageKey) (map[model.ImageKey]store.Image, error) {
	const what = "record wanted images"
	if err := checkKeys(keys); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var images map[model.ImageKey]store.Image
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		rows, err := imageRows(tx, keys)
		if err != nil {
			return err
		}
		images, err = imagesOf(rows, keys)
		return err
	})
	if err != nil {
		return nil, err
	}
	// In a settled cluster all are known, and nothing is written.
	if len(unwanted(keys, images)) == 0 {
		return images, nil
	}
	err = s.write(ctx, what, func(tx *txn) error {
		rows, err := imageRows(tx.DB, keys)
		if err != nil {
			return err
		}
		if images, err = imagesOf(rows, keys); err != nil {
			return err
		}
		missing := unwanted(keys, images)
		if err := want(tx, missing, rows); err != nil {
			return err
		}
		if rows, err = imageRows(tx.DB, missing); err != nil {
			return err
		}
		added, err := imagesOf(rows, missing)
		if err != nil {
			return err
		}
		maps.Copy(images, added)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return images, nil
}

// CountsWithin implements store.Images.
func (s *Store) CountsWithin(ctx context.Context, in store.Namespaces, keys []model.ImageKey) (map[model.ImageKey]store.Counts, error) {
	const what = "count the findings of images in namespaces"
	if err := checkKeys(keys); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var counts map[model.ImageKey]store.Counts
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		counts = map[model.ImageKey]store.Counts{}
		view, err := seenIn(tx, in)
		if err != nil || !view.placed {
			return err
		}
		rows, err := imageRows(tx, keys)
		if err != nil {
			return err
		}
		all := slices.Clone(rows)
		if err := view.limitCounts(tx, rows); err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Counts == all[i].Counts {
				continue
			}
			key, err := keyOf(rows[i].ImageID, rows[i].Platform)
			if err != nil {
				return err
			}
			counts[key] = rows[i].Counts.counts()
		}
		return nil
	})
	return counts, err
}

// unwanted lists, each once, the keys that are not known or known from a report only.
func unwanted(keys []model.ImageKey, images map[model.ImageKey]store.Image) []model.ImageKey {
	var missing []model.ImageKey
	seen := make(map[model.ImageKey]bool, len(keys))
	for _, key := range keys {
		image, known := images[key]
		if seen[key] || known && !onlyReported(image.State, image.FromReport) {
			continue
		}
		seen[key] = true
		missing = append(missing, key)
	}
	return missing
}

// want makes the keys StatePending. The row of an image that is known from a report becomes that of the first platform; what the
// report says that the image holds stays until there is an SBOM.
func want(tx *txn, missing []model.ImageKey, rows []imageRow) error {
	reported := map[string]int64{}
	for _, row := range rows {
		if onlyReported(store.State(row.State), row.FromReport != 0) {
			reported[row.ImageID] = row.ID
		}
	}
	var values []any
	for _, key := range missing {
		platform := key.Platform.String()
		if id, found := reported[key.ImageID]; found {
			delete(reported, key.ImageID)
			if err := tx.Execute("UPDATE images SET platform = ? WHERE id = ?", platform, id); err != nil {
				return err
			}
			if err := become(tx, id, store.StatePending); err != nil {
				return err
			}
		} else {
			values = append(values, newImage(key, store.StatePending, tx.now, store.Counts{})...)
		}
		if err := tx.event(store.EventImageDiscovered, key.ImageID, platform, struct{}{}); err != nil {
			return err
		}
	}
	if err := tx.Insert("images", newImageColumns, values, tx.Dialect.IgnoreConflict("image_id", "platform")); err != nil {
		return err
	}
	return tx.reachImages(imageIDs(missing))
}

// imageIDs lists the image IDs of keys.
func imageIDs(keys []model.ImageKey) []string {
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = key.ImageID
	}
	return ids
}

var newImageColumns = append([]string{
	"image_id", "platform", "repository", "digest", "state", "nonce", "attempts", "reason", "message", "next_attempt_at", "distro",
	"size", "package_count", "first_seen", "catalogued_at", "matched_at", "sbom_sha256", "sbom_size",
}, countColumns...)

func newImage(key model.ImageKey, state store.State, now int64, counts store.Counts) []any {
	return append([]any{
		key.ImageID, key.Platform.String(), key.Repository(), key.Digest(), string(state), newNonce(), 0, "", "", 0, "",
		0, 0, now, 0, 0, "", 0,
	}, countValues(counts)...)
}

// imageRows reads the rows of the image IDs of the keys, on all platforms.
func imageRows(tx *gorm.DB, keys []model.ImageKey) ([]imageRow, error) {
	ids := make([]string, 0, len(keys))
	for _, key := range keys {
		ids = append(ids, key.ImageID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var rows []imageRow
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		var found []imageRow
		err := tx.Raw("SELECT "+imageColumns+" FROM images i"+imageJoins+" WHERE i.image_id IN ?", part).Scan(&found).Error
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// imagesOf picks the images of the keys.
func imagesOf(rows []imageRow, keys []model.ImageKey) (map[model.ImageKey]store.Image, error) {
	asked := make(map[model.ImageKey]bool, len(keys))
	for _, key := range keys {
		asked[key] = true
	}
	images := make(map[model.ImageKey]store.Image, len(keys))
	for i := range rows {
		image, err := rows[i].image()
		if err != nil {
			return nil, err
		}
		if asked[image.Key] {
			images[image.Key] = image
		}
	}
	return images, nil
}

// failure is the data of store.EventImageFailed.
type failure struct {
	Reason      model.Reason `json:"reason"`
	Message     string       `json:"message,omitempty"`
	Attempt     *int         `json:"attempt,omitempty"`
	NextAttempt *time.Time   `json:"nextAttempt,omitempty"`
}

// RecordFailure implements store.Images.
func (s *Store) RecordFailure(ctx context.Context, key model.ImageKey, attempt int, outcome model.Outcome, next time.Time) (bool, error) {
	recorded := false
	message := sqldb.Truncate(outcome.Message, maxMessage)
	err := s.write(ctx, "record a failed attempt", func(tx *txn) error {
		failed, err := tx.Change(`UPDATE images SET state = ?, attempts = ?, reason = ?, message = ?, next_attempt_at = ?
			WHERE image_id = ? AND platform = ? AND attempts = ? AND state IN ?`,
			string(store.StateFailed), attempt+1, string(outcome.Reason), message, micros(next),
			key.ImageID, key.Platform.String(), attempt, []string{string(store.StatePending), string(store.StateFailed)})
		recorded = failed == 1
		if err != nil {
			return err
		}
		if !recorded {
			recorded, err = failRecatalog(tx, key, attempt, next)
			return err
		}
		if err := noteFailure(tx, key, attempt); err != nil {
			return err
		}
		data := failure{Reason: outcome.Reason, Message: message, Attempt: &attempt}
		if !next.IsZero() {
			at := next.UTC()
			data.NextAttempt = &at
		}
		return tx.event(store.EventImageFailed, key.ImageID, key.Platform.String(), data)
	})
	return recorded && err == nil, err
}

// EndAttempt implements store.Images.
func (s *Store) EndAttempt(ctx context.Context, key model.ImageKey, attempt int, next time.Time) (bool, error) {
	ended := false
	err := s.write(ctx, "end an attempt", func(tx *txn) error {
		changed, err := tx.Change("UPDATE images SET attempts = ?, next_attempt_at = ? WHERE image_id = ? AND platform = ? AND attempts = ? AND state IN ?",
			attempt+1, micros(next), key.ImageID, key.Platform.String(), attempt, []string{string(store.StatePending), string(store.StateFailed)})
		if ended = changed == 1; err != nil || ended {
			return err
		}
		ended, err = failRecatalog(tx, key, attempt, next)
		return err
	})
	return ended && err == nil, err
}

// noteFailure notes the namespace of the workload that an attempt was made for, as far as it is known.
func noteFailure(tx *txn, key model.ImageKey, attempt int) error {
	const ofImage = "image_id = ? AND platform = ?"
	platform := key.Platform.String()
	err := tx.Execute("DELETE FROM image_failures WHERE image_pk IN (SELECT id FROM images WHERE "+ofImage+")", key.ImageID, platform)
	if err != nil {
		return err
	}
	return tx.Execute(`INSERT INTO image_failures (image_pk, namespace) SELECT i.id, MIN(j.for_namespace) FROM images i
		JOIN scan_jobs j ON j.image_id = i.image_id AND j.platform = i.platform AND j.nonce = i.nonce AND j.attempt = ?
		WHERE i.image_id = ? AND i.platform = ? GROUP BY i.id`, attempt, key.ImageID, platform)
}

// DeleteImage implements store.Images.
func (s *Store) DeleteImage(ctx context.Context, in, may store.Namespaces, imageID string) error {
	return s.write(ctx, "delete an image", func(tx *txn) error {
		rows, err := changeable(tx.DB, in, may, imageID)
		if err != nil {
			return err
		}
		ids := make([]int64, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		if err := deleteImages(tx, ids); err != nil {
			return err
		}
		if err := tx.Execute("DELETE FROM reports WHERE image_id = ?", imageID); err != nil {
			return err
		}
		for _, row := range rows {
			if err := tx.event(store.EventImageRemoved, imageID, row.Platform, struct{}{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeable returns an image on all platforms, which is visible in some namespaces, and which whoever may change it in others may change.
func changeable(tx *gorm.DB, in, may store.Namespaces, imageID string) ([]imageRow, error) {
	var rows []imageRow
	err := tx.Raw("SELECT id, image_id, platform, state, from_report FROM images WHERE image_id = ? ORDER BY platform", imageID).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	names, err := namespacesOf(tx, imageID)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !in.ContainsAny(names) {
		return nil, fmt.Errorf("image %q: %w", imageID, store.ErrNotFound)
	}
	return rows, mayChange(tx, may, imageID)
}

// deleteImages deletes images. What belongs to them goes with them, by foreign keys.
func deleteImages(tx *txn, ids []int64) error {
	if err := tx.keepAudience(ids); err != nil {
		return err
	}
	packages, err := packagesOf(tx.DB, ids, "")
	if err != nil {
		return err
	}
	err = inParts(ids, func(part []int64) error { return tx.Execute("DELETE FROM images WHERE id IN ?", part) })
	if err != nil {
		return err
	}
	return tx.lowerHeld(packages)
}

// findImage reads one visible image; with a zero platform, the one that is shown for it.
func findImage(tx *gorm.DB, in store.Namespaces, key model.ImageKey) (imageRow, error) {
	row, _, err := findSeen(tx, in, key)
	return row, err
}

// findSeen is findImage, and reads how the findings of the image count.
func findSeen(tx *gorm.DB, in store.Namespaces, key model.ImageKey) (imageRow, seen, error) {
	statement := "SELECT " + imageColumns + " FROM images i" + imageJoins + " WHERE i.image_id = ?"
	if !in.All() {
		statement += " AND EXISTS (SELECT 1 FROM image_namespaces m WHERE m.image_pk = i.id AND " + isWithin("m.namespace", in) + ")"
	}
	values := []any{key.ImageID}
	if key.Platform != (model.Platform{}) {
		statement += " AND i.platform = ?"
		values = append(values, key.Platform.String())
	}
	statement += ` ORDER BY CASE WHEN i.state = ? THEN 0 ELSE 1 END, CASE WHEN i.platform = ? THEN 0 ELSE 1 END, i.platform LIMIT 1`
	values = append(values, string(store.StateScanned), "linux/amd64")
	var rows []imageRow
	if err := tx.Raw(statement, values...).Scan(&rows).Error; err != nil {
		return imageRow{}, seen{}, err
	}
	if len(rows) == 0 {
		return imageRow{}, seen{}, fmt.Errorf("image %s: %w", key, store.ErrNotFound)
	}
	if err := limitImages(tx, in, rows[:1], nil); err != nil {
		return rows[0], seen{}, err
	}
	view, err := seenOf(tx, in, fmt.Sprintf(" AND y.image_pk = %d", rows[0].ID), nil)
	if err == nil {
		err = view.limitCounts(tx, rows[:1])
	}
	return rows[0], view, err
}
