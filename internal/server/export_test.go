package server_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/sarif"
	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// exports are the formats with their media types, and readers that return how many findings a document tells of.
var exports = []struct {
	format, mediaType, extension string
	findings                     func(t *testing.T, body string) int
}{
	{"cyclonedx-json", "application/vnd.cyclonedx+json", "cdx.json", func(t *testing.T, body string) int {
		bom := readCycloneDX(t, body)
		affected := 0
		for _, v := range *bom.Vulnerabilities {
			affected += len(*v.Affects)
		}
		return affected
	}},
	{"spdx-json", "application/spdx+json", "spdx.json", func(t *testing.T, body string) int {
		document, err := spdxjson.Read(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		advisories := 0
		for _, p := range document.Packages {
			for _, reference := range p.PackageExternalReferences {
				if reference.RefType == "advisory" {
					advisories++
				}
			}
		}
		return advisories
	}},
	{"sarif", "application/sarif+json", "sarif", func(t *testing.T, body string) int {
		document, err := sarif.FromString(body)
		if err != nil {
			t.Fatal(err)
		}
		results := 0
		for _, run := range document.Runs {
			results += len(run.Results)
		}
		return results
	}},
	{"csv", "text/csv; charset=utf-8; header=present", "csv", func(t *testing.T, body string) int { return len(readCSV(t, body)) - 1 }},
}

func readCycloneDX(t *testing.T, body string) *cdx.BOM {
	t.Helper()
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(strings.NewReader(body), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

func readCSV(t *testing.T, body string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Documents of every format hold the findings that the JSON of the same query has.
func TestExports(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	image := "/api/v1/images/" + escape(scannedID)
	for target, want := range map[string]int{
		image + "?": 2, image + "?platform=linux/amd64": 2, image + "/findings?": 2, image + "/findings?severity=Critical&pageSize=1": 1,
		image + "/findings?text=nothing": 0, "/api/v1/images?": 5, "/api/v1/images?namespace=bank&pageSize=1": 3, "/api/v1/images?text=nothing": 0,
		"/api/v1/images?state=Scanned&state=Failed&namespace=shop": 2,
	} {
		for _, export := range exports {
			chosen := f.do(http.MethodGet, target+"&format="+export.format, "")
			if chosen.status != http.StatusOK || chosen.header.Get("Content-Type") != export.mediaType {
				t.Fatalf("%s as %s: %d %v %s", target, export.format, chosen.status, chosen.header, chosen.body)
			}
			chosen.secure(t)
			if disposition := chosen.header.Get("Content-Disposition"); !strings.HasPrefix(disposition, "attachment") || !strings.HasSuffix(disposition, export.extension+`"`) {
				t.Errorf("%s as %s: %s", target, export.format, disposition)
			}
			if got := export.findings(t, chosen.body); got != want {
				t.Errorf("%s as %s: %d findings, want %d: %s", target, export.format, got, want, chosen.body)
			}
			mediaType, _, _ := strings.Cut(export.mediaType, ";")
			accepted := f.do(http.MethodGet, strings.TrimSuffix(target, "?"), "", "Accept: application/json;q=0.1, "+mediaType)
			if accepted.header.Get("Content-Type") != export.mediaType || export.findings(t, accepted.body) != want {
				t.Errorf("%s accepting %s: %d %v", target, mediaType, accepted.status, accepted.header)
			}
			head := f.do(http.MethodHead, target+"&format="+export.format, "")
			if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Type") != export.mediaType {
				t.Errorf("HEAD %s as %s: %d %v", target, export.format, head.status, head.header)
			}
		}
	}
	for _, accept := range []string{"*/*", "text/html, application/xhtml+xml, */*;q=0.8", "text/csv;q=0", "nonsense", "application/*", "text/csv;q=x"} {
		if a := f.do(http.MethodGet, image, "", "Accept: "+accept); a.header.Get("Content-Type") != "application/json" {
			t.Errorf("accepting %s: %v", accept, a.header)
		}
	}
}

func TestExportOfWhatIsNotScanned(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for _, id := range []string{pendingID, failedID, unknownID} {
		for _, export := range exports {
			f.do(http.MethodGet, "/api/v1/images/"+escape(id)+"?format="+export.format, "").problem(t, http.StatusNotFound, "does not have the requested data")
		}
		f.do(http.MethodGet, "/api/v1/images/"+escape(id)+"/sbom?format=spdx-json", "").problem(t, http.StatusNotFound, "")
	}
}

func TestSBOMInOtherFormats(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	path := "/api/v1/images/" + escape(scannedID) + "/sbom?format="
	bom := readCycloneDX(t, f.do(http.MethodGet, path+"cyclonedx-json", "").body)
	if bom.Vulnerabilities != nil || len(*bom.Components) != 3 { // the distribution and two packages
		t.Errorf("%+v", bom)
	}
	spdx := f.do(http.MethodGet, path+"spdx-json", "")
	document, err := spdxjson.Read(strings.NewReader(spdx.body))
	if err != nil || len(document.Packages) != 3 || strings.Contains(spdx.body, "advisory") {
		t.Errorf("%v, %s", err, spdx.body)
	}
}

func TestListsAsCSV(t *testing.T) {
	f := newFullFixture(t)
	for target, want := range map[string][]string{
		"/api/v1/vulnerabilities?sort=id&text=0000":                       {"vulnerability", "CVE-2024-0000", "Critical", "0.5", "90", "yes", "yes", "2", "2", "1"},
		"/api/v1/vulnerabilities/CVE-2024-0002/affected?namespace=bank&x": nil,
		"/api/v1/vulnerabilities/CVE-2024-0002/affected?namespace=bank":   {"vulnerability", "CVE-2024-0002", "Medium", olderID, "linux/amd64", "log4j-core", "2.17.0"},
		"/api/v1/vulnerabilities/CVE-2024-0002/exposures?namespace=bank":  {"vulnerability", "CVE-2024-0002", "bank", "StatefulSet", "ledger"},
		"/api/v1/packages?name=zlib":                                      {"package", "zlib", "1.2.13", "apk"},
		"/api/v1/workloads?namespace=shop":                                {"namespace", "shop", "Deployment", "web", "1", "1", "1"},
		"/api/v1/decisions?name=soon": {
			"source", "kubernetes", "ClusterVulnerabilityException", "", "soon", "standing", "NotAffected", "yes", "", "pkg:npm/left-pad", "", "", "yes",
			"component_not_present", "'=1+1", "jane",
		},
		"/api/v1/bases?sort=-images":               {"chain_id", baseLayer, "1", olderID, "linux/amd64", "docker.io/library/alpine:3.20", "1", "1"},
		"/api/v1/namespaces?text=shop":             {"namespace", "shop", "1", "1", "1", "1", "1", "0", "0", "0", "0", "2", "2", "0", "0"},
		"/api/v1/owners?text=shop":                 {"owner", "Team Shop", "1", "1", "1", "1", "1", "0", "0", "0", "0", "2", "2", "0", "0"},
		"/api/v1/coverage?state=Failed&pageSize=1": {"namespace", "shop", "Deployment", "web", "side", "Failed", "ImageNotFound", "gone", "'=side:1"},
	} {
		if want == nil {
			f.do(http.MethodGet, target, "").problem(t, http.StatusBadRequest, `"x"`)
			continue
		}
		for _, a := range []answer{f.do(http.MethodGet, target+"&format=csv", ""), f.do(http.MethodGet, target, "", "Accept: text/csv")} {
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
				t.Fatalf("%s: %d %v %s", target, a.status, a.header, a.body)
			}
			rows := readCSV(t, a.body)
			if len(rows) != 2 || rows[0][0] != want[0] {
				t.Fatalf("%s: %v", target, rows)
			}
			if diff := cmp.Diff(want[1:], rows[1][:len(want)-1]); diff != "" {
				t.Errorf("%s: %s", target, diff)
			}
		}
	}
}

func TestOwnersInExports(t *testing.T) {
	f := newFullFixture(t)
	image := "/api/v1/images/" + escape(scannedID)
	for target, want := range map[string]string{
		image + "/findings?": "Team Shop", image + "?": "Team Shop", "/api/v1/images?namespace=shop": "Team Shop", "/api/v1/fixes?namespace=shop": "Team Shop",
		"/api/v1/vulnerabilities?": "Team Shop", "/api/v1/vulnerabilities?namespace=shop": "Team Shop", "/api/v1/vulnerabilities?namespace=bank": "",
		"/api/v1/vulnerabilities/CVE-2024-0000/affected?namespace=shop": "Team Shop", "/api/v1/vulnerabilities/CVE-2024-0000/affected?namespace=bank": "",
		"/api/v1/packages?imageId=" + escape(scannedID): "Team Shop", "/api/v1/packages?namespace=bank": "",
	} {
		rows := readCSV(t, f.do(http.MethodGet, target+"&format=csv", "").body)
		column := slices.Index(rows[0], "owners")
		if column < 0 || len(rows) < 2 || rows[1][column] != want {
			t.Errorf("%s: want the owner %q in %v", target, want, rows)
		}
	}
}

// manyStore has as many vulnerabilities and scanned images as it is told.
type manyStore struct {
	store.Store
	vulnerabilities, images int
	// fails is the number of the page that cannot be read, 0 for none.
	fails int
}

func (s *manyStore) ListVulnerabilities(_ context.Context, _ store.Namespaces, query store.VulnerabilityQuery) (store.VulnerabilityPage, error) {
	start := 0
	_, _ = fmt.Sscan(query.Token, &start)
	if s.fails > 0 && start >= (s.fails-1)*store.MaxPageSize {
		return store.VulnerabilityPage{}, store.ErrUnavailable
	}
	page := store.VulnerabilityPage{Total: s.vulnerabilities}
	for i := start; i < min(start+query.Limit(), s.vulnerabilities); i++ {
		page.Vulnerabilities = append(page.Vulnerabilities, store.VulnerabilitySummary{ID: fmt.Sprintf("CVE-%d", i)})
	}
	if start+query.Limit() < s.vulnerabilities {
		page.NextToken = fmt.Sprint(start + query.Limit())
	}
	return page, nil
}

func (s *manyStore) ListImages(ctx context.Context, in store.Namespaces, query store.ImageQuery) (store.ImagePage, error) {
	page, err := s.Store.ListImages(ctx, in, query)
	page.Total = s.images
	return page, err
}

func newManyFixture(t *testing.T, many *manyStore) *fixture {
	t.Helper()
	return newFixture(t, func(c *server.Config) {
		many.Store = c.Store
		c.Store = many
	})
}

// A list goes over all of its pages, and one that is too long is refused before anything is sent.
func TestExportsAreBounded(t *testing.T) {
	many := &manyStore{vulnerabilities: 2500, images: 1001}
	f := newManyFixture(t, many)
	if rows := readCSV(t, f.do(http.MethodGet, "/api/v1/vulnerabilities?format=csv", "").body); len(rows) != 2501 || rows[2500][0] != "CVE-2499" {
		t.Errorf("%d rows", len(rows))
	}
	many.vulnerabilities = 100_001
	f.do(http.MethodGet, "/api/v1/vulnerabilities?format=csv", "").problem(t, http.StatusBadRequest, "100001 rows, which exceeds the limit of 100000")
	f.do(http.MethodGet, "/api/v1/images?format=sarif", "").problem(t, http.StatusBadRequest, "1001 scanned images, which exceeds the limit of 1000")
}

// What fails before the first byte is told; what fails later is cut off.
func TestExportsThatFail(t *testing.T) {
	many := &manyStore{vulnerabilities: 5000, fails: 1}
	f := newManyFixture(t, many)
	f.do(http.MethodGet, "/api/v1/vulnerabilities?format=csv", "").problem(t, http.StatusServiceUnavailable, "database")
	many.fails = 4
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"/api/v1/vulnerabilities?format=csv", nil)
	f.must(err)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := f.client.Do(request)
	if err != nil {
		return // cut off before the headers were flushed
	}
	defer func() { _ = response.Body.Close() }()
	if content, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("a whole answer of %d bytes", len(content))
	}
}

