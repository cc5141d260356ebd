package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/exceptions"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	exceptionsPath = "/api/v1/exceptions"
	onePath        = exceptionsPath + "/ClusterVulnerabilityException/accepted"
	jsonBody       = "Content-Type: application/json"
)

// withExceptions lets a server write exceptions. The tests of the package exceptions have a real API server.
func withExceptions(t *testing.T, c *server.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := scannerv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientBuilder().WithScheme(scheme).Build()
	c.Exceptions = exceptions.New(kube, kube)
	return kube
}

// newException is the body of a new exception.
func newException(name string) string {
	return `{"kind":"ClusterVulnerabilityException","name":"` + name + `","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"AcceptedRisk","comment":"why"}}`
}

const previewOfOne = `{"kind":"ClusterVulnerabilityException","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"AcceptedRisk","comment":"why"}}`

// schemaOf is the schema of an answer.
func schemaOf(method, path, status string) string {
	return strings.Replace(success(method, path), "/responses/200/", "/responses/"+status+"/", 1)
}

// TestMatrixOfExceptions writes exceptions as each user.
func TestMatrixOfExceptions(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.audiences["decider"] = []string{"scanner-operator"}
	rights.verbs["decider"] = []string{"get", "list"}
	rights.decides = map[string][]string{}
	for _, verb := range []string{"get", "create", "update", "delete"} {
		rights.decides["decider"] = append(rights.decides["decider"], verb+" clustervulnerabilityexceptions")
	}
	rights.decides["reader"] = []string{"get clustervulnerabilityexceptions"}
	lines, registry := &auditLog{}, prometheus.NewRegistry()
	f := newGuardedFixture(t, rights, func(c *server.Config) {
		withExceptions(t, c)
		c.Log, c.Registerer = lines.logger(), registry
	})
	f.seed()
	version := func() string {
		var found struct{ Version string }
		f.must(json.Unmarshal([]byte(f.do(http.MethodGet, onePath, "", bearer("decider")).body), &found))
		return found.Version
	}
	changed := func() string {
		return `{"version":"` + version() + `","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"Fixed"}}`
	}
	for _, try := range []struct {
		user, method, target, body string
		want                       int
		line                       string
	}{
		{"", http.MethodPost, exceptionsPath, newException("accepted"), 401, ""},
		{"nobody", http.MethodPost, exceptionsPath, newException("accepted"), 403, ""},
		{"reader", http.MethodPost, exceptionsPath, newException("accepted"), 403, ""},
		// The right to delete scan results is another one.
		{"admin", http.MethodPost, exceptionsPath, newException("accepted"), 403, ""},
		{"decider", http.MethodPost, exceptionsPath, newException("accepted"), 201, `"user"="decider" "verb"="create" "resource"="clustervulnerabilityexceptions" "name"="accepted" "outcome"="succeeded"`},
		{"decider", http.MethodPost, exceptionsPath, newException("accepted"), 409, `"outcome"="failed" "status"=409`},
		{"", http.MethodGet, onePath, "", 401, ""},
		{"nobody", http.MethodGet, onePath, "", 403, ""},
		{"admin", http.MethodGet, onePath, "", 403, ""},
		{"reader", http.MethodGet, onePath, "", 200, ""},
		{"decider", http.MethodGet, exceptionsPath + "/ClusterVulnerabilityException/absent", "", 404, ""},
		{"admin", http.MethodGet, exceptionsPath + "/ClusterVulnerabilityException/absent", "", 403, ""},
		{"reader", http.MethodPut, onePath, "changed", 403, ""},
		{"decider", http.MethodPut, onePath, "changed", 200, `"verb"="update" "resource"="clustervulnerabilityexceptions" "name"="accepted" "outcome"="succeeded"`},
		{"reader", http.MethodDelete, onePath + "?version=VERSION", "", 403, ""},
		{"decider", http.MethodDelete, onePath + "?version=other", "", 409, `"outcome"="failed" "status"=409`},
		{"decider", http.MethodDelete, onePath + "?version=VERSION", "", 204, `"verb"="delete" "resource"="clustervulnerabilityexceptions" "name"="accepted" "outcome"="succeeded"`},
		{"decider", http.MethodDelete, onePath + "?version=other", "", 404, `"outcome"="failed" "status"=404`},
	} {
		if try.body == "changed" {
			try.body = changed()
		}
		headers := []string{jsonBody}
		if try.user != "" {
			headers = append(headers, bearer(try.user))
		}
		lines.take()
		target := strings.ReplaceAll(try.target, "VERSION", escape(version()))
		got := f.do(try.method, target, try.body, headers...)
		if got.status != try.want {
			t.Errorf("%s %s as %q: %d, want %d: %s", try.method, target, try.user, got.status, try.want, got.body)
		}
		if said := strings.Join(lines.take(), "\n"); !strings.Contains(said, try.line) || try.line == "" && said != "" {
			t.Errorf("%s %s as %q is audited as %q, want %q", try.method, target, try.user, said, try.line)
		}
		path := exceptionsPath
		if try.method != http.MethodPost {
			path += "/{kind}/{name}"
		}
		switch {
		case got.status >= 400:
			got.problem(t, try.want, "")
		case got.status != http.StatusNoContent:
			validate(t, schemaOf(try.method, path, fmt.Sprint(got.status)), got.body)
			if want := `"author":"decider"`; !strings.Contains(got.body, want) {
				t.Errorf("%s %s: %s, want %s", try.method, target, got.body, want)
			}
		}
	}
}

