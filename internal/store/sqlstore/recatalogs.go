package sqlstore

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// unreadStamp is that of images that hold the packages of an earlier SBOM. No model.Catalog has it.
const unreadStamp = -1

// isRecataloged is the condition that image i waits for another SBOM in place of its own.
const isRecataloged = "EXISTS (SELECT 1 FROM recatalogs n WHERE n.image_pk = i.id AND n.is_open = 1)"

// BeginRecatalog implements store.Scans. When it returns false it only reads.
func (s *Store) BeginRecatalog(ctx context.Context, key model.ImageKey, attempt int, cataloger string, perHour int) (bool, error) {
	const what = "begin to catalog an image again"
	if cataloger == "" || len(cataloger) > maxIdentifier {
		return false, fmt.Errorf("%s: the cataloger has %d bytes, expected 1 to %d", what, len(cataloger), maxIdentifier)
	}
	return s.beginAgain(ctx, what, func(tx *gorm.DB) (int64, error) { return recatalogable(tx, key, attempt, perHour, s.now()) }, func(tx *txn, image int64) error {
		if err := tx.Execute("DELETE FROM recatalogs WHERE image_pk = ?", image); err != nil {
			return err
		}
		return tx.Insert("recatalogs", []string{"image_pk", "cataloger", "started_at", "is_open"}, []any{image, cataloger, tx.now, 1}, "")
	})
}

// beginAgain records that an image is cataloged again, if check returns one and not 0. It only reads if not.
func (s *Store) beginAgain(ctx context.Context, what string, check func(tx *gorm.DB) (int64, error), record func(tx *txn, image int64) error) (bool, error) {
	var image int64
	find := func(tx *gorm.DB) (err error) {
		image, err = check(tx)
		return err
	}
	if err := s.read(ctx, what, find); err != nil || image == 0 {
		return false, err
	}
	err := s.write(ctx, what, func(tx *txn) error {
		if err := find(tx.DB); err != nil || image == 0 {
			return err
		}
		return record(tx, image)
	})
	return err == nil && image != 0, err
}

// recatalogable returns the image that may be cataloged again, 0 when it may not.
func recatalogable(tx *gorm.DB, key model.ImageKey, attempt, perHour int, now int64) (int64, error) {
	var ids []int64
	err := tx.Raw("SELECT id FROM images WHERE image_id = ? AND platform = ? AND attempts = ? AND state IN ? AND from_report = 0 AND sbom_sha256 <> ''",
		key.ImageID, key.Platform.String(), attempt, []string{string(store.StateCataloged), string(store.StateScanned)}).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	var others int
	err = tx.Raw("SELECT COUNT(*) FROM recatalogs WHERE started_at > ? AND image_pk <> ?", now-time.Hour.Microseconds(), ids[0]).Scan(&others).Error
	if err != nil || others >= perHour {
		return 0, err
	}
	return ids[0], nil
}

// endRecatalog notes that the SBOM of an image has arrived, and reports whether it replaces one that the image was matched with.
func endRecatalog(tx *txn, image int64) (bool, error) {
	var matched []int64
	err := tx.Raw("SELECT i.matched_at FROM images i WHERE i.id = ? AND "+isRecataloged, image).Scan(&matched).Error
	if err != nil || len(matched) == 0 {
		return false, err
	}
	return matched[0] > 0, tx.Execute("UPDATE recatalogs SET is_open = 0 WHERE image_pk = ?", image)
}

// renewSBOM replaces the SBOM of an image that is matched. What the image holds stays that of the earlier one until ReplaceCatalog.
func renewSBOM(tx *txn, image int64, key model.ImageKey, sbom store.SBOM, catalog model.Catalog, packages int) error {
	if err := saveDocument(tx, image, key, sbom, catalog); err != nil {
		return err
	}
	err := tx.Execute(`UPDATE images SET nonce = ?, attempts = 0, next_attempt_at = 0, catalogued_at = ?, sbom_sha256 = ?, sbom_size = ?, projection = ?
		WHERE id = ?`, newNonce(), tx.now, sbom.SHA256, sbom.Size, unreadStamp, image)
	if err != nil {
		return err
	}
	return tx.event(store.EventImageCataloged, key.ImageID, key.Platform.String(),
		cataloged{Packages: packages, Distro: sqldb.Clean(catalog.Distro), Size: catalog.Size})
}

