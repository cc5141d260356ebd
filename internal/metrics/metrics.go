// Package metrics tells Prometheus about vulnerability databases and matching.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

const (
	namespace = "scanner_operator"
	// scrapeTimeout bounds what a scrape waits for the store.
	scrapeTimeout = 5 * time.Second
)

// Matching counts what matching does. It implements matching.Observer.
type Matching struct {
	packages prometheus.Counter
	rematch  *prometheus.HistogramVec
	changes  *prometheus.CounterVec
	critical prometheus.Counter
	kev      prometheus.Counter
}

// NewMatching registers the metrics.
func NewMatching(registerer prometheus.Registerer) (*Matching, error) {
	m := &Matching{
		packages: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "packages_matched_total", Help: "Packages that were matched with a vulnerability database.",
		}),
		rematch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "rematch_duration_seconds",
			Help:    "Duration of re-matches from their start, or from their continuation after a restart, until their findings were visible.",
			Buckets: prometheus.ExponentialBuckets(0.5, 2, 12),
		}, []string{"full"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "finding_changes_total",
			Help: "Findings of packages that a new vulnerability database opened, closed or changed.",
		}, []string{"kind"}),
		critical: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "findings_opened_critical_total", Help: "Critical findings of packages that a new vulnerability database opened.",
		}),
		kev: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "findings_newly_exploited_total",
			Help: "Findings of packages that a new vulnerability database marks as known to be exploited.",
		}),
	}
	for _, kind := range []store.ChangeKind{store.ChangeOpened, store.ChangeClosed, store.ChangeChanged} {
		m.changes.WithLabelValues(string(kind))
	}
	return m, register(registerer, m.packages, m.rematch, m.changes, m.critical, m.kev)
}

// PackagesMatched counts packages.
func (m *Matching) PackagesMatched(n int) { m.packages.Add(float64(n)) }

// Rematched tells of a result set that became current.
func (m *Matching) Rematched(resultSet store.ResultSet, took time.Duration) {
	m.rematch.WithLabelValues(strconv.FormatBool(resultSet.Full)).Observe(took.Seconds())
	c := resultSet.Changes
	m.changes.WithLabelValues(string(store.ChangeOpened)).Add(float64(c.Opened))
	m.changes.WithLabelValues(string(store.ChangeClosed)).Add(float64(c.Closed))
	m.changes.WithLabelValues(string(store.ChangeChanged)).Add(float64(c.Changed))
	m.critical.Add(float64(c.OpenedCritical))
	m.kev.Add(float64(c.NewKEV))
}

// register replaces collectors of the same kind: the last operator of a process is the one that tells.
func register(registerer prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		err := registerer.Register(c)
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			registerer.Unregister(already.ExistingCollector)
			err = registerer.Register(c)
		}
		if err != nil {
			return fmt.Errorf("register a metric: %w", err)
		}
	}
	return nil
}

// ResultSets is what Databases reads of the store.
type ResultSets interface {
	CurrentResultSet(ctx context.Context) (store.ResultSet, bool, error)
	NextResultSet(ctx context.Context) (store.ResultSet, bool, error)
}

// Library is what Databases reads of the installed vulnerability databases.
type Library interface {
	Status() vulndb.Status
}

var (
	infoDesc = prometheus.NewDesc(namespace+"_database_info",
		"The vulnerability database in use.", []string{"build", "source", "schema"}, nil)
	builtDesc = prometheus.NewDesc(namespace+"_database_built_timestamp_seconds",
		"When the vulnerability database in use was built, in seconds since 1970.", nil, nil)
	checkedDesc = prometheus.NewDesc(namespace+"_database_checked_timestamp_seconds",
		"When the last check for a newer vulnerability database completed, in seconds since 1970; 0: never.", nil, nil)
	failedDesc = prometheus.NewDesc(namespace+"_database_check_failed",
		"1 if the last check for a newer vulnerability database failed, 0 otherwise.", nil, nil)
	packagesDesc = prometheus.NewDesc(namespace+"_rematch_packages",
		"Packages that the running re-match has to match (queued) and has matched (matched); 0 when none runs.", []string{"state"}, nil)
)

// Databases is a collector about the vulnerability database in use and the re-match under way.
type Databases struct {
	store   ResultSets
	library Library
	log     logr.Logger
}

// NewDatabases registers the collector.
func NewDatabases(registerer prometheus.Registerer, s ResultSets, library Library, log logr.Logger) error {
	return register(registerer, &Databases{store: s, library: library, log: log})
}

// Describe implements prometheus.Collector.
func (d *Databases) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{infoDesc, builtDesc, checkedDesc, failedDesc, packagesDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. When the store cannot be read, what it would tell is missing.
func (d *Databases) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	status := d.library.Status()
	gauge(checkedDesc, seconds(status.LastCheck))
	failed := 0.0
	if status.LastError != nil {
		failed = 1
	}
	gauge(failedDesc, failed)

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	current, found, err := d.store.CurrentResultSet(ctx)
	if err != nil {
		d.log.Error(err, "Failed to read the current result set for metrics")
		return
	}
	if found {
		gauge(infoDesc, 1, current.Build.ID, string(current.Build.Source), current.Build.SchemaVersion)
		gauge(builtDesc, seconds(current.Build.Built))
	}
	next, _, err := d.store.NextResultSet(ctx)
	if err != nil {
		d.log.Error(err, "Failed to read the next result set for metrics")
		return
	}
	gauge(packagesDesc, float64(next.Queued), "queued")
	gauge(packagesDesc, float64(next.Matched), "matched")
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
