package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestNotifications(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	n, err := NewNotifications(registry, []string{"webhook", "email"}, []string{"delivered", "dropped"})
	if err != nil {
		t.Fatal(err)
	}
	n.Sent("webhook", "delivered")
	n.Sent("webhook", "delivered")
	n.Sent("email", "dropped")
	n.Pending(3, time.Unix(1000, 0))
	n.Skipped(7)
	expect := func(want ...string) {
		t.Helper()
		shown := gather(t, registry)
		for _, one := range want {
			if !slices.Contains(shown, one) {
				t.Errorf("there is no %s in %v", one, shown)
			}
		}
	}
	// What did not happen yet is zero: the first time is an increase.
	expect(`scanner_operator_notifications_total{result="dropped",sink="webhook"}=0`)
	expect(`scanner_operator_notifications_total{result="delivered",sink="webhook"}=2`, `scanner_operator_notifications_total{result="dropped",sink="email"}=1`,
		`scanner_operator_notifications_pending=3`, `scanner_operator_notifications_oldest_due_timestamp_seconds=1000`,
		`scanner_operator_notification_events_skipped_total=7`)
	n.Pending(0, time.Time{})
	expect(`scanner_operator_notifications_pending=0`, `scanner_operator_notifications_oldest_due_timestamp_seconds=0`)
}
