// Package sqlstore is the store on an SQL database. Transactions, connections and dialects are those of package sqldb; the schema
// is in numbered migrations that are applied on Open. What rows refer to by a number of a result set is in columns named after
// result sets, which is what the schema calls result sets.
package sqlstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// migrationFiles has a directory for each type of database.
//
//go:embed migrations/*/*.sql
var migrationFiles embed.FS

// migrations is migrationFiles as sqldb.Config expects it.
func migrations() (fs.FS, error) { return fs.Sub(migrationFiles, "migrations") }

// Config says which database to open.
type Config struct {
	// Type is the type of the database: sqldb.TypeSQLite, sqldb.TypePostgres or sqldb.TypeMySQL. "" is sqldb.TypeSQLite.
	Type string
	// DSN says where the database is; see sqldb.Config. It is never logged.
	DSN string
	// Log receives messages about the database as a whole, such as migrations, and about rows that cannot be read. The zero value discards.
	Log logr.Logger
	// Clock gives the times that are stored; nil is the real one.
	Clock clock.PassiveClock
	// MaxOpenConns limits the connections to the database, at least 2; 0 is the default of the type. With PostgreSQL one more
	// connection listens for notifications.
	MaxOpenConns int
	// Wait makes Open succeed while a database server is not available: see sqldb.Config.
	Wait bool
	// Cluster names the cluster in the history of running images; it may be empty. At most 255 bytes.
	Cluster string
	// BaseImages are patterns of base images, as of decision.ParseImagePattern; at most store.MaxListedBases.
	BaseImages []string
	// Rules evaluates the rules of VEX statements. Without it, SyncVEX fails, and rules that are stored match nothing that is found.
	Rules decision.Rules
}

// Store implements store.Store.
type Store struct {
	db      *sqldb.DB
	clock   clock.PassiveClock
	log     logr.Logger
	cluster string
	// matchBounds are those of the package store, but in tests.
	matchBounds matchBounds
	// matcherVersion is decision.MatcherVersion, but in tests.
	matcherVersion int64
	// refused has the digests of the decisions there was no room for. It only saves work: what it has forgotten is looked up again. existing has the objects that exist.
	refused  bySource[string]
	existing bySource[bool]
	// policyRows is store.MaxPolicyRows, but in tests.
	policyRows int
	// These are the bounds of this package with these names, but in tests.
	fewImages, fewUpdates, manyPackages, fewChosen, lackPart int
	keptNumbers, fewVisible, maxSteps                        int
	holdersPerImage, maxClasses, firstOwn                    int
	listedChanges                                            int
	encoder                                                  *zstd.Encoder
	decoder                                                  *zstd.Decoder
	rules                                                    decision.Rules
	bases                                                    listedBases

	suppressed suppressedCount

	mu      sync.Mutex
	changed chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open connects to the database, brings its schema up to date and returns the store. The error is store.ErrSchemaTooNew
// when a newer version of this program has migrated the database, and says what to do when another process uses an
// sqlite database.
func Open(ctx context.Context, config Config) (*Store, error) {
	s := &Store{
		clock: config.Clock, log: config.Log, cluster: sqldb.Truncate(config.Cluster, maxIdentifier), changed: make(chan struct{}),
		rules: config.Rules, policyRows: store.MaxPolicyRows, fewImages: fewImages, fewUpdates: fewUpdates, manyPackages: manyPackages, fewChosen: fewChosen, lackPart: lackPart,
		keptNumbers: keptNumbers, fewVisible: fewVisible, maxSteps: maxSteps, holdersPerImage: holdersPerImage, maxClasses: maxClasses, firstOwn: firstOwn, listedChanges: listedChanges,
		matcherVersion: decision.MatcherVersion,
		matchBounds: matchBounds{
			one: store.MaxDecisionMatches, all: store.MaxAllDecisionMatches, namespace: store.MaxNamespaceMatches, namespaced: store.MaxNamespacedMatches,
			joined: store.MaxJoinedReaches, namespacedJoined: store.MaxNamespacedJoinedReaches, namespaceJoined: store.MaxNamespaceJoinedReaches,
			alwaysNamespace: store.AlwaysNamespaceMatches, alwaysCluster: store.AlwaysClusterMatches, decisions: store.MaxDecisions, images: store.MaxReachedImages,
		},
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	var err error
	if s.bases, err = newListedBases(config.BaseImages); err != nil {
		return nil, err
	}
	// One goroutine each: EncodeAll and DecodeAll run in the caller's.
	if s.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)); err != nil {
		return nil, fmt.Errorf("prepare compression: %w", err)
	}
	if s.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxReportSize)); err != nil {
		return nil, fmt.Errorf("prepare decompression: %w", err)
	}
	files, err := migrations()
	if err != nil {
		s.decoder.Close()
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	s.db, err = sqldb.Open(ctx, sqldb.Config{
		Type: config.Type, DSN: config.DSN, Migrations: files, Log: config.Log, MaxOpenConns: config.MaxOpenConns,
		Self: newNonce(), Notified: s.announce, Wait: config.Wait,
	})
	if err != nil {
		s.decoder.Close()
		return nil, storeError(err)
	}
	return s, nil
}

// Close releases the database. Calls in progress fail with store.ErrUnavailable.
func (s *Store) Close() error {
	err := s.db.Close()
	s.decoder.Close()
	return err
}

// Ready implements store.Store.
func (s *Store) Ready(ctx context.Context) error { return storeError(s.db.Ready(ctx)) }

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

// storeError adds the sentinel of package store that corresponds to the one of sqldb in an error. The message stays the same.
func storeError(err error) error {
	switch {
	case errors.Is(err, sqldb.ErrSchemaTooNew):
		return &translatedError{error: err, sentinel: store.ErrSchemaTooNew}
	case errors.Is(err, sqldb.ErrUnavailable):
		return &translatedError{error: err, sentinel: store.ErrUnavailable}
	default:
		return err
	}
}

// translatedError is an error of sqldb with a sentinel of package store.
type translatedError struct {
	error
	sentinel error
}

func (e *translatedError) Unwrap() []error { return []error{e.error, e.sentinel} }

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