// An image that is matched anew while it is exported is exported again; within a set the document is cut off or refused.
func TestExportOfAnImageThatChanges(t *testing.T) {
	busy := &restless{}
	f := newFixture(t, func(c *server.Config) {
		busy.Store = c.Store
		c.Store = busy
	})
	f.seed()
	busy.f, busy.changes = f, 2
	a := f.do(http.MethodGet, "/api/v1/images/"+escape(scannedID)+"?format=cyclonedx-json", "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `pkg:apk/alpine/musl@0`) || strings.Contains(a.body, "openssl") {
		t.Errorf("%d %s", a.status, a.body)
	}
	busy.changes = 1
	f.do(http.MethodGet, "/api/v1/images?format=cyclonedx-json", "").problem(t, http.StatusServiceUnavailable, "changed during the export")
}

// When all slots for exports are taken, the next one is asked to come back.
func TestExportSlots(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *server.Config) {
		c.Store = &gatedStore{c.Store, entered, leave}
		c.Limits.Exports, c.Limits.SlotPatience = 1, 50*time.Millisecond
	})
	f.seed()
	target := "/api/v1/images/" + escape(scannedID) + "?format=spdx-json"
	first := make(chan answer, 1)
	go func() { first <- f.do(http.MethodGet, target, "") }()
	<-entered
	refused := f.do(http.MethodGet, target, "")
	refused.problem(t, http.StatusServiceUnavailable, "limit of 1 concurrent exports")
	if refused.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(leave)
	if a := <-first; a.status != http.StatusOK || !bytes.Contains([]byte(a.body), []byte("SPDX-2.3")) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// gatedStore tells when packages are read first, and waits to be let go.
