package metrics

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

var sizeDesc = prometheus.NewDesc(namespace+"_sql_database_size_bytes",
	"Size of the tables and indexes in the SQL database, with the space that is free in them. For SQLite it is the size of the file.", nil, nil)

// Size is a collector about the size of the SQL database.
type Size struct {
	store store.Sizer
	log   logr.Logger
}

// NewSize registers the collector.
func NewSize(registerer prometheus.Registerer, s store.Sizer, log logr.Logger) error {
	return register(registerer, &Size{store: s, log: log})
}

// Describe implements prometheus.Collector.
func (s *Size) Describe(ch chan<- *prometheus.Desc) { ch <- sizeDesc }

// Collect implements prometheus.Collector. When the store cannot be read, the size is missing.
func (s *Size) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	size, err := s.store.DatabaseSize(ctx)
	if err != nil {
		s.log.Error(err, "Failed to measure the SQL database for metrics")
		return
	}
	ch <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(size))
}
