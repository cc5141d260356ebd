package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

var overdueDesc = prometheus.NewDesc(namespace+"_findings_overdue",
	"Open findings whose due date has passed, each once in each image that runs, by the policy that sets the date and by severity. Counted at least every five minutes.",
	[]string{"policy", "severity"}, nil)

// PolicyStore is what Overdue uses of the store.
type PolicyStore interface {
	store.Policies
	ListPolicies(ctx context.Context, in store.Namespaces) ([]store.PolicySummary, error)
}

// Overdue is a collector about overdue findings, on the replica that leads. Its controller counts through it: counting reads the packages of all images,
// which is too much for each scrape.
type Overdue struct {
	PolicyStore

	mu      sync.Mutex
	counted []store.PolicySummary
}

// NewOverdue registers the collector. It is silent until the first count.
func NewOverdue(registerer prometheus.Registerer, s PolicyStore) (*Overdue, error) {
	o := &Overdue{PolicyStore: s}
	return o, register(registerer, o)
}

// ListPolicies counts what is due, and shows it until the next count. When it fails, nothing is shown.
func (o *Overdue) ListPolicies(ctx context.Context, in store.Namespaces) ([]store.PolicySummary, error) {
	policies, err := o.PolicyStore.ListPolicies(ctx, in)
	if err != nil {
		policies = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counted = policies
	return policies, err
}

// Describe implements prometheus.Collector.
func (o *Overdue) Describe(ch chan<- *prometheus.Desc) { ch <- overdueDesc }

// Collect implements prometheus.Collector. There are six series for each of at most store.MaxPolicies policies.
func (o *Overdue) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.counted {
		c := &o.counted[i].Overdue
		for severity, count := range map[string]int{
			"Critical": c.Critical, "High": c.High, "Medium": c.Medium, "Low": c.Low, "Negligible": c.Negligible, "Unknown": c.Unknown,
		} {
			ch <- prometheus.MustNewConstMetric(overdueDesc, prometheus.GaugeValue, float64(count), o.counted[i].Name, severity)
		}
	}
}
