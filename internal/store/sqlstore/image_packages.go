package sqlstore

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxPageBytes is how much of what matching reads a page of packages holds; one package more may be above it.
const maxPageBytes = 4 << 20

// packageOrder is the order in which the packages of an image are told.
const packageOrder = " ORDER BY p.name, p.version, p.fingerprint"

// Packages implements store.Reader. yield runs between transactions: it may wait for a client that reads slowly.
func (s *Store) Packages(ctx context.Context, in store.Namespaces, key model.ImageKey, yield func(model.HeldPackage) error) error {
	const what = "read the packages of an image"
	var image imageRow
	var ids []int64
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		if image, err = findImage(tx, in, key); err != nil {
			return err
		}
		ids = nil
		return tx.Raw("SELECT p.id FROM image_packages ip JOIN packages p ON p.id = ip.package_pk WHERE ip.image_pk = ?"+packageOrder, image.ID).
			Scan(&ids).Error
	})
	for err == nil && len(ids) > 0 {
		var page []model.HeldPackage
		var read int
		err = s.read(ctx, what, func(tx *gorm.DB) (err error) {
			page, read, err = packagePage(tx, image.ID, ids[:min(len(ids), sqldb.MaxIn)])
			return err
		})
		if err != nil {
			return err
		}
		ids = ids[read:]
		for _, held := range page {
			if err := yield(held); err != nil {
				return err
			}
		}
	}
	return err
}

// packagePage reads the first of those packages of an image, up to maxPageBytes, and returns how many IDs they take. Those that the image
// has no more are left out.
func packagePage(tx *gorm.DB, image int64, ids []int64) (page []model.HeldPackage, read int, err error) {
	rows, err := tx.Raw("SELECT "+packageColumns+`, p.id FROM image_packages ip JOIN packages p ON p.id = ip.package_pk
		WHERE ip.image_pk = ? AND p.id IN ?`+packageOrder, image, ids).Rows()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; rows.Next(); {
		var row packageRow
		var id int64
		err := rows.Scan(&row.Fingerprint, &row.Name, &row.Version, &row.Type, &row.Language, &row.Purl, &row.Distro,
			&row.Licenses, &row.Cpes, &row.MatchInput, &row.Locations, &row.Excluded, &row.Own, &id)
		if err != nil {
			return nil, 0, err
		}
		held, err := row.held()
		if err != nil {
			return nil, 0, err
		}
		page = append(page, held)
		if size += len(row.MatchInput) + len(row.Locations); size >= maxPageBytes {
			return page, slices.Index(ids, id) + 1, nil
		}
	}
	return page, len(ids), rows.Err()
}