// TestMatrixOfNamespacedExceptions: the right in one namespace is none in another one, and none for exceptions of the cluster.
func TestMatrixOfNamespacedExceptions(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.audiences["decider"] = []string{"scanner-operator"}
	rights.grants["decider"] = map[string][]string{"shop": {"get", "list"}}
	rights.decides = map[string][]string{}
	for _, verb := range []string{"get", "create", "update", "delete"} {
		rights.decides["decider"] = append(rights.decides["decider"], verb+" vulnerabilityexceptions shop")
	}
	f := newGuardedFixture(t, rights, func(c *server.Config) { withExceptions(t, c) })
	f.seed()
	image := model.ImageKey{ImageID: scannedID, Platform: linux}
	f.must(f.store.RecordUses(t.Context(), "shop/scanner", []store.Use{{Image: image, Workload: web, Container: "app"}}))
	const one = exceptionsPath + "/VulnerabilityException/accepted?namespace="
	body := func(namespace string) string {
		return `{"kind":"VulnerabilityException","namespace":"` + namespace + `","name":"accepted","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"Fixed"}}`
	}
	version := func() string {
		var found struct{ Version string }
		f.must(json.Unmarshal([]byte(f.do(http.MethodGet, one+"shop", "", bearer("decider")).body), &found))
		return found.Version
	}
	for _, try := range []struct {
		method, target, body string
		want                 int
	}{
		{http.MethodPost, exceptionsPath, newException("accepted"), 403},
		{http.MethodPost, exceptionsPath, body("bank"), 403},
		{http.MethodPost, exceptionsPath, strings.Replace(body("shop"), `"namespace":"shop",`, "", 1), 400},
		{http.MethodPost, exceptionsPath, body("shop"), 201},
		{http.MethodGet, one + "shop", "", 200},
		{http.MethodGet, one + "bank", "", 403},
		{http.MethodPut, one + "bank", `{"version":"VERSION","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"Fixed"}}`, 403},
		{http.MethodPut, one + "shop", `{"version":"VERSION","spec":{"match":{"vulnerabilities":["CVE-2024-0000"],"workloadSelector":{"matchLabels":{"app":"web"}}},"status":"Fixed"}}`, 200},
		{http.MethodDelete, one + "bank&version=VERSION", "", 403},
		{http.MethodDelete, one + "shop&version=VERSION", "", 204},
	} {
		now := escape(version())
		target, content := strings.ReplaceAll(try.target, "VERSION", now), strings.ReplaceAll(try.body, "VERSION", version())
		got := f.do(try.method, target, content, jsonBody, bearer("decider"))
		if got.status != try.want {
			t.Errorf("%s %s: %d, want %d: %s", try.method, target, got.status, try.want, got.body)
		}
		if got.status == http.StatusOK && !strings.Contains(got.body, `"namespace":"shop"`) {
			t.Errorf("%s %s: %s", try.method, target, got.body)
		}
	}
}

