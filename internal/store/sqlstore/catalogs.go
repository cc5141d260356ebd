package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// StorePackages implements store.ResultSets.
func (s *Store) StorePackages(ctx context.Context, packages []model.HeldPackage) ([]store.StoredPackage, error) {
	const what = "record packages"
	packages, err := distinct(packages)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var waiting []store.StoredPackage
	err = s.write(ctx, what, func(tx *txn) error {
		ids, err := savePackages(tx, packages)
		if err != nil {
			return err
		}
		current, err := currentNumber(tx.DB)
		if err != nil {
			return err
		}
		var matching []int64
		for i := range packages {
			if !packages[i].Excluded {
				matching = append(matching, ids[packages[i].Package.Fingerprint])
			}
		}
		waiting, err = packagesWithoutAnswer(tx.DB, matching, current)
		return err
	})
	return waiting, err
}

func packagesWithoutAnswer(tx *gorm.DB, ids []int64, current int64) ([]store.StoredPackage, error) {
	var all []storedPackageRow
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		var rows []storedPackageRow
		err := tx.Raw("SELECT p.id, "+distinctColumns+` FROM packages p WHERE p.id IN ? AND NOT EXISTS
			(SELECT 1 FROM package_answers a WHERE a.package_pk = p.id AND a.from_gen <= ? AND a.until_gen > ?) ORDER BY p.id`,
			part, current, current).Scan(&rows).Error
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return storedPackages(all)
}

// ReplaceCatalog implements store.ResultSets.
func (s *Store) ReplaceCatalog(ctx context.Context, key model.ImageKey, sbomDigest string, catalog model.Catalog) error {
	const what = "replace the packages of an image"
	packages, err := distinct(catalog.Packages)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", what, key, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		image, err := imageWithSBOM(tx.DB, key, sbomDigest)
		if err != nil {
			return err
		}
		ids, err := savePackages(tx, packages)
		if err != nil {
			return err
		}
		if err := keepOpenings(tx, image.ID, ids); err != nil {
			return err
		}
		same, err := replaceImagePackages(tx, image.ID, packages, ids)
		if err != nil {
			return err
		}
		err = tx.Execute("UPDATE images SET distro = ?, size = ?, package_count = ?, projection = ? WHERE id = ?",
			sqldb.Clean(catalog.Distro), catalog.Size, len(packages), catalog.Stamp, image.ID)
		if err != nil {
			return err
		}
		tx.moved(image.ID)
		if err := saveLayers(tx, image.ID, &catalog); err != nil {
			return err
		}
		if err := saveCreation(tx, image.ID, catalog.Created); err != nil {
			return err
		}
		if err := saveCataloger(tx, image.ID, catalog.Cataloger); err != nil {
			return err
		}
		if err := saveSymbols(tx, image.ID, catalog.Symbols); err != nil || same || image.MatchedAt == 0 {
			return err
		}
		return countAnew(tx, key, image)
	})
}

// countAnew makes the counts those of the packages that the image holds now.
func countAnew(tx *txn, key model.ImageKey, image *matchedImage) error {
	current, _, err := liveResultSets(tx.DB)
	if err != nil {
		return err
	}
	if current == nil {
		return fmt.Errorf("current result set: %w", store.ErrNotFound)
	}
	err = completelyAnswered(tx.DB, image.ID, current.Number)
	if errors.Is(err, store.ErrNotFound) && image.State != string(store.StateScanned) {
		return forgetMatch(tx, image.ID)
	}
	if err != nil {
		return err
	}
	counts, err := countFindings(tx.DB, image.ID, current.Number)
	if err != nil {
		return err
	}
	return setCounts(tx, key, image.ID, current, counts)
}

// OutdatedCatalogs implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) OutdatedCatalogs(ctx context.Context, stamp int, unmatched bool, after model.ImageKey, limit int) ([]model.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	matched := int64(stillOpen)
	if unmatched {
		matched = 0
	}
	var keys []model.ImageKey
	err := s.read(ctx, "list images whose SBOM was parsed by another version", func(tx *gorm.DB) error {
		var err error
		keys, err = imageKeys(tx.Raw(`SELECT i.image_id, i.platform FROM images i WHERE i.sbom_sha256 <> '' AND i.projection <> ? AND
			i.matched_at <= ? AND `+behindImage+" ORDER BY i.image_id, i.platform LIMIT ?", stamp, matched, after.ImageID, after.ImageID, after.Platform.String(), limit))
		return err
	})
	return keys, err
}
