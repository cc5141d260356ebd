package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// olderID is what ran in a workload before scannedID did.
const olderID = "docker.io/library/alpine@sha256:0e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"

var web = store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web", Owner: "Team Shop"}

// newFullFixture starts a server with something of everything: images that ran one after the other, what was found in them, and
// containers that are not scanned.
func newFullFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := newFixture(tb, func(c *server.Config) { c.Versions = match.Versions{} })
	f.seedAll()
	return f
}

// seedDecisions has a decision that took the place of another one, one that ends soon, and one whose object was deleted.
func (f *fixture) seedDecisions() {
	f.t.Helper()
	object := func(name string) store.DecisionObject {
		return store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}
	}
	changed := store.Decision{Object: object("changed"), Vulnerabilities: []string{"CVE-2000-0001"}, Status: model.DecisionUnderInvestigation, Comment: "looking"}
	soon := store.Decision{
		Object: object("soon"), Packages: []string{"pkg:npm/left-pad"}, Status: model.DecisionNotAffected, Justification: "component_not_present", Comment: "=1+1",
		Author: "jane", ExpiresAt: time.Now().Add(24 * time.Hour), Unfixed: true,
	}
	deleted := store.Decision{Object: object("deleted"), Vulnerabilities: []string{"CVE-2000-0002"}, Status: model.DecisionFixed}
	_, err := f.store.SyncDecisions(f.t.Context(), store.DecisionSourceKubernetes, []store.Decision{changed, soon, deleted})
	f.must(err)
	changed.Status, changed.Comment = model.DecisionFalsePositive, "looked"
	_, err = f.store.SyncDecisions(f.t.Context(), store.DecisionSourceKubernetes, []store.Decision{changed, soon})
	f.must(err)
}

func (f *fixture) seedAll() {
	f.t.Helper()
	ctx := f.t.Context()
	older, newer := model.ImageKey{ImageID: olderID, Platform: linux}, model.ImageKey{ImageID: scannedID, Platform: linux}
	f.seed()
	f.seedDecisions()
	_, err := f.store.WantImages(ctx, []model.ImageKey{older})
	f.must(err)
	f.scan(older, packageOf("openssl", "3.0.1"), packageOf("log4j-core", "2.14.1"), packageOf("log4j-core", "2.17.0"))
	for _, key := range []model.ImageKey{older, newer} {
		f.must(f.store.RecordUses(ctx, "shop/scanner", []store.Use{{Image: key, Workload: web, Container: "app"}}))
	}
	f.must(f.store.RecordUses(ctx, "other/scanner", []store.Use{
		{Image: older, Workload: store.Workload{Namespace: "bank", Kind: "StatefulSet", Name: "ledger"}, Container: "main"},
	}))
	f.must(f.store.RecordCoverage(ctx, "shop/scanner", []store.ContainerCoverage{
		{Workload: web, Container: "app", Image: newer, Reference: "alpine:3", Pods: 3, State: "Scanned"},
		{Workload: web, Container: "side", Reference: "=side:1", Pods: 1, State: "Failed", Reason: "ImageNotFound", Message: "gone", NextAttempt: time.Unix(4000000000, 0)},
		{Workload: web, Container: "mesh", Reference: "mesh:1", Pods: 1, State: "Skipped", Reason: "Ignored"},
	}))
	evaluated, err := f.store.EvaluateRollouts(ctx, time.Time{}, store.MaxEvaluated)
	if err != nil || evaluated != 1 {
		f.t.Fatalf("%d rollouts were evaluated, %v", evaluated, err)
	}
	f.must(f.store.RecordDay(ctx))
	f.seedTags(newer, "shop", build.ID)
}

// visit is a request that the specification allows, with a part of its answer.
type visit struct{ route, target, want string }

