package metrics

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

var overdueDesc = prometheus.NewDesc(namespace+"_findings_overdue",
	"Open findings whose due date has passed, each once in each image that runs, by the policy that sets the date and by severity.",
	[]string{"policy", "severity"}, nil)

// PolicyLister is what Overdue reads of the store.
type PolicyLister interface {
	ListPolicies(ctx context.Context, in store.Namespaces) ([]store.PolicySummary, error)
}

// Overdue is a collector about overdue findings, on the replica that leads.
type Overdue struct {
	store   PolicyLister
	elected <-chan struct{}
	log     logr.Logger
}

// NewOverdue registers the collector. It is silent until elected is closed.
func NewOverdue(registerer prometheus.Registerer, s PolicyLister, elected <-chan struct{}, log logr.Logger) error {
	return register(registerer, &Overdue{store: s, elected: elected, log: log})
}

// Describe implements prometheus.Collector.
func (o *Overdue) Describe(ch chan<- *prometheus.Desc) { ch <- overdueDesc }

// Collect implements prometheus.Collector. There are six series for each of at most store.MaxPolicies policies. When the store cannot be
// read, nothing is shown.
func (o *Overdue) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-o.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	policies, err := o.store.ListPolicies(ctx, store.AllNamespaces())
	if err != nil {
		o.log.Error(err, "Failed to count overdue findings for metrics")
		return
	}
	for i := range policies {
		c := &policies[i].Overdue
		for severity, count := range map[string]int{
			"Critical": c.Critical, "High": c.High, "Medium": c.Medium, "Low": c.Low, "Negligible": c.Negligible, "Unknown": c.Unknown,
		} {
			ch <- prometheus.MustNewConstMetric(overdueDesc, prometheus.GaugeValue, float64(count), policies[i].Name, severity)
		}
	}
}
