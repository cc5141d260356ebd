// Package sqldb opens SQL databases of several kinds and runs transactions in them. What differs between SQLite, PostgreSQL and
// MySQL or MariaDB is in one dialect each: connections, locks, error codes, a few expressions. GORM builds statements and scans
// rows; goose applies numbered migrations. The package knows nothing of what is stored.
package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/go-logr/logr"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Config says which database to open.
type Config struct {
	// Type is the type of the database: TypeSQLite, TypePostgres or TypeMySQL. "" is TypeSQLite.
	Type string
	// DSN is, for sqlite, the path of the file or a "file:" URI; the directory is created when it is missing. For postgres it is a
	// "postgres://" URL or a list of keyword=value, for mysql "user:password@tcp(host:port)/database". It is never logged.
	DSN string
	// Migrations holds one directory of goose files per type, named like it. Those of MySQL must create the table writer_lock with
	// a row whose id is 1, which serializes writers.
	Migrations fs.FS
	// Log receives messages about the database as a whole, such as migrations. The zero value discards.
	Log logr.Logger
	// MaxOpenConns limits the connections to the database, at least 2; 0 is the default of the type. With PostgreSQL one more
	// connection listens for notifications.
	MaxOpenConns int
	// Self identifies this DB among all that use the database: Notified is not called for its own notifications.
	Self string
	// Notified is called after other processes have committed a transaction that called Tx.Notify, on databases that support
	// notifications, and after a connection was restored, when notifications may have been lost. It may be nil.
	Notified func()
}

// DB is an open database. Its methods are safe for concurrent use.
type DB struct {
	dialect dialect
	conn    connection
	// writes and reads are GORM on the two pools.
	writes, reads *gorm.DB
	schema        int64
	config        Config
	// stop ends the listener, which listening waits for.
	stop      context.CancelFunc
	listening sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// Open connects to the database and applies the migrations that are missing. The error is ErrSchemaTooNew when a newer version
// of the program has migrated the database.
func Open(ctx context.Context, config Config) (*DB, error) {
	d, err := dialectOf(config.Type)
	if err != nil {
		return nil, err
	}
	db := &DB{dialect: d, config: config, stop: func() {}}
	if db.conn, err = d.open(ctx, config); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := db.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) start(ctx context.Context) error {
	var err error
	if db.schema, err = db.migrate(ctx); err != nil {
		return err
	}
	options := func() *gorm.Config {
		return &gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard}
	}
	if db.writes, err = gorm.Open(db.dialect.gorm(db.conn.writer), options()); err != nil {
		return db.wrap(ctx, "prepare the database for writing", err)
	}
	if db.reads, err = gorm.Open(db.dialect.gorm(db.conn.reader), options()); err != nil {
		return db.wrap(ctx, "prepare the database for reading", err)
	}
	if db.conn.listen != nil && db.config.Notified != nil {
		// It ends with Close, not with ctx.
		listen, stop := context.WithCancel(context.WithoutCancel(ctx))
		db.stop = stop
		db.listening.Go(func() { db.conn.listen(listen, db.config.Notified) })
	}
	return nil
}

// Close releases the database. Calls in progress fail with ErrUnavailable.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		db.stop()
		db.listening.Wait()
		var errs []error
		// The writer goes last, so that SQLite can fold its log into the database.
		for _, closer := range []io.Closer{db.conn.reader, db.conn.writer, db.conn.guard} {
			if err := closer.Close(); err != nil {
				errs = append(errs, err)
			}
		}
		db.closeErr = errors.Join(errs...)
	})
	if db.closeErr != nil {
		return fmt.Errorf("close the database: %w", db.closeErr)
	}
	return nil
}

// Dialect returns what statements need to know about the type of the database.
func (db *DB) Dialect() Dialect { return db.dialect }

// Schema returns the version of the schema, which is the number of the last migration.
func (db *DB) Schema() int64 { return db.schema }

// Writer returns GORM on the connection for writing, outside of any transaction and without retries.
func (db *DB) Writer() *gorm.DB { return db.writes }

// Reader returns GORM on the connections for reading, outside of any transaction and without retries.
func (db *DB) Reader() *gorm.DB { return db.reads }

// Ready checks that the database can be read and has the schema of this program.
func (db *DB) Ready(ctx context.Context) error {
	return db.Read(ctx, "check the database", func(tx *gorm.DB) error {
		var version int64
		if err := tx.Raw("SELECT COALESCE(MAX(version_id), 0) FROM " + MigrationTable).Scan(&version).Error; err != nil {
			return err
		}
		if version > db.schema {
			return fmt.Errorf("%w: the database has version %d, this program supports version %d", ErrSchemaTooNew, version, db.schema)
		}
		if version < db.schema {
			return fmt.Errorf("the database schema has version %d, expected version %d", version, db.schema)
		}
		return nil
	})
}
