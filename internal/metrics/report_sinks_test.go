package metrics

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestReportSinks(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s, err := NewReportSinks(registry)
	if err != nil {
		t.Fatal(err)
	}
	s.Delivered("s3", "delivered")
	s.Delivered("s3", "delivered")
	s.Delivered("defectDojo", "failed")
	s.Pending(3, 1, 2)
	shown := gather(t, registry)
	for _, want := range []string{
		`scanner_operator_report_deliveries_total{result="delivered",sink="s3"}=2`, `scanner_operator_report_deliveries_total{result="failed",sink="defectDojo"}=1`,
		`scanner_operator_report_sink_items_pending=3`, `scanner_operator_report_sink_items_failed=1`,
		`scanner_operator_report_sinks_unplanned=2`,
	} {
		if !slices.Contains(shown, want) {
			t.Errorf("there is no %s in %v", want, shown)
		}
	}
}
