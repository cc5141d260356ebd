package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server"
)

// stuck sends a GET request as a client that takes nothing until it is let go.
func (f *fixture) stuck(target string, headers ...string) (letGo func() *stuckWriter) {
	f.t.Helper()
	w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), entered: make(chan struct{}), leave: make(chan struct{})}
	request := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.server.Handler().ServeHTTP(w, request)
	}()
	<-w.entered
	return func() *stuckWriter {
		close(w.leave)
		<-ended
		return w
	}
}

// Documents that clients have not read yet take memory, of which there is only so much: the stored SBOM, compressed or not, in another
// format, and results.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		target string
		memory int64
		header string
	}{
		"compressed SBOM":     {"/api/v1/images/" + escape(scannedID) + "/sbom", int64(len(compressed(sbomText))), "Accept-Encoding: zstd"},
		"SBOM":                {"/api/v1/images/" + escape(scannedID) + "/sbom", int64(len(compressed(sbomText)) + len(sbomText)), "Accept-Encoding: identity"},
		"SBOM as SPDX":        {"/api/v1/images/" + escape(scannedID) + "/sbom?format=spdx-json", 64 << 10, "Accept: */*"},
		"findings as SARIF":   {"/api/v1/images/" + escape(scannedID) + "?format=sarif", 64 << 10, "Accept: */*"},
		"result":              {"/scan-results/" + escape(scannedID), 64 << 10, "Accept: */*"},
		"all results, by one": {"/scan-results", 64 << 10, "Accept: */*"},
	} {
		t.Run(name, func(t *testing.T) {
			// Enough for two, and not for three.
			f := newFixture(t, func(c *server.Config) { c.Limits.AnswerMemory, c.Limits.WriteTimeout = 3*test.memory-1, time.Hour })
			f.seed()
			first, second := f.stuck(test.target, test.header), f.stuck(test.target, test.header)
			if test.target == "/scan-results" {
				// It has begun before it finds out.
				f.do(http.MethodGet, "/scan-results/"+escape(scannedID), "").problem(t, http.StatusServiceUnavailable, "documents that are sent at the same time")
			} else {
				refused := f.do(http.MethodGet, test.target, "", test.header)
				refused.problem(t, http.StatusServiceUnavailable, "documents that are sent at the same time")
				if refused.header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			if w := first(); w.Code != http.StatusOK || w.Body.Len() == 0 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if a := f.do(http.MethodGet, test.target, "", test.header); a.status != http.StatusOK {
				t.Errorf("afterwards: %d %s", a.status, a.body)
			}
			second()
		})
	}
}

// A document that is larger than all the memory is refused whole, not cut off.
func TestLargeAnswersAreRefused(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.AnswerMemory = 1 << 10 })
	f.seed()
	f.do(http.MethodGet, "/api/v1/images/"+escape(scannedID)+"/sbom?format=spdx-json", "").
		problem(t, http.StatusServiceUnavailable, "documents that are sent at the same time")
}

// Bodies of unknown length count as the longest, and each counts at least as one of so many.
func TestUploadsAreBoundedByMemory(t *testing.T) {
	for name, test := range map[string]struct {
		limits server.Limits
		length int
	}{
		"number": {server.Limits{Uploads: 2, UploadMemory: 1 << 20}, 1},
		"memory": {server.Limits{Uploads: 100, UploadMemory: 1 << 20}, 1 << 18},
	} {
		t.Run(name, func(t *testing.T) {
			gate := &gate{entered: make(chan struct{}, 2), leave: make(chan struct{})}
			f := newFixture(t, func(c *server.Config) {
				c.Ingest, c.Limits.Uploads, c.Limits.UploadMemory = gate, test.limits.Uploads, test.limits.UploadMemory
				c.Limits.SlotPatience = 10 * time.Millisecond
			})
			answers := make(chan answer, 2)
			for range 2 {
				go func() { answers <- f.do(http.MethodPut, "/api/v1/images/a/sbom", strings.Repeat("x", test.length)) }()
				<-gate.entered
			}
			refused := f.do(http.MethodPut, "/api/v1/images/a/sbom", "x")
			refused.problem(t, http.StatusServiceUnavailable, "concurrent uploads, of 1 MiB together, is reached")
			if refused.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			close(gate.leave)
			for range 2 {
				if a := <-answers; a.status != http.StatusNoContent {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
		})
	}
}
