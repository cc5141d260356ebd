package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	typeJSON = "Content-Type: application/vnd.cyclonedx+json; version=1.5"
	typeXML  = "Content-Type: application/vnd.cyclonedx+xml"
	// bareJSON and bareXML are about the same packages and vulnerabilities.
	bareJSON = `{"bomFormat":"CycloneDX","specVersion":"1.5","components":[{"type":"library","name":"lodash","version":"4.17.20","purl":"pkg:npm/lodash@4.17.20"}],` +
		`"vulnerabilities":[{"id":"CVE-1","ratings":[{"severity":"critical"}],"affects":[{"ref":"a"}]}]}`
	bareXML = `<?xml version="1.0"?><bom xmlns="http://cyclonedx.org/schema/bom/1.4"><components><component type="library"><name>lodash</name>` +
		`<version>4.17.20</version><purl>pkg:npm/lodash@4.17.20</purl></component></components><vulnerabilities><vulnerability><id>CVE-1</id>` +
		`<ratings><rating><severity>critical</severity></rating></ratings><affects><target><ref>a</ref></target></affects></vulnerability></vulnerabilities></bom>`
)

// realIngester keeps what is uploaded as the operator does.
type realIngester struct {
	*matching.Matcher
}

func (i realIngester) IngestReport(ctx context.Context, imageID string, r server.UploadedReport) error {
	return refusal(i.Matcher.IngestReport(ctx, r.May, imageID, store.Report{Content: r.Content, Counts: r.Counts}, r.MediaType, r.Document))
}

func (i realIngester) IngestSBOM(ctx context.Context, key model.ImageKey, delivery store.Delivery, body io.Reader) error {
	return refusal(i.Matcher.IngestSBOM(ctx, key, delivery, body))
}

