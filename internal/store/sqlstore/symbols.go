package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// saveSymbols records what became of the symbol tables in the SBOM of an image.
func saveSymbols(tx *txn, image int64, symbols model.Symbols) error {
	if err := tx.Execute("DELETE FROM image_symbols WHERE image_pk = ?", image); err != nil || symbols == model.SymbolsNone {
		return err
	}
	return tx.Insert("image_symbols", []string{"image_pk", "state"}, []any{image, int64(symbols)}, "")
}

// symbolsLeftOut is the condition that the SBOM of image i has to be read again; the value is model.SymbolsLeftOut.
const symbolsLeftOut = "EXISTS (SELECT 1 FROM image_symbols s WHERE s.image_pk = i.id AND s.state = ?)"

// UnreadSymbols implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) UnreadSymbols(ctx context.Context, unmatched bool, after model.ImageKey, limit int) ([]model.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	matched := int64(stillOpen)
	if unmatched {
		matched = 0
	}
	var keys []model.ImageKey
	err := s.read(ctx, "list images whose symbol tables have to be read", func(tx *gorm.DB) error {
		var err error
		keys, err = imageKeys(tx.Raw(`SELECT i.image_id, i.platform FROM image_symbols s JOIN images i ON i.id = s.image_pk WHERE s.state = ? AND
			i.matched_at <= ? AND `+behindImage+" ORDER BY i.image_id, i.platform LIMIT ?",
			int64(model.SymbolsLeftOut), matched, after.ImageID, after.ImageID, after.Platform.String(), limit))
		return err
	})
	return keys, err
}

// RereadSymbols implements store.ResultSets.
func (s *Store) RereadSymbols(ctx context.Context, modules []string) error {
	for part := range slices.Chunk(modules, sqldb.MaxIn) {
		err := s.write(ctx, "mark images whose symbol tables have to be read", func(tx *txn) error {
			return tx.Execute(`UPDATE image_symbols SET state = ? WHERE state = ? AND image_pk IN
				(SELECT ip.image_pk FROM image_packages ip JOIN packages p ON p.id = ip.package_pk WHERE `+tx.Dialect.Lower("p.name")+" IN ?)",
				int64(model.SymbolsLeftOut), int64(model.SymbolsRead), part)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// SkipSymbols implements store.ResultSets.
func (s *Store) SkipSymbols(ctx context.Context, key model.ImageKey, sbomDigest string) error {
	return s.write(ctx, "match an image without its symbol tables", func(tx *txn) error {
		image, err := imageWithSBOM(tx.DB, key, sbomDigest)
		if err != nil {
			return err
		}
		return tx.Execute("UPDATE image_symbols SET state = ? WHERE image_pk = ?", int64(model.SymbolsRead), image.ID)
	})
}

// earlierOpenings selects, for findings of packages that an image is to hold, the openings of the same vulnerabilities in packages of the
// same type, name and version that it holds; the values are the image, the new packages, and the current result set, four times.
const earlierOpenings = `SELECT f.id, e.opened_at, e.opened_gen, CASE WHEN x.since IS NULL THEN 0 ELSE COALESCE(y.since, x.since) END AS fixable_at FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk
	JOIN packages p ON p.id = f.package_pk
	JOIN packages b ON b.name = p.name AND b.version = p.version AND b.type = p.type AND b.id <> p.id
	JOIN image_packages ip ON ip.package_pk = b.id AND ip.excluded = 0 AND ip.image_pk = ?
	JOIN findings e ON e.package_pk = b.id
	LEFT JOIN finding_fixes x ON x.finding_id = f.id LEFT JOIN finding_fixes y ON y.finding_id = e.id
	JOIN vulnerabilities w ON w.id = e.vulnerability_pk AND w.vulnerability_id = v.vulnerability_id AND w.namespace = v.namespace
	WHERE f.package_pk IN ? AND f.from_gen <= ? AND f.until_gen > ? AND e.from_gen <= ? AND e.until_gen > ?
	AND e.opened_at < f.opened_at ORDER BY f.id, e.opened_at DESC`

// keepOpenings lets findings of packages that an image is to hold begin when those of the packages did that they replace: the image is the
// same, it was only read by other rules. It must run before the packages are replaced.
func keepOpenings(tx *txn, image int64, ids map[string]int64) error {
	current, err := currentNumber(tx.DB)
	if err != nil || current == 0 {
		return err
	}
	var before []int64
	if err := tx.Raw("SELECT package_pk FROM image_packages WHERE image_pk = ?", image).Scan(&before).Error; err != nil {
		return err
	}
	slices.Sort(before)
	var added []int64
	for _, id := range ids {
		if _, known := slices.BinarySearch(before, id); !known {
			added = append(added, id)
		}
	}
	slices.Sort(added)
	var kept []int64
	for part := range slices.Chunk(added, sqldb.MaxIn) {
		var rows []struct {
			ID      int64
			Opening opening `gorm:"embedded"`
		}
		if err := tx.Raw(earlierOpenings, image, part, current, current, current, current).Scan(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows { // The earliest comes last.
			if err := tx.setOpening(row.ID, row.Opening); err != nil {
				return fmt.Errorf("keep since when a finding is known: %w", err)
			}
			kept = append(kept, row.ID)
		}
	}
	return tx.redue(dueByID, kept)
}