// TestExceptionsOfNewNamespaces: who may decide in a namespace that there is nothing of may do so, and learns nothing of other namespaces.
func TestExceptionsOfNewNamespaces(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.audiences["decider"], rights.audiences["stranger"] = []string{"scanner-operator"}, []string{"scanner-operator"}
	rights.grants["decider"] = map[string][]string{"new": {"get", "list"}}
	rights.decides = map[string][]string{"decider": {"create vulnerabilityexceptions new", "get vulnerabilityexceptions new", "delete vulnerabilityexceptions new"}}
	f := newGuardedFixture(t, rights, func(c *server.Config) { withExceptions(t, c) })
	f.seed()
	body := func(namespace string) string {
		return `{"kind":"VulnerabilityException","namespace":"` + namespace + `","name":"accepted","spec":{"match":{"vulnerabilities":["CVE-2024-0000"]},"status":"Fixed"}}`
	}
	preview := func(namespace string) string { return strings.Replace(body(namespace), `"name":"accepted",`, "", 1) }
	for _, try := range []struct {
		user, method, target, body string
		want                       int
	}{
		{"decider", http.MethodPost, exceptionsPath + "/preview", preview("new"), 200},
		{"stranger", http.MethodPost, exceptionsPath + "/preview", preview("new"), 403},
		{"decider", http.MethodPost, exceptionsPath + "/preview", preview("shop"), 403},
		{"decider", http.MethodPost, exceptionsPath, body("new"), 201},
		{"decider", http.MethodGet, exceptionsPath + "/VulnerabilityException/accepted?namespace=new", "", 200},
		{"stranger", http.MethodGet, exceptionsPath + "/VulnerabilityException/accepted?namespace=new", "", 403},
		{"decider", http.MethodDelete, exceptionsPath + "/VulnerabilityException/accepted?namespace=new&version=other", "", 409},
		{"decider", http.MethodPost, exceptionsPath, body("shop"), 403},
		{"decider", http.MethodPost, exceptionsPath, newException("accepted"), 403},
		{"decider", http.MethodGet, "/api/v1/decisions", "", 403},
		{"stranger", http.MethodDelete, exceptionsPath + "/VulnerabilityException/accepted?namespace=new&version=other", "", 403},
		{"stranger", http.MethodPost, exceptionsPath, body("new"), 403},
	} {
		got := f.do(try.method, try.target, try.body, jsonBody, bearer(try.user))
		if got.status != try.want {
			t.Errorf("%s %s as %s: %d, want %d: %s", try.method, try.target, try.user, got.status, try.want, got.body)
		}
		if strings.HasSuffix(try.target, "/preview") && got.status == http.StatusOK && (!strings.Contains(got.body, `"findings":0`) || !strings.Contains(got.body, `"allowed":true`)) {
			t.Errorf("the preview in a namespace that there is nothing of: %s", got.body)
		}
	}
}

// TestPreviewsOfPlaces: a preview resolves selectors in the namespaces that the caller sees and the exception can concern, and in no others.
func TestPreviewsOfPlaces(t *testing.T) {
	t.Parallel()
	const match = `"vulnerabilities":["CVE-2024-0000"]`
	var mu sync.Mutex
	asked, failure := "", error(nil)
	f := newMatrixFixture(t, nil, func(c *server.Config) {
		withExceptions(t, c)
		c.Places = func(_ context.Context, s *places.Selection, in func(string) bool) (*store.DecisionPlaces, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = s.Text + ":"
			for _, namespace := range []string{"bank", "dark", "shop"} {
				if in(namespace) {
					asked += " " + namespace
				}
			}
			return &store.DecisionPlaces{Selector: s.Text}, failure
		}
	})
	preview := func(user, kind, match string) answer {
		t.Helper()
		mu.Lock()
		asked = ""
		mu.Unlock()
		return f.do(http.MethodPost, exceptionsPath+"/preview", `{"kind":`+kind+`,"spec":{"match":{`+match+`},"status":"Fixed"}}`, f.as(user), jsonBody)
	}
	const ofCluster, inBank = `"ClusterVulnerabilityException"`, `"VulnerabilityException","namespace":"bank"`
	for _, try := range []struct{ user, kind, match, want string }{
		{"all", ofCluster, match, ""},
		{"all", inBank, match, ""},
		{"all", ofCluster, match + `,"namespaceSelector":{}`, "all namespaces: bank dark shop"},
		{"two", ofCluster, match + `,"namespaceSelector":{"matchLabels":{"team":"a"}}`, "namespaces with team=a: bank shop"},
		{"one", ofCluster, match + `,"workloadSelector":{"matchLabels":{"app":"web"}}`, "workloads with app=web: shop"},
		{"all", inBank, match + `,"workloadSelector":{}`, "namespace bank; all workloads: bank"},
		{"one", inBank, match + `,"workloadSelector":{}`, "namespace bank; all workloads:"},
	} {
		got := preview(try.user, try.kind, try.match)
		if got.status != http.StatusOK || asked != try.want {
			t.Errorf("%s %s %s: %d, asked for %q, want %q: %s", try.user, try.kind, try.match, got.status, asked, try.want, got.body)
		}
	}
	invalid := preview("all", inBank, match+`,"workloadSelector":{"matchExpressions":[{"key":"a","operator":"In"}]}`)
	if invalid.status != http.StatusOK || !strings.Contains(invalid.body, `"reason":"Invalid"`) || asked != "" {
		t.Errorf("an invalid selector: %d %s", invalid.status, invalid.body)
	}
	failure = errors.New("secret")
	preview("all", ofCluster, match+`,"namespaceSelector":{}`).problem(t, http.StatusServiceUnavailable, "cannot be read")
	failure = places.ErrTooManyPods
	preview("all", ofCluster, match+`,"workloadSelector":{}`).problem(t, http.StatusUnprocessableEntity, "more than 10000 pods")
}

