package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// outcomeSucceeded is the label of attempts that delivered an SBOM; the others have their reason.
const outcomeSucceeded = "Succeeded"

var (
	coverageDesc = prometheus.NewDesc(namespace+"_coverage_ratio",
		"Share of the running containers of a Scanner, without skipped ones, that have a current result.",
		[]string{"scanner_namespace", "scanner"}, nil)
	containersDesc = prometheus.NewDesc(namespace+"_containers",
		"Running containers of a Scanner, by coverage.", []string{"scanner_namespace", "scanner", "state", "reason"}, nil)
	findingsDesc = prometheus.NewDesc(namespace+"_findings",
		"Findings of the images of a Scanner, each image once, by severity.", []string{"scanner_namespace", "scanner", "severity"}, nil)
	exploitedDesc = prometheus.NewDesc(namespace+"_findings_exploited",
		"Findings of the images of a Scanner that are known to be exploited.", []string{"scanner_namespace", "scanner"}, nil)
	fixableDesc = prometheus.NewDesc(namespace+"_findings_fixable",
		"Findings of the images of a Scanner that a newer version of the package fixes.", []string{"scanner_namespace", "scanner"}, nil)
	runningDesc = prometheus.NewDesc(namespace+"_scans_running",
		"Running scans of a Scanner.", []string{"scanner_namespace", "scanner"}, nil)
	queuedDesc = prometheus.NewDesc(namespace+"_scans_queued",
		"Images of a Scanner that wait to be scanned.", []string{"scanner_namespace", "scanner"}, nil)
	slotsDesc = prometheus.NewDesc(namespace+"_scan_slots",
		"Maximum concurrent scans of all Scanners (total) and running scans (used).", []string{"kind"}, nil)
	pausedDesc = prometheus.NewDesc(namespace+"_registries_paused",
		"Registries that requested a pause.", nil, nil)
)

// ContainerState is the coverage of a container.
type ContainerState struct{ State, Reason string }

// Scanner is what is shown of a Scanner.
type Scanner struct {
	Ratio           float64
	Containers      map[ContainerState]int
	Running, Queued int
	// Findings are counted by severity.
	Findings           map[string]int32
	Exploited, Fixable int32
}

// Scans shows what Scanners do, on the replica that leads.
type Scans struct {
	attempts *prometheus.CounterVec
	repairs  *prometheus.CounterVec

	mu       sync.Mutex
	scanners map[types.NamespacedName]Scanner
	// used, total and paused are shown once they are known.
	known               bool
	used, total, paused int
	// counted are the attempts that succeeded and are counted.
	counted map[string]bool
}

// NewScans registers the metrics. reasons are those for which an attempt can fail: counters begin at zero.
func NewScans(registerer prometheus.Registerer, reasons ...string) (*Scans, error) {
	s := &Scans{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "scan_attempts_total", Help: "Finished attempts to scan an image, by outcome.",
		}, []string{"outcome"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "cache_repairs_total", Help: "Caches that differed from the API server and were rebuilt, by resource.",
		}, []string{"kind"}),
		scanners: map[types.NamespacedName]Scanner{},
	}
	s.attempts.WithLabelValues(outcomeSucceeded)
	for _, reason := range reasons {
		s.attempts.WithLabelValues(reason)
	}
	return s, register(registerer, s, s.attempts, s.repairs)
}

// Show replaces what is shown of a Scanner.
func (s *Scans) Show(scannerNamespace, name string, shown Scanner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanners[types.NamespacedName{Namespace: scannerNamespace, Name: name}] = shown
}

// Forget shows a Scanner no more.
func (s *Scans) Forget(scannerNamespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scanners, types.NamespacedName{Namespace: scannerNamespace, Name: name})
}

// Slots shows how many scans run and may run, and how many registries are left alone.
func (s *Scans) Slots(used, total, paused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.used, s.total, s.paused = true, used, total, paused
}

// Failed counts an attempt that failed.
func (s *Scans) Failed(reason string) { s.attempts.WithLabelValues(reason).Inc() }

// Succeeded takes the names of all attempts that succeeded and are not forgotten yet, and counts each once.
func (s *Scans) Succeeded(names map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range names {
		if !s.counted[name] {
			s.attempts.WithLabelValues(outcomeSucceeded).Inc()
		}
	}
	s.counted = names
}

// Repaired counts a cache that was read anew.
func (s *Scans) Repaired(kind string) { s.repairs.WithLabelValues(kind).Inc() }

// Describe implements prometheus.Collector.
func (s *Scans) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{coverageDesc, containersDesc, findingsDesc, exploitedDesc, fixableDesc, runningDesc, queuedDesc, slotsDesc, pausedDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *Scans) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for name, shown := range s.scanners {
		gauge(coverageDesc, shown.Ratio, name.Namespace, name.Name)
		gauge(runningDesc, float64(shown.Running), name.Namespace, name.Name)
		gauge(queuedDesc, float64(shown.Queued), name.Namespace, name.Name)
		gauge(exploitedDesc, float64(shown.Exploited), name.Namespace, name.Name)
		gauge(fixableDesc, float64(shown.Fixable), name.Namespace, name.Name)
		for severity, count := range shown.Findings {
			gauge(findingsDesc, float64(count), name.Namespace, name.Name, severity)
		}
		for state, count := range shown.Containers {
			gauge(containersDesc, float64(count), name.Namespace, name.Name, state.State, state.Reason)
		}
	}
	if s.known {
		gauge(slotsDesc, float64(s.used), "used")
		gauge(slotsDesc, float64(s.total), "total")
		gauge(pausedDesc, float64(s.paused))
	}
}