// visits reach every operation that reads, each filter and each order of every list.
func visits() []visit {
	image := "/api/v1/images/" + escape(scannedID)
	changes := "/api/v1/databases/" + escape(build.ID) + "/changes"
	today := time.Now().UTC().Format(time.DateOnly)
	list := []visit{
		{"/scan-results", "/scan-results", scannedID},
		{"/scan-results/{imageId}", "/scan-results/" + escape(scannedID), `"bomFormat":"CycloneDX"`},
		{"/api/v1/overview", "/api/v1/overview", `"running":2`},
		{"/api/v1/overview", "/api/v1/overview", `"coverage":{"failed":1,"partial":0,"pending":0,"ratio":0.75,"scanned":3,"skipped":1,"stale":0}`},
		{"/api/v1/overview/changes", "/api/v1/overview/changes", `"opened":{"critical":1`},
		{"/api/v1/overview/changes", "/api/v1/overview/changes?since=1d", `"knownSince":"`},
		{"/api/v1/images/{imageId}", image + "?platform=linux/amd64", `"platform":"linux/amd64"`},
		{"/api/v1/images/{imageId}/presences", image + "/presences", `"name":"web"`},
		{"/api/v1/images/{imageId}/presences", image + "/presences?platform=linux/amd64&pageSize=1", `"total":1`},
		{"/api/v1/images/{imageId}/newer-tags", image + "/newer-tags", `"closed":{"critical":`},
		{"/api/v1/images/{imageId}/newer-tags", image + "/newer-tags?platform=linux/amd64", `"failureReason":"ImagePullDenied"`},
		{"/api/v1/images/{imageId}/findings", image + "/findings", `"owners":["Team Shop"]`},
		{"/api/v1/vulnerabilities/{id}/exposures", "/api/v1/vulnerabilities/CVE-2024-0000/exposures", `"exposures":[{"since":`},
		{"/api/v1/vulnerabilities/{id}/affected", "/api/v1/vulnerabilities/CVE-2024-0000/affected", `"owners":["Team Shop"]`},
		{"/api/v1/vulnerabilities/{id}", "/api/v1/vulnerabilities/CVE-2024-0000", `"images":2`},
		{"/api/v1/vulnerabilities/{id}", "/api/v1/vulnerabilities/CVE-2024-0000", `"summary":{`},
		{"/api/v1/vulnerabilities/{id}", "/api/v1/vulnerabilities/GHSA-CVE-2024-0000", `"records":[{"aliases":["GHSA-CVE-2024-0000"]`},
		{"/api/v1/vulnerabilities/{id}", "/api/v1/vulnerabilities/GHSA-CVE-2024-0000", `"summary":{"epss"`},
		{"/api/v1/databases", "/api/v1/databases", `"images":2`},
		{"/api/v1/rollouts", "/api/v1/rollouts", `"evaluation":{"at":"`},
		{"/api/v1/rollouts/{rolloutId}", "/api/v1/rollouts/1", `"opened":[{"fixable":true,"kev":true,"package":"`},
		{"/api/v1/compare", "/api/v1/compare?from=" + escape(olderID) + "&to=" + escape(scannedID), `"opened":[{"fixable":true,"kev":true,"package":"`},
		{"/api/v1/fixes/preview", "/api/v1/fixes/preview?action=rebuild&imageId=" + escape(scannedID), `"packages":[{"fixVersion":"9.9","id":"` + packageOf("openssl", "3.0.1").Fingerprint + `","name":"openssl"`},
		{"/api/v1/decisions", "/api/v1/decisions?name=changed&state=all", `"previous":{"comment":"looking","endedBy":"Changed","id":1,`},
		{"/api/v1/decisions", "/api/v1/decisions?namespace=shop", `"items":[],"total":0`},
		{"/api/v1/decisions/{decisionId}", "/api/v1/decisions/1", `"state":"ended","status":"UnderInvestigation"`},
		{"/api/v1/search", "/api/v1/search?text=cve-2024-0000", `"vulnerabilities":[{"`},
		{"/api/v1/search", "/api/v1/search?text=openssl+3.0&limit=1", `"packages":[{"`},
		{"/api/v1/trends", "/api/v1/trends", `"images":2`},
		{"/api/v1/trends", "/api/v1/trends?namespace=bank&from=" + today + "&to=" + today, `"day":"` + today + `"`},
		{"/api/v1/trends", "/api/v1/trends?from=2020-01-01&to=2020-01-31", `{"from":"2020-01-01","items":[],"to":"2020-01-31"}`},
		{"/api/v1/reports/cluster", "/api/v1/reports/cluster", `"scope":{"kind":"Cluster"}`},
		{"/api/v1/reports/cluster", "/api/v1/reports/cluster?since=399d&format=json", `"expiringExceptions":[{"expiresAt":"`},
		{"/api/v1/reports/namespaces/{namespace}", "/api/v1/reports/namespaces/shop?since=36h", `"dueAt":"`},
		{"/api/v1/bases", "/api/v1/bases", `"listed":[{"images":2,"pattern":"docker.io/library/alpine"},{"images":0,"pattern":"registry.example/base/*"}]`},
		{"/api/v1/bases", "/api/v1/bases", `"images":1,"layers":1,"platform":"linux/amd64","scanned":1,"source":"listed","statedName":"docker.io/library/alpine:3.20","workloads":1`},
		{"/api/v1/owners", "/api/v1/owners?due=true&text=shop", `"due":2,"images":1,"overdue":2`},
		{"/api/v1/namespaces", "/api/v1/namespaces?due=true&text=shop", `"namespace":"shop"`},
		{"/api/v1/reports/owners/{owner}", "/api/v1/reports/owners/Team%20Shop?since=2w", `"scope":{"kind":"Owner","name":"Team Shop"}`},
		{"/api/v1/events", "/api/v1/events?since=0", `"image.matched"`},
		{"/api/v1/session", "/api/v1/session", `"auth":"none"`},
	}
	for route, queries := range map[string][]string{
		"/api/v1/images": {
			"", "text=ALPINE", "state=Scanned&state=Reported", "severity=High", "fixable=true", "kev=true", "epss=0.5", "namespace=shop", "workload=web",
			"workloadKind=Deployment", "owner=Team+Shop", "noOwner=true", "overdue=true", "sort=imageId", "sort=-severity", "pageSize=1", "format=json",
		},
		"/api/v1/images/{imageId}/findings": {
			"", "platform=linux/amd64", "text=open", "severity=Critical", "fixable=true", "kev=true", "epss=0.1", "closed=false", "sort=-risk", "sort=-severity",
			"sort=package", "sort=due", "overdue=true", "dueBefore=2100-01-01T00:00:00Z", "pageSize=1", "format=json",
		},
		"/api/v1/images/{imageId}/packages": {
			"", "platform=linux/amd64", "text=OPEN", "severity=Critical", "vulnerable=true", "layer=0", "pageSize=1",
		},
		"/api/v1/images/{imageId}/layers":   {"", "platform=linux/amd64", "text=OPEN", "severity=Critical", "vulnerable=true"},
		"/api/v1/databases/{build}/changes": {"generation=1", "kind=opened&kind=closed", "severity=Low", "kev=true", "imageId=a", "text=a", "pageSize=5"},
		"/api/v1/vulnerabilities": {
			"", "text=cve-2024-0000", "severity=Critical", "fixable=true", "kev=true", "epss=0.5", "namespace=shop", "workload=web", "workloadKind=Deployment",
			"owner=Team+Shop", "noOwner=true", "overdue=true", "dueBefore=2100-01-01T00:00:00Z", "sort=-risk", "sort=-severity", "sort=-epss", "sort=id", "pageSize=1", "format=json",
		},
		"/api/v1/vulnerabilities/{id}/affected": {
			"", "on=" + today, "namespace=shop", "workload=web", "workloadKind=Deployment", "owner=Team+Shop", "noOwner=true", "pageSize=1", "format=json", "closed=false",
		},
		"/api/v1/vulnerabilities/{id}/exposures": {
			"", "namespace=shop", "workload=web", "workloadKind=Deployment", "owner=Team+Shop", "noOwner=true", "pageSize=1", "format=json",
		},
		"/api/v1/packages": {
			"", "name=log4j-core&version=%3C2.17", "text=LOG4J", "type=apk", "imageId=" + escape(scannedID), "severity=Critical", "vulnerable=true",
			"namespace=bank", "workload=ledger", "workloadKind=StatefulSet", "owner=Team+Shop", "noOwner=true", "overdue=true",
			"dueBefore=2100-01-01T00:00:00Z", "sort=name", "sort=-severity", "pageSize=1", "format=json",
		},
		"/api/v1/workloads": {
			"", "text=EB", "severity=Critical", "fixable=true", "kev=true", "namespace=shop", "workload=web", "workloadKind=Deployment", "owner=Team+Shop", "noOwner=true", "overdue=true", "base=" + baseLayer, "base=" + baseLayer + "&baseLayers=1", "sort=name",
			"sort=-severity", "pageSize=1", "format=json",
		},
		"/api/v1/decisions": {
			"", "state=standing", "state=ended", "state=all", "status=Fixed&status=FalsePositive&state=all", "source=kubernetes", "kind=ClusterVulnerabilityException",
			"name=changed", "vulnerability=cve-2000-0001", "author=jane", "expiringWithin=2", "state=all&since=2026-01-01T00:00:00Z&until=2100-01-01T00:00:00Z", "sort=-since", "sort=expiresAt", "sort=name", "pageSize=1", "format=json",
		},
		"/api/v1/fixes": {
			"", "action=rebuild", "action=newerTag", "imageId=" + escape(scannedID), "kev=true", "overdue=true", "namespace=shop", "workload=web", "workloadKind=Deployment", "owner=Team+Shop", "noOwner=true", "pageSize=1", "format=json",
		},
		"/api/v1/bases":      {"", "namespace=shop", "workload=web", "workloadKind=Deployment", "owner=Team+Shop", "sort=-images", "sort=-severity", "pageSize=1", "format=json"},
		"/api/v1/namespaces": {"", "text=SHOP", "owner=Team+Shop", "noOwner=true", "due=true", "sort=name", "sort=-severity", "pageSize=1", "format=json"},
		"/api/v1/owners":     {"", "text=SHOP", "namespace=bank", "due=true", "sort=name", "sort=-severity", "pageSize=1", "format=json"},
		"/api/v1/policies":   {""},
		"/api/v1/coverage": {
			"", "state=Failed&state=Skipped", "reason=ImageNotFound", "namespace=shop", "workload=web", "text=SIDE", "owner=Team+Shop", "pageSize=1", "format=json",
		},
		"/api/v1/rollouts": {
			"", "namespace=shop", "workload=web", "imageId=" + escape(olderID), "owner=Team+Shop", "since=2020-01-01T00:00:00Z", "until=2100-01-01T00:00:00%2B02:00", "pageSize=1",
		},
	} {
		target := strings.NewReplacer("/api/v1/databases/{build}/changes", changes, "{imageId}", escape(scannedID), "{id}", "CVE-2024-0000").Replace(route)
		want := `"items":[{`
		if strings.HasSuffix(route, "/changes") {
			want = `"total":0`
		}
		for _, query := range queries {
			list = append(list, visit{route, target + "?" + query, want})
		}
	}
	return list
}