func refusal(err error) error {
	if errors.Is(err, matching.ErrRefused) {
		return &problem.RefusedError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	return err
}

func newIngestFixture(tb testing.TB) *fixture {
	tb.Helper()
	return newFixture(tb, func(c *server.Config) {
		c.Ingest = realIngester{matching.New(c.Store, nil, nil, clock.RealClock{}, logr.Discard())}
		c.Versions = match.Versions{}
	})
}

func bareTarget(id string) string { return "/scan-results?imageId=" + url.QueryEscape(id) }

// Bare documents are kept: as a result, as the SBOM, and as packages.
func TestBareDocuments(t *testing.T) {
	for _, test := range []struct{ header, body, mediaType string }{
		{typeJSON, bareJSON, "application/vnd.cyclonedx+json"}, {typeXML, bareXML, "application/vnd.cyclonedx+xml"},
	} {
		f := newIngestFixture(t)
		a := f.do(http.MethodPut, bareTarget(reportedID), test.body, test.header)
		if a.status != http.StatusOK || !strings.Contains(a.body, `"id":"CVE-1"`) {
			t.Fatalf("%s: %d %s", test.mediaType, a.status, a.body)
		}
		validate(t, success(http.MethodPut, "/scan-results"), a.body)
		if got := f.do(http.MethodGet, "/scan-results/"+escape(reportedID), ""); got.body != a.body {
			t.Errorf("%s: result %s", test.mediaType, got.body)
		}
		image := f.do(http.MethodGet, "/api/v1/images/"+escape(reportedID), "")
		for _, part := range []string{`"state":"Cataloged"`, `"fromReport":true`, `"packages":1`, `"reported":{"critical":1,`} {
			if !strings.Contains(image.body, part) {
				t.Errorf("%s: %s is not in %s", test.mediaType, part, image.body)
			}
		}
		validate(t, success(http.MethodGet, "/api/v1/images/{imageId}"), image.body)
		if got := f.do(http.MethodGet, "/api/v1/packages?name=lodash&version=%3C4.17.21", ""); !strings.Contains(got.body, `"purl":"pkg:npm/lodash@4.17.20"`) {
			t.Errorf("%s: packages %s", test.mediaType, got.body)
		}
		sbom := f.do(http.MethodGet, "/api/v1/images/"+escape(reportedID)+"/sbom", "")
		if sbom.body != test.body || sbom.header.Get("Content-Type") != test.mediaType {
			t.Errorf("%s: SBOM %v %s", test.mediaType, sbom.header, sbom.body)
		}
		bom := readCycloneDX(t, f.do(http.MethodGet, "/api/v1/images/"+escape(reportedID)+"/sbom?format=cyclonedx-json", "").body)
		if len(*bom.Components) != 1 || (*bom.Components)[0].Name != "lodash" {
			t.Errorf("%s: %+v", test.mediaType, bom.Components)
		}
	}
}

// A JSON object with a report gives its components as well, and is kept without them when they cannot be read.
func TestComponentsOfEnvelopes(t *testing.T) {
	f := newIngestFixture(t)
	put := func(report string) string {
		t.Helper()
		a := f.do(http.MethodPut, "/scan-results", `{"imageId":"`+reportedID+`","report":`+report+`}`)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return f.do(http.MethodGet, "/api/v1/images/"+escape(reportedID), "").body
	}
	if image := put(bareJSON); !strings.Contains(image, `"packages":1`) || !strings.Contains(image, `"fromReport":true`) {
		t.Errorf("with components: %s", image)
	}
	odd := strings.Replace(bareJSON, `"name":"lodash"`, `"name":["lodash"]`, 1)
	if image := put(odd); !strings.Contains(image, `"packages":0`) || !strings.Contains(image, `"state":"Reported"`) || !strings.Contains(image, `"critical":1`) {
		t.Errorf("with odd components: %s", image)
	}
	f.do(http.MethodPut, bareTarget(reportedID), odd, typeJSON).problem(t, http.StatusUnprocessableEntity, "the SBOM cannot be read")
}

func TestBareDocumentsAreRefused(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.ReportBody = 1 << 20 })
	for _, test := range []struct {
		target, header, body string
		status               int
		detail               string
	}{
		{"/scan-results", typeJSON, bareJSON, 400, "imageId is required"},
		{"/scan-results", typeXML, bareXML, 400, "imageId is required"},
		{"/scan-results?imageId=a", "Content-Type: application/json", bareJSON, 400, "application/vnd.cyclonedx+xml"},
		{"/scan-results?imageId=", typeJSON, bareJSON, 400, "imageId"},
		{"/scan-results?imageId=a%20b", typeJSON, bareJSON, 400, "printable"},
		{"/scan-results?imageId=a", typeJSON, bareXML, 400, "not a JSON object"},
		{"/scan-results?imageId=a", typeXML, bareJSON, 400, "not a CycloneDX document"},
		{"/scan-results?imageId=a", typeXML, strings.Replace(bareXML, "1.4", "1.3", 1), 400, `specVersion "1.3"`},
		{"/scan-results?imageId=a", typeXML, `<!DOCTYPE bom [<!ENTITY a "a">]>` + bareXML, 400, "document type"},
		{"/scan-results?imageId=a", typeXML, strings.Repeat("<a>", 100), 413, "nested deeper"},
		{"/scan-results?imageId=a", typeJSON, strings.Repeat("x", 1<<20+1), 413, "limit of 1048576 bytes"},
		{"/scan-results?imageId=a", typeJSON, "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"x\":\"\xff\"}", 400, "UTF-8"},
		{"/scan-results", "Content-Type: application/json", "{\"imageId\":\"a\",\"report\":{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"x\":\"\xff\"}}", 400, "UTF-8"},
	} {
		f.do(http.MethodPut, test.target, test.body, test.header).problem(t, test.status, test.detail)
		if t.Failed() {
			t.Fatalf("that was %.80s %s", test.body, test.header)
		}
	}
}

