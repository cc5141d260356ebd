package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestReadingMeetsTheSpecification(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	image := "/api/v1/images/" + escape(scannedID)
	for _, test := range []struct{ path, operation, want string }{
		{"/api/v1/overview", "/api/v1/overview", `"scanned":1`},
		{"/api/v1/overview", "/api/v1/overview", `"database":{"built":"2023-11-14T22:13:20Z"`},
		{"/api/v1/images", "/api/v1/images", `"total":3`},
		{"/api/v1/images?text=ALPINE&state=Scanned&state=Reported&severity=High&sort=-severity&pageSize=1", "/api/v1/images", `"total":1`},
		{"/api/v1/images?state=Failed", "/api/v1/images", `"reason":"ImageNotFound"`},
		{image, "/api/v1/images/{imageId}", `"distribution":{"endOfLife":"2026-04-01","endOfLifeReached":true,"endOfSupport":"2025-04-01","name":"alpine","version":"3.20"}`},
		{image, "/api/v1/images/{imageId}", `"created":"2023-11-01T08:00:00Z"`},
		{"/api/v1/images?endOfLifeWithin=0&olderThan=1&sort=created", "/api/v1/images", `"total":1`},
		{"/api/v1/images?olderThan=36500", "/api/v1/images", `"total":0`},
		{image, "/api/v1/images/{imageId}", `"scannedIn":"team"`},
		{image, "/api/v1/images/{imageId}", `"cataloger":"syft v1.49.0"`},
		{image, "/api/v1/images/{imageId}", `"attestedBy":"sha256:0"`},
		{image + "?platform=linux/amd64", "/api/v1/images/{imageId}", `"platform":"linux/amd64"`},
		{image + "/findings", "/api/v1/images/{imageId}/findings", `"total":2`},
		{image + "/findings?severity=Critical&fixable=true&kev=true&sort=package&text=open", "/api/v1/images/{imageId}/findings", `"id":"CVE-2024-0000"`},
		{"/api/v1/databases", "/api/v1/databases", `"images":1`},
		{"/api/v1/databases/" + escape(build.ID) + "/changes", "/api/v1/databases/{build}/changes", `"total":0`},
		{"/api/v1/session", "/api/v1/session", `"auth":"none"`},
		{"/scan-results", "/scan-results", `[{"imageId":"` + scannedID},
		{"/scan-results/" + escape(scannedID), "/scan-results/{imageId}", `"bomFormat":"CycloneDX"`},
	} {
		t.Run(test.path, func(t *testing.T) {
			a := f.do(http.MethodGet, test.path, "")
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" || !strings.HasPrefix(a.header.Get("Cache-Control"), cachingOf(test.path)) {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			if !strings.Contains(a.body, test.want) {
				t.Errorf("%s is not in %s", test.want, a.body)
			}
			a.secure(t)
			validate(t, success(http.MethodGet, test.operation), a.body)
		})
	}
}

// cachingOf is what browsers are told of an answer: those with a tag may be kept, and asked about.
func cachingOf(path string) string {
	if path == "/scan-results" || strings.HasSuffix(path, "/session") {
		return "no-store"
	}
	return "private, no-cache"
}

func TestPaging(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for _, list := range []string{"/api/v1/images?pageSize=1", "/api/v1/images/" + escape(scannedID) + "/findings?pageSize=1"} {
		seen, token := 0, ""
		for {
			var page struct {
				Items         []json.RawMessage
				Total         int
				NextPageToken string
			}
			a := f.do(http.MethodGet, list+"&pageToken="+token, "")
			f.must(json.Unmarshal([]byte(a.body), &page))
			seen += len(page.Items)
			if page.NextPageToken == "" {
				if seen != page.Total || seen < 2 {
					t.Errorf("%s: %d of %d", list, seen, page.Total)
				}
				break
			}
			token = page.NextPageToken
		}
	}
}

