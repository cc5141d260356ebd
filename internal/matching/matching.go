// Package matching joins matching with the store: it takes in SBOMs, and keeps what the store says of every package true to the
// vulnerability database in use. It pulls nothing: a new database is matched against what the SBOMs held.
//
// The unit of work is the distinct package. A new image costs the packages that no image had before; a new database those
// that its difference to the one before can touch. Packages are matched in batches, so memory does not grow with the
// number of images or packages.
package matching

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

const (
	// batchPackages is how many packages are matched and saved at a time. Together with the caches of an open database it
	// bounds the memory that matching takes.
	batchPackages = 200
	// batchImages is how many new images are taken on between two batches of a re-match, so that neither waits for the other.
	batchImages = 50
	// pageSize is how many rows are read at a time when all packages or vulnerabilities are passed over.
	pageSize = 5000

	// retryAfter is when work is looked for that no signal told of.
	retryAfter = time.Minute
	// storeRetry is when work goes on after the store or the vulnerability database failed. What concerns one image only waits twice as long each time, up to
	// retryAfter.
	storeRetry = 5 * time.Second
	// maxFailure bounds the text of the failure of a package in bytes.
	maxFailure = 1 << 10
	// DefaultRetention is how long history is kept when nothing else is asked for.
	DefaultRetention = 90 * 24 * time.Hour
	// DefaultDecisionRetention is how long decisions that have ended are kept when nothing else is asked for: two years, since auditors ask about the year before.
	DefaultDecisionRetention = 2 * 365 * 24 * time.Hour
	// pruneInterval is how often the store is pruned when no database changes.
	pruneInterval = time.Hour
	// firstRetry is when a package whose matching failed is matched again: that time doubles up to retryFailedAfter, which is how often all of them are.
	firstRetry       = 30 * time.Second
	retryFailedAfter = 10 * time.Minute
	// maxRetries is the maximum number of packages that are matched again before that, and of images that were passed over.
	maxRetries = 1000
	// rereadInterval is how often SBOMs are looked for that another version of the program read, and fixes are computed that it left out.
	rereadInterval = time.Hour
	// recordInterval is how often the sums of the day are recorded when no database changes.
	recordInterval = time.Minute
)

// Store is what matching needs of the store.
type Store interface {
	store.ResultSets
	store.Lifecycles
	RecordDay(ctx context.Context) error
	SaveSBOM(ctx context.Context, key model.ImageKey, sbom store.SBOM, catalog model.Catalog) error
	SBOM(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.SBOM, error)
	SaveReport(ctx context.Context, may store.Namespaces, imageID string, report store.Report) error
	SaveTagLookup(ctx context.Context, job string, result store.TagResult) error
	UnmatchedTagImages(ctx context.Context, resultSet int64, limit int) ([]string, error)
	TagImageSBOM(ctx context.Context, id string) (store.SBOM, error)
	SaveTagFindings(ctx context.Context, id, sbomSHA256 string, resultSet int64, found store.TagFindings) error
	CompareNewerTags(ctx context.Context) (more bool, err error)
}

// Library holds the installed vulnerability databases.
type Library interface {
	// Current is the build to match with; false when there is none yet.
	Current() (vulndb.Installed, bool)
	// Installed finds a build that is still on disk.
	Installed(buildID string) (vulndb.Installed, bool)
	// Changed signals that Current or RematchRequest answers something new.
	Changed() <-chan struct{}
	// RematchRequest tells whether somebody wants the packages matched again though the database is the same: all of them, or
	// those that failed.
	RematchRequest() (full, pending bool)
	// ClearRematchRequest forgets the request that RematchRequest told of.
	ClearRematchRequest() error
}

// Observer is told what was done, for metrics. Its methods must return at once.
type Observer interface {
	PackagesMatched(n int)
	// Rematched tells of a result set that became current, and how long that took since it was started or resumed.
	Rematched(resultSet store.ResultSet, took time.Duration)
}

// Matcher takes in SBOMs and matches them.
type Matcher struct {
	// Retention is how long findings that closed, what result sets changed, and where images ran are kept; New sets DefaultRetention. It
	// must not change once Run was called.
	Retention time.Duration
	// DecisionRetention is how long decisions about findings are kept after their end; New sets DefaultDecisionRetention. It must not change once Run was called.
	DecisionRetention time.Duration
	// MissingChanged is called when Missing returns something new, unless it is nil. It must not change once Run was called.
	MissingChanged func()
	// Tracer records traces of what is matched and taken in; New sets one that records none. It must not change once Run was called.
	Tracer trace.Tracer

	// decodes hands out decodeMemory bytes to documents that are decoded; patience is how long one waits for them.
	decodes      *semaphore.Weighted
	decodeMemory int64
	patience     time.Duration

	store    Store
	library  Library
	observer Observer
	clock    clock.Clock
	log      logr.Logger
	wake     chan struct{}

	mu    sync.RWMutex
	build *model.DatabaseBuild
	// missing is what Missing returns.
	missing missing
}

// New returns a Matcher; Run has to be called for anything to be matched.
func New(s Store, library Library, observer Observer, clk clock.Clock, log logr.Logger) *Matcher {
	a := &Matcher{
		Retention: DefaultRetention, DecisionRetention: DefaultDecisionRetention, patience: decodePatience, Tracer: noop.NewTracerProvider().Tracer(""),
		store: s, library: library, observer: observer, clock: clk, log: log, wake: make(chan struct{}, 1),
	}
	a.LimitDecoding(DefaultDecodeMemory)
	return a
}

// Build returns the database build that the visible findings come from, as of the last Refresh; false when there are none.
func (a *Matcher) Build() (model.DatabaseBuild, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.build == nil {
		return model.DatabaseBuild{}, false
	}
	return *a.build, true
}

// Refresh reads from the store which build is in use. Run does so itself; replicas that do not run call it when the store tells
// of another database.
func (a *Matcher) Refresh(ctx context.Context) error {
	current, found, err := a.store.CurrentResultSet(ctx)
	if err != nil {
		return fmt.Errorf("read the vulnerability database in use: %w", err)
	}
	if found {
		a.use(current)
	}
	return nil
}

func (a *Matcher) use(current store.ResultSet) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.build = &current.Build
}

// Wake makes Run look for work.
func (a *Matcher) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}
