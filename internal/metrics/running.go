package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// MaxNamespaces is the maximum number of namespaces that have metrics of their own.
	MaxNamespaces = 200
	// MaxOwners is the maximum number of owners that have metrics of their own.
	MaxOwners = 50
	// countsAge is how long counts are shown before they are made again: the Critical findings with a fix are counted one by one.
	countsAge = time.Minute
)

// Running is a collector about the findings of what runs, by namespace or by owner, on the replica that leads.
type Running struct {
	count   func(ctx context.Context, limit int) (map[string]store.RunningCounts, error)
	limit   int
	elected <-chan struct{}
	clock   clock.PassiveClock
	log     logr.Logger

	findings, exploited, fixable, criticalFixable *prometheus.Desc

	mu      sync.Mutex
	counts  map[string]store.RunningCounts
	counted time.Time
}

// NewNamespaces registers the collector about namespaces. It is silent until elected is closed.
func NewNamespaces(registerer prometheus.Registerer, s store.RunningCounter, elected <-chan struct{}, clk clock.PassiveClock, log logr.Logger) error {
	r := newRunning("namespace", "workload_namespace", "images that run in a namespace",
		`; beyond the 200 namespaces with the worst findings, the others as "other"`)
	r.count, r.limit, r.elected, r.clock, r.log = s.FindingsByNamespace, MaxNamespaces, elected, clk, log
	return register(registerer, r)
}

// NewOwners registers the collector about owners. It is silent until elected is closed.
func NewOwners(registerer prometheus.Registerer, s store.RunningCounter, elected <-chan struct{}, clk clock.PassiveClock, log logr.Logger) error {
	r := newRunning("owner", "owner", "images that an owner runs",
		`; "" is for workloads without an owner, and beyond 50 owners the others are "other"`)
	r.count, r.limit, r.elected, r.clock, r.log = s.FindingsByOwner, MaxOwners, elected, clk, log
	return register(registerer, r)
}

func newRunning(group, label, images, bound string) *Running {
	desc := func(name, what string, labels ...string) *prometheus.Desc {
		help := "Findings of the " + images + what + ", each image once, without suppressed ones" + bound + "."
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, group, name), help, append([]string{label}, labels...), nil)
	}
	return &Running{
		findings:        desc("findings", ", by severity", "severity"),
		exploited:       desc("findings_exploited", " that are known to be exploited"),
		fixable:         desc("findings_fixable", " that a newer version of the package fixes"),
		criticalFixable: desc("findings_critical_fixable", " that are Critical and that a newer version of the package fixes"),
	}
}

// Describe implements prometheus.Collector.
func (r *Running) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.findings, r.exploited, r.fixable, r.criticalFixable} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. When the store cannot be read, nothing is shown.
func (r *Running) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-r.elected:
	default:
		return
	}
	for group, c := range r.current() {
		gauge := func(desc *prometheus.Desc, value int, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), append([]string{group}, labels...)...)
		}
		for severity, count := range map[string]int{
			"Critical": c.Critical, "High": c.High, "Medium": c.Medium, "Low": c.Low, "Negligible": c.Negligible, "Unknown": c.Unknown,
		} {
			gauge(r.findings, count, severity)
		}
		gauge(r.exploited, c.KEV)
		gauge(r.fixable, c.Fixable)
		gauge(r.criticalFixable, c.CriticalFixable)
	}
}

// current returns counts that are at most countsAge old.
func (r *Running) current() map[string]store.RunningCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts != nil && r.clock.Since(r.counted) < countsAge {
		return r.counts
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := r.count(ctx, r.limit)
	if err != nil {
		r.log.Error(err, "Failed to count findings for metrics")
		counts = nil
	}
	r.counts, r.counted = counts, r.clock.Now()
	return counts
}
