package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const migrationTable = "goose_db_version"

// migrate applies the migrations that are missing and returns the version of the schema.
func (s *Store) migrate(ctx context.Context) (int64, error) {
	name, files, err := s.dialect.migrations()
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	options := []goose.ProviderOption{
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(migrationTable), goose.WithLogger(goose.NopLogger()),
	}
	locker := s.dialect.locker()
	if locker != nil {
		options = append(options, goose.WithSessionLocker(locker))
		// Goose makes its table without the lock when it is asked for versions.
		if err := s.retry(ctx, func() error { return lockOnce(ctx, s.conn.writer, locker) }); err != nil {
			return 0, s.wrap(ctx, "wait for other processes that migrate the database", err)
		}
	}
	provider, err := goose.NewProvider(name, s.conn.writer, files, options...)
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	var current, target int64
	err = s.retry(ctx, func() error {
		var err error
		current, target, err = provider.GetVersions(ctx)
		return err
	})
	if err != nil {
		return 0, s.wrap(ctx, "read the version of the database schema", err)
	}
	if current > target {
		return 0, fmt.Errorf("%w: the database has version %d, this program knows versions up to %d; "+
			"run the newer program, or restore a backup from before the upgrade", store.ErrSchemaTooNew, current, target)
	}
	if current == target {
		return target, nil
	}
	err = s.retry(ctx, func() error {
		_, err := provider.Up(ctx)
		var partial *goose.PartialError
		if errors.As(err, &partial) && partial.Failed != nil {
			return fmt.Errorf("migration %s: %w", partial.Failed.Source.Path, partial.Err)
		}
		return err
	})
	if err != nil {
		return 0, s.wrap(ctx, "migrate the database", err)
	}
	s.log.Info("Migrated the database schema", "from", current, "to", target)
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
