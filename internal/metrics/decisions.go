package metrics

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxDecisionSources is the maximum number of sources of decisions that have series of their own.
	maxDecisionSources = 20
	// otherSources is the label of the sources beyond.
	otherSources = "other"
	// decisionsExpireSoon is how far ahead the end of decisions is that are counted as expiring.
	decisionsExpireSoon = 7 * 24 * time.Hour
)

var (
	decisionsDesc = prometheus.NewDesc(namespace+"_decisions",
		"Decisions about findings that are in effect, by source and status; beyond 20 sources, the others as other.", []string{"source", "status"}, nil)
	decisionsExpiringDesc = prometheus.NewDesc(namespace+"_decisions_expiring",
		"Decisions in effect that expire within 7 days.", nil, nil)
	decisionProblemsDesc = prometheus.NewDesc(namespace+"_decisions_not_applied",
		"Exceptions and sources of VEX documents that are not in effect, by reason.", []string{"reason"}, nil)
	suppressedDesc = prometheus.NewDesc(namespace+"_findings_suppressed",
		"Findings that decisions suppress. Each vulnerability of a package is counted once per image.", nil, nil)
)

// decisionReasons have a series each, also at 0.
var decisionReasons = []store.DecisionReason{store.DecisionExpired, store.DecisionInvalid, store.DecisionTooBroad, store.DecisionTooMany}

// DecisionStore is what Decisions uses of the store.
type DecisionStore interface {
	store.Decisions
	store.DecisionCounter
}

// Decisions is a collector about decisions, on the replica that leads. Controllers apply decisions through it, so that it sees which are not
// applied.
type Decisions struct {
	DecisionStore
	elected <-chan struct{}
	log     logr.Logger

	mu sync.Mutex
	// problems counts the decisions of each source that the last call did not apply, by reason, and refused the exceptions that no call had.
	problems map[string]map[store.DecisionReason]int
	refused  map[store.DecisionReason]int
}

// NewDecisions registers the collector. It is silent until elected is closed.
func NewDecisions(registerer prometheus.Registerer, s DecisionStore, elected <-chan struct{}, log logr.Logger) (*Decisions, error) {
	d := &Decisions{DecisionStore: s, elected: elected, log: log, problems: map[string]map[store.DecisionReason]int{}}
	return d, register(registerer, d)
}

// SyncDecisions implements store.Decisions.
func (d *Decisions) SyncDecisions(ctx context.Context, source string, decisions []store.Decision) (map[store.DecisionObject]store.DecisionProblem, error) {
	problems, err := d.DecisionStore.SyncDecisions(ctx, source, decisions)
	if err != nil {
		return problems, err
	}
	counts := map[store.DecisionReason]int{}
	for _, problem := range problems {
		counts[problem.Reason]++
	}
	d.NotApplied(source, counts)
	return problems, nil
}

// NotApplied notes how many decisions of a source are not applied, by reason. For VEX documents, these are sources of documents.
func (d *Decisions) NotApplied(source string, problems map[store.DecisionReason]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.problems[source] = problems; len(problems) == 0 {
		delete(d.problems, source)
	}
}

// Refused takes how many exceptions the controller does not apply, by reason.
func (d *Decisions) Refused(counts map[store.DecisionReason]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = counts
}

// Describe implements prometheus.Collector.
func (d *Decisions) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{decisionsDesc, decisionsExpiringDesc, decisionProblemsDesc, suppressedDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. When the store cannot be read, nothing is shown.
func (d *Decisions) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-d.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	sums, err := d.DecisionSums(ctx, decisionsExpireSoon)
	if err != nil {
		d.log.Error(err, "Failed to sum up decisions for metrics")
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for group, count := range boundSources(sums.Standing) {
		gauge(decisionsDesc, count, strings.ToValidUTF8(group.Source, ""), string(group.Status))
	}
	gauge(decisionsExpiringDesc, sums.Expiring)
	gauge(suppressedDesc, sums.Suppressed)
	for reason, count := range d.notApplied() {
		gauge(decisionProblemsDesc, count, string(reason))
	}
}

// notApplied counts the decisions that are not applied, of all sources.
func (d *Decisions) notApplied() map[store.DecisionReason]int {
	counts := map[store.DecisionReason]int{}
	for _, reason := range decisionReasons {
		counts[reason] = 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, problems := range d.problems {
		for reason, count := range problems {
			counts[reason] += count
		}
	}
	for reason, count := range d.refused {
		counts[reason] += count
	}
	return counts
}

// boundSources keeps the sources with the most decisions, and counts the others together. Objects of the cluster are always kept.
func boundSources(standing map[store.DecisionGroup]int) map[store.DecisionGroup]int {
	sizes := map[string]int{}
	for group, count := range standing {
		sizes[group.Source] += count
	}
	if _, found := sizes[store.DecisionSourceKubernetes]; found {
		sizes[store.DecisionSourceKubernetes] = math.MaxInt
	}
	sources := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b)) })
	kept := map[string]bool{}
	for _, source := range sources[:min(len(sources), maxDecisionSources)] {
		kept[source] = true
	}
	bounded := map[store.DecisionGroup]int{}
	for group, count := range standing {
		if !kept[group.Source] {
			group.Source = otherSources
		}
		bounded[group] += count
	}
	return bounded
}