func TestRefusals(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	image := "/api/v1/images/" + escape(scannedID)
	unknown := escape(unknownID)
	long := strings.Repeat("x", 5000)
	for _, test := range []struct {
		method, path string
		status       int
		detail       string
	}{
		{http.MethodGet, "/api/v1/images/" + unknown, 404, "image not found"},
		{http.MethodGet, image + "?platform=linux/arm64", 404, ""},
		{http.MethodGet, "/api/v1/images/" + unknown + "/findings", 404, ""},
		{http.MethodGet, "/api/v1/images/" + unknown + "/sbom", 404, ""},
		{http.MethodGet, "/api/v1/images/" + escape(pendingID) + "/sbom", 404, ""},
		{http.MethodGet, "/scan-results/" + unknown, 404, ""},
		{http.MethodGet, "/scan-results/" + escape(pendingID), 404, ""},
		{http.MethodDelete, "/scan-results/" + unknown, 404, ""},
		{http.MethodGet, "/api/v1/images/" + strings.Repeat("a", 600), 400, "limit of 512"},
		{http.MethodGet, "/api/v1/images/a%20b", 400, "printable"},
		{http.MethodGet, "/api/v1/images/a%00b/findings", 400, "printable"},
		{http.MethodDelete, "/scan-results/%C3%A9", 400, "printable"},
		{http.MethodGet, image + "?platform=linux", 400, "platform"},
		{http.MethodGet, image + "/sbom?platform=%27--", 400, "platform"},
		{http.MethodGet, image + "/findings?platform=x", 400, "platform"},
		{http.MethodGet, image + "/findings?severity=Awful", 400, "severity"},
		{http.MethodGet, image + "/findings?sort=id", 400, "sort"},
		{http.MethodGet, image + "/findings?kev=maybe", 400, "kev"},
		{http.MethodGet, image + "/findings?text=" + long, 400, "text"},
		{http.MethodGet, image + "/findings?pageToken=nonsense", 400, "pageToken"},
		{http.MethodGet, "/api/v1/images?pageToken=nonsense", 400, "pageToken"},
		{http.MethodGet, "/api/v1/images?pageToken=" + long, 400, "pageToken"},
		{http.MethodGet, "/api/v1/images?pageSize=0", 400, "pageSize"},
		{http.MethodGet, "/api/v1/images?pageSize=1001", 400, "pageSize"},
		{http.MethodGet, "/api/v1/images?pageSize=many", 400, "pageSize"},
		{http.MethodGet, "/api/v1/images?severity=critical", 400, "severity"},
		{http.MethodGet, "/api/v1/images?state=Gone", 400, "state"},
		{http.MethodGet, "/api/v1/images?state=Failed&state=Failed&state=Failed&state=Failed&state=Failed&state=Failed", 400, "state is repeated more than 5 times"},
		{http.MethodGet, "/api/v1/images?sort=size", 400, "sort"},
		{http.MethodGet, "/api/v1/images?text=" + long, 400, "text"},
		{http.MethodGet, "/api/v1/images?text=a;b", 400, "query"},
		{http.MethodGet, "/api/v1/images?text=%zz", 400, "query"},
		{http.MethodPost, "/scan-results", 405, "POST"},
		{http.MethodPatch, "/api/v1/images/" + unknown, 405, ""},
		{"BREW", "/scan-results", 405, "other"},
		{http.MethodGet, "/api/v1/nothing", 404, "resource not found"},
		{http.MethodPost, "/nothing", 404, "resource not found"},
		{http.MethodGet, "/subscribe", 426, "WebSocket"},
	} {
		t.Run(test.method+" "+test.path[:min(60, len(test.path))], func(t *testing.T) {
			a := f.do(test.method, test.path, "")
			a.problem(t, test.status, test.detail)
			if test.status == http.StatusMethodNotAllowed && a.header.Get("Allow") == "" {
				t.Error("Allow is missing")
			}
		})
	}
}

// SQL metacharacters find nothing and break nothing.
func TestQueriesAreData(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for _, text := range []string{"%25", "_", "'%20OR%201=1--", "%22%3BDROP%20TABLE%20images%3B--", "%5C"} {
		for _, path := range []string{"/api/v1/images?text=", "/api/v1/images/" + escape(scannedID) + "/findings?text="} {
			a := f.do(http.MethodGet, path+text, "")
			if a.status != http.StatusOK || !strings.Contains(a.body, `"total":0`) {
				t.Errorf("%s%s: %d %s", path, text, a.status, a.body)
			}
		}
	}
}

