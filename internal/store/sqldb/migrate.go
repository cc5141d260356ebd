package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// MigrationTable is the table with the versions of the migrations that were applied.
const MigrationTable = "goose_db_version"

// migrate applies the migrations that are missing and returns the version of the schema.
func (db *DB) migrate(ctx context.Context, writer *sql.DB) (int64, error) {
	files, err := fs.Sub(db.config.Migrations, db.dialect.Type())
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	options := []goose.ProviderOption{
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(MigrationTable), goose.WithLogger(goose.NopLogger()),
	}
	locker := db.dialect.locker()
	if locker != nil {
		options = append(options, goose.WithSessionLocker(locker))
		// Goose makes its table without the lock when it is asked for versions.
		if err := db.retry(ctx, func() error { return lockOnce(ctx, writer, locker) }); err != nil {
			return 0, db.wrap(ctx, "wait for another process to migrate the database", err)
		}
	}
	provider, err := goose.NewProvider(db.dialect.goose(), writer, files, options...)
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	var current, target int64
	err = db.retry(ctx, func() error {
		var err error
		current, target, err = provider.GetVersions(ctx)
		return err
	})
	if err != nil {
		return 0, db.wrap(ctx, "read the version of the database schema", err)
	}
	if current > target {
		return 0, fmt.Errorf("%w: the database has version %d, this program supports versions up to %d; "+
			"run the newer program, or restore a backup from before the upgrade", ErrSchemaTooNew, current, target)
	}
	if current == target {
		return target, nil
	}
	err = db.retry(ctx, func() error {
		_, err := provider.Up(ctx)
		var partial *goose.PartialError
		if errors.As(err, &partial) && partial.Failed != nil {
			return fmt.Errorf("migration %s: %w", partial.Failed.Source.Path, partial.Err)
		}
		return err
	})
	if err != nil {
		return 0, db.wrap(ctx, "migrate the database", err)
	}
	db.config.Log.Info("Migrated the database schema", "from", current, "to", target)
	return target, nil
}

// lockOnce waits until no other process migrates, and does what has to be done under the lock first.
func lockOnce(ctx context.Context, pool *sql.DB, locker lock.SessionLocker) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	err = locker.SessionLock(ctx, conn)
	if err == nil {
		err = locker.SessionUnlock(context.WithoutCancel(ctx), conn)
	}
	return errors.Join(err, conn.Close())
}
