package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestCaches(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	caches, err := NewCaches(registry, func() map[string]time.Duration {
		return map[string]time.Duration{"pods": 90 * time.Second, "jobs": 0}
	})
	if err != nil {
		t.Fatal(err)
	}
	caches.Delivered("Pod", "add")
	caches.Delivered("Pod", "add")
	caches.Delivered("Job", "delete")
	want := []string{
		`scanner_operator_cache_age_seconds{resource="jobs"}=0`,
		`scanner_operator_cache_age_seconds{resource="pods"}=90`,
		`scanner_operator_informer_events_total{event="add",kind="Pod"}=2`,
		`scanner_operator_informer_events_total{event="delete",kind="Job"}=1`,
	}
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
