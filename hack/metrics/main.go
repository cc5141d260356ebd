// Command metrics writes the page about the metrics of the operator, from the code that registers them.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const page = "docs/reference/metrics.md"

const introduction = `<!-- Written by hack/metrics: run "make generate" after a change. -->

# Metrics

The operator serves these metrics at the path ` + "`/metrics`" + ` of ` + "`--metrics-bind-address`" + `, to accounts with the ClusterRole ` + "`metrics-reader`" + ` ([metrics endpoint](authentication.md#metrics)). The chart creates a
ServiceMonitor (` + "`serviceMonitor.enabled`" + `), [alerts](../runbooks/README.md) (` + "`prometheusRule.enabled`" + `) and a dashboard for Grafana (` + "`dashboard.enabled`" + `).

- The leader alone shows what controllers compute; other metrics are shown by every replica, and those about the SQL database and the vulnerability database have the same value on all of them. Aggregate gauges with ` + "`max by (…)`" + `, and counters with ` + "`sum by (…)`" + `.
- Each metric has a bounded number of series, whatever users name their objects: beyond a limit, namespaces, owners, sources and distributions are added up in one series with the label value ` + "`other`" + `. Sums over all series are exact.
- Findings that a decision suppresses do not count.
- Metrics of controllers that are disabled are absent, as are those of owners without ` + "`ownership.keys`" + `.

Beside these, there are the metrics of [controller-runtime](https://book.kubebuilder.io/reference/metrics-reference) (` + "`controller_runtime_…`, `workqueue_…`, `leader_election_…`, `rest_client_…`" + `), of the Go runtime and of the process.

| Metric | Type | Labels | Unit | Meaning |
|---|---|---|---|---|
`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run() error {
	var all catalog
	if err := all.register(); err != nil {
		return err
	}
	content, err := all.page()
	if err != nil {
		return err
	}
	return os.WriteFile(page, content, 0o600)
}

// metric is a row of the page.
type metric struct{ name, kind, labels, help string }

// catalog collects what is registered. It implements prometheus.Registerer.
type catalog struct{ collectors []prometheus.Collector }

// Register implements prometheus.Registerer.
func (c *catalog) Register(collector prometheus.Collector) error {
	c.collectors = append(c.collectors, collector)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (c *catalog) MustRegister(collectors ...prometheus.Collector) {
	c.collectors = append(c.collectors, collectors...)
}

// Unregister implements prometheus.Registerer.
func (c *catalog) Unregister(prometheus.Collector) bool { return false }

// counter has the methods that collectors take of it, and is never called.
type counter struct{ store.RunningCounter }

// register registers all metrics of the operator.
func (c *catalog) register() error {
	log, clk, source := logr.Discard(), clock.RealClock{}, counter{}
	_, caches := metrics.NewCaches(c, nil)
	_, matching := metrics.NewMatching(c)
	_, decisions := metrics.NewDecisions(c, nil, nil, log)
	_, deployments := metrics.NewDeployments(c)
	_, notifications := metrics.NewNotifications(c, nil, nil)
	_, objects := metrics.NewObjects(c, kube.Kinds())
	_, overdue := metrics.NewOverdue(c, nil)
	_, scans := metrics.NewScans(c)
	_, reportSinks := metrics.NewReportSinks(c)
	return cmp.Or(
		caches, matching, decisions, deployments, notifications, objects, overdue, scans, reportSinks, metrics.NewDatabases(c, nil, nil, log), metrics.NewAges(c, nil, log),
		metrics.NewSize(c, nil, log), metrics.NewNamespaces(c, source, nil, clk, log), metrics.NewOwners(c, source, nil, clk, log), server.RegisterMetrics(c),
	)
}

var description = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),.* variableLabels: \{(.*)\}\}$`)

// metrics are the rows of the page by name.
func (c *catalog) metrics() ([]metric, error) {
	var all []metric
	for _, collector := range c.collectors {
		described := make(chan *prometheus.Desc, 100)
		collector.Describe(described)
		close(described)
		for desc := range described {
			found := description.FindStringSubmatch(desc.String())
			if found == nil {
				return nil, fmt.Errorf("the description of a metric has another format: %s", desc)
			}
			name, err := strconv.Unquote(found[1])
			if err != nil {
				return nil, err
			}
			help, err := strconv.Unquote(found[2])
			if err != nil {
				return nil, err
			}
			all = append(all, metric{name, kindOf(collector), found[3], help})
		}
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// kindOf is the type of the metrics of a collector. Those that make metrics when they are read make gauges.
func kindOf(collector prometheus.Collector) string {
	switch collector.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	case *prometheus.GaugeVec, prometheus.Gauge: // A Gauge has the methods of a Counter.
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	default:
		return "gauge"
	}
}

// unitOf is the unit that the name of a metric ends with.
func unitOf(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for _, unit := range []struct{ suffix, text string }{
		{"_timestamp_seconds", "seconds since 1970"}, {"_seconds", "seconds"}, {"_bytes", "bytes"}, {"_ratio", "0 to 1"}, {"_info", "always 1"},
	} {
		if strings.HasSuffix(name, unit.suffix) {
			return unit.text
		}
	}
	return "number"
}

func (c *catalog) page() ([]byte, error) {
	all, err := c.metrics()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(introduction)
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, m := range all {
		labels := "–"
		if m.labels != "" {
			labels = "`" + strings.ReplaceAll(m.labels, ",", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.name, m.kind, labels, unitOf(m.name), cell.Replace(m.help))
	}
	return b.Bytes(), nil
}
