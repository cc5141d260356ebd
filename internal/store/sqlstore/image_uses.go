package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// useRow is a row of image_uses of one scope.
type useRow struct {
	ImagePk                          int64
	Namespace, Kind, Name, Container string
}

// RecordUses implements store.Uses.
func (s *Store) RecordUses(ctx context.Context, scope string, uses []store.Use) error {
	return s.recordUses(ctx, scope, uses, false)
}

// AddUses implements store.Uses.
func (s *Store) AddUses(ctx context.Context, scope string, uses []store.Use) error {
	if len(uses) == 0 {
		return nil
	}
	return s.recordUses(ctx, scope, uses, true)
}

// recordUses records what runs in a scope. With keep, what is known to run there stays.
func (s *Store) recordUses(ctx context.Context, scope string, uses []store.Use, keep bool) error {
	const what = "record image uses"
	if err := checkIdentifier("the scope", scope); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(uses) > store.MaxUses {
		return fmt.Errorf("%s: %d uses, the maximum is %d", what, len(uses), store.MaxUses)
	}
	workloads := make([]store.Workload, len(uses))
	for i := range uses {
		workloads[i] = uses[i].Workload
	}
	var added, gone []useRow
	var owners []ownerChange
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var err error
		if added, gone, err = compareUses(tx, scope, uses, keep); err != nil {
			return err
		}
		owners, err = compareOwners(tx, workloads)
		return err
	})
	if err != nil || len(added)+len(gone)+len(owners) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		added, gone, err := compareUses(tx.DB, scope, uses, keep)
		if err != nil {
			return err
		}
		if err := recordOwners(tx, workloads); err != nil {
			return err
		}
		if len(uses) == 0 {
			err = tx.Execute("DELETE FROM image_uses WHERE scope = ?", scope)
		} else {
			err = replaceUses(tx, scope, added, gone)
		}
		if err != nil {
			return err
		}
		for _, row := range slices.Concat(added, gone) {
			tx.moved(row.ImagePk)
		}
		w := presenceWriter{txn: tx, cluster: s.cluster}
		if err := w.end(scope, gone); err != nil {
			return err
		}
		if err := w.begin(added); err != nil {
			return err
		}
		if err := noteNamespaces(tx, added); err != nil {
			return err
		}
		return w.recordLeft(slices.Concat(gone, added))
	})
}

// replaceUses adds and removes rows of a scope.
func replaceUses(tx *txn, scope string, added, gone []useRow) error {
	for _, row := range gone {
		err := tx.Execute("DELETE FROM image_uses WHERE scope = ? AND image_pk = ? AND namespace = ? AND kind = ? AND name = ? AND container = ?",
			scope, row.ImagePk, row.Namespace, row.Kind, row.Name, row.Container)
		if err != nil {
			return err
		}
	}
	values := make([]any, 0, 6*len(added))
	for _, row := range added {
		values = append(values, scope, row.ImagePk, row.Namespace, row.Kind, row.Name, row.Container)
	}
	return tx.Insert("image_uses", []string{"scope", "image_pk", "namespace", "kind", "name", "container"}, values, "")
}

// compareUses finds the rows that a scope lacks and, unless keep is set, those that it has too many.
func compareUses(tx *gorm.DB, scope string, uses []store.Use, keep bool) (added, gone []useRow, err error) {
	images, err := knownImages(tx, uses)
	if err != nil {
		return nil, nil, err
	}
	wanted := make(map[useRow]bool, len(uses))
	for _, use := range uses {
		image, known := images[use.Image]
		if !known {
			continue
		}
		row := useRow{
			ImagePk: image, Namespace: sqldb.Truncate(use.Workload.Namespace, maxIdentifier), Kind: sqldb.Truncate(use.Workload.Kind, maxIdentifier),
			Name: sqldb.Truncate(use.Workload.Name, maxIdentifier), Container: sqldb.Truncate(use.Container, maxIdentifier),
		}
		if !wanted[row] {
			wanted[row] = true
			added = append(added, row)
		}
	}
	rows, err := usesOf(tx, scope, images, keep)
	if err != nil {
		return nil, nil, err
	}
	known := make(map[useRow]bool, len(rows))
	for _, row := range rows {
		if known[row] = true; !wanted[row] && !keep {
			gone = append(gone, row)
		}
	}
	return slices.DeleteFunc(added, func(row useRow) bool { return known[row] }), gone, nil
}

// usesOf returns the rows of a scope, or only those of some images.
func usesOf(tx *gorm.DB, scope string, images map[model.ImageKey]int64, only bool) ([]useRow, error) {
	const query = "SELECT image_pk, namespace, kind, name, container FROM image_uses WHERE scope = ?"
	var rows []useRow
	if !only {
		err := tx.Raw(query, scope).Scan(&rows).Error
		return rows, err
	}
	for part := range slices.Chunk(slices.Collect(maps.Values(images)), sqldb.MaxIn) {
		var some []useRow
		if err := tx.Raw(query+" AND image_pk IN ?", scope, part).Scan(&some).Error; err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return rows, nil
}

// knownImages returns the ids of the images that uses name and that are known.
func knownImages(tx *gorm.DB, uses []store.Use) (map[model.ImageKey]int64, error) {
	names := make([]string, 0, len(uses))
	for _, use := range uses {
		names = append(names, use.Image.ImageID)
	}
	slices.Sort(names)
	images := map[model.ImageKey]int64{}
	for part := range slices.Chunk(slices.Compact(names), sqldb.MaxIn) {
		var rows []imageRow
		if err := tx.Raw("SELECT id, image_id, platform FROM images WHERE image_id IN ?", part).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for i := range rows {
			key, err := rows[i].key()
			if err != nil {
				return nil, err
			}
			images[key] = rows[i].ID
		}
	}
	return images, nil
}
