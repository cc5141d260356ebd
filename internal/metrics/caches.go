package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var cacheAgeDesc = prometheus.NewDesc(namespace+"_cache_age_seconds",
	"Time since the last data on the watches of a resource, in seconds. The API server sends data about once per minute.",
	[]string{"resource"}, nil)

// Caches shows how the operator's caches are fed.
type Caches struct {
	heard  func() map[string]time.Duration
	events *prometheus.CounterVec
}

// NewCaches registers the metrics. heard returns how long ago something was heard of each resource.
func NewCaches(registerer prometheus.Registerer, heard func() map[string]time.Duration) (*Caches, error) {
	c := &Caches{heard: heard, events: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "informer_events_total", Help: "Events that informers delivered, by kind of object and of event.",
	}, []string{"kind", "event"})}
	return c, register(registerer, c, c.events)
}

// Delivered counts an event.
func (c *Caches) Delivered(kind, event string) { c.events.WithLabelValues(kind, event).Inc() }

// Describe implements prometheus.Collector.
func (c *Caches) Describe(ch chan<- *prometheus.Desc) { ch <- cacheAgeDesc }

// Collect implements prometheus.Collector.
func (c *Caches) Collect(ch chan<- prometheus.Metric) {
	for resource, age := range c.heard() {
		ch <- prometheus.MustNewConstMetric(cacheAgeDesc, prometheus.GaugeValue, age.Seconds(), resource)
	}
}
