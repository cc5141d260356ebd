package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// resultSets is the part of a store about database builds. It pages, and remembers which changes were asked for.
type resultSets struct {
	mu      sync.Mutex
	all     []store.ResultSet
	changes []store.Change
	query   store.ChangeQuery
}

// withResultSets is a store whose result sets are made up. The store is a level deeper, so that its own yield to those.
type withResultSets struct {
	deeper
	*resultSets
}

type deeper struct{ store.Store }

var earlier = model.DatabaseBuild{ID: "xxh64:00ee00ee00ee00ee", SchemaVersion: "v6.1.0", Built: build.Built.Add(-24 * time.Hour), Source: model.DatabaseSourceOfficial}

// madeUp starts a server whose store has made-up result sets.
func madeUp(t *testing.T, change func(*server.Config)) (*fixture, *resultSets) {
	t.Helper()
	g := &resultSets{}
	f := newFixture(t, func(c *server.Config) {
		c.Store = withResultSets{deeper{c.Store}, g}
		if change != nil {
			change(c)
		}
	})
	f.seed()
	g.seed()
	return f, g
}

// seed makes build the current one, with four changes to an earlier one, and a third build that is being matched.
func (g *resultSets) seed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := build.Built.Add(time.Hour)
	later := model.DatabaseBuild{ID: "xxh64:0100010001000100", SchemaVersion: "v6.1.0", Built: build.Built.Add(24 * time.Hour), Source: model.DatabaseSourceImported}
	g.all = []store.ResultSet{
		{Number: 3, Build: later, PreviousBuild: build.ID, Engine: "grype", State: store.ResultSetMatching, Full: true, StartedAt: at, Queued: 100, Matched: 40},
		{
			Number: 2, Build: build, PreviousBuild: earlier.ID, Engine: "grype", State: store.ResultSetCurrent, StartedAt: at, CurrentSince: at.Add(time.Minute), Queued: 7, Matched: 7,
			Changes: store.ChangeCounts{Opened: 2, Closed: 1, Changed: 1, Images: 2, OpenedCritical: 1, NewKEV: 1},
		},
		{Number: 1, Build: earlier, Engine: "grype", State: store.ResultSetPast, StartedAt: at.Add(-time.Hour), CurrentSince: at.Add(-time.Hour)},
	}
	side := func(severity model.Severity, state model.FixState) *store.ChangeSide {
		return &store.ChangeSide{Severity: severity, FixState: state, FixVersions: []string{"1.2.3"}, EPSS: 0.25, KEV: true}
	}
	g.changes = []store.Change{
		{ID: 1, Kind: store.ChangeOpened, VulnerabilityID: "CVE-2024-0001", After: side(model.SeverityCritical, model.FixStateFixed)},
		{ID: 2, Kind: store.ChangeOpened, VulnerabilityID: "<script>", After: side(model.SeverityLow, "novel")},
		{ID: 3, Kind: store.ChangeClosed, VulnerabilityID: "CVE-2024-0003", Before: side(model.SeverityHigh, model.FixStateNotFixed)},
		{
			ID: 4, Kind: store.ChangeChanged, VulnerabilityID: "CVE-2024-0004", Reasons: []store.ChangeReason{store.ReasonSeverity, store.ReasonKEV},
			Before: side(model.SeverityLow, model.FixStateUnknown), After: side(model.SeverityHigh, model.FixStateWontFix),
		},
	}
	for i := range g.changes {
		c := &g.changes[i]
		c.ResultSet, c.Build, c.PreviousBuild, c.At = 2, build.ID, earlier.ID, at
		c.Namespace, c.Package = "alpine:distro:alpine:3.20", packageOf("openssl", "3.0.1")
		c.Images, c.ImageIDs = 30, []string{scannedID, failedID}
		c.Workloads = []store.Workload{{Namespace: "payments", Kind: "Deployment", Name: "checkout"}}
	}
}

func (g *resultSets) ShownResultSet(context.Context, store.Namespaces) (store.ResultSet, bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, resultSet := range g.all {
		if resultSet.State == store.ResultSetCurrent {
			return resultSet, true, nil
		}
	}
	return store.ResultSet{}, false, nil
}

