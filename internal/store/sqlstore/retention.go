package sqlstore

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// recordLastUses keeps that images run no more somewhere.
func recordLastUses(tx *txn, gone []useRow) error {
	images := make([]int64, len(gone))
	for i := range gone {
		images[i] = gone[i].ImagePk
	}
	slices.Sort(images)
	for part := range slices.Chunk(slices.Compact(images), sqldb.MaxIn) {
		if err := tx.Execute("DELETE FROM image_last_uses WHERE image_pk IN ?", part); err != nil {
			return err
		}
		values := make([]any, 0, 2*len(part))
		for _, image := range part {
			values = append(values, image, tx.now)
		}
		if err := tx.Insert("image_last_uses", []string{"image_pk", "at"}, values, ""); err != nil {
			return err
		}
	}
	return nil
}

// Scopes implements store.Scans.
func (s *Store) Scopes(ctx context.Context) ([]string, error) {
	var scopes []string
	err := s.read(ctx, "list scopes", func(tx *gorm.DB) error {
		return tx.Raw("SELECT scope FROM image_uses UNION SELECT scope FROM container_coverage ORDER BY scope").Scan(&scopes).Error
	})
	return scopes, err
}

// forgettable selects images that nothing runs, that nothing ran since a time, given twice, and that nobody sent a report of.
const forgettable = `SELECT i.id, i.image_id, i.platform FROM images i WHERE i.first_seen < ?
	AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)
	AND NOT EXISTS (SELECT 1 FROM image_last_uses l WHERE l.image_pk = i.id AND l.at >= ?)
	AND NOT EXISTS (SELECT 1 FROM reports r WHERE r.image_id = i.image_id) ORDER BY i.id LIMIT ?`

// ForgetImages implements store.Scans.
func (s *Store) ForgetImages(ctx context.Context, before time.Time, limit int) ([]model.ImageKey, error) {
	const what = "delete unused images"
	limit = min(limit, store.MaxForget)
	var rows []imageRow
	find := func(tx *gorm.DB) error {
		rows = nil
		return tx.Raw(forgettable, micros(before), micros(before), limit).Scan(&rows).Error
	}
	if err := s.read(ctx, what, find); err != nil || len(rows) == 0 {
		return nil, err
	}
	var keys []model.ImageKey
	err := s.write(ctx, what, func(tx *txn) error {
		keys = nil
		// Something may run one of them by now.
		if err := find(tx.DB); err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]int64, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
			key, err := rows[i].key()
			if err != nil {
				return err
			}
			keys = append(keys, key)
			if err := tx.event(store.EventImageRemoved, rows[i].ImageID, rows[i].Platform, struct{}{}); err != nil {
				return err
			}
		}
		// What belongs to the images goes with them, by foreign keys.
		return tx.Execute("DELETE FROM images WHERE id IN ?", ids)
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
