package setup_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestDashboardsAndAlertsNameMetrics looks for every metric that a dashboard or an alert names among those that an operator shows.
func TestDashboardsAndAlertsNameMetrics(t *testing.T) {
	c := needCluster(t)
	operator(t, namespace(t, c), nil)
	registry, ok := ctrlmetrics.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T", ctrlmetrics.Registry)
	}
	described := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(described)
		close(described)
	}()
	known := map[string]bool{}
	fqName := regexp.MustCompile(`fqName: "([^"]+)"`)
	for desc := range described {
		if match := fqName.FindStringSubmatch(desc.String()); match != nil {
			known[match[1]] = true
		}
	}
	chart := filepath.Join("..", "..", "charts", "scanner-operator")
	named := regexp.MustCompile(`\b((?:scanner_operator|workqueue|controller_runtime)_[a-z_]+)`)
	for file, least := range map[string]int{"files/dashboards/scanner-operator.json": 20, "templates/prometheusrule.yaml": 4} {
		text, err := os.ReadFile(filepath.Join(chart, file))
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		if len(names) < least {
			t.Errorf("%s names %d metrics, want %d or more", file, len(names), least)
		}
		for name := range names {
			// A histogram has its name and three that are made of it.
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !slices.ContainsFunc([]string{name, base}, func(n string) bool { return known[n] }) {
				t.Errorf("%s names %s, which the operator does not show", file, name)
			}
		}
	}
}
