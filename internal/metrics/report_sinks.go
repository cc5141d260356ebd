package metrics

import "github.com/prometheus/client_golang/prometheus"

// ReportSinks are the metrics about reports that are delivered to other systems. It implements sinks.Observer.
type ReportSinks struct {
	deliveries                 *prometheus.CounterVec
	pending, failed, unplanned prometheus.Gauge
}

// NewReportSinks registers the metrics.
func NewReportSinks(registerer prometheus.Registerer) (*ReportSinks, error) {
	s := &ReportSinks{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: namespace + "_report_deliveries_total",
			Help: "Attempts to deliver reports to ReportSinks, by type of sink and result: delivered, unchanged (nothing had to be sent), removed or failed (tried again later).",
		}, []string{"sink", "result"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: namespace + "_report_sink_items_pending", Help: "Items of ReportSinks that are still to be delivered or removed.",
		}),
		failed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: namespace + "_report_sink_items_failed", Help: "Items of ReportSinks that are still to be delivered or removed and whose last attempt failed.",
		}),
		unplanned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: namespace + "_report_sinks_unplanned", Help: "ReportSinks of which it could not be determined what has to be delivered: the SQL database gave an error.",
		}),
	}
	return s, register(registerer, s.deliveries, s.pending, s.failed, s.unplanned)
}

// Delivered implements sinks.Observer.
func (s *ReportSinks) Delivered(sink, result string) {
	s.deliveries.WithLabelValues(sink, result).Inc()
}

// Pending implements sinks.Observer.
func (s *ReportSinks) Pending(due, failed, unplanned int) {
	s.pending.Set(float64(due))
	s.failed.Set(float64(failed))
	s.unplanned.Set(float64(unplanned))
}
