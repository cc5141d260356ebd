package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// uploaded is a report as early scanners write it, with spaces that must survive.
const uploaded = `{ "bomFormat" : "CycloneDX", "specVersion":"1.6", "vulnerabilities": [ {"id":"CVE-1","ratings":[{"severity":"critical"}],"affects":[{"ref":"a"}]} ] }`

func uploadOf(id string) string { return `{"imageId":"` + id + `","report":` + uploaded + `}` }

// scanResult is what the first UI reads.
type scanResult struct {
	ImageID string          `json:"imageId"`
	Report  json.RawMessage `json:"report"`
}

func (f *fixture) results() []scanResult {
	f.t.Helper()
	a := f.do(http.MethodGet, "/scan-results", "")
	results := []scanResult{}
	if err := json.Unmarshal([]byte(a.body), &results); err != nil || a.status != http.StatusOK {
		f.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return results
}

func TestClientOfResults(t *testing.T) {
	f := newFixture(t, nil)
	if a := f.do(http.MethodGet, "/scan-results", ""); a.body != "[]\n" {
		t.Errorf("no results: %q", a.body)
	}
	path := "/scan-results/" + escape(reportedID)
	f.do(http.MethodGet, path, "").problem(t, 404, "")

	// curl -X PUT -H 'Content-Type: application/json' -d @file, where the file ends with what "echo" of the Job's shell makes of \n.
	for _, headers := range [][]string{{"Content-Type: application/json", "User-Agent: curl/8.10.0", "Accept: */*"}, nil, {"Content-Type: application/x-www-form-urlencoded"}} {
		a := f.do(http.MethodPut, "/scan-results", uploadOf(reportedID)+`\n`, headers...)
		if want := `{"imageId":"` + reportedID + `","report":` + uploaded + "}\n"; a.status != http.StatusOK || a.body != want {
			t.Fatalf("PUT: %d %s", a.status, a.body)
		}
		validate(t, success(http.MethodPut, "/scan-results"), a.body)
	}
	if a := f.do(http.MethodGet, path, ""); a.status != http.StatusOK || a.body != `{"imageId":"`+reportedID+`","report":`+uploaded+"}\n" {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	if a := f.do(http.MethodHead, path, ""); a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
	image, err := f.store.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: reportedID})
	f.must(err)
	if image.State != store.StateReported || image.Counts.Critical != 1 {
		t.Errorf("image: %+v", image)
	}
	if got := f.results(); len(got) != 1 || string(got[0].Report) != uploaded {
		t.Errorf("all: %s", got)
	}
	if a := f.do(http.MethodDelete, path, ""); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
	f.do(http.MethodDelete, path, "").problem(t, 404, "")
	f.do(http.MethodGet, path, "").problem(t, 404, "")
}

// What we scanned ourselves comes before what was uploaded, and an upload about an image that still waits is a result.
func TestWhichReport(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for _, id := range []string{pendingID, reportedID, scannedID} {
		if a := f.do(http.MethodPut, "/scan-results", uploadOf(id)); a.status != http.StatusOK {
			t.Fatal(a)
		}
	}
	var ids []string
	for _, r := range f.results() {
		ids = append(ids, r.ImageID)
		if ours := strings.Contains(string(r.Report), "serialNumber"); ours != (r.ImageID == scannedID) {
			t.Errorf("%s: report %.80s", r.ImageID, r.Report)
		}
	}
	if diff := cmp.Diff([]string{scannedID, pendingID, reportedID}, ids); diff != "" {
		t.Error(diff)
	}
	f.scan(model.ImageKey{ImageID: pendingID, Platform: linux}, packageOf("musl", "1.2"))
	if a := f.do(http.MethodGet, "/scan-results/"+escape(pendingID), ""); !strings.Contains(a.body, "serialNumber") {
		t.Errorf("after the scan: %.80s", a.body)
	}
}

