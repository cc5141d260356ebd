package metrics

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// MaxOwners is the maximum number of owners that have metrics of their own.
const MaxOwners = 50

var (
	ownedFindingsDesc = prometheus.NewDesc(namespace+"_owner_findings",
		`Findings of the images that an owner runs, each image once, by severity. "" is for workloads without an owner, "other" for the owners beyond the limit.`,
		[]string{"owner", "severity"}, nil)
	ownedExploitedDesc = prometheus.NewDesc(namespace+"_owner_findings_exploited",
		"Findings of the images that an owner runs that are known to be exploited.", []string{"owner"}, nil)
	ownedFixableDesc = prometheus.NewDesc(namespace+"_owner_findings_fixable",
		"Findings of the images that an owner runs that a newer version of the package fixes.", []string{"owner"}, nil)
)

// Owners is a collector about the findings of owners, on the replica that leads.
type Owners struct {
	store   store.Owners
	elected <-chan struct{}
	log     logr.Logger
}

// NewOwners registers the collector. It is silent until elected is closed.
func NewOwners(registerer prometheus.Registerer, s store.Owners, elected <-chan struct{}, log logr.Logger) error {
	return register(registerer, &Owners{store: s, elected: elected, log: log})
}

// Describe implements prometheus.Collector.
func (o *Owners) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{ownedFindingsDesc, ownedExploitedDesc, ownedFixableDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. When the store cannot be read, nothing is shown.
func (o *Owners) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-o.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := o.store.FindingsByOwner(ctx, MaxOwners)
	if err != nil {
		o.log.Error(err, "Failed to count findings by owner for metrics")
		return
	}
	for owner, c := range counts {
		gauge := func(desc *prometheus.Desc, value int, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), append([]string{owner}, labels...)...)
		}
		for severity, count := range map[string]int{
			"Critical": c.Critical, "High": c.High, "Medium": c.Medium, "Low": c.Low, "Negligible": c.Negligible, "Unknown": c.Unknown,
		} {
			gauge(ownedFindingsDesc, count, severity)
		}
		gauge(ownedExploitedDesc, c.KEV)
		gauge(ownedFixableDesc, c.Fixable)
	}
}
