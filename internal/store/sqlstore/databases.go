package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// pruneChunk bounds the rows that one transaction of PruneDatabases deletes, so that writers wait for it only briefly.
const pruneChunk = 2000

// databaseID is the id of a build, which is recorded as one that was not in use when it is new.
func databaseID(tx *txn, build vuln.DatabaseBuild) (int64, error) {
	id, _, err := findDatabase(tx.DB, build.ID)
	if err != nil || id != 0 {
		return id, err
	}
	err = tx.insert("vulnerability_databases", []string{"build_id", "schema_version", "built", "source", "recorded_at", "in_use"},
		[]any{build.ID, clean(build.SchemaVersion), micros(build.Built), clean(string(build.Source)), tx.now, 0},
		tx.dialect.ignoreConflict("build_id"))
	if err != nil {
		return 0, err
	}
	id, _, err = findDatabase(tx.DB, build.ID)
	return id, err
}

// findDatabase returns the id of a build and its number of use, 0 when it is not known.
func findDatabase(tx *gorm.DB, buildID string) (id, inUse int64, err error) {
	var rows []struct{ ID, InUse int64 }
	err = tx.Raw("SELECT id, in_use FROM vulnerability_databases WHERE build_id = ?", buildID).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	return rows[0].ID, rows[0].InUse, nil
}

// RecordDatabase implements store.Matches.
func (s *Store) RecordDatabase(ctx context.Context, build vuln.DatabaseBuild) error {
	const what = "record a vulnerability database"
	if err := checkMatch(build, vuln.MatchResult{}); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	current := false
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		_, inUse, err := findDatabase(tx, build.ID)
		if err != nil {
			return err
		}
		newest, err := newestUse(tx)
		current = inUse > 0 && inUse == newest
		return err
	})
	if err != nil || current {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		id, err := databaseID(tx, build)
		if err != nil {
			return err
		}
		_, inUse, err := findDatabase(tx.DB, build.ID)
		if err != nil {
			return err
		}
		newest, err := newestUse(tx.DB)
		if err != nil {
			return err
		}
		if inUse > 0 && inUse == newest {
			return nil
		}
		err = tx.exec("UPDATE vulnerability_databases SET recorded_at = ?, in_use = ? WHERE id = ?", tx.now, newest+1, id)
		if err != nil {
			return err
		}
		build.Built = fromMicros(micros(build.Built))
		return tx.event(store.EventDatabaseUpdated, "", "", build)
	})
}

func newestUse(tx *gorm.DB) (int64, error) {
	var newest int64
	err := tx.Raw("SELECT COALESCE(MAX(in_use), 0) FROM vulnerability_databases").Scan(&newest).Error
	return newest, err
}

// Databases implements store.Matches.
func (s *Store) Databases(ctx context.Context) ([]store.Database, error) {
	var databases []store.Database
	err := s.read(ctx, "list the vulnerability databases", func(tx *gorm.DB) error {
		var rows []struct {
			BuildID, SchemaVersion, Source string
			Built                          int64
			Images                         int
		}
		err := tx.Raw(`SELECT d.build_id, d.schema_version, d.source, d.built,
			(SELECT COUNT(*) FROM images i WHERE i.database_id = d.id) AS images
			FROM vulnerability_databases d ORDER BY d.built DESC, d.id DESC`).Scan(&rows).Error
		if err != nil {
			return err
		}
		databases = make([]store.Database, len(rows))
		for i, row := range rows {
			databases[i] = store.Database{
				DatabaseBuild: vuln.DatabaseBuild{
					ID: row.BuildID, SchemaVersion: row.SchemaVersion, Built: fromMicros(row.Built), Source: vuln.DatabaseSource(row.Source),
				},
				Images: row.Images,
			}
		}
		return nil
	})
	return databases, err
}

// PruneDatabases implements store.Matches. It also removes the packages that no image holds any more. It works in short
// transactions, so when it fails half-way the rest is left for the next call.
func (s *Store) PruneDatabases(ctx context.Context, keep string) error {
	const what = "prune the vulnerability databases"
	var builds []int64
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		return tx.Raw("SELECT id FROM vulnerability_databases d WHERE build_id <> ? AND "+unusedDatabase+" ORDER BY id", keep).
			Scan(&builds).Error
	})
	if err != nil {
		return err
	}
	for _, build := range builds {
		for more := true; more; {
			err := s.write(ctx, what, func(tx *txn) error {
				var err error
				more, err = pruneDatabase(tx, build)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return s.prunePackages(ctx, what)
}

const unusedDatabase = "NOT EXISTS (SELECT 1 FROM images i WHERE i.database_id = d.id)"

// pruneDatabase deletes up to pruneChunk rows of a build and reports whether there is more. The answers go before the findings:
// an image that is matched under the build in between then gets its findings saved again.
func pruneDatabase(tx *txn, build int64) (bool, error) {
	var unused []int64
	err := tx.Raw("SELECT d.id FROM vulnerability_databases d WHERE d.id = ? AND "+unusedDatabase, build).Scan(&unused).Error
	if err != nil || len(unused) == 0 {
		return false, err
	}
	for _, table := range []struct{ name, column string }{
		{"package_matches", "package_pk"}, {"findings", "id"}, {"vulnerabilities", "id"},
	} {
		var last *int64
		err := tx.Raw("SELECT MAX(c.value) FROM (SELECT "+table.column+" AS value FROM "+table.name+
			" WHERE database_id = ? ORDER BY "+table.column+" LIMIT ?) c", build, pruneChunk).Scan(&last).Error
		if err != nil {
			return false, err
		}
		if last != nil {
			return true, tx.exec("DELETE FROM "+table.name+" WHERE database_id = ? AND "+table.column+" <= ?", build, *last)
		}
	}
	return false, tx.exec("DELETE FROM vulnerability_databases WHERE id = ?", build)
}

// prunePackages deletes the packages that no image holds, with their findings under every build.
func (s *Store) prunePackages(ctx context.Context, what string) error {
	for after := int64(0); ; {
		var ids []int64
		err := s.read(ctx, what, func(tx *gorm.DB) error {
			return tx.Raw("SELECT p.id FROM packages p WHERE p.id > ? AND "+orphanedPackage+" ORDER BY p.id LIMIT ?", after, maxIn).
				Scan(&ids).Error
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		err = s.write(ctx, what, func(tx *txn) error {
			var orphaned []int64
			err := tx.Raw("SELECT p.id FROM packages p WHERE p.id IN ? AND "+orphanedPackage, ids).Scan(&orphaned).Error
			if err != nil || len(orphaned) == 0 {
				return err
			}
			for _, statement := range []string{
				"DELETE FROM package_matches WHERE package_pk IN ?",
				"DELETE FROM findings WHERE package_pk IN ?",
				"DELETE FROM packages WHERE id IN ?",
			} {
				if err := tx.exec(statement, orphaned); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

const orphanedPackage = "NOT EXISTS (SELECT 1 FROM image_packages ip WHERE ip.package_pk = p.id)"