// The list goes over pages, has one entry for each image whatever its platforms, and is in order.
func TestManyResults(t *testing.T) {
	f := newFixture(t, nil)
	var keys []model.ImageKey
	var want []string
	for i := range 1200 {
		id := fmt.Sprintf("example.com/image-%04d@sha256:%064d", i, i)
		if i%600 == 0 {
			keys = append(keys, model.ImageKey{ImageID: id, Platform: linux}, model.ImageKey{ImageID: id, Platform: model.Platform{OS: "linux", Architecture: "arm64"}})
			want = append(want, id)
		} else {
			keys = append(keys, model.ImageKey{ImageID: id, Platform: linux})
		}
	}
	_, err := f.store.WantImages(t.Context(), keys)
	f.must(err)
	for _, key := range keys {
		if slices.Contains(want, key.ImageID) {
			f.scan(key, packageOf("musl", "1.2"))
		}
	}
	var got []string
	for _, r := range f.results() {
		got = append(got, r.ImageID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEqualStateGivesEqualReports(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	first, second := f.do(http.MethodGet, "/scan-results", ""), f.do(http.MethodGet, "/scan-results", "")
	if first.body != second.body {
		t.Error("two reports of the same state differ")
	}
}

func TestUploadsAreBounded(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.ReportBody = 10 << 20 })
	put := func(body string, headers ...string) answer {
		return f.do(http.MethodPut, "/scan-results", body, headers...)
	}
	document := func(members string) string {
		return `{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.6"` + members + `}}`
	}
	put("").problem(t, 400, "not a JSON object")
	put("null").problem(t, 400, "not a JSON object")
	put(`{"imageId":"a"`).problem(t, 400, "truncated")
	put(`{"imageId":"a","report":{}}`).problem(t, 400, "bomFormat")
	put(`{"imageId":"a\u0000b","report":{}}`).problem(t, 400, "printable")
	put(uploadOf("a"), "Content-Encoding: gzip").problem(t, 415, "gzip")
	put(strings.Repeat("[", 5_000_000)).problem(t, 400, "not a JSON object")
	put(document(`,"x":`+strings.Repeat("[", 5_000_000))).problem(t, 413, "nested deeper")
	put(document(`,"components":[`+strings.Repeat("{},", 3_000_000)+"{}]")).problem(t, 413, "values")
	put(document(`,"x":[`+strings.Repeat(`{"a":0},`, 1_000_000)+"0]")).problem(t, 413, "values")
	put(strings.Repeat("x", 10<<20+1)).problem(t, 413, "limit of 10485760 bytes")

	// A body of unknown length ends at the limit, too.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.base+"/scan-results", io.LimitReader(endless{}, 20<<20))
	f.must(err)
	response, err := f.client.Do(request)
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("endless body: %d", response.StatusCode)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A bomb of ten megabytes costs little more than its own size.
func TestBombsStaySmall(t *testing.T) {
	f := newFixture(t, nil)
	bomb := `{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.6","components":[` + strings.Repeat("{},", 3_500_000) + "{}]}}"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.do(http.MethodPut, "/scan-results", bomb).problem(t, 413, "values")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("the bomb allocated %d bytes", grown)
	}
}

// A list that fails in the middle is cut off: it must not look like a whole one.
func TestListIsCutOff(t *testing.T) {
	half := &halfStore{}
	f := newFixture(t, func(c *server.Config) {
		half.Store = c.Store
		c.Store = half
	})
	f.seed()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"/scan-results", nil)
	f.must(err)
	response, err := f.client.Do(request)
	if err != nil {
		return // cut off before the headers were flushed
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("a whole answer: %s", body)
	}
}

// revokingStore revokes a permission when the first result of a list is written.
type revokingStore struct {
	store.Store
	reads  atomic.Int64
	revoke func()
}

func (s *revokingStore) Image(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.Image, error) {
	// Each result reads its image before and after.
	if s.reads.Add(1) == 2 {
		s.revoke()
	}
	return s.Store.Image(ctx, in, key)
}

