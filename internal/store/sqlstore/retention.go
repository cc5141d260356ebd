package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// lastUse is a row of namespace_last_uses of one scope.
type lastUse struct {
	Namespace   string
	ImagePk, At int64
}

// recordLastUses keeps that images run no more somewhere in a scope.
func recordLastUses(tx *txn, scope string, gone []useRow) error {
	ended := make([]lastUse, len(gone))
	for i := range gone {
		ended[i] = lastUse{gone[i].Namespace, gone[i].ImagePk, tx.now}
	}
	slices.SortFunc(ended, func(a, b lastUse) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ImagePk, b.ImagePk))
	})
	return replaceLastUses(tx, scope, slices.Compact(ended))
}

// replaceLastUses keeps until when images ran in the namespaces of a scope. The uses are in the order of their namespaces.
func replaceLastUses(tx *txn, scope string, uses []lastUse) error {
	values := make([]any, 0, 4*len(uses))
	for _, use := range uses {
		values = append(values, scope, use.Namespace, use.ImagePk, use.At)
	}
	for len(uses) > 0 {
		n := 1
		for n < min(len(uses), sqldb.MaxIn) && uses[n].Namespace == uses[0].Namespace {
			n++
		}
		if err := deleteLastUses(tx, scope, uses[:n]); err != nil {
			return err
		}
		uses = uses[n:]
	}
	return tx.Insert("namespace_last_uses", []string{"scope", "namespace", "image_pk", "at"}, values, "")
}

// deleteLastUses removes uses in one namespace of a scope, at most sqldb.MaxIn.
func deleteLastUses(tx *txn, scope string, uses []lastUse) error {
	images := make([]int64, len(uses))
	for i, use := range uses {
		images[i] = use.ImagePk
	}
	return tx.Execute("DELETE FROM namespace_last_uses WHERE scope = ? AND namespace = ? AND image_pk IN ?", scope, uses[0].Namespace, images)
}

// Scopes implements store.Scans.
func (s *Store) Scopes(ctx context.Context) ([]string, error) {
	var scopes []string
	err := s.read(ctx, "list scopes", func(tx *gorm.DB) error {
		return tx.Raw("SELECT scope FROM image_uses UNION SELECT scope FROM container_coverage UNION SELECT scope FROM tag_lookups UNION SELECT scope FROM namespace_last_uses WHERE scope <> '' ORDER BY scope").Scan(&scopes).Error
	})
	return scopes, err
}

// ForgetScope implements store.Scans.
func (s *Store) ForgetScope(ctx context.Context, scope string) error {
	if err := errors.Join(s.RecordUses(ctx, scope, nil), s.RecordCoverage(ctx, scope, nil)); err != nil {
		return err
	}
	const what = "forget a scope"
	if err := s.forgetTagLookups(ctx, scope); err != nil {
		return err
	}
	var rows []lastUse
	find := func(tx *gorm.DB) error {
		rows = nil
		// All of them are of one namespace.
		return tx.Raw(`SELECT namespace, image_pk, at FROM namespace_last_uses WHERE scope = ? AND namespace =
			(SELECT MIN(l.namespace) FROM namespace_last_uses l WHERE l.scope = ?) ORDER BY image_pk LIMIT ?`, scope, scope, sqldb.MaxIn).Scan(&rows).Error
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

// foldLastUses moves rows of one namespace of a scope to the scope "", where the later time of two counts.
func foldLastUses(tx *txn, scope string, rows []lastUse) error {
	images, at := make([]int64, len(rows)), make(map[int64]*int64, len(rows))
	for i := range rows {
		images[i], at[rows[i].ImagePk] = rows[i].ImagePk, &rows[i].At
	}
	var known []lastUse
	err := tx.Raw("SELECT image_pk, at FROM namespace_last_uses WHERE scope = '' AND namespace = ? AND image_pk IN ?", rows[0].Namespace, images).Scan(&known).Error
	if err != nil {
		return err
	}
	for _, use := range known {
		*at[use.ImagePk] = max(*at[use.ImagePk], use.At)
	}
	if err := replaceLastUses(tx, "", rows); err != nil {
		return err
	}
	return deleteLastUses(tx, scope, rows)
}

// ExpireUses implements store.Scans.
func (s *Store) ExpireUses(ctx context.Context, scope string, before time.Time) error {
	const what = "expire image uses"
	var images []int64
	find := func(tx *gorm.DB) error {
		images = nil
		return tx.Raw("SELECT DISTINCT image_pk FROM namespace_last_uses WHERE scope = ? AND at < ?", scope, micros(before)).Scan(&images).Error
	}
	if err := s.read(ctx, what, find); err != nil || len(images) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := find(tx.DB); err != nil {
			return err
		}
		if err := tx.Execute("DELETE FROM namespace_last_uses WHERE scope = ? AND at < ?", scope, micros(before)); err != nil {
			return err
		}
		return endNamespaces(tx, images)
	})
}

// forgettable selects images that nothing runs, that no scope keeps, that became known before a time, and that nobody sent a report of.
const forgettable = `SELECT i.id, i.image_id, i.platform FROM images i WHERE i.first_seen < ?
	AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)
	AND NOT EXISTS (SELECT 1 FROM namespace_last_uses l WHERE l.image_pk = i.id)
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