// TestExceptionsFromElsewhere: a server that may not write exceptions says so, and previews them.
func TestExceptionsFromElsewhere(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	f.do(http.MethodPost, exceptionsPath, newException("a"), jsonBody).problem(t, http.StatusNotImplemented, "api.writeExceptions")
	f.do(http.MethodGet, onePath, "").problem(t, http.StatusNotImplemented, "api.writeExceptions")
	got := f.do(http.MethodPost, exceptionsPath+"/preview", previewOfOne, jsonBody)
	validate(t, success(http.MethodPost, exceptionsPath+"/preview"), got.body)
	var preview struct {
		Findings, Closed, Images, WorkloadCount int
		Workloads                               []struct{ Namespace, Owner string }
		Problems                                []any
		Save                                    struct{ Reason string }
	}
	f.must(json.Unmarshal([]byte(got.body), &preview))
	if preview.Closed == 0 || preview.Images != 2 || preview.WorkloadCount != 2 || preview.Save.Reason != "Disabled" || len(preview.Problems) > 0 {
		t.Errorf("the preview is %s", got.body)
	}
}

// TestMatrixOfPreviews previews exceptions as each user, beside a server that only ever held what the user sees.
func TestMatrixOfPreviews(t *testing.T) {
	t.Parallel()
	bodies := []string{
		previewOfOne, `{"kind":"ClusterVulnerabilityException","spec":{"match":{"packages":["pkg:apk/*"]},"status":"Fixed"}}`,
		`{"kind":"ClusterVulnerabilityException","name":"accepted","spec":{"match":{"packages":["pkg:apk/alpine/zlib"]},"status":"Fixed","mode":"DryRun"}}`,
		`{"kind":"ClusterVulnerabilityException","spec":{"match":{"vulnerabilities":["CVE-2024-dark-only"]},"status":"Fixed"}}`,
	}
	whole := newMatrixFixture(t, nil, func(c *server.Config) { withExceptions(t, c) })
	parts := map[string]*fixture{}
	for user, namespaces := range matrixUsers {
		holds := fmt.Sprint(namespaces == nil, namespaces)
		if parts[holds] == nil {
			parts[holds] = newMatrixFixture(t, namespaces, func(c *server.Config) { withExceptions(t, c) })
		}
		for _, body := range bodies {
			got := whole.do(http.MethodPost, exceptionsPath+"/preview", body, whole.as(user), jsonBody)
			want := parts[holds].do(http.MethodPost, exceptionsPath+"/preview", body, parts[holds].as(user), jsonBody)
			if diff := cmp.Diff(want.body, got.body); diff != "" || got.status != http.StatusOK {
				t.Errorf("%s as %q: %d, differs with other namespaces (-without +with):\n%s", body, user, got.status, diff)
			}
			reason := `"reason":"NotPermitted"`
			if user == anonymous {
				reason = `"reason":"NotSignedIn"`
			}
			if user != "all" && strings.Contains(got.body, `"dark"`) || !strings.Contains(got.body, reason) {
				t.Errorf("%s as %q: %s", body, user, got.body)
			}
		}
	}
}

