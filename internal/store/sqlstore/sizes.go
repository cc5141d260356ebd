package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// ImageStates implements store.Scans.
func (s *Store) ImageStates(ctx context.Context, keys []vuln.ImageKey) (map[vuln.ImageKey]store.ImageState, error) {
	const what = "read the state of images"
	if err := checkKeys(keys); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	states := map[vuln.ImageKey]store.ImageState{}
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		rows, err := imageRows(tx, keys)
		if err != nil {
			return err
		}
		images, err := imagesOf(rows, keys)
		for key := range images {
			states[key] = images[key].ImageState
		}
		return err
	})
	return states, err
}

// RaiseSizeClass implements store.Scans.
func (s *Store) RaiseSizeClass(ctx context.Context, repository string, class vuln.SizeClass) error {
	const what = "remember the size of a repository"
	if err := (vuln.ImageKey{ImageID: repository}).Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !class.Valid() {
		return fmt.Errorf("%s: %q is not a size class", what, class)
	}
	return s.write(ctx, what, func(tx *txn) error {
		var before []string
		err := tx.Raw("SELECT class FROM repository_sizes WHERE repository = ?", repository).Scan(&before).Error
		switch {
		case err != nil:
			return err
		case len(before) == 0:
			return tx.insert("repository_sizes", []string{"repository", "class", "updated_at"}, []any{repository, string(class), tx.now}, "")
		case vuln.SizeClass(before[0]).Factor() >= class.Factor():
			return nil
		}
		return tx.exec("UPDATE repository_sizes SET class = ?, updated_at = ? WHERE repository = ?", string(class), tx.now, repository)
	})
}
