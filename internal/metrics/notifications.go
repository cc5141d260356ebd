package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Notifications are the metrics about messages to the sinks of notification rules. It implements notify.Observer.
type Notifications struct {
	sent    *prometheus.CounterVec
	pending prometheus.Gauge
	oldest  prometheus.Gauge
	skipped prometheus.Counter
}

// NewNotifications registers the metrics. types are those of sinks, and results those of attempts: counters begin at zero, since the first message that is
// dropped has to be an increase.
func NewNotifications(registerer prometheus.Registerer, types, results []string) (*Notifications, error) {
	n := &Notifications{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: namespace + "_notifications_total",
			Help: "Attempts to send messages of notification rules, by type of sink and result: delivered, failed (sent again later) or dropped.",
		}, []string{"sink", "result"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: namespace + "_notifications_pending", Help: "Messages of notification rules that wait, also because their group is still collected.",
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: namespace + "_notifications_oldest_due_timestamp_seconds",
			Help: "Since when the message that waits longest is due, or an event waits that rules cannot read, in seconds since 1970; 0 if none does.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: namespace + "_notification_events_skipped_total", Help: "Events that notification rules left out: removed from the event log before they were read, or not readable.",
		}),
	}
	for _, sink := range types {
		for _, result := range results {
			n.sent.WithLabelValues(sink, result)
		}
	}
	return n, register(registerer, n.sent, n.pending, n.oldest, n.skipped)
}

// Sent implements notify.Observer.
func (n *Notifications) Sent(sink, result string) { n.sent.WithLabelValues(sink, result).Inc() }

// Pending implements notify.Observer.
func (n *Notifications) Pending(messages int, since time.Time) {
	n.pending.Set(float64(messages))
	if since.IsZero() {
		n.oldest.Set(0)
		return
	}
	n.oldest.Set(float64(since.Unix()))
}

// Skipped implements notify.Observer.
func (n *Notifications) Skipped(events int64) { n.skipped.Add(float64(events)) }