func (g *resultSets) ListResultSets(_ context.Context, _ store.Namespaces, limit int) ([]store.ResultSet, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[:min(limit, len(g.all))], nil
}

func (g *resultSets) Changes(_ context.Context, _ store.Namespaces, query store.ChangeQuery) (store.ChangePage, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.query = query
	if query.Build != build.ID {
		return store.ChangePage{}, nil
	}
	from := 0
	if query.Token != "" {
		var err error
		if from, err = strconv.Atoi(query.Token); err != nil {
			return store.ChangePage{}, store.ErrInvalidToken
		}
	}
	to := min(from+query.Limit(), len(g.changes))
	page := store.ChangePage{Changes: g.changes[from:to], Total: len(g.changes)}
	if to < len(g.changes) {
		page.NextToken = strconv.Itoa(to)
	}
	return page, nil
}

// asked is the last query for changes.
func (g *resultSets) asked() store.ChangeQuery {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.query
}

// rematcher remembers what was requested.
type rematcher struct {
	mu  sync.Mutex
	err error
	got []bool
}

func (r *rematcher) RequestRematch(full bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, full)
	return r.err
}

func (r *rematcher) requests() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// status is a fixed state of updates.
type status server.DatabaseStatus

func (s status) Status() server.DatabaseStatus { return server.DatabaseStatus(s) }

func TestDatabases(t *testing.T) {
	check := build.Built.Add(3 * time.Hour)
	for _, test := range []struct {
		name   string
		status server.DatabaseStatusProvider
		want   any
	}{
		{"no library", nil, nil},
		{"idle", status{Stale: true, MaxAge: 5 * 24 * time.Hour, Done: 7, Total: 9}, map[string]any{"stale": true, "maxAge": 432000.0}},
		{
			"busy", status{LastCheck: check, NextCheck: check.Add(time.Hour), LastError: strings.Repeat("é", 1000), Stage: "download", Done: 10, Total: 100, MaxAge: time.Hour},
			map[string]any{
				"stale": false, "maxAge": 3600.0, "lastCheck": "2023-11-15T01:13:20Z", "nextCheck": "2023-11-15T02:13:20Z",
				"lastError": strings.Repeat("é", 512), "stage": "download", "done": 10.0, "total": 100.0,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, _ := madeUp(t, func(c *server.Config) {
				c.Databases = test.status
				c.Clock = func() time.Time { return build.Built.Add(90 * time.Minute) }
			})
			a := f.do(http.MethodGet, "/api/v1/databases", "")
			validate(t, success(http.MethodGet, "/api/v1/databases"), a.body)
			var got struct {
				Items  []map[string]any
				Update any
			}
			f.must(json.Unmarshal([]byte(a.body), &got))
			if diff := cmp.Diff(test.want, normal(got.Update)); diff != "" {
				t.Errorf("update (-want +got):\n%s", diff)
			}
			if len(got.Items) != 3 {
				t.Fatalf("%d builds: %s", len(got.Items), a.body)
			}
			wantNext := map[string]any{
				"id": "xxh64:0100010001000100", "schemaVersion": "v6.1.0", "built": "2023-11-15T22:13:20Z", "source": "imported", "images": 0.0, "age": 0.0,
				"generation": 3.0, "state": "Matching", "engine": "grype", "full": true, "previousBuild": build.ID, "startedAt": "2023-11-14T23:13:20Z",
				"queued": 100.0, "matched": 40.0,
				"changes": map[string]any{"opened": 0.0, "closed": 0.0, "changed": 0.0, "images": 0.0, "openedCritical": 0.0, "newKev": 0.0},
			}
			if diff := cmp.Diff(wantNext, got.Items[0]); diff != "" {
				t.Errorf("the next build (-want +got):\n%s", diff)
			}
			current := got.Items[1]
			if current["images"] != 1.0 || current["age"] != 5400.0 || current["currentSince"] != "2023-11-14T23:14:20Z" {
				t.Errorf("the current build: %v", current)
			}
			if _, has := got.Items[2]["previousBuild"]; has || got.Items[2]["images"] != 0.0 {
				t.Errorf("the first build: %v", got.Items[2])
			}
		})
	}
}

