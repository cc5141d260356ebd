package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

const (
	vexPath    = "/api/v1/vex"
	oneVEXPath = vexPath + "/shop"
)

// vexDocument has a statement about a finding of the fixture, and one about what nobody has.
const vexDocument = `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "Vendor", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [
	{"vulnerability": {"name": "CVE-2024-0000"}, "status": "fixed", "products": [{"@id": "pkg:apk/alpine/openssl"}]},
	{"vulnerability": {"name": "CVE-1900-1"}, "status": "fixed", "products": [{"@id": "pkg:npm/absent"}]}]}`

// acceptedVEX is a document as scanner-operator exports it, whose risk is accepted, and endedVEX one whose risk was.
var (
	acceptedVEX = decisionVEX("Decision: AcceptedRisk.")
	endedVEX    = decisionVEX("Decision: AcceptedRisk until 2026-01-01T00:00:00Z.")
)

func decisionVEX(notes string) string {
	return fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "scanner-operator", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [
	{"vulnerability": {"name": "CVE-2024-0000"}, "status": "affected", "status_notes": %q, "action_statement": "Later.", "products": [{"@id": "pkg:apk/alpine/openssl"}]}]}`, notes)
}

// withVEX gives a server a store that applies VEX documents.
func withVEX(t *testing.T, c *server.Config) store.Store {
	t.Helper()
	st, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: "sqlite", DSN: newDatabase(t), Rules: &vex.Evaluator{Versions: match.Versions{}, Arch: match.Arch}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	c.Store, c.VEX = st, vexdecisions.NewApplier(st, clock.RealClock{}, nil)
	return st
}

// mixedVEX has statements that match a finding, that match none, and whose products are looked for in no cluster.
const mixedVEX = `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "Vendor", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [
	{"vulnerability": {"name": "CVE-2024-0000"}, "status": "fixed", "products": [{"@id": "pkg:apk/alpine/openssl"}]},
	{"vulnerability": {"name": "CVE-1900-1"}, "status": "fixed", "products": [{"@id": "pkg:npm/absent"}]},
	{"vulnerability": {"name": "CVE-1900-2"}, "status": "fixed", "products": [{"@id": "a product"}]}]}`

// TestVEXOfSomeNamespaces uploads and lists a document as a user who sees one namespace: the answers tell nothing of the findings of others.
func TestVEXOfSomeNamespaces(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.audiences["uploader"] = []string{"scanner-operator"}
	rights.grants["uploader"] = map[string][]string{"shop": {"get", "list"}}
	rights.decides = map[string][]string{"uploader": {"list vexsources", "create vexsources", "update vexsources"}, "admin": {"list vexsources"}}
	var st store.Store
	f := newGuardedFixture(t, rights, func(c *server.Config) { st = withVEX(t, c) })
	f.store = st
	f.seed()
	image := model.ImageKey{ImageID: scannedID, Platform: linux}
	f.must(f.store.RecordUses(t.Context(), "shop/scanner", []store.Use{{Image: image, Workload: web, Container: "app"}}))
	const unidentified = `"unmatchedStatements":[{"document":"document","position":"statements[2]","reason":"ImagesOnly","vulnerability":"CVE-1900-2"}]`
	put := f.do(http.MethodPut, oneVEXPath, mixedVEX, jsonBody, bearer("uploader"))
	list := f.do(http.MethodGet, vexPath, "", bearer("uploader"))
	for what, got := range map[string]answer{"the upload": put, "the list": list} {
		if got.status != 200 || !strings.Contains(got.body, unidentified) || strings.Contains(got.body, "atched\":") || strings.Contains(got.body, "suppressedFindings") {
			t.Errorf("%s: %d: %s", what, got.status, got.body)
		}
	}
	if got := f.do(http.MethodGet, vexPath, "", bearer("admin")); !strings.Contains(got.body, `"matched":1`) || !strings.Contains(got.body, `"suppressedFindings":1,"unmatched":2`) || !strings.Contains(got.body, "NoFinding") {
		t.Errorf("the list of a user who sees all: %s", got.body)
	}
}

// TestMatrixOfVEX uploads, reads and deletes VEX documents as each user.
func TestMatrixOfVEX(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.decides = map[string][]string{}
	for user, verbs := range map[string][]string{"uploader": {"list", "get", "create", "update", "delete"}, "creator": {"create"}, "updater": {"update"}} {
		rights.audiences[user], rights.verbs[user] = []string{"scanner-operator"}, []string{"get", "list"}
		for _, verb := range verbs {
			rights.decides[user] = append(rights.decides[user], verb+" vexsources")
		}
	}
	rights.decides["reader"] = []string{"get vexsources", "list vexsources"}
	lines := &auditLog{}
	var st store.Store
	f := newGuardedFixture(t, rights, func(c *server.Config) {
		st = withVEX(t, c)
		c.Log, c.Registerer = lines.logger(), prometheus.NewRegistry()
	})
	f.store = st
	f.seed()
	open := func() int {
		var list struct{ Total int }
		f.must(json.Unmarshal([]byte(f.do(http.MethodGet, "/api/v1/images/"+escape(scannedID)+"/findings", "", bearer("reader")).body), &list))
		return list.Total
	}
	before := open()
	const uploaded = `"verb"="update" "resource"="vexdocuments" "name"="shop" "outcome"="succeeded"`
	for _, try := range []struct {
		user, method, target, body string
		want                       int
		line, answer               string
		fewer                      int
	}{
		{"", http.MethodPut, oneVEXPath, vexDocument, 401, "", "", 0},
		{"nobody", http.MethodPut, oneVEXPath, vexDocument, 403, "", "", 0},
		{"reader", http.MethodPut, oneVEXPath, vexDocument, 403, "", "needs the permission to create vexsources", 0},
		// The right to change scan results is another one.
		{"admin", http.MethodPut, oneVEXPath, vexDocument, 403, "", "", 0},
		{"creator", http.MethodPut, oneVEXPath, vexDocument, 403, "", "needs the permission to update vexsources", 0},
		{"updater", http.MethodPut, oneVEXPath, vexDocument, 403, "", "", 0},
		{"uploader", http.MethodGet, oneVEXPath, "", 404, "", `no VEX document \"shop\" was uploaded`, 0},
		{"uploader", http.MethodPut, oneVEXPath, "{}", 422, `"outcome"="failed" "status"=422`, `shop: document: the VEX document cannot be read: its format is unknown`, 0},
		{"uploader", http.MethodPut, oneVEXPath, vexDocument, 200, uploaded, `"suppressedFindings":1,"unmatched":1,"unmatchedStatements":[{"document":"document","position":"statements[1]","reason":"NoFinding","vulnerability":"CVE-1900-1"}]`, 1},
		{"uploader", http.MethodPut, oneVEXPath, vexDocument, 200, uploaded, `"author":"uploader"`, 1},
		{"", http.MethodGet, oneVEXPath, "", 401, "", "", 1},
		{"admin", http.MethodGet, oneVEXPath, "", 403, "", "", 1},
		{"reader", http.MethodGet, oneVEXPath, "", 200, "", `"author": "Vendor"`, 1},
		{"", http.MethodGet, vexPath, "", 401, "", "", 1},
		{"admin", http.MethodGet, vexPath, "", 403, "", "", 1},
		{"reader", http.MethodGet, vexPath, "", 200, "", `"items":[{"applied":true,"author":"uploader"`, 1},
		{"reader", http.MethodDelete, oneVEXPath, "", 403, "", "", 1},
		{"uploader", http.MethodPut, oneVEXPath, strings.ReplaceAll(vexDocument, `"fixed"`, `"under_investigation"`), 200, uploaded, `"matched":1,`, 0},
		{"reader", http.MethodPut, oneVEXPath + "?exportedDecisions=Full", acceptedVEX, 403, "", "", 0},
		{"uploader", http.MethodPut, oneVEXPath, acceptedVEX, 200, uploaded, `"exportedDecisions":"StatusOnly"`, 0},
		{"uploader", http.MethodPut, oneVEXPath + "?exportedDecisions=Full", acceptedVEX, 200, uploaded, `"exportedDecisions":"Full"`, 1},
		{"reader", http.MethodGet, vexPath, "", 200, "", `"exportedDecisions":"Full"`, 1},
		{"uploader", http.MethodPut, oneVEXPath + "?exportedDecisions=StatusOnly", acceptedVEX, 200, uploaded, `"exportedDecisions":"StatusOnly"`, 0},
		{"uploader", http.MethodPut, oneVEXPath + "?exportedDecisions=Full", endedVEX, 200, uploaded, `"reason":"Expired"`, 0},
		{"uploader", http.MethodDelete, oneVEXPath, "", 204, `"verb"="delete" "resource"="vexdocuments" "name"="shop" "outcome"="succeeded"`, "", 0},
		{"uploader", http.MethodDelete, oneVEXPath, "", 404, `"outcome"="failed" "status"=404`, "", 0},
		{"reader", http.MethodGet, vexPath, "", 200, "", `{"items":[]}`, 0},
	} {
		headers := []string{jsonBody}
		if try.user != "" {
			headers = append(headers, bearer(try.user))
		}
		lines.take()
		what := fmt.Sprintf("%s %s as %q", try.method, try.target, try.user)
		got := f.do(try.method, try.target, try.body, headers...)
		if got.status != try.want || !strings.Contains(got.body, try.answer) {
			t.Errorf("%s: %d, want %d with %s: %s", what, got.status, try.want, try.answer, got.body)
		}
		if said := strings.Join(lines.take(), "\n"); !strings.Contains(said, try.line) || try.line == "" && said != "" {
			t.Errorf("%s is audited as %q, want %q", what, said, try.line)
		}
		if now := open(); now != before-try.fewer {
			t.Errorf("after %s %d findings count, want %d", what, now, before-try.fewer)
		}
		path, _, _ := strings.Cut(strings.Replace(try.target, "/shop", "/{name}", 1), "?")
		switch {
		case got.status >= 400:
			got.problem(t, try.want, "")
		case got.status == http.StatusOK:
			validate(t, success(try.method, path), got.body)
		}
	}
	// Each change is recorded with its request.
	requests := 0
	events, err := st.EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxPageSize)
	f.must(err)
	for _, e := range events {
		if e.Kind == store.EventChangeRequested {
			requests++
		}
	}
	if requests != 10 {
		t.Errorf("%d requests for changes are recorded, want those of the user who may make them", requests)
	}
}