// Bodies that are too large, unclear or meant for another kind are refused, before anything is asked of the API server.
func TestHostileExceptions(t *testing.T) {
	t.Parallel()
	var kube client.Client
	f := newFixture(t, func(c *server.Config) { kube = withExceptions(t, c) })
	const start = `{"kind":"ClusterVulnerabilityException","name":"a","spec":{"match":{"vulnerabilities":["CVE-1-1"]},"status":"Fixed"`
	for name, try := range map[string]struct {
		body, headers string
		status        int
		detail        string
	}{
		"empty":                {"", "", 400, "JSON"},
		"no object":            {"[]", "", 400, "JSON"},
		"two documents":        {start + "}}" + start + "}}", "", 400, "JSON"},
		"no JSON":              {start + "}}", "Content-Type: text/plain", 415, "application/json"},
		"a form":               {start + "}}", "Content-Type: application/x-www-form-urlencoded", 415, "application/json"},
		"too large":            {start + `,"comment":"` + strings.Repeat("x", 64<<10) + `"}}`, "", 413, "65536 bytes"},
		"deep":                 {strings.Repeat("[", 60_000), "", 400, "JSON"},
		"an unknown field":     {start + `,"expireAt":"2030-01-01T00:00:00Z"}}`, "", 400, `unknown field \"spec.expireAt\"`},
		"another case":         {start + `,"expiresat":"2030-01-01T00:00:00Z"}}`, "", 400, "unknown field"},
		"a field twice":        {start + `,"status":"FalsePositive"}}`, "", 400, `duplicate field \"spec.status\"`},
		"many unknown fields":  {start + strings.Repeat(`,"x":1`, 5000) + "}}", "", 400, "unknown field"},
		"no time":              {start + `,"expiresAt":"tomorrow"}}`, "", 400, `spec.expiresAt: \"tomorrow\" is not a time`},
		"another kind":         {strings.Replace(start, "ClusterVulnerabilityException", "Secret", 1) + "}}", "", 400, "not a kind"},
		"a namespace":          {strings.Replace(start, `"name":"a"`, `"name":"a","namespace":"kube-system"`, 1) + "}}", "", 400, "has no namespaces"},
		"no namespace":         {strings.Replace(start, "ClusterVulnerabilityException", "VulnerabilityException", 1) + "}}", "", 400, "namespace is required"},
		"an unknown selector":  {strings.Replace(start, `"match":{`, `"match":{"podSelector":{},`, 1) + "}}", "", 400, `unknown field \"spec.match.podSelector\"`},
		"no name":              {strings.Replace(start, `"name":"a",`, "", 1) + "}}", "", 400, "name is required"},
		"from another site":    {start + "}}", "Sec-Fetch-Site: cross-site", 403, "cross-origin"},
		"from another origin":  {start + "}}", "Origin: https://evil.example", 403, "cross-origin"},
		"from another address": {start + "}}", "Host: evil.example", 421, "localhost"},
	} {
		headers := []string{jsonBody}
		if try.headers != "" {
			headers = append(headers, try.headers)
		}
		got := f.do(http.MethodPost, exceptionsPath, try.body, headers...)
		var p struct{ Detail string }
		if json.Unmarshal([]byte(got.body), &p) != nil || got.status != try.status || !strings.Contains(got.body, try.detail) || len(got.body) > 4<<10 {
			t.Errorf("%s: %d %.300s, want %d with %q", name, got.status, got.body, try.status, try.detail)
		}
	}
	for _, target := range []string{
		exceptionsPath + "/Secret/a", exceptionsPath + "/ClusterVulnerabilityException/a?namespace=kube-system", onePath + "?other=1",
	} {
		if got := f.do(http.MethodGet, target, ""); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	if got := f.do(http.MethodDelete, onePath, ""); got.status != http.StatusBadRequest {
		t.Errorf("deletion without a version: %d %s", got.status, got.body)
	}
	var all scannerv1alpha1.ClusterVulnerabilityExceptionList
	f.must(kube.List(t.Context(), &all))
	if len(all.Items) > 0 {
		t.Errorf("exceptions were created: %+v", all.Items)
	}
}

// A preview reads all that is stored, so that it costs as much as 20 other requests.
func TestPreviewsAreLimited(t *testing.T) {
	t.Parallel()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Limits.RequestRate, c.Limits.RequestBurst = 0.001, 50 })
	statuses := []int{}
	for range 3 {
		statuses = append(statuses, f.do(http.MethodPost, exceptionsPath+"/preview", previewOfOne, jsonBody, bearer("reader")).status)
	}
	if diff := cmp.Diff([]int{200, 200, 429}, statuses); diff != "" {
		t.Error(diff)
	}
}