// TestContract walks over everything that can be read, and holds each answer against the specification.
func TestContract(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	none := 0
	problems, err := f.store.SyncPolicies(t.Context(), []store.Policy{{
		Name: "at once", Select: "workload.namespace != ''", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &none, High: &none, Medium: &none, Low: &none},
	}})
	if f.must(err); len(problems) > 0 {
		t.Fatalf("policies: %v", problems)
	}
	reached := []string{
		"GET /subscribe", "GET /api/wds/logs", // WebSockets
		"GET /api/v1/images/{imageId}/sbom",                           // no JSON: TestSBOM
		"GET /api/v1/session/sign-in", "GET /api/v1/session/callback", // redirects: TestSignInWithDex
		"GET /api/v1/exceptions/{kind}/{name}",      // TestMatrixOfExceptions holds it against the specification
		"GET /api/v1/vex", "GET /api/v1/vex/{name}", // TestMatrixOfVEX does so
		"GET /api/v1/notification-rules", // TestMatrixOfNotificationRules does so
	}
	for _, v := range visits() {
		a := f.do(http.MethodGet, v.target, "")
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" || !strings.Contains(a.body, v.want) {
			t.Errorf("%s: %d %s, want %s", v.target, a.status, a.body, v.want)
			continue
		}
		validate(t, success(http.MethodGet, v.route), a.body)
		a.secure(t)
		if t.Failed() {
			t.Fatalf("that was %s", v.target)
		}
		reached = append(reached, "GET "+v.route)
	}
	for _, route := range specifiedRoutes(t) {
		if strings.HasPrefix(route, "GET ") && !slices.Contains(reached, route) {
			t.Errorf("%s was not reached", route)
		}
	}
}

