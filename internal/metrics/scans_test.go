package metrics

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestScans(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	scans, err := NewScans(registry, "OutOfMemory", "OutOfDisk")
	if err != nil {
		t.Fatal(err)
	}
	expect := func(step, want string) {
		t.Helper()
		got := slices.DeleteFunc(gather(t, registry), func(line string) bool {
			return strings.HasPrefix(line, "scanner_operator_scan_attempts_total") && strings.HasSuffix(line, "=0")
		})
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	if all := gather(t, registry); len(all) != 3 {
		t.Errorf("%v do not name every outcome of an attempt", all)
	}
	scans.Show("ns", "gone", Scanner{Ratio: 1})
	scans.Show("ns", "s", Scanner{Ratio: 1, Containers: map[ContainerState]int{{"Pending", "NotPulled"}: 7}})
	scans.Show("ns", "s", Scanner{
		Ratio: 0.5, Containers: map[ContainerState]int{{"Scanned", ""}: 2, {"Failed", "OutOfDisk"}: 1}, Running: 3, Queued: 4,
		Findings: map[string]int32{"Critical": 5, "Low": 0}, Exploited: 1, Fixable: 2,
	})
	scans.Forget("ns", "gone")
	expect("a Scanner", `
		scanner_operator_containers{reason="",scanner="s",scanner_namespace="ns",state="Scanned"}=2
		scanner_operator_containers{reason="OutOfDisk",scanner="s",scanner_namespace="ns",state="Failed"}=1
		scanner_operator_coverage_ratio{scanner="s",scanner_namespace="ns"}=0.5
		scanner_operator_findings{scanner="s",scanner_namespace="ns",severity="Critical"}=5
		scanner_operator_findings{scanner="s",scanner_namespace="ns",severity="Low"}=0
		scanner_operator_findings_exploited{scanner="s",scanner_namespace="ns"}=1
		scanner_operator_findings_fixable{scanner="s",scanner_namespace="ns"}=2
		scanner_operator_scans_queued{scanner="s",scanner_namespace="ns"}=4
		scanner_operator_scans_running{scanner="s",scanner_namespace="ns"}=3`)

	scans.Forget("ns", "s")
	scans.Slots(3, 10, 1)
	scans.Failed("OutOfMemory")
	scans.Succeeded(map[string]bool{"a": true, "b": true})
	scans.Succeeded(map[string]bool{"b": true, "c": true})
	scans.Repaired("pods")
	expect("slots and counters", `
		scanner_operator_cache_repairs_total{kind="pods"}=1
		scanner_operator_registries_paused=1
		scanner_operator_scan_attempts_total{outcome="OutOfMemory"}=1
		scanner_operator_scan_attempts_total{outcome="Succeeded"}=3
		scanner_operator_scan_slots{kind="total"}=10
		scanner_operator_scan_slots{kind="used"}=3`)
}
