package sqlstore

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// failingImages selects the images with a package that could not be matched; the values are the result set, twice. The CROSS JOIN
// begins with the answers, which are fewer than the packages of all images.
const failingImages = `SELECT DISTINCT ip.image_pk FROM package_answers a CROSS JOIN image_packages ip
	WHERE ip.package_pk = a.package_pk AND ip.excluded = 0 AND a.failure <> '' AND a.from_gen <= ? AND a.until_gen > ?`

// noteFailures says of scanned images that a package of theirs could not be matched for the next result set, so that earlier
// findings are all there is of it, and takes back what does not hold any more.
func (w *switcher) noteFailures() error {
	number := w.next.Number
	err := w.Execute("UPDATE images SET reason = '', message = '' WHERE state = ? AND reason = ? AND id NOT IN ("+failingImages+")",
		string(store.StateScanned), string(model.ReasonMatchFailed), number, number)
	if err != nil {
		return err
	}
	var ids []int64
	if err := w.Raw(failingImages, number, number).Scan(&ids).Error; err != nil {
		return err
	}
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		var images []imageRow
		err := w.Raw("SELECT id, image_id, platform, reason, message FROM images WHERE state = ? AND id IN ? ORDER BY id",
			string(store.StateScanned), part).Scan(&images).Error
		if err != nil {
			return err
		}
		for i := range images {
			if err := w.noteFailure(&images[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *switcher) noteFailure(image *imageRow) error {
	failed, found, err := failureOf(w.DB, image.ID, w.next.Number)
	if err != nil || !found {
		return err
	}
	key, err := image.key()
	if err != nil {
		return err
	}
	return noteMatchFailure(w.txn, key, &matchedImage{ID: image.ID, Reason: image.Reason, Message: image.Message}, failed)
}

// FailedPackages implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) FailedPackages(ctx context.Context, after int64, limit int) ([]store.StoredPackage, error) {
	if limit <= 0 {
		return nil, nil
	}
	var packages []store.StoredPackage
	err := s.read(ctx, "list the packages whose matching failed", func(tx *gorm.DB) error {
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		var rows []storedPackageRow
		err = tx.Raw("SELECT p.id, "+distinctColumns+` FROM package_answers a JOIN packages p ON p.id = a.package_pk
			WHERE a.failure <> '' AND a.from_gen <= ? AND a.until_gen > ? AND p.id > ?
			AND EXISTS (SELECT 1 FROM image_packages ip WHERE ip.package_pk = p.id AND ip.excluded = 0) ORDER BY p.id LIMIT ?`,
			current, current, after, min(limit, store.MaxKeys)).Scan(&rows).Error
		if err != nil {
			return err
		}
		packages, err = storedPackages(rows)
		return err
	})
	return packages, err
}

// RecoveredImages implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) RecoveredImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	var keys []model.ImageKey
	err := s.read(ctx, "list the images whose matching failed", func(tx *gorm.DB) error {
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		keys, err = imageKeys(tx.Raw("SELECT i.image_id, i.platform FROM images i WHERE i.state = ? AND i.reason = ? AND NOT "+failedPackage+
			" AND "+behindImage+" ORDER BY i.image_id, i.platform LIMIT ?", string(store.StateScanned), string(model.ReasonMatchFailed), current, current,
			after.ImageID, after.ImageID, after.Platform.String(), min(limit, store.MaxKeys)))
		return err
	})
	return keys, err
}