// RetryPartial implements store.Scans. When it returns false it only reads.
func (s *Store) RetryPartial(ctx context.Context, key model.ImageKey, attempt int) (bool, error) {
	check := func(tx *gorm.DB) (int64, error) {
		var ids []int64
		err := tx.Raw(`SELECT i.id FROM images i JOIN sbom_sources w ON w.image_pk = i.id
			WHERE i.image_id = ? AND i.platform = ? AND i.attempts = ? AND i.state IN ? AND i.from_report = 0 AND w.unreadable > 0`,
			key.ImageID, key.Platform.String(), attempt, []string{string(store.StateCataloged), string(store.StateScanned)}).Scan(&ids).Error
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		return ids[0], nil
	}
	return s.beginAgain(ctx, "begin to replace a partial SBOM", check, func(tx *txn, image int64) error {
		if err := tx.Execute("UPDATE recatalogs SET is_open = 1 WHERE image_pk = ?", image); err != nil {
			return err
		}
		// Without a time, it does not count towards the limit of BeginRecatalog.
		return tx.Insert("recatalogs", []string{"image_pk", "cataloger", "started_at", "is_open"}, []any{image, "", 0, 1}, tx.Dialect.IgnoreConflict("image_pk"))
	})
}

// RequestScan implements store.Reader.
func (s *Store) RequestScan(ctx context.Context, in, may store.Namespaces, imageID string) error {
	return s.write(ctx, "request a scan", func(tx *txn) error {
		rows, err := changeable(tx.DB, in, may, imageID)
		if err != nil {
			return err
		}
		requested := false
		for i := range rows {
			asked, err := tx.requestScan(&rows[i])
			if err != nil {
				return err
			}
			requested = requested || asked
		}
		if !requested {
			return fmt.Errorf("image %q: %w", imageID, store.ErrNotScanned)
		}
		return nil
	})
}

// requestScan asks for another scan of an image, unless the operator does not scan it.
func (t *txn) requestScan(row *imageRow) (bool, error) {
	var uses []int64
	err := t.Raw("SELECT image_pk FROM image_uses WHERE image_pk = ? LIMIT 1", row.ID).Scan(&uses).Error
	if err != nil || len(uses) == 0 {
		return false, err
	}
	switch row.State {
	case string(store.StatePending), string(store.StateFailed):
	case string(store.StateCataloged), string(store.StateScanned):
		if row.FromReport != 0 {
			return false, nil
		}
		// Also in place of an attempt that was begun for another reason, which may no longer be made.
		err := t.Execute("UPDATE recatalogs SET cataloger = ?, is_open = 1 WHERE image_pk = ?", store.AnyCataloger, row.ID)
		if err != nil {
			return false, err
		}
		// Without a time, it does not count towards the limit of BeginRecatalog.
		err = t.Insert("recatalogs", []string{"image_pk", "cataloger", "started_at", "is_open"}, []any{row.ID, store.AnyCataloger, 0, 1}, t.Dialect.IgnoreConflict("image_pk"))
		if err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	if err := t.Execute("UPDATE images SET next_attempt_at = 0 WHERE id = ?", row.ID); err != nil {
		return false, err
	}
	return true, t.event(store.EventScanRequested, row.ImageID, row.Platform, struct{}{})
}

// lacksFiles ends an attempt to catalog an image again whose SBOM is partial while the one that the image has is complete: that one stays.
func lacksFiles(tx *txn, image int64, sbom store.SBOM) (bool, error) {
	if sbom.Unreadable == 0 {
		return false, nil
	}
	var ids []int64
	err := tx.Raw("SELECT i.id FROM images i WHERE i.id = ? AND "+isRecataloged+
		" AND NOT EXISTS (SELECT 1 FROM sbom_sources w WHERE w.image_pk = i.id AND w.unreadable > 0)", image).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return false, err
	}
	if err := tx.Execute("UPDATE recatalogs SET is_open = 0 WHERE image_pk = ?", image); err != nil {
		return false, err
	}
	return true, tx.Execute("UPDATE images SET nonce = ?, attempts = 0, next_attempt_at = 0 WHERE id = ?", newNonce(), image)
}

// failRecatalog ends an attempt to catalog an image again, and reports whether it was the current one.
func failRecatalog(tx *txn, key model.ImageKey, attempt int, next time.Time) (bool, error) {
	failed, err := tx.Change(`UPDATE images SET attempts = ?, next_attempt_at = ? WHERE image_id = ? AND platform = ? AND attempts = ? AND state IN ?
		AND id IN (SELECT image_pk FROM recatalogs WHERE is_open = 1)`, attempt+1, micros(next), key.ImageID, key.Platform.String(), attempt,
		[]string{string(store.StateCataloged), string(store.StateScanned)})
	return failed == 1, err
}

// RecatalogedImages implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) RecatalogedImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	var keys []model.ImageKey
	err := s.read(ctx, "list the images that were cataloged again", func(tx *gorm.DB) error {
		var err error
		keys, err = imageKeys(tx.Raw(`SELECT i.image_id, i.platform FROM recatalogs n JOIN images i ON i.id = n.image_pk
			WHERE i.projection = ? AND `+behindImage+" ORDER BY i.image_id, i.platform LIMIT ?", unreadStamp, after.ImageID, after.ImageID, after.Platform.String(), min(limit, store.MaxKeys)))
		return err
	})
	return keys, err
}
