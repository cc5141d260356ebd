package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// RaiseSizeClass implements store.Scans.
func (s *Store) RaiseSizeClass(ctx context.Context, repository string, class model.SizeClass) error {
	const what = "save the size class of a repository"
	if err := (model.ImageKey{ImageID: repository}).Validate(); err != nil {
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
			return tx.Insert("repository_sizes", []string{"repository", "class", "updated_at"}, []any{repository, string(class), tx.now}, "")
		case model.SizeClass(before[0]).Factor() >= class.Factor():
			return nil
		}
		return tx.Execute("UPDATE repository_sizes SET class = ?, updated_at = ? WHERE repository = ?", string(class), tx.now, repository)
	})
}

// DatabaseSize implements store.Sizer.
func (s *Store) DatabaseSize(ctx context.Context) (int64, error) {
	var size int64
	err := s.read(ctx, "measure the database", func(tx *gorm.DB) error { return tx.Raw(s.db.Dialect().Size()).Scan(&size).Error })
	return size, err
}