// normal returns nil for an object that is not there.
func normal(v any) any {
	if m, ok := v.(map[string]any); ok && m == nil {
		return nil
	}
	return v
}

func TestOverviewOfDatabases(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Databases = status{Stale: true} })
	a := f.do(http.MethodGet, "/api/v1/overview", "")
	if strings.Contains(a.body, `"database":`) || strings.Contains(a.body, `"changes"`) || !strings.Contains(a.body, `"databaseStale":true`) {
		t.Errorf("without a database: %s", a.body)
	}
	f.seed()
	a = f.do(http.MethodGet, "/api/v1/overview", "")
	if !strings.Contains(a.body, build.ID) || strings.Contains(a.body, `"changes"`) {
		t.Errorf("the first database has nothing to differ from: %s", a.body)
	}
}

func TestChanges(t *testing.T) {
	f, made := madeUp(t, nil)
	path := "/api/v1/databases/" + escape(build.ID) + "/changes"
	a := f.do(http.MethodGet, path+"?generation=2&kind=opened&kind=changed&severity=High&kev=true&imageId="+escape(scannedID)+"&text=a%25b&pageSize=3", "")
	validate(t, success(http.MethodGet, "/api/v1/databases/{build}/changes"), a.body)
	want := store.ChangeQuery{
		Build: build.ID, ResultSet: 2, Kinds: []store.ChangeKind{store.ChangeOpened, store.ChangeChanged}, MinSeverity: model.SeverityHigh, KEV: true,
		ImageID: scannedID, Text: "a%b", Page: store.Page{Size: 3},
	}
	if diff := cmp.Diff(want, made.asked()); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	var page struct {
		Items         []map[string]any
		NextPageToken string
	}
	f.must(json.Unmarshal([]byte(a.body), &page))
	if len(page.Items) != 3 || page.NextPageToken != "3" {
		t.Fatal(a.body)
	}
	wantChange := map[string]any{
		"id": 1.0, "generation": 2.0, "build": build.ID, "previousBuild": earlier.ID, "at": "2023-11-14T23:13:20Z", "kind": "opened", "reasons": []any{},
		"package": map[string]any{
			"id": "03c163cd62992547ea6eb20a420fe6f4f7ffea62a5ef096ebc75c850cb787edb", "name": "openssl", "version": "3.0.1", "type": "apk", "purl": "pkg:apk/alpine/openssl@3.0.1",
			"distro": "alpine:3.20", "licenses": []any{"MIT"}, "cpes": []any{"cpe:2.3:a:x:openssl:*:*:*:*:*:*:*:*"},
		},
		"vulnerabilityId": "CVE-2024-0001", "namespace": "alpine:distro:alpine:3.20",
		"after":  map[string]any{"severity": "Critical", "fixState": "fixed", "fixVersions": []any{"1.2.3"}, "epss": 0.25, "kev": true},
		"images": 30.0, "imageIds": []any{scannedID, failedID},
		"workloads": []any{map[string]any{"namespace": "payments", "kind": "Deployment", "name": "checkout"}},
	}
	if diff := cmp.Diff(wantChange, page.Items[0]); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	if after, _ := page.Items[1]["after"].(map[string]any); after["fixState"] != "unknown" {
		t.Errorf("a fix state that nobody knows: %v", after)
	}
	if _, has := page.Items[2]["after"]; has {
		t.Errorf("a closed finding has an after: %v", page.Items[2])
	}

	unchanged := f.do(http.MethodGet, "/api/v1/databases/"+escape(earlier.ID)+"/changes?generation=1", "")
	if unchanged.status != http.StatusOK || !strings.Contains(unchanged.body, `"items":[],"total":0`) {
		t.Errorf("a build that changed nothing: %d %s", unchanged.status, unchanged.body)
	}
}