// faulty is a store whose methods fail.
type faulty struct {
	store.Store
	err error
}

func (s faulty) ListImages(context.Context, store.Namespaces, store.ImageQuery) (store.ImagePage, error) {
	return store.ImagePage{}, s.err
}
func (s faulty) Image(context.Context, store.Namespaces, model.ImageKey) (store.Image, error) {
	return store.Image{}, s.err
}
func (s faulty) SBOM(context.Context, store.Namespaces, model.ImageKey) (store.SBOM, error) {
	return store.SBOM{}, s.err
}
func (s faulty) Findings(context.Context, store.Namespaces, store.FindingQuery) (store.FindingPage, error) {
	return store.FindingPage{}, s.err
}
func (s faulty) DeleteImage(context.Context, store.Namespaces, store.Namespaces, string) error {
	return s.err
}
func (s faulty) Overview(context.Context, store.Namespaces) (store.Overview, error) {
	return store.Overview{}, s.err
}
func (s faulty) ShownResultSet(context.Context, store.Namespaces) (store.ResultSet, bool, error) {
	return store.ResultSet{}, false, s.err
}
func (s faulty) ListResultSets(context.Context, store.Namespaces, int) ([]store.ResultSet, error) {
	return nil, s.err
}
func (s faulty) Changes(context.Context, store.Namespaces, store.ChangeQuery) (store.ChangePage, error) {
	return store.ChangePage{}, s.err
}
func (s faulty) SaveReport(context.Context, store.Namespaces, string, store.Report) error {
	return s.err
}
func (s faulty) Ready(context.Context) error { return s.err }

func TestStoreErrors(t *testing.T) {
	broken := &faulty{}
	rematcher := &rematcher{}
	f := newFixture(t, func(c *server.Config) {
		broken.Store = c.Store
		c.Store, c.Rematcher = broken, rematcher
	})
	for _, test := range []struct {
		err    error
		status int
		detail string
	}{
		{store.ErrUnavailable, 503, "database"},
		{store.ErrSchemaTooNew, 503, "database"},
		{errors.New("secret-dsn"), 500, "see the operator's log"},
		{context.DeadlineExceeded, 503, "canceled or timed out"},
	} {
		broken.err = test.err
		f.ingest.err = test.err
		rematcher.err = test.err
		for _, request := range []string{
			"GET /scan-results", "GET /scan-results/a", "DELETE /scan-results/a", "PUT /scan-results", "GET /api/v1/overview", "GET /api/v1/images",
			"GET /api/v1/images/a", "GET /api/v1/images/a/findings", "GET /api/v1/images/a/sbom", "PUT /api/v1/images/a/sbom", "GET /api/v1/databases", "GET /api/v1/databases/a/changes", "POST /api/v1/databases/rematch",
		} {
			method, path, _ := strings.Cut(request, " ")
			a := f.do(method, path, `{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.6"}}`)
			a.problem(t, test.status, test.detail)
			if strings.Contains(a.body, "secret") {
				t.Errorf("%s: an error was shown: %s", request, a.body)
			}
			if (test.status == http.StatusServiceUnavailable) != (a.header.Get("Retry-After") != "") {
				t.Errorf("%s: Retry-After: %q", request, a.header.Get("Retry-After"))
			}
		}
	}
}

func TestSBOM(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	path := "/api/v1/images/" + escape(scannedID) + "/sbom"
	plain := f.do(http.MethodGet, path, "")
	if plain.body != sbomText || plain.header.Get("Content-Type") != "application/vnd.syft+json" || plain.header.Get("Content-Encoding") != "" {
		t.Errorf("plain: %d %v %s", plain.status, plain.header, plain.body)
	}
	stored := f.do(http.MethodGet, path, "", "Accept-Encoding: gzip, zstd;q=0.9")
	if stored.header.Get("Content-Encoding") != "zstd" || decompressed(t, []byte(stored.body)) != sbomText {
		t.Errorf("zstd: %d %v", stored.status, stored.header)
	}
	for _, refuses := range []string{"zstd;q=0", "gzip", "zstd;q=x"} {
		if a := f.do(http.MethodGet, path, "", "Accept-Encoding: "+refuses); a.body != sbomText {
			t.Errorf("%s: %v", refuses, a.header)
		}
	}
}

