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
	"sync/atomic"
	"time"

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
	// Wait makes Open succeed while a database server is not available. All calls fail with ErrUnavailable until it was reached and migrated in the
	// background, and Notified is called then. Writer, Reader and Schema must not be called before.
	Wait bool
}

// reconnect is how often a database is tried that has not been available yet.
const reconnect = 5 * time.Second

// DB is a database. Its methods are safe for concurrent use.
type DB struct {
	dialect dialect
	config  Config
	// session is nil until the database was available for the first time.
	session atomic.Pointer[session]
	// missing is why there is no session yet.
	missing atomic.Pointer[error]
	// stop ends what runs in the background, which running waits for.
	stop    context.CancelFunc
	running sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// session is what there is once the database was reached: connections, and a schema that is up to date.
type session struct {
	connection
	// writes and reads are GORM on the two pools.
	writes, reads *gorm.DB
	schema        int64
}

// Open connects to the database and applies the migrations that are missing. The error is ErrSchemaTooNew when a newer version
// of the program has migrated the database.
func Open(ctx context.Context, config Config) (*DB, error) {
	d, err := dialectOf(config.Type)
	if err != nil {
		return nil, err
	}
	// The background ends with Close, not with ctx.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	db := &DB{dialect: d, config: config, stop: stop}
	switch err := db.connect(ctx, background); {
	case err == nil:
	case config.Wait && errors.Is(err, ErrUnavailable) && ctx.Err() == nil:
		config.Log.Error(err, "The database is not available; the operator keeps trying")
		db.missing.Store(&err)
		db.running.Go(func() { db.keepConnecting(background) })
	default:
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// connect opens the connections and migrates the database. What it starts ends with background.
func (db *DB) connect(ctx, background context.Context) error {
	conn, err := db.dialect.open(ctx, db.config)
	if err != nil {
		if db.classify(err) == errorLost {
			return fmt.Errorf("open the database: %w: %w", ErrUnavailable, err)
		}
		return fmt.Errorf("open the database: %w", err)
	}
	s := &session{connection: conn}
	if err := db.prepare(ctx, s); err != nil {
		return errors.Join(err, conn.close())
	}
	db.session.Store(s)
	if conn.listen != nil && db.config.Notified != nil {
		db.running.Go(func() { conn.listen(background, db.config.Notified) })
	}
	return nil
}

func (db *DB) prepare(ctx context.Context, s *session) error {
	var err error
	if s.schema, err = db.migrate(ctx, s.writer); err != nil {
		return err
	}
	options := func() *gorm.Config {
		return &gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard}
	}
	if s.writes, err = gorm.Open(db.dialect.gorm(s.writer), options()); err != nil {
		return db.wrap(ctx, "prepare the database for writing", err)
	}
	if s.reads, err = gorm.Open(db.dialect.gorm(s.reader), options()); err != nil {
		return db.wrap(ctx, "prepare the database for reading", err)
	}
	return nil
}

// keepConnecting tries again until the database is available. It logs each reason once.
func (db *DB) keepConnecting(ctx context.Context) {
	ticker := time.NewTicker(reconnect)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := db.connect(ctx, ctx)
		if err == nil {
			db.config.Log.Info("The database is available")
			if db.config.Notified != nil {
				db.config.Notified()
			}
			return
		}
		if before := db.missing.Swap(&err); ctx.Err() == nil && (*before).Error() != err.Error() {
			db.config.Log.Error(err, "The database is not available; the operator keeps trying")
		}
	}
}

// current returns the session, or ErrUnavailable while the database has not been reached yet.
func (db *DB) current() (*session, error) {
	if s := db.session.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w since the start of the program: %w", ErrUnavailable, *db.missing.Load())
}

// close closes the connections. The writer goes last, so that SQLite can fold its log into the database.
func (c connection) close() error {
	var errs []error
	for _, closer := range []io.Closer{c.reader, c.writer, c.guard} {
		if err := closer.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close releases the database. Calls in progress fail with ErrUnavailable.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		db.stop()
		db.running.Wait()
		if s := db.session.Load(); s != nil {
			db.closeErr = s.close()
		}
	})
	if db.closeErr != nil {
		return fmt.Errorf("close the database: %w", db.closeErr)
	}
	return nil
}

// Dialect returns what statements need to know about the type of the database.
func (db *DB) Dialect() Dialect { return db.dialect }

// Schema returns the version of the schema, which is the number of the last migration. The database must have been available.
func (db *DB) Schema() int64 { return db.session.Load().schema }

// Writer returns GORM on the connection for writing, outside of any transaction and without retries. The database must have been available.
func (db *DB) Writer() *gorm.DB { return db.session.Load().writes }

// Reader returns GORM on the connections for reading, outside of any transaction and without retries. The database must have been available.
func (db *DB) Reader() *gorm.DB { return db.session.Load().reads }

// Ready checks that the database can be read and has the schema of this program.
func (db *DB) Ready(ctx context.Context) error {
	return db.Read(ctx, "check the database", func(tx *gorm.DB) error {
		var version int64
		if err := tx.Raw("SELECT COALESCE(MAX(version_id), 0) FROM " + MigrationTable).Scan(&version).Error; err != nil {
			return err
		}
		switch expected := db.Schema(); {
		case version > expected:
			return fmt.Errorf("%w: the database has version %d, this program supports version %d", ErrSchemaTooNew, version, expected)
		case version < expected:
			return fmt.Errorf("the database schema has version %d, expected version %d", version, expected)
		}
		return nil
	})
}
