package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// storedPackageRow is a distinct package with its number.
type storedPackageRow struct {
	ID      int64
	Package packageRow `gorm:"embedded"`
}

// distinctColumns are those columns of packageRow that do not say how an image holds the package.
const distinctColumns = `p.fingerprint, p.name, p.version, p.type, p.language, p.purl, p.distro, p.licenses, p.cpes, p.match_input`

func storedPackages(rows []storedPackageRow) ([]store.StoredPackage, error) {
	packages := make([]store.StoredPackage, len(rows))
	for i := range rows {
		held, err := rows[i].Package.held()
		if err != nil {
			return nil, err
		}
		packages[i] = store.StoredPackage{ID: rows[i].ID, Package: held.Package}
	}
	return packages, nil
}

const (
	answeredPackages = `SELECT package_pk, search_keys, failure FROM package_answers
		WHERE package_pk > ? AND from_gen <= ? AND until_gen > ? ORDER BY package_pk LIMIT ?`
	queuedPackages = "SELECT p.id, " + distinctColumns + ` FROM rematch_queue q JOIN packages p ON p.id = q.package_pk
		ORDER BY q.package_pk LIMIT ?`
)

// AnsweredPackages implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) AnsweredPackages(ctx context.Context, after int64, limit int) ([]store.AnsweredPackage, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var packages []store.AnsweredPackage
	err := s.read(ctx, "list matched packages", func(tx *gorm.DB) error {
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		var rows []storedAnswer
		err = tx.Raw(answeredPackages, after, current, current, limit).Scan(&rows).Error
		packages = make([]store.AnsweredPackage, len(rows))
		for i, row := range rows {
			packages[i] = store.AnsweredPackage{ID: row.PackagePk, SearchKeys: searchKeys(row.SearchKeys), Failed: row.Failure != ""}
		}
		return err
	})
	return packages, err
}

// QueuePackages implements store.ResultSets.
func (s *Store) QueuePackages(ctx context.Context, resultSet int64, ids []int64) error {
	const what = "queue packages"
	if len(ids) > store.MaxKeys {
		return fmt.Errorf("%s: %d items, the maximum is %d", what, len(ids), store.MaxKeys)
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := isNext(tx.DB, resultSet); err != nil {
			return err
		}
		return tx.queue(resultSet, ids)
	})
}

// QueuedPackages implements store.ResultSets. limit is cut to store.MaxPageSize.
func (s *Store) QueuedPackages(ctx context.Context, resultSet int64, limit int) ([]store.StoredPackage, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxPageSize)
	var packages []store.StoredPackage
	err := s.read(ctx, "list the queued packages", func(tx *gorm.DB) error {
		if err := isNext(tx, resultSet); err != nil {
			return err
		}
		var rows []storedPackageRow
		err := tx.Raw(queuedPackages, limit).Scan(&rows).Error
		if err != nil {
			return err
		}
		packages, err = storedPackages(rows)
		return err
	})
	return packages, err
}