func TestUploadSBOM(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.SBOMBody = 1000 })
	path := "/api/v1/images/" + escape(scannedID) + "/sbom?platform=linux/amd64"
	for _, encoding := range []string{"zstd", "identity"} {
		body := sbomText
		if encoding == "zstd" {
			body = string(compressed(sbomText))
		}
		a := f.do(http.MethodPut, path, body, "Content-Encoding: "+encoding, "Content-Type: application/vnd.syft+json")
		if a.status != http.StatusNoContent || decompressed(t, f.ingest.got) != sbomText {
			t.Errorf("%s: %d %s, got %q", encoding, a.status, a.body, f.ingest.got)
		}
		if key := f.ingest.keys[len(f.ingest.keys)-1]; key != (model.ImageKey{ImageID: scannedID, Platform: linux}) {
			t.Errorf("%s: key %v", encoding, key)
		}
		f.do(http.MethodPut, path, strings.Repeat("x", 1001), "Content-Encoding: "+encoding).problem(t, 413, "limit of 1000 bytes")
	}
	if a := f.do(http.MethodPut, path+"&unreadable=3", sbomText); a.status != http.StatusNoContent || f.ingest.deliveries[len(f.ingest.deliveries)-1] != (store.Delivery{Unreadable: 3}) {
		t.Errorf("unreadable files: %d %s, %+v", a.status, a.body, f.ingest.deliveries)
	}
	why := strings.Repeat("ä", model.MaxLayersUnknown/2)
	if a := f.do(http.MethodPut, path+"&layersUnknown="+url.QueryEscape(why), sbomText); a.status != http.StatusNoContent || f.ingest.deliveries[len(f.ingest.deliveries)-1] != (store.Delivery{LayersUnknown: why}) {
		t.Errorf("unknown layers: %d %s, %+v", a.status, a.body, f.ingest.deliveries)
	}
	uploads := len(f.ingest.deliveries)
	for _, text := range []string{url.QueryEscape(why + "x"), "%FF", "%00", "a&layersUnknown=b"} {
		f.do(http.MethodPut, path+"&layersUnknown="+text, sbomText).problem(t, 400, "layersUnknown")
	}
	for _, count := range []string{"-1", "1000000001", "many", "9999999999999999999999", "1e3", "1&unreadable=2"} {
		f.do(http.MethodPut, path+"&unreadable="+count, sbomText).problem(t, 400, "unreadable")
	}
	f.do(http.MethodPut, path+"&source=Registry", sbomText).problem(t, 400, "source")
	if len(f.ingest.deliveries) != uploads {
		t.Errorf("%+v were ingested", f.ingest.deliveries[uploads:])
	}
	f.do(http.MethodPut, path, "x", "Content-Encoding: gzip").problem(t, 415, "gzip")
	for _, status := range []int{400, 413, 422} {
		f.ingest.err = &problem.RefusedError{Status: status, Detail: "not an SBOM"}
		f.do(http.MethodPut, path, "x").problem(t, status, "not an SBOM")
	}
	f.ingest.err = store.ErrNotFound
	f.do(http.MethodPut, path, "x").problem(t, 404, "")
	f.ingest.err = fmt.Errorf("secret: %w", store.ErrAttemptClosed)
	closed := f.do(http.MethodPut, path, "x")
	closed.problem(t, 403, "not allowed to upload the SBOM")
	if strings.Contains(closed.body, "secret") {
		t.Errorf("the reason is shown: %s", closed.body)
	}
}

func TestCheck(t *testing.T) {
	broken := &faulty{}
	f := newFixture(t, func(c *server.Config) {
		broken.Store = c.Store
		c.Store = broken
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	f.must(err)
	f.must(f.server.Check(request))
	broken.err = store.ErrUnavailable
	if f.server.Check(request) == nil {
		t.Error("ready without a store")
	}
	broken.err = nil
	f.stop()
	f.must(f.wait())
	if f.server.Check(request) == nil {
		t.Error("ready after the end")
	}
	if f.server.Start(t.Context()) == nil {
		t.Error("started twice")
	}
}
