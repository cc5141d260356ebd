// Package sqlstore is the store on an SQL database. GORM builds statements and scans rows, nothing else of it is used;
// the schema is in numbered migrations that are applied on Open. What differs between databases is in one small file for
// each.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The types of databases.
const (
	// TypeSQLite is a database in a file, for one process.
	TypeSQLite = "sqlite"
	// TypePostgres is a PostgreSQL server, TypeMySQL one of MySQL or MariaDB. Both serve any number of processes.
	TypePostgres = "postgres"
	TypeMySQL    = "mysql"
)

// Config says which database to open.
type Config struct {
	// Type names the kind of database, "" for TypeSQLite.
	Type string
	// DSN is, for sqlite, the path of the file or a "file:" URI; the directory is created when it is missing. For postgres it is a
	// "postgres://" URL or a list of keyword=value, for mysql "user:password@tcp(host:port)/database". It is never logged.
	DSN string
	// Log receives what happens to the database as a whole, such as migrations. The zero value discards.
	Log logr.Logger
	// Clock gives the times that are stored; nil is the real one.
	Clock clock.PassiveClock
	// MaxOpenConns bounds the connections to the database, at least 2; 0 is a default that suits the type. One more listens on
	// postgres.
	MaxOpenConns int
	// Cluster names the cluster whose images run, in what is kept of when they ran; it may be empty. At most 255 bytes.
	Cluster string
}

// Store implements store.Store.
type Store struct {
	dialect dialect
	conn    connection
	// writes and reads are GORM on the two pools.
	writes, reads *gorm.DB
	schema        int64
	log           logr.Logger
	clock         clock.PassiveClock
	cluster       string
	encoder       *zstd.Encoder
	decoder       *zstd.Decoder
	// self names this store among those that use the database.
	self string
	// stop ends the listener, which listening waits for.
	stop      context.CancelFunc
	listening sync.WaitGroup

	closeOnce sync.Once
	closeErr  error

	mu      sync.Mutex
	changed chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open connects to the database, brings its schema up to date and returns the store. The error is store.ErrSchemaTooNew
// when a newer version of this program has been there before, and says what to do when another process holds an
// sqlite database.
func Open(ctx context.Context, config Config) (*Store, error) {
	d, err := dialectOf(config.Type)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: d, log: config.Log, clock: config.Clock, cluster: cut(config.Cluster, maxIdentifier), changed: make(chan struct{}), self: newNonce(), stop: func() {}}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.conn, err = d.open(ctx, config, s.self); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) start(ctx context.Context) error {
	var err error
	if s.schema, err = s.migrate(ctx); err != nil {
		return err
	}
	options := func() *gorm.Config {
		return &gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard}
	}
	if s.writes, err = gorm.Open(s.dialect.gorm(s.conn.writer), options()); err != nil {
		return s.wrap(ctx, "prepare the database for writing", err)
	}
	if s.reads, err = gorm.Open(s.dialect.gorm(s.conn.reader), options()); err != nil {
		return s.wrap(ctx, "prepare the database for reading", err)
	}
	// One goroutine each: EncodeAll and DecodeAll run in the caller's.
	if s.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)); err != nil {
		return fmt.Errorf("prepare compression: %w", err)
	}
	s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxReportSize))
	if err != nil {
		return fmt.Errorf("prepare decompression: %w", err)
	}
	if s.conn.listen != nil {
		// It ends with Close, not with ctx.
		listen, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.stop = stop
		s.listening.Go(func() { s.conn.listen(listen, s.announce) })
	}
	return nil
}

// Close releases the database. Calls that are under way fail with store.ErrUnavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.listening.Wait()
		if s.decoder != nil {
			s.decoder.Close()
		}
		var errs []error
		// The writer goes last, so that SQLite can fold its log into the database.
		for _, closer := range []io.Closer{s.conn.reader, s.conn.writer, s.conn.guard} {
			if err := closer.Close(); err != nil {
				errs = append(errs, err)
			}
		}
		s.closeErr = errors.Join(errs...)
	})
	if s.closeErr != nil {
		return fmt.Errorf("close the database: %w", s.closeErr)
	}
	return nil
}

// Ready implements store.Store.
func (s *Store) Ready(ctx context.Context) error {
	return s.read(ctx, "check the database", func(tx *gorm.DB) error {
		var version int64
		if err := tx.Raw("SELECT COALESCE(MAX(version_id), 0) FROM " + migrationTable).Scan(&version).Error; err != nil {
			return err
		}
		if version > s.schema {
			return fmt.Errorf("%w: it has version %d, this program knows %d", store.ErrSchemaTooNew, version, s.schema)
		}
		if version < s.schema {
			return fmt.Errorf("the schema has version %d, not %d", version, s.schema)
		}
		return nil
	})
}

// Changed implements store.Events.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) now() int64 { return micros(s.clock.Now()) }

// micros is a time as it is stored; 0 stands for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