// Every list gives all of its rows, each once, in pages of one.
func TestEveryListIsPaged(t *testing.T) {
	f := newFullFixture(t)
	seen := map[string]bool{}
	for _, v := range visits() {
		path, _, _ := strings.Cut(v.target, "?")
		if seen[v.target] || !strings.Contains(v.target, "pageSize=1") {
			continue
		}
		seen[v.target] = true
		rows, token := map[string]bool{}, ""
		for {
			var page struct {
				Items         []json.RawMessage
				Total         int
				NextPageToken string
			}
			a := f.do(http.MethodGet, path+"?pageSize=1&pageToken="+token, "")
			f.must(json.Unmarshal([]byte(a.body), &page))
			for _, item := range page.Items {
				if rows[string(item)] {
					t.Fatalf("%s: there twice: %s", path, item)
				}
				rows[string(item)] = true
			}
			if token = page.NextPageToken; token == "" {
				if len(rows) != page.Total || len(rows) < 1 {
					t.Errorf("%s: %d of %d rows", path, len(rows), page.Total)
				}
				break
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d lists", len(seen))
	}
}

// Who has log4j-core < 2.17, and since when has what been there?
func TestQuestions(t *testing.T) {
	f := newFullFixture(t)
	for target, want := range map[string][]string{
		"/api/v1/packages?name=log4j-core&version=%3C2.17":              {`"total":1`, `"version":"2.14.1"`, olderID, `"workloads":1`},
		"/api/v1/packages?name=log4j-core&version=%3E%3D2.17":           {`"total":1`, `"version":"2.17.0"`},
		"/api/v1/vulnerabilities/CVE-2024-0001/affected":                {`"total":2`, `"images":2`, `"name":"zlib"`, `"name":"log4j-core"`, `"exposedSince":`},
		"/api/v1/vulnerabilities/CVE-2024-0001/affected?namespace=bank": {`"total":1`, `"name":"log4j-core"`, `"kind":"StatefulSet"`},
		"/api/v1/vulnerabilities/CVE-2024-0001/affected?on=2020-01-01":  {`"total":0`},
		"/api/v1/rollouts":                                                           {`"total":1`, `"from":{"counts":{`, `"imageId":"` + olderID, `"to":{"counts":{`},
		"/api/v1/coverage?state=Failed":                                              {`"total":1`, `"nextAttempt":"2096-10-02T07:06:40Z"`, `"ratio":0.75`},
		"/api/v1/workloads?namespace=bank":                                           {`"total":1`, `"imageCount":1`, `"scanned":1`},
		"/api/v1/images/" + escape(olderID) + "/presences":                           {`"total":2`, `"namespace":"bank"`, `"until":`},
		"/api/v1/images/" + escape(scannedID) + "/findings?epss=0.51":                {`"total":0`},
		"/api/v1/images/" + escape(scannedID) + "/findings?closed=true":              {`"total":0`},
		"/api/v1/images?kev=true&fixable=true&namespace=shop&state=Scanned&epss=.5":  {`"total":1`, scannedID},
		"/api/v1/vulnerabilities?text=ghsa-cve-2024-0002&sort=-epss&workload=ledger": {`"total":1`, `"id":"CVE-2024-0002"`, `"kev":true`},
	} {
		a := f.do(http.MethodGet, target, "")
		for _, part := range want {
			if a.status != http.StatusOK || !strings.Contains(a.body, part) {
				t.Errorf("%s: %d, %s is not in %s", target, a.status, part, a.body)
			}
		}
	}
}