// A list ends before the next result when its caller may not read any more.
func TestListEndsWithThePermission(t *testing.T) {
	t.Parallel()
	rights, revoking := newCluster(), &revokingStore{}
	var now atomic.Int64
	revoking.revoke = func() {
		rights.set(func(c *cluster) { c.verbs["admin"] = nil })
		now.Add(int64(2 * time.Minute))
	}
	f := newGuardedFixture(t, rights, func(c *server.Config) {
		revoking.Store, c.Store = c.Store, revoking
		c.Clock = func() time.Time { return time.Unix(0, now.Load()) }
	})
	f.seed()
	f.must(f.store.SaveReport(t.Context(), store.AllNamespaces(), unknownID, store.Report{Content: []byte(uploaded)}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.base+"/scan-results", nil)
	f.must(err)
	request.Header.Set("Authorization", "Bearer admin")
	response, err := f.client.Do(request)
	if err != nil {
		return // cut off before the headers were flushed
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil || strings.Count(string(body), `"imageId"`) > 1 {
		t.Errorf("more than the first result: %v %s", err, body)
	}
	if revoking.reads.Load() != 2 {
		t.Errorf("images were read %d times, want those of one result", revoking.reads.Load())
	}
}

// halfStore fails to read single images.
type halfStore struct{ store.Store }

func (halfStore) Image(context.Context, store.Namespaces, model.ImageKey) (store.Image, error) {
	return store.Image{}, store.ErrUnavailable
}

// restless is a store in which an image is matched anew each time that its packages are read.
type restless struct {
	store.Store
	changes int
	f       *fixture
}

func (s *restless) Packages(ctx context.Context, in store.Namespaces, key model.ImageKey, yield func(model.HeldPackage) error) error {
	err := s.Store.Packages(ctx, in, key, yield)
	if s.changes > 0 {
		s.changes--
		s.f.scan(key, packageOf("musl", fmt.Sprint(s.changes)))
	}
	return err
}

func TestReportOfAnImageThatChanges(t *testing.T) {
	busy := &restless{}
	f := newFixture(t, func(c *server.Config) {
		busy.Store = c.Store
		c.Store = busy
	})
	f.seed()
	busy.f, busy.changes = f, 2
	a := f.do(http.MethodGet, "/scan-results/"+escape(scannedID), "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `pkg:apk/alpine/musl@0`) || strings.Contains(a.body, "openssl") {
		t.Errorf("%d %s", a.status, a.body)
	}
	busy.changes = 100
	f.do(http.MethodGet, "/scan-results/"+escape(scannedID), "").problem(t, 503, "changed repeatedly")
}

// A client that goes away is no error of ours.
func TestClientGone(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/overview", nil)
	defer func() {
		if cause, _ := recover().(error); !errors.Is(cause, http.ErrAbortHandler) {
			t.Errorf("panic: %v", cause)
		}
	}()
	f.server.Handler().ServeHTTP(httptest.NewRecorder(), request)
}

// FuzzImagePath sends image IDs through the router as a client escapes them: none breaks the server, and what is stored comes back.
func FuzzImagePath(f *testing.F) {
	for _, seed := range []string{scannedID, "a/../b", "..", ".", "%2F", "%252e", "a//b", "/", "\x00", "é", "a?b#c", "a;b", strings.Repeat("x", 600)} {
		f.Add(seed)
	}
	memory := &idStore{}
	s, err := server.New(server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.None, Store: memory, Ingest: &ingester{}, Log: logr.Discard(), Registerer: prometheus.NewRegistry(),
		Feed: func(context.Context) live.Subscription { return nil },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id string) {
		memory.asked = ""
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/scan-results/x", nil)
		request.URL.Path, request.URL.RawPath = "/scan-results/"+id, "/scan-results/"+escape(id)
		recorder := httptest.NewRecorder()
		s.Handler().ServeHTTP(recorder, request)
		switch recorder.Code {
		case http.StatusNotFound:
			if memory.asked != "" && memory.asked != id {
				t.Errorf("asked for %q, looked for %q", id, memory.asked)
			}
			if memory.asked == "" && id != "" && id != "/" && (model.ImageKey{ImageID: id}).Validate() == nil {
				t.Errorf("%q did not reach the store", id)
			}
		case http.StatusBadRequest:
			// The path of "." and ".." is ambiguous; no image has such an ID.
			if (model.ImageKey{ImageID: id}).Validate() == nil && id != "." && id != ".." {
				t.Errorf("%q was refused: %s", id, recorder.Body)
			}
		case http.StatusOK:
			if id != "" {
				t.Errorf("%q: %d", id, recorder.Code)
			}
		default:
			t.Errorf("%q: %d", id, recorder.Code)
		}
	})
}

// idStore knows no image and remembers which one was asked for.
type idStore struct {
	store.Store
	asked string
}

func (s *idStore) Image(_ context.Context, _ store.Namespaces, key model.ImageKey) (store.Image, error) {
	s.asked = key.ImageID
	return store.Image{}, errors.Join(store.ErrNotFound)
}

// An upload beyond the number that may be read at a time waits, and goes on when another ends.
func TestUploadsWaitForEachOther(t *testing.T) {
	slow := &slowIngester{entered: make(chan struct{}), leave: make(chan struct{})}
	f := newFixture(t, func(c *server.Config) {
		c.Ingest, c.Limits.Uploads = slow, 1
	})
	first, second := make(chan answer, 1), make(chan answer, 1)
	go func() { first <- f.do(http.MethodPut, "/api/v1/images/a/sbom", "x") }()
	<-slow.entered
	go func() { second <- f.do(http.MethodPut, "/scan-results", uploadOf("a")) }()
	close(slow.leave)
	if a := <-first; a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := <-second; a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}