type gatedStore struct {
	store.Store
	entered, leave chan struct{}
}

func (s *gatedStore) Packages(ctx context.Context, in store.Namespaces, key model.ImageKey, yield func(model.HeldPackage) error) error {
	close(s.entered)
	select {
	case <-s.leave:
	case <-ctx.Done():
	}
	return s.Store.Packages(ctx, in, key, yield)
}

// stuckWriter is a client that takes nothing until it is let go. It tells when it is to take something first.
type stuckWriter struct {
	*httptest.ResponseRecorder
	once           sync.Once
	entered, leave chan struct{}
	deadline       time.Time
}

func (w *stuckWriter) Write(data []byte) (int, error) {
	w.once.Do(func() { close(w.entered) })
	<-w.leave
	return w.ResponseRecorder.Write(data)
}

func (w *stuckWriter) SetReadDeadline(time.Time) error { return nil }

func (w *stuckWriter) SetWriteDeadline(deadline time.Time) error {
	w.deadline = deadline
	return nil
}

// A client that does not take its document holds up nobody else.
func TestSlowClientsOfExports(t *testing.T) {
	f := newFixture(t, func(c *server.Config) {
		c.Limits.Exports, c.Limits.SlotPatience, c.Limits.WriteTimeout = 1, 50*time.Millisecond, time.Hour
	})
	f.seed()
	for _, target := range []string{"/api/v1/images/" + escape(scannedID) + "?format=spdx-json", "/api/v1/images?format=spdx-json"} {
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), entered: make(chan struct{}), leave: make(chan struct{})}
		ended := make(chan struct{})
		request := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
		go func() {
			defer close(ended)
			f.server.Handler().ServeHTTP(w, request)
		}()
		<-w.entered
		if a := f.do(http.MethodGet, target, ""); a.status != http.StatusOK {
			t.Errorf("another client: %d %s", a.status, a.body)
		}
		if left := time.Until(w.deadline); strings.HasPrefix(target, "/api/v1/images?") && left > 10*time.Minute {
			t.Errorf("a streamed document may take %s", left)
		}
		close(w.leave)
		<-ended
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "SPDX-2.3") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Four clients that take nothing of a long document, as many as sqlite has connections that read, leave readiness, reading and uploads to
// others.
func TestSlowClientsHoldNoConnection(t *testing.T) {
	for _, export := range exports {
		t.Run(export.format, func(t *testing.T) {
			f := newFixture(t, func(c *server.Config) { c.Limits.WriteTimeout = time.Hour })
			f.seed()
			packages := make([]model.Package, 400)
			for i := range packages {
				packages[i] = packageOf(fmt.Sprintf("package-%d", i), "1.0")
			}
			f.scan(model.ImageKey{ImageID: scannedID, Platform: linux}, packages...)
			for range 4 {
				letGo := f.stuck("/api/v1/images?format=" + export.format)
				defer func() {
					if w := letGo(); w.Code != http.StatusOK || export.findings(t, w.Body.String()) != len(packages) {
						t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
					}
				}()
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := f.store.Ready(ctx); err != nil {
				t.Fatalf("readiness: %v", err)
			}
			if a := f.do(http.MethodGet, "/api/v1/images/"+escape(scannedID), ""); a.status != http.StatusOK {
				t.Errorf("reading: %d %s", a.status, a.body)
			}
			if a := f.do(http.MethodPut, "/scan-results", uploadOf(unknownID)); a.status != http.StatusOK {
				t.Errorf("upload: %d %s", a.status, a.body)
			}
		})
	}
}

// A document about all images, or all pages of a list, counts as an expensive request.
func TestStreamedExportsAreExpensive(t *testing.T) {
	for _, target := range []string{"/api/v1/images?format=sarif", "/api/v1/vulnerabilities?format=csv"} {
		f, _ := limitedFixture(t, newCluster())
		if a := f.do(http.MethodGet, target, "", bearer("admin")); a.status != http.StatusOK {
			t.Fatal(a.body)
		}
		f.do(http.MethodGet, target, "", bearer("admin")).problem(t, http.StatusTooManyRequests, "rate limit exceeded")
		// One about a single image is a request like others.
		image := "/api/v1/images/" + escape(scannedID) + "?format=sarif"
		f.do(http.MethodGet, image, "", bearer("admin")).problem(t, http.StatusNotFound, "")
	}
}
