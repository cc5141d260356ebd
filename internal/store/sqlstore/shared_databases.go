package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

const (
	// abandonedAfter is the time after which a database that is not complete is taken for one whose replica has ended.
	abandonedAfter = time.Hour
	// partsAtOnce bounds the parts that one transaction deletes.
	partsAtOnce = 8
)

// sharedDatabaseRow is a row of shared_databases.
type sharedDatabaseRow struct {
	ID, BuildID, SchemaVersion     string
	Built, InstalledAt, AllowOlder int64
	Sha256                         string `gorm:"column:sha256"`
	Size                           int64
}

// SharedDatabase implements store.SharedDatabases.
func (s *Store) SharedDatabase(ctx context.Context) (store.SharedDatabase, bool, error) {
	row, found, err := s.sharedDatabase(ctx, "complete = 1")
	if err != nil || !found {
		return store.SharedDatabase{}, false, err
	}
	return store.SharedDatabase{
		ID: row.ID, InstalledAt: fromMicros(row.InstalledAt), AllowOlder: row.AllowOlder != 0, Size: row.Size,
		Build: model.DatabaseBuild{
			ID: row.BuildID, SchemaVersion: row.SchemaVersion, Built: fromMicros(row.Built), Source: model.DatabaseSourceImported,
		},
	}, true, nil
}

func (s *Store) sharedDatabase(ctx context.Context, condition string, values ...any) (row sharedDatabaseRow, found bool, err error) {
	err = s.read(ctx, "read the shared vulnerability database", func(tx *gorm.DB) error {
		var rows []sharedDatabaseRow
		err := tx.Raw("SELECT id, build_id, schema_version, built, installed_at, allow_older, sha256, size FROM shared_databases WHERE "+condition+
			" ORDER BY started_at DESC, id LIMIT 1", values...).Scan(&rows).Error
		if found = len(rows) > 0; found {
			row = rows[0]
		}
		return err
	})
	return row, found, err
}

// SaveSharedDatabase implements store.SharedDatabases.
func (s *Store) SaveSharedDatabase(ctx context.Context, database store.SharedDatabase, archive io.Reader) error {
	const what = "share a vulnerability database"
	if err := checkIdentifier("the ID of the database build", database.Build.ID); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	id := newNonce()
	err := s.write(ctx, what, func(tx *txn) error {
		return tx.Insert("shared_databases", []string{
			"id", "build_id", "schema_version", "built", "installed_at", "allow_older", "sha256", "size", "complete", "started_at",
		}, []any{
			id, database.Build.ID, sqldb.Clean(database.Build.SchemaVersion), micros(database.Build.Built), micros(database.InstalledAt),
			boolean(database.AllowOlder), "", 0, 0, tx.now,
		}, "")
	})
	if err != nil {
		return err
	}
	digest, size, err := s.saveSharedParts(ctx, id, archive)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", what, err), s.DeleteSharedDatabase(ctx, id))
	}
	err = s.write(ctx, what, func(tx *txn) error {
		if err := tx.Execute("UPDATE shared_databases SET complete = 0 WHERE complete = 1"); err != nil {
			return err
		}
		return tx.Execute("UPDATE shared_databases SET complete = 1, sha256 = ?, size = ? WHERE id = ?", digest, size, id)
	})
	if err != nil {
		return err
	}
	return s.deleteSharedDatabases(ctx, "complete = 0 AND sha256 <> ''")
}

// deleteAbandoned deletes databases that will not become complete.
func (s *Store) deleteAbandoned(ctx context.Context) error {
	return s.deleteSharedDatabases(ctx, "complete = 0 AND started_at < ?", micros(s.clock.Now().Add(-abandonedAfter)))
}

func (s *Store) saveSharedParts(ctx context.Context, id string, archive io.Reader) (digest string, size int64, err error) {
	hash := sha256.New()
	buffer := make([]byte, partSize)
	for number := 0; ; number++ {
		n, err := io.ReadFull(archive, buffer)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return "", 0, fmt.Errorf("read the archive: %w", err)
		}
		if size += int64(n); size > store.MaxSharedDatabase {
			return "", 0, fmt.Errorf("the archive is larger than %d bytes", int64(store.MaxSharedDatabase))
		}
		if n > 0 {
			_, _ = hash.Write(buffer[:n])
			err := s.write(ctx, "share a part of a vulnerability database", func(tx *txn) error {
				return tx.Insert("shared_database_parts", []string{"database_id", "part", "content"}, []any{id, number, buffer[:n]}, "")
			})
			if err != nil {
				return "", 0, err
			}
		}
		if ended {
			return hex.EncodeToString(hash.Sum(nil)), size, nil
		}
	}
}

// LoadSharedDatabase implements store.SharedDatabases.
func (s *Store) LoadSharedDatabase(ctx context.Context, id string, w io.Writer) error {
	row, found, err := s.sharedDatabase(ctx, "id = ? AND complete = 1", id)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("shared vulnerability database %s: %w", id, store.ErrNotFound)
	}
	hash := sha256.New()
	for number, size := 0, int64(0); size < row.Size; number++ {
		var parts [][]byte
		err := s.read(ctx, "read a part of the shared vulnerability database", func(tx *gorm.DB) error {
			return tx.Raw("SELECT content FROM shared_database_parts WHERE database_id = ? AND part = ?", id, number).Scan(&parts).Error
		})
		if err != nil {
			return err
		}
		if len(parts) == 0 {
			return fmt.Errorf("part %d of the shared vulnerability database %s: %w", number, id, store.ErrNotFound)
		}
		_, _ = hash.Write(parts[0])
		if _, err := w.Write(parts[0]); err != nil {
			return fmt.Errorf("write the shared vulnerability database: %w", err)
		}
		size += int64(len(parts[0]))
	}
	if digest := hex.EncodeToString(hash.Sum(nil)); digest != row.Sha256 {
		return fmt.Errorf("the shared vulnerability database %s has the checksum sha256:%s instead of sha256:%s", id, digest, row.Sha256)
	}
	return nil
}

// DeleteSharedDatabase implements store.SharedDatabases.
func (s *Store) DeleteSharedDatabase(ctx context.Context, id string) error {
	return s.deleteSharedDatabases(ctx, "id = ?", id)
}

// deleteSharedDatabases deletes databases in short transactions, each from its last part to its first, and then the row.
func (s *Store) deleteSharedDatabases(ctx context.Context, condition string, values ...any) error {
	const what = "delete a shared vulnerability database"
	for {
		row, found, err := s.sharedDatabase(ctx, condition, values...)
		if err != nil || !found {
			return err
		}
		if err := s.deleteSharedDatabase(ctx, what, row.ID); err != nil {
			return err
		}
	}
}

func (s *Store) deleteSharedDatabase(ctx context.Context, what, id string) error {
	for more := true; more; {
		err := s.write(ctx, what, func(tx *txn) error {
			var last *int64
			err := tx.Raw("SELECT MAX(part) FROM shared_database_parts WHERE database_id = ?", id).Scan(&last).Error
			if err != nil {
				return err
			}
			if more = last != nil; !more {
				return tx.Execute("DELETE FROM shared_databases WHERE id = ?", id)
			}
			if err := tx.Execute("UPDATE shared_databases SET complete = 0 WHERE id = ? AND complete <> 0", id); err != nil {
				return err
			}
			return tx.Execute("DELETE FROM shared_database_parts WHERE database_id = ? AND part > ?", id, *last-partsAtOnce)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
