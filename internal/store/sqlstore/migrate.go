package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const migrationTable = "goose_db_version"

// migrate applies the migrations that are missing and returns the version of the schema.
func (s *Store) migrate(ctx context.Context) (int64, error) {
	name, files, err := s.dialect.migrations()
	if err != nil {
		return 0, fmt.Errorf("read the migrations: %w", err)
	}
	provider, err := goose.NewProvider(name, s.conn.writer, files,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(migrationTable), goose.WithLogger(goose.NopLogger()))
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
