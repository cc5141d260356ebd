package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// auditLog keeps the lines of the audit.
type auditLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *auditLog) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if prefix == "audit" {
			l.lines = append(l.lines, args)
		}
	}, funcr.Options{})
}

// take returns the lines since the last call.
func (l *auditLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// partly fails at full re-matches.
type partly struct{}

func (partly) RequestRematch(full bool) error {
	if full {
		return errors.New("not shown")
	}
	return nil
}

// Every change is one line of the log and one event; denied requests are counted, and make neither.
func TestChangesAreAudited(t *testing.T) {
	lines, registry := &auditLog{}, prometheus.NewRegistry()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) {
		c.Log, c.Registerer, c.Rematcher = lines.logger(), registry, partly{}
		c.Ingest = realIngester{matching.New(c.Store, nil, nil, clock.RealClock{}, logr.Discard())}
	})
	f.seed()
	pending := model.ImageKey{ImageID: pendingID, Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	job := store.ScanJob{Name: "scan", Namespace: "shop", Key: pending, ScannerUID: "scanner", SizeClass: model.SizeSmall, Spec: json.RawMessage("{}")}
	_, _, err := f.store.ReserveScanJob(t.Context(), job)
	f.must(err)
	f.must(f.store.RecordScanJob(t.Context(), job.Name, "job-uid"))
	// The feed tells of everything so far.
	last, err := f.store.LastSequence(t.Context())
	f.must(err)
	sbom := "/api/v1/images/" + escape(pendingID) + "/sbom?platform=linux/amd64"
	rematch := func(full string) string { return `{"full":` + full + `}` }
	for _, test := range []struct {
		name, method, target, body, token string
		status                            int
		// event is that of the change, line a part of its line; both are "" for none.
		event, line string
	}{
		{
			"a report", http.MethodPut, "/scan-results", uploadOf(reportedID), "admin", 200,
			`{"user":"admin","verb":"update","object":{"resource":"scanresults","name":"` + reportedID + `"},"outcome":"succeeded"}`,
			`"user"="admin" "verb"="update" "resource"="scanresults" "name"="` + reportedID + `" "outcome"="succeeded" "status"=200`,
		},
		{
			"a report that is none", http.MethodPut, "/scan-results", "{}", "admin", 400,
			`{"user":"admin","verb":"update","object":{"resource":"scanresults"},"outcome":"failed"}`, `"outcome"="failed" "status"=400`,
		},
		{"a report of a reader", http.MethodPut, "/scan-results", uploadOf(reportedID), "reader", 403, "", ""},
		{
			"an SBOM", http.MethodPut, sbom, benchSBOM(1), "pod", 204,
			`{"verb":"update","object":{"resource":"sboms","name":"` + pendingID + `"},"outcome":"succeeded"}`,
			`"verb"="update" "resource"="sboms" "name"="` + pendingID + `" "outcome"="succeeded" "status"=204`,
		},
		{"an SBOM that is none", http.MethodPut, sbom, "{}", "pod", 422, "", `"outcome"="failed" "status"=422`},
		{
			"deletion", http.MethodDelete, "/scan-results/" + escape(scannedID), "", "admin", 204,
			`{"user":"admin","verb":"delete","object":{"resource":"scanresults","name":"` + scannedID + `"},"outcome":"succeeded"}`, `"outcome"="succeeded" "status"=204`,
		},
		{
			"deletion again", http.MethodDelete, "/scan-results/" + escape(scannedID), "", "admin", 404,
			`{"user":"admin","verb":"delete","object":{"resource":"scanresults","name":"` + scannedID + `"},"outcome":"failed"}`, `"outcome"="failed" "status"=404`,
		},
		{"deletion by nobody", http.MethodDelete, "/scan-results/" + escape(failedID), "", "nobody", 403, "", ""},
		{"deletion without a token", http.MethodDelete, "/scan-results/" + escape(failedID), "", "foreign", 401, "", ""},
		{
			"a re-match", http.MethodPost, "/api/v1/databases/rematch", rematch("false"), "admin", 202,
			`{"user":"admin","verb":"rematch","object":{"resource":"databases"},"outcome":"succeeded"}`, `"resource"="databases" "name"="" "outcome"="succeeded" "status"=202`,
		},
		{"a re-match that fails", http.MethodPost, "/api/v1/databases/rematch", rematch("true"), "admin", 500, "", `"outcome"="failed" "status"=500`},
		{"a list", http.MethodGet, "/api/v1/images", "", "admin", 200, "", ""},
	} {
		a := f.do(test.method, test.target, test.body, bearer(test.token), "Content-Type: application/json")
		if a.status != test.status {
			t.Errorf("%s: %d %s", test.name, a.status, a.body)
		}
		events, err := f.store.EventsSince(t.Context(), store.AllNamespaces(), last, 100)
		f.must(err)
		var got []string
		for _, event := range events {
			last = event.Sequence
			if event.Kind == store.EventChangeRequested {
				got = append(got, string(event.Data))
			}
		}
		var want []string
		if test.event != "" {
			want = []string{test.event}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", test.name, diff)
		}
		switch logged := lines.take(); {
		case test.line == "" && len(logged) == 0, test.line != "" && len(logged) == 1 && strings.Contains(logged[0], test.line) && strings.Contains(logged[0], `"msg"="Change requested"`):
		default:
			t.Errorf("%s: logged %q, want %q", test.name, logged, test.line)
		}
	}
	if _, err := f.store.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: failedID}); err != nil {
		t.Error(err)
	}
	want := map[string]float64{
		"PUT /scan-results forbidden": 1, "DELETE /scan-results/{imageId} forbidden": 1, "DELETE /scan-results/{imageId} unauthenticated": 1,
	}
	if diff := cmp.Diff(want, denied(t, registry)); diff != "" {
		t.Errorf("denied requests (-want +got):\n%s", diff)
	}
	page := f.do(http.MethodGet, "/api/v1/events?since=0&kind=change.requested&imageId="+escape(scannedID), "", bearer("admin"))
	validate(t, success(http.MethodGet, "/api/v1/events"), page.body)
	var listed struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(page.body), &listed); err != nil || len(listed.Items) != 2 {
		t.Errorf("%v, %s", err, page.body)
	}
}

// denied are the counts of denied requests, by method, route and reason.
func denied(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "scanner_operator_http_requests_denied_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			counts[labels["method"]+" "+labels["route"]+" "+labels["reason"]] = metric.GetCounter().GetValue()
		}
	}
	return counts
}

// However many routes and methods clients invent, the labels are few.
func TestLabelsOfDeniedRequestsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Registerer = registry })
	for _, target := range []string{"/invented/1", "/invented/2", "/api/v1/images/a", "/api/v1/images/b"} {
		for _, method := range []string{"INVENT", "REINVENT", http.MethodGet} {
			f.do(method, target, "", "Sec-Fetch-Site: cross-site", "Origin: http://elsewhere.example")
		}
	}
	want := map[string]float64{"other other forbidden": 8, "GET /api/v1/images/{imageId} unauthenticated": 2}
	if diff := cmp.Diff(want, denied(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