// rematch brings in a later build. It drops the finding of openssl, makes that of zlib worse and finds another one in it.
func (f *fixture) rematch() model.DatabaseBuild {
	f.t.Helper()
	ctx := f.t.Context()
	later := model.DatabaseBuild{ID: "xxh64:0100010001000100", SchemaVersion: "v6.1.0", Built: build.Built.Add(24 * time.Hour), Source: model.DatabaseSourceOfficial}
	next, err := f.store.StartResultSet(ctx, later, "test", false)
	f.must(err)
	answered, err := f.store.AnsweredPackages(ctx, 0, 10)
	f.must(err)
	var ids []int64
	for _, p := range answered {
		ids = append(ids, p.ID)
	}
	f.must(f.store.QueuePackages(ctx, next.Number, ids))
	f.must(f.store.StartMatching(ctx, next.Number))
	queued, err := f.store.QueuedPackages(ctx, next.Number, 10)
	f.must(err)
	answers := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		answers[p.ID] = model.PackageAnswer{}
		if p.Name == "zlib" {
			answers[p.ID] = model.PackageAnswer{Findings: []model.PackageFinding{
				findingOf("CVE-2024-0001", model.SeverityCritical, 50), findingOf("CVE-2024-0002", model.SeverityLow, 1),
			}}
		}
	}
	f.must(f.store.RecordUses(ctx, "a", []store.Use{{
		Image: model.ImageKey{ImageID: scannedID, Platform: linux}, Workload: store.Workload{Namespace: "web", Kind: "Deployment", Name: "shop"}, Container: "c",
	}}))
	f.must(f.store.SaveAnswers(ctx, next.Number, answers))
	_, err = f.store.Switch(ctx, next.Number)
	f.must(err)
	return later
}

