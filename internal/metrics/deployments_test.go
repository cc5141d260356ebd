package metrics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestDeployments(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	deployments, err := NewDeployments(registry)
	if err != nil {
		t.Fatal(err)
	}
	deployments.Joined()
	deployments.Joined()
	deployments.Left()
	deployments.Sent(5)
	deployments.Evicted()
	want := strings.Fields(`
		scanner_operator_deployment_feed_clients=1
		scanner_operator_deployment_feed_evictions_total=1
		scanner_operator_deployment_feed_messages_total=5`)
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
