package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/test/hostile"
)

// hostileUpload is what one upload of the hostile corpus may take of memory in bytes: its own document of 128 MiB at most, a few times.
const hostileUpload = 1 << 30

// zipped compresses text that is repeated between a start and an end.
func zipped(t *testing.T, start, repeated string, count int, end string) string {
	t.Helper()
	var out strings.Builder
	encoder, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	chunk := strings.Repeat(repeated, 1000)
	_, err = io.WriteString(encoder, start)
	for ; count >= 1000 && err == nil; count -= 1000 {
		_, err = io.WriteString(encoder, chunk)
	}
	if err == nil {
		_, err = io.WriteString(encoder, strings.Repeat(repeated, count)+end)
	}
	if err = errors.Join(err, encoder.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each SBOM and each report is refused by the bound that it exceeds or by what is wrong with it, at the limits that hold by default.
func TestHostileUploads(t *testing.T) {
	f := newFixture(t, func(c *server.Config) {
		c.Ingest = realIngester{matching.New(c.Store, nil, nil, clock.RealClock{}, logr.Discard())}
	})
	key := model.ImageKey{ImageID: scannedID, Platform: linux}
	_, err := f.store.WantImages(t.Context(), []model.ImageKey{key})
	f.must(err)
	sbomPath, reportPath := "/api/v1/images/"+escape(scannedID)+"/sbom?platform=linux/amd64", "/scan-results"
	const schema = `"schema":{"version":"16.0.0","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.0.0.json"}`
	sbom := func(start, repeated string, count int, end string) string {
		return zipped(t, start, repeated, count, end)
	}
	report := func(members string) string {
		return `{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.5"` + members + `}}`
	}
	const window = "\x28\xb5\x2f\xfd\x00\x98\x01\x00\x00"
	for name, test := range map[string]struct {
		path, body string
		headers    string
		status     int
		detail     string
	}{
		"SBOM, zstd bomb":            {sbomPath, sbom("", " ", 128<<20+1, ""), "", 422, "134217728 bytes"},
		"SBOM, zstd bomb twice":      {sbomPath, zipped(t, sbom("", " ", 128<<20, ""), "", 0, ""), "", 422, "cannot be read"},
		"SBOM, window of 512 MiB":    {sbomPath, window, "", 422, "window"},
		"SBOM, frames of nothing":    {sbomPath, sbom("{}", "", 0, "") + strings.Repeat("\x50\x2a\x4d\x18\x01\x00\x00\x00x", 100_000), "", 422, "cannot be read"},
		"SBOM, broken frame":         {sbomPath, "\x28\xb5\x2f\xfd" + strings.Repeat("\xff", 1000), "", 422, ""},
		"SBOM, another encoding":     {sbomPath, "x", "br", 415, "br"},
		"SBOM, deep objects":         {sbomPath, sbom("{"+schema+`,"x":`, `{"a":`, 1_000_000, ""), "", 422, "deeper than 64"},
		"SBOM, deep lists":           {sbomPath, sbom("", "[", 10_000_000, ""), "", 422, "SBOM refused"},
		"SBOM, many values":          {sbomPath, sbom(`{"x":[`, "1,", 5_000_001, "1]}"), "", 422, "SBOM refused"},
		"SBOM, many packages":        {sbomPath, sbom("{"+schema+`,"artifacts":[`, "{},", 100_001, "{}]}"), "", 422, "100000 artifacts"},
		"SBOM, two lists":            {sbomPath, sbom("{"+schema+`,"artifacts":[`, "{},", 60_000, `{}],"artifacts":[`+strings.Repeat("{},", 60_000)+"{}]}"), "", 422, "100000 artifacts"},
		"SBOM, many relationships":   {sbomPath, sbom(`{"artifactRelationships":[`, "{},", 1_000_001, "{}]}"), "", 422, "artifactRelationships"},
		"SBOM, many files":           {sbomPath, sbom(`{"files":[`, "{},", 1_000_001, "{}]}"), "", 422, "1000000 files"},
		"SBOM, huge string":          {sbomPath, sbom(`{"x":"`, "a", 100<<20, `"}`), "", 422, "longer than 1048576 bytes"},
		"SBOM, huge name":            {sbomPath, sbom(`{"`, "a", 2<<20, `":1}`), "", 422, "longer than 1048576 bytes"},
		"SBOM, string without end":   {sbomPath, sbom(`{"x":"`, `\"`, 1_000_000, ""), "", 422, "longer than 1048576 bytes"},
		"SBOM, parser panics":        {sbomPath, sbom(`{`+schema+`,"artifacts":[],"distro":{"id":"debian","versionID":"v"}}`, "", 0, ""), "", 422, "panicked"},
		"report, too large":          {reportPath, report(`,"x":"` + strings.Repeat("x", 32<<20) + `"`), "", 413, "33554432 bytes"},
		"report, compressed":         {reportPath, "x", "gzip", 415, "gzip"},
		"report, deep":               {reportPath, report(`,"x":` + strings.Repeat("[", 5_000_000)), "", 413, "deeper than the limit of 64"},
		"report, many values":        {reportPath, report(`,"x":[` + strings.Repeat("0,", 2_000_000) + "0]"), "", 413, "2000000 values"},
		"report, many components":    {reportPath, report(`,"components":[` + strings.Repeat("{},", 200_000) + "{}]"), "", 413, "200000 components"},
		"report, many findings":      {reportPath, report(`,"vulnerabilities":[` + strings.Repeat("{},", 200_000) + "{}]"), "", 413, "200000 vulnerabilities"},
		"report, two lists":          {reportPath, report(`,"vulnerabilities":[],"vulnerabilities":[]`), "", 400, "more than once"},
		"report, two images":         {reportPath, `{"imageId":"a","imageId":"b","report":{}}`, "", 400, "more than once"},
		"report, two reports":        {reportPath, `{"imageId":"a","report":{},"report":{}}`, "", 400, "more than once"},
		"report, huge word":          {reportPath, `{"imageId":"a","report":{"bomFormat":"` + strings.Repeat("x", 8<<20) + `"}}`, "", 400, "bomFormat"},
		"report, huge score":         {reportPath, report(`,"vulnerabilities":[{"ratings":[{"score":1e999999999}]}]`), "", 400, "rating"},
		"report, half a character":   {reportPath, report(",\"x\":\"\xff\xfe\""), "", 400, "UTF-8"},
		"report, image with control": {reportPath, `{"imageId":"a\u0000\u202e","report":{}}`, "", 400, "printable"},
		"report, long image":         {reportPath, `{"imageId":"` + strings.Repeat("a", 100_000) + `","report":{}}`, "", 400, "imageId"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{"Content-Type: application/vnd.syft+json", "Content-Encoding: zstd"}
			if test.path == reportPath {
				headers = []string{"Content-Type: application/json"}
			}
			if test.headers != "" {
				headers = append(headers, "Content-Encoding: "+test.headers)
			}
			end := hostile.Watch(t, hostile.Bounds{Memory: hostileUpload})
			a := f.do(http.MethodPut, test.path, test.body, headers...)
			end()
			a.problem(t, test.status, test.detail)
			if len(a.body) > 4<<10 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
		})
	}
	// What is sound is still taken.
	a := f.do(http.MethodPut, sbomPath, "{"+schema+`,"artifacts":[]}`, "Content-Type: application/vnd.syft+json")
	if a.status != http.StatusNoContent {
		t.Errorf("a sound SBOM: %d %s", a.status, a.body)
	}
}

// Clients that do not read an answer, or read a byte now and then, are cut off; others are served meanwhile.
func TestHostileReaders(t *testing.T) {
	var registry prometheus.Gatherer
	f := newFixture(t, func(c *server.Config) {
		c.Limits.WriteTimeout = 500 * time.Millisecond
		r := prometheus.NewRegistry()
		c.Registerer, registry = r, r
	})
	large := `{"imageId":"` + reportedID + `","report":{"bomFormat":"CycloneDX","specVersion":"1.5","x":"` + strings.Repeat("x", 24<<20) + `"}}`
	if a := f.do(http.MethodPut, "/scan-results", large); a.status != http.StatusOK {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	const route = "/scan-results/{imageId}"
	for name, step := range map[string]int64{"nothing": 0, "a byte now and then": 1} {
		t.Run(name, func(t *testing.T) {
			before := served(t, registry, route)
			connection := f.connect()
			f.must(connection.(*net.TCPConn).SetReadBuffer(4 << 10))
			f.send(connection, "GET /scan-results/"+escape(reportedID)+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			var got int64
			gomega.NewWithT(t).Eventually(func() uint64 {
				n, err := io.CopyN(io.Discard, connection, step)
				got += n
				if err != nil {
					return 0
				}
				return served(t, registry, route)
			}, patience, "5ms").Should(gomega.BeNumerically(">", before))
			rest, _ := io.Copy(io.Discard, connection) // the end, or a reset
			if got+rest >= int64(len(large)) {
				t.Errorf("read %d bytes: the connection was not cut", got+rest)
			}
		})
	}
	if a := f.do(http.MethodGet, "/api/v1/overview", ""); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// served is the number of requests of a route that have ended.
func served(t *testing.T, registry prometheus.Gatherer, route string) (count uint64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "route" && label.GetValue() == route {
					count += metric.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return count
}

// While clients send next to nothing of large bodies, an SBOM is taken and the API answers.
func TestHostileNeighbors(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for i, target := range []string{"/scan-results", "/api/v1/images/a/sbom"} {
		for range 3 {
			connection := f.connect()
			f.send(connection, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{", target, 1000+i))
		}
	}
	for path, method := range map[string]string{"/api/v1/images/" + escape(pendingID) + "/sbom?platform=linux/amd64": http.MethodPut, "/api/v1/overview": http.MethodGet} {
		if a := f.do(method, path, "x"); a.status >= http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
		}
	}
}
