package server

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/server/live"
)

// metrics are what the server counts.
type metrics struct {
	duration *prometheus.HistogramVec
	// denied counts requests that their callers may not make, or not that often.
	denied *prometheus.CounterVec
	// dropped counts connections, by the limit that was reached: that of an address, or of all.
	dropped *prometheus.CounterVec
	live    live.Metrics
}

// RegisterMetrics registers the metrics of a server that does not run, so that they can be listed.
func RegisterMetrics(registerer prometheus.Registerer) error {
	_, err := newMetrics(registerer)
	return err
}

// newMetrics registers the metrics, or finds those that another server of this process has registered.
func newMetrics(registerer prometheus.Registerer) (metrics, error) {
	m := metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scanner_operator_http_request_duration_seconds",
			Help:    "Duration of HTTP requests. For WebSockets, the duration of the handshake.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route", "code"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanner_operator_http_requests_denied_total",
			Help: "HTTP requests that were denied because the client was unauthenticated, forbidden or rate-limited.",
		}, []string{"method", "route", "reason"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanner_operator_http_connections_dropped_total",
			Help: "Unauthenticated connections that were closed because the limit of connections per address or in total was reached.",
		}, []string{"limit"}),
		live: live.Metrics{
			Subscribers: prometheus.NewGauge(prometheus.GaugeOpts{
				Name: "scanner_operator_websocket_subscribers",
				Help: "Number of open WebSocket connections.",
			}),
			Evicted: prometheus.NewCounter(prometheus.CounterOpts{
				Name: "scanner_operator_websocket_evictions_total",
				Help: "WebSocket connections that were closed because the client did not read fast enough.",
			}),
		},
	}
	var err error
	if m.duration, err = register(registerer, m.duration); err != nil {
		return metrics{}, err
	}
	if m.denied, err = register(registerer, m.denied); err != nil {
		return metrics{}, err
	}
	if m.dropped, err = register(registerer, m.dropped); err != nil {
		return metrics{}, err
	}
	if m.live.Subscribers, err = register(registerer, m.live.Subscribers); err != nil {
		return metrics{}, err
	}
	if m.live.Evicted, err = register(registerer, m.live.Evicted); err != nil {
		return metrics{}, err
	}
	return m, nil
}

func register[T prometheus.Collector](registerer prometheus.Registerer, collector T) (T, error) {
	err := registerer.Register(collector)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(T); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("register a metric: %w", err)
	}
	return collector, nil
}