// What a store tells of a change of databases reaches the client whole, and page by page.
func TestChangesOfAStore(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	later := f.rematch()
	path := "/api/v1/databases/" + escape(later.ID) + "/changes"
	for query, want := range map[string][]string{
		"":                            {"changed CVE-2024-0001", "closed CVE-2024-0000", "opened CVE-2024-0002"},
		"pageSize=1":                  {"changed CVE-2024-0001", "closed CVE-2024-0000", "opened CVE-2024-0002"},
		"kind=opened&kind=closed":     {"closed CVE-2024-0000", "opened CVE-2024-0002"},
		"severity=Critical&text=ZLIB": {"changed CVE-2024-0001"},
		"imageId=" + escape(failedID): nil,
		"imageId=" + escape(scannedID) + "&kev=true": {"changed CVE-2024-0001", "closed CVE-2024-0000", "opened CVE-2024-0002"},
	} {
		var got []string
		token := ""
		for {
			a := f.do(http.MethodGet, path+"?"+query+"&pageToken="+token, "")
			validate(t, success(http.MethodGet, "/api/v1/databases/{build}/changes"), a.body)
			var page struct {
				Items []struct {
					Kind, VulnerabilityID string
					Images                int
					ImageIDs              []string
					Workloads             []store.Workload
				}
				Total         int
				NextPageToken string
			}
			f.must(json.Unmarshal([]byte(a.body), &page))
			for _, c := range page.Items {
				got = append(got, c.Kind+" "+c.VulnerabilityID)
				if c.Images != 1 || !slices.Equal(c.ImageIDs, []string{scannedID}) || len(c.Workloads) != 1 || c.Workloads[0].Name != "shop" {
					t.Errorf("%s: %s reaches %d images, %v, %v", query, c.VulnerabilityID, c.Images, c.ImageIDs, c.Workloads)
				}
			}
			if page.Total != len(want) {
				t.Errorf("%s: total %d, want %d", query, page.Total, len(want))
			}
			if token = page.NextPageToken; token == "" {
				break
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	overview := f.do(http.MethodGet, "/api/v1/overview", "")
	validate(t, success(http.MethodGet, "/api/v1/overview"), overview.body)
	if want := `"changes":{"changed":1,"closed":1,"images":1,"newKev":1,"opened":1,"openedCritical":0}`; !strings.Contains(overview.body, want) {
		t.Errorf("%s is not in %s", want, overview.body)
	}
}

func TestHostileChanges(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	later := f.rematch()
	path := "/api/v1/databases/" + escape(later.ID) + "/changes"
	long := strings.Repeat("x", 5000)
	for _, test := range []struct {
		path   string
		status int
		detail string
	}{
		{"/api/v1/databases/unknown/changes", 404, "database build not found"},
		{"/api/v1/databases/" + escape(build.ID) + "/changes?generation=2", 404, "database build not found"},
		{"/api/v1/databases/a%20b/changes", 400, "printable"},
		{"/api/v1/databases/a%00b/changes", 400, "printable"},
		{"/api/v1/databases/%C3%A9/changes", 400, "printable"},
		{"/api/v1/databases/a%2F..%2Fb/changes", 404, "database build not found"},
		{"/api/v1/databases/" + strings.Repeat("a", 129) + "/changes", 400, "limit of 128"},
		{path + "?generation=0", 400, "generation"},
		{path + "?generation=99999999999999999999", 400, "generation"},
		{path + "?kind=gone", 400, "kind"},
		{path + "?kind=opened&kind=opened&kind=opened&kind=opened", 400, "kind is repeated more than 3 times"},
		{path + "?severity=critical", 400, "severity"},
		{path + "?kev=maybe", 400, "kev"},
		{path + "?imageId=", 400, "imageId"},
		{path + "?imageId=a%20b", 400, "imageId"},
		{path + "?imageId=" + long, 400, "imageId"},
		{path + "?text=" + long, 400, "text"},
		{path + "?pageToken=nonsense", 400, "pageToken"},
		{path + "?pageToken=" + long, 400, "pageToken"},
		{path + "?pageSize=0", 400, "pageSize"},
		{path + "?pageSize=1001", 400, "pageSize"},
	} {
		t.Run(test.path[:min(70, len(test.path))], func(t *testing.T) {
			f.do(http.MethodGet, test.path, "").problem(t, test.status, test.detail)
		})
	}
}

func TestRematch(t *testing.T) {
	rematcher := &rematcher{}
	f := newFixture(t, func(c *server.Config) { c.Rematcher = rematcher })
	const path = "/api/v1/databases/rematch"
	for _, body := range []string{`{"full":true}`, `{"full":false}`, `{}`} {
		a := f.do(http.MethodPost, path, body)
		if a.status != http.StatusAccepted || a.body != "" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		a.secure(t)
	}
	for _, test := range []struct {
		body   string
		status int
	}{{``, 400}, {`x`, 400}, {`{"full":"yes"}`, 400}, {`[]`, 400}, {`{"full":` + strings.Repeat(" ", 70000) + `true}`, 413}} {
		f.do(http.MethodPost, path, test.body).problem(t, test.status, "")
	}
	f.do(http.MethodGet, path, "").problem(t, 405, "GET")
	if diff := cmp.Diff([]bool{true, false, false}, rematcher.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	without := newFixture(t, nil)
	without.do(http.MethodPost, path, `{}`).problem(t, 501, "matching is not available")
}

// A replica that does not lead has databases that nobody uses: it neither tells of them nor asks them for anything.
func TestDatabasesOfAFollower(t *testing.T) {
	var leads atomic.Bool
	rematcher := &rematcher{}
	f := newFixture(t, func(c *server.Config) {
		c.Rematcher, c.Databases, c.Leads = rematcher, status{Stale: true}, leads.Load
	})
	a := f.do(http.MethodPost, "/api/v1/databases/rematch", `{}`)
	a.problem(t, http.StatusServiceUnavailable, "not the leader")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if a := f.do(http.MethodGet, "/api/v1/databases", ""); a.status != http.StatusOK || strings.Contains(a.body, `"update"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := rematcher.requests(); len(got) != 0 {
		t.Errorf("%d requests", len(got))
	}
	leads.Store(true)
	if a := f.do(http.MethodPost, "/api/v1/databases/rematch", `{}`); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := f.do(http.MethodGet, "/api/v1/databases", ""); !strings.Contains(a.body, `"update"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