// FuzzUpload: whatever is uploaded, in whatever form, is kept whole or refused with a reason.
func FuzzUpload(f *testing.F) {
	fixture := newIngestFixture(f)
	headers := []string{"application/json", "application/vnd.cyclonedx+json", "application/vnd.cyclonedx+xml"}
	for i, bodies := range [][]string{
		{uploadOf("a"), `{"imageId":"a","imageId":"b","report":{}}`, uploadOf("a") + `\n`, strings.Repeat(`{"report":`, 70)},
		{bareJSON, `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[],"components":[{}]}`, strings.Repeat(`{"components":[`, 40), "{\"bomFormat\":\"\xff\"}",
			`{"bomFormat":"CycloneDX","specVersion":"1.7"}`, `{"bomFormat":"CycloneDX","specVersion":"1.4","vulnerabilities":[{"ratings":[{"score":1e999}]}]}`},
		{bareXML, `<!DOCTYPE a [<!ENTITY b "c">]><bom>&b;</bom>`, strings.Repeat("<bom>", 70), strings.Replace(bareXML, "1.4", "1.99", 1), "<bom xmlns=\"\xff\"/>"},
	} {
		for _, body := range bodies {
			f.Add(byte(i), body)
		}
	}
	handler := fixture.server.Handler()
	f.Fuzz(func(t *testing.T, which byte, body string) {
		target := "http://localhost/scan-results"
		mediaType := headers[int(which)%len(headers)]
		if mediaType != headers[0] {
			target += "?imageId=fuzzed"
		}
		request := httptest.NewRequest(http.MethodPut, target, strings.NewReader(body))
		request.Header.Set("Content-Type", mediaType)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		switch recorder.Code {
		case http.StatusOK:
			validate(t, success(http.MethodPut, "/scan-results"), recorder.Body.String())
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests:
			if !strings.Contains(recorder.Body.String(), `"detail":`) {
				t.Errorf("no reason: %s", recorder.Body)
			}
		default:
			t.Errorf("%d %s", recorder.Code, recorder.Body)
		}
	})
}

// BenchmarkUploads measures whole uploads into a sqlite store: of an SBOM of 200 packages that is known but for one of them, as a scan Job
// sends it, and of a bare CycloneDX document.
func BenchmarkUploads(b *testing.B) {
	b.Run("sbom", func(b *testing.B) {
		f := newIngestFixture(b)
		keys := make([]model.ImageKey, b.N)
		for i := range keys {
			keys[i] = model.ImageKey{ImageID: benchID(i), Platform: linux}
		}
		for start := 0; start < len(keys); start += store.MaxKeys {
			_, err := f.store.WantImages(b.Context(), keys[start:min(start+store.MaxKeys, len(keys))])
			f.must(err)
		}
		b.ResetTimer()
		for i, key := range keys {
			a := f.do(http.MethodPut, "/api/v1/images/"+escape(key.ImageID)+"/sbom?platform=linux/amd64", string(compressed(benchSBOM(i))), "Content-Encoding: zstd")
			if a.status != http.StatusNoContent {
				b.Fatalf("%d %s", a.status, a.body)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uploads/s")
	})
	b.Run("cyclonedx", func(b *testing.B) {
		f := newIngestFixture(b)
		for i := range b.N {
			if a := f.do(http.MethodPut, bareTarget(benchID(i)), benchBOM(i), typeJSON); a.status != http.StatusOK {
				b.Fatalf("%d %s", a.status, a.body)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uploads/s")
	})
}

func benchID(i int) string { return fmt.Sprintf("example.com/image@sha256:%064x", i) }

// benchPackage is one of 199 that every image holds, or one of its own.
func benchPackage(image, i int) string {
	if i == 0 {
		return fmt.Sprintf("own-%d", image)
	}
	return fmt.Sprintf("package-%d", i)
}

func benchSBOM(image int) string {
	artifacts := make([]string, 200)
	for i := range artifacts {
		name := benchPackage(image, i)
		artifacts[i] = fmt.Sprintf(`{"id":"%d","name":%q,"version":"1.%d.0","type":"npm","foundBy":"bench","locations":[{"path":"/app/node_modules/%s"}],`+
			`"licenses":[],"language":"javascript","cpes":[],"purl":"pkg:npm/%s@1.%d.0"}`, i, name, i, name, name, i)
	}
	return `{"artifacts":[` + strings.Join(artifacts, ",") + `],"artifactRelationships":[],"source":{"id":"s","name":"s","version":"","type":"image",` +
		`"metadata":{"userInput":"s","layers":[]}},"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},"schema":{"version":"16.1.10",` +
		`"url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`
}

func benchBOM(image int) string {
	components := make([]string, 200)
	for i := range components {
		name := benchPackage(image, i)
		components[i] = fmt.Sprintf(`{"type":"library","name":%q,"version":"1.%d.0","purl":"pkg:npm/%s@1.%d.0"}`, name, i, name, i)
	}
	return `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[` + strings.Join(components, ",") + `]}`
}
