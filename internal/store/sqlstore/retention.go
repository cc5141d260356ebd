package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// recordLastUses keeps that images run no more somewhere in a scope.
func recordLastUses(tx *txn, scope string, gone []useRow) error {
	images := make([]int64, len(gone))
	for i := range gone {
		images[i] = gone[i].ImagePk
	}
	slices.Sort(images)
	for part := range slices.Chunk(slices.Compact(images), sqldb.MaxIn) {
		ended := make([]lastUse, len(part))
		for i, image := range part {
			ended[i] = lastUse{image, tx.now}
		}
		if err := replaceLastUses(tx, scope, ended); err != nil {
			return err
		}
	}
	return nil
}

// lastUse is a row of scope_last_uses of one scope.
type lastUse struct{ ImagePk, At int64 }

// replaceLastUses keeps, for at most sqldb.MaxIn images, until when they ran in a scope.
func replaceLastUses(tx *txn, scope string, uses []lastUse) error {
	images, values := make([]int64, len(uses)), make([]any, 0, 3*len(uses))
	for i, use := range uses {
		images[i] = use.ImagePk
		values = append(values, scope, use.ImagePk, use.At)
	}
	if err := tx.Execute("DELETE FROM scope_last_uses WHERE scope = ? AND image_pk IN ?", scope, images); err != nil {
		return err
	}
	return tx.Insert("scope_last_uses", []string{"scope", "image_pk", "at"}, values, "")
}

// Scopes implements store.Scans.
func (s *Store) Scopes(ctx context.Context) ([]string, error) {
	var scopes []string
	err := s.read(ctx, "list scopes", func(tx *gorm.DB) error {
		return tx.Raw("SELECT scope FROM image_uses UNION SELECT scope FROM container_coverage UNION SELECT scope FROM scope_last_uses WHERE scope <> '' ORDER BY scope").Scan(&scopes).Error
	})
	return scopes, err
}

// ForgetScope implements store.Scans.
func (s *Store) ForgetScope(ctx context.Context, scope string) error {
	if err := errors.Join(s.RecordUses(ctx, scope, nil), s.RecordCoverage(ctx, scope, nil)); err != nil {
		return err
	}
	const what = "forget a scope"
	var rows []lastUse
	find := func(tx *gorm.DB) error {
		rows = nil
		return tx.Raw("SELECT image_pk, at FROM scope_last_uses WHERE scope = ? ORDER BY image_pk LIMIT ?", scope, sqldb.MaxIn).Scan(&rows).Error
	}
	for {
		if err := s.read(ctx, what, find); err != nil || len(rows) == 0 {
			return err
		}
		err := s.write(ctx, what, func(tx *txn) error {
			if err := find(tx.DB); err != nil || len(rows) == 0 {
				return err
			}
			return foldLastUses(tx, scope, rows)
		})
		if err != nil {
			return err
		}
	}
}

// foldLastUses moves rows of a scope to the scope "", where the later time of two counts.
func foldLastUses(tx *txn, scope string, rows []lastUse) error {
	images, at := make([]int64, len(rows)), make(map[int64]*int64, len(rows))
	for i := range rows {
		images[i], at[rows[i].ImagePk] = rows[i].ImagePk, &rows[i].At
	}
	var known []lastUse
	if err := tx.Raw("SELECT image_pk, at FROM scope_last_uses WHERE scope = '' AND image_pk IN ?", images).Scan(&known).Error; err != nil {
		return err
	}
	for _, use := range known {
		*at[use.ImagePk] = max(*at[use.ImagePk], use.At)
	}
	if err := replaceLastUses(tx, "", rows); err != nil {
		return err
	}
	return tx.Execute("DELETE FROM scope_last_uses WHERE scope = ? AND image_pk IN ?", scope, images)
}

// ExpireUses implements store.Scans.
func (s *Store) ExpireUses(ctx context.Context, scope string, before time.Time) error {
	const what = "expire image uses"
	expired := 0
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		return tx.Raw("SELECT COUNT(*) FROM scope_last_uses WHERE scope = ? AND at < ?", scope, micros(before)).Scan(&expired).Error
	})
	if err != nil || expired == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		return tx.Execute("DELETE FROM scope_last_uses WHERE scope = ? AND at < ?", scope, micros(before))
	})
}

// forgettable selects images that nothing runs, that no scope keeps, that became known before a time, and that nobody sent a report of.
const forgettable = `SELECT i.id, i.image_id, i.platform FROM images i WHERE i.first_seen < ?
	AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)
	AND NOT EXISTS (SELECT 1 FROM scope_last_uses l WHERE l.image_pk = i.id)
	AND NOT EXISTS (SELECT 1 FROM reports r WHERE r.image_id = i.image_id) ORDER BY i.id LIMIT ?`

// ForgetImages implements store.Scans.
func (s *Store) ForgetImages(ctx context.Context, before time.Time, limit int) ([]model.ImageKey, error) {
	const what = "delete unused images"
	limit = min(limit, store.MaxForget)
	var rows []imageRow
	find := func(tx *gorm.DB) error {
		rows = nil
		return tx.Raw(forgettable, micros(before), limit).Scan(&rows).Error
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
		return deleteImages(tx, ids)
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