// Bodies that are too large or no VEX documents, and names that no object has, are refused, and change nothing.
func TestHostileVEX(t *testing.T) {
	t.Parallel()
	var st store.Store
	f := newFixture(t, func(c *server.Config) {
		st = withVEX(t, c)
		c.Limits.VEXBody = 1 << 20
	})
	for name, try := range map[string]struct {
		target, body, header string
		status               int
		detail               string
	}{
		"empty":              {oneVEXPath, "", "", 422, "not valid JSON"},
		"no document":        {oneVEXPath, `{"a": 1}`, "", 422, "its format is unknown"},
		"an SBOM":            {oneVEXPath, `{"bomFormat": "CycloneDX", "specVersion": "1.6"}`, "", 422, "no VEX statement"},
		"XML":                {oneVEXPath, "<bom/>", "", 422, "convert it to JSON"},
		"two documents":      {oneVEXPath, vexDocument + vexDocument, "", 422, "not valid JSON"},
		"deep":               {oneVEXPath, strings.Repeat("[", 60_000), "", 413, "nest deeper"},
		"too large":          {oneVEXPath, vexDocument + strings.Repeat(" ", 1<<20), "", 413, "1048576 bytes"},
		"compressed":         {oneVEXPath, vexDocument, "Content-Encoding: gzip", 415, "uncompressed"},
		"another site":       {oneVEXPath, vexDocument, "Sec-Fetch-Site: cross-site", 403, "cross-origin"},
		"capitals":           {vexPath + "/Shop", vexDocument, "", 400, "is not a name"},
		"a slash":            {vexPath + "/a%2Fb", vexDocument, "", 400, "is not a name"},
		"a long name":        {vexPath + "/" + strings.Repeat("a", 254), vexDocument, "", 400, "is not a name"},
		"an unknown query":   {oneVEXPath + "?dryRun=true", vexDocument, "", 400, "dryRun"},
		"another case":       {oneVEXPath + "?exportedDecisions=full", vexDocument, "", 400, "exportedDecisions"},
		"two values":         {oneVEXPath + "?exportedDecisions=StatusOnly&exportedDecisions=Full", vexDocument, "", 400, "exportedDecisions"},
		"no value":           {oneVEXPath + "?exportedDecisions=", vexDocument, "", 400, "exportedDecisions"},
		"a name with spaces": {vexPath + "/%20shop", vexDocument, "", 400, "is not a name"},
	} {
		headers := []string{jsonBody}
		if try.header != "" {
			headers = append(headers, try.header)
		}
		got := f.do(http.MethodPut, try.target, try.body, headers...)
		if got.status != try.status || !strings.Contains(got.body, try.detail) || len(got.body) > 4<<10 {
			t.Errorf("%s: %d %.300s, want %d with %q", name, got.status, got.body, try.status, try.detail)
		}
	}
	if sources, _, err := st.VEX(t.Context()); err != nil || len(sources) > 0 {
		t.Errorf("documents are stored: %v, %v", sources, err)
	}
	for i := range store.MaxVEXUploads {
		f.must(st.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindUpload, Name: fmt.Sprint("a", i)}, []store.VEXContent{{Name: "document", Content: []byte(vexDocument)}}))
	}
	f.do(http.MethodPut, oneVEXPath, vexDocument, jsonBody).problem(t, http.StatusConflict, "delete others first")
}

// A process without VEX documents says so.
func TestNoVEX(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		f.do(method, oneVEXPath, "", jsonBody).problem(t, http.StatusNotImplemented, "not available")
	}
	f.do(http.MethodGet, vexPath, "").problem(t, http.StatusNotImplemented, "not available")
}
