package setup_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// The callers of the matrix. person is a viewer with a token for the API server, as people have.
const (
	anonymous     = "anonymous"
	viewer        = "viewer"
	editor        = "editor"
	person        = "person"
	ownPod        = "own scan pod"
	otherPod      = "scan pod of another image"
	expired       = "expired token of an editor"
	wrongAudience = "token of an editor for another audience"
)

var callers = []string{anonymous, viewer, editor, person, otherPod, expired, wrongAudience, ownPod}

// row says how a route answers each caller.
type row struct {
	// target is the route with its parameters filled in; {app} stands for the image of the own scan pod.
	target  string
	headers []string
	body    string
	want    map[string]int
}

// Each kind of route refuses those who may not use it before it looks at anything else; allowed is how it answers the others.
func reading(target string, allowed int) row {
	return row{target: target, want: map[string]int{
		anonymous: 401, viewer: allowed, editor: allowed, person: allowed, ownPod: 403, otherPod: 403, expired: 401, wrongAudience: 401,
	}}
}

func writing(target string, allowed int, body string, headers ...string) row {
	r := reading(target, allowed)
	r.body, r.headers, r.want[viewer], r.want[person] = body, headers, 403, 403
	return r
}

func open(target string, status int) row {
	r := row{target: target, want: map[string]int{}}
	for _, caller := range callers {
		r.want[caller] = status
	}
	return r
}

// matrix has a row for every route of the specification.
func matrix() map[string]row {
	signIn := open("/api/v1/session", 401)
	signIn.body, signIn.headers = `{"token":"not.a.token"}`, []string{"Content-Type", "application/json"}
	previewing := reading("/api/v1/exceptions/preview", 200)
	previewing.body, previewing.headers = `{"kind":"ClusterVulnerabilityException","spec":{"match":{"vulnerabilities":["CVE-1-1"]},"status":"Fixed"}}`, []string{"Content-Type", "application/json"}
	// The role of editors is about other objects.
	exception := reading("/api/v1/exceptions/ClusterVulnerabilityException/unknown", 404)
	exception.want[editor] = 403
	// The role of viewers has VEXSources, that of editors does not.
	documents, document := reading("/api/v1/vex", 200), reading("/api/v1/vex/unknown", 404)
	documents.want[editor], document.want[editor] = 403, 403
	// There is no provider.
	logout := open("/api/v1/session/provider-logout", 404)
	logout.body, logout.headers = "logout_token=a.b.c", []string{"Content-Type", "application/x-www-form-urlencoded"}
	return map[string]row{
		"GET /scan-results":                     reading("/scan-results", 200),
		"PUT /scan-results":                     writing("/scan-results", 200, `{"imageId":"r.example/put","report":{"bomFormat":"CycloneDX","specVersion":"1.6"}}`, "Content-Type", "application/json"),
		"GET /scan-results/{imageId}":           reading("/scan-results/unknown", 404),
		"DELETE /scan-results/{imageId}":        writing("/scan-results/unknown", 404, ""),
		"GET /subscribe":                        reading("/subscribe", 426),
		"GET /api/wds/logs":                     reading("/api/wds/logs", 426),
		"GET /api/v1/overview":                  reading("/api/v1/overview", 200),
		"GET /api/v1/overview/changes":          reading("/api/v1/overview/changes", 200),
		"GET /api/v1/images":                    reading("/api/v1/images", 200),
		"GET /api/v1/images/{imageId}":          reading("/api/v1/images/{app}", 200),
		"GET /api/v1/images/{imageId}/findings": reading("/api/v1/images/{app}/findings", 200),
		"GET /api/v1/images/{imageId}/packages": reading("/api/v1/images/{app}/packages", 200),
		"GET /api/v1/images/{imageId}/layers":   reading("/api/v1/images/{app}/layers", 200),
		"GET /api/v1/images/{imageId}/sbom":     reading("/api/v1/images/{app}/sbom", 404),
		"POST /api/v1/images/{imageId}/scan":    writing("/api/v1/images/unknown/scan", 404, ""),
		"PUT /api/v1/images/{imageId}/sbom": {
			target: "/api/v1/images/{app}/sbom?platform=linux%2Famd64", body: compressed(smallSBOM),
			headers: []string{"Content-Type", "application/vnd.syft+json", "Content-Encoding", "zstd"},
			want: map[string]int{
				anonymous: 401, viewer: 403, editor: 403, person: 401, ownPod: 204, otherPod: 403, expired: 401, wrongAudience: 401,
			},
		},
		"GET /api/v1/images/{imageId}/newer-tags": reading("/api/v1/images/{app}/newer-tags", 200),
		// The Job of the own pod catalogs the image.
		"PUT /api/v1/images/{imageId}/newer-tags": {
			target: "/api/v1/images/{app}/newer-tags?platform=linux%2Famd64", body: `{"listed":1,"reason":"Newest"}`,
			headers: []string{"Content-Type", "application/vnd.scanner-operator.newer-tags+json"},
			want: map[string]int{
				anonymous: 401, viewer: 403, editor: 403, person: 401, ownPod: 403, otherPod: 403, expired: 401, wrongAudience: 401,
			},
		},
		"GET /api/v1/images/{imageId}/presences":     reading("/api/v1/images/{app}/presences", 200),
		"GET /api/v1/vulnerabilities":                reading("/api/v1/vulnerabilities", 200),
		"GET /api/v1/vulnerabilities/{id}":           reading("/api/v1/vulnerabilities/CVE-1-1", 404),
		"GET /api/v1/vulnerabilities/{id}/exposures": reading("/api/v1/vulnerabilities/CVE-1-1/exposures", 200),
		"GET /api/v1/vulnerabilities/{id}/affected":  reading("/api/v1/vulnerabilities/CVE-1-1/affected", 200),
		"GET /api/v1/decisions":                      reading("/api/v1/decisions", 200),
		"GET /api/v1/decisions/{decisionId}":         reading("/api/v1/decisions/1", 404),
		"GET /api/v1/packages":                       reading("/api/v1/packages", 200),
		"GET /api/v1/workloads":                      reading("/api/v1/workloads", 200),
		"GET /api/v1/bases":                          reading("/api/v1/bases", 200),
		"GET /api/v1/namespaces":                     reading("/api/v1/namespaces", 200),
		"GET /api/v1/owners":                         reading("/api/v1/owners", 200),
		"GET /api/v1/fixes":                          reading("/api/v1/fixes", 200),
		"GET /api/v1/fixes/preview":                  reading("/api/v1/fixes/preview?action=rebuild&imageId={app}", 409),
		"GET /api/v1/compare":                        reading("/api/v1/compare?from=r.example/a&to=r.example/b", 404),
		"GET /api/v1/reports/cluster":                reading("/api/v1/reports/cluster", 200),
		"GET /api/v1/reports/namespaces/{namespace}": reading("/api/v1/reports/namespaces/unknown", 404),
		"GET /api/v1/reports/owners/{owner}":         reading("/api/v1/reports/owners/unknown", 404),
		"GET /api/v1/search":                         reading("/api/v1/search?text=ab", 200),
		"GET /api/v1/policies":                       reading("/api/v1/policies", 200),
		"GET /api/v1/notification-rules":             reading("/api/v1/notification-rules", 200),
		"POST /api/v1/notification-rules/test":       writing("/api/v1/notification-rules/test", 404, `{"namespace":"default","name":"absent"}`, "Content-Type", "application/json"),
		"GET /api/v1/coverage":                       reading("/api/v1/coverage", 200),
		"GET /api/v1/rollouts":                       reading("/api/v1/rollouts", 200),
		"GET /api/v1/rollouts/{rolloutId}":           reading("/api/v1/rollouts/1", 404),
		"GET /api/v1/trends":                         reading("/api/v1/trends", 200),
		// TestDecide has who may write exceptions.
		"POST /api/v1/exceptions":                 writing("/api/v1/exceptions", 403, `{"kind":"ClusterVulnerabilityException","name":"a","spec":{"match":{},"status":"Fixed"}}`, "Content-Type", "application/json"),
		"POST /api/v1/exceptions/preview":         previewing,
		"GET /api/v1/exceptions/{kind}/{name}":    exception,
		"PUT /api/v1/exceptions/{kind}/{name}":    writing("/api/v1/exceptions/ClusterVulnerabilityException/unknown", 403, `{"version":"a","spec":{"match":{},"status":"Fixed"}}`, "Content-Type", "application/json"),
		"DELETE /api/v1/exceptions/{kind}/{name}": writing("/api/v1/exceptions/ClusterVulnerabilityException/unknown?version=a", 403, ""),
		// TestVEXUploads has who may write VEX documents.
		"GET /api/v1/vex":                       documents,
		"GET /api/v1/vex/{name}":                document,
		"PUT /api/v1/vex/{name}":                writing("/api/v1/vex/a", 403, "{}", "Content-Type", "application/json"),
		"DELETE /api/v1/vex/{name}":             writing("/api/v1/vex/a", 403, ""),
		"GET /api/v1/databases":                 reading("/api/v1/databases", 200),
		"GET /api/v1/databases/{build}/changes": reading("/api/v1/databases/unknown/changes", 404),
		"POST /api/v1/databases/rematch":        writing("/api/v1/databases/rematch", 202, "{}", "Content-Type", "application/json"),
		"GET /api/v1/events":                    reading("/api/v1/events", 200),
		"GET /api/v1/session":                   open("/api/v1/session", 200),
		"POST /api/v1/session":                  signIn,
		"DELETE /api/v1/session":                open("/api/v1/session", 204),
		"GET /api/v1/session/sign-in":           open("/api/v1/session/sign-in", 404),
		"GET /api/v1/session/callback":          open("/api/v1/session/callback?state=a&code=b", 404),
		"POST /api/v1/session/provider-logout":  logout,
	}
}

// TestWhoMayDoWhat goes through every route as every caller, with real tokens and the roles that are installed, on a real API server.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	rows, routes := matrix(), specifiedRoutes(t)
	for _, route := range routes {
		if _, found := rows[route]; !found {
			t.Errorf("%s is in the specification, but not in the matrix", route)
		}
	}
	for route, row := range rows {
		if !slices.Contains(routes, route) {
			t.Errorf("%s is in the matrix, but not in the specification", route)
		}
		if len(row.want) != len(callers) {
			t.Errorf("%s: not every caller has an answer", route)
		}
	}
	if t.Failed() {
		t.FailNow()
	}

	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	ns := namespace(t, c)
	api := operator(t, ns, func(o *setup.Options) { o.Catalog, o.WriteExceptions = setup.CatalogJob, true })
	app, other := imageID("matrix-app", "a"), imageID("matrix-other", "b")
	runningPod(t, c, ns, "app", app)
	runningPod(t, c, ns, "other", other)
	create(t, c, sampleScanner(t, ns))
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).
		Should(gomega.And(gomega.HaveKey(app), gomega.HaveKey(other)))
	tokens := matrixTokens(t, c, ns, jobs(t.Context(), c, ns)[app], jobs(t.Context(), c, ns)[other])

	// The image of the own scan pod stays without an SBOM until all others were refused.
	for _, route := range slices.Sorted(maps.Keys(rows)) {
		row := rows[route]
		method, _, _ := strings.Cut(route, " ")
		for _, caller := range callers {
			var got int
			var answer string
			// Callers without a valid token share the rate of their address.
			g.Eventually(func() int {
				got, answer = setuptest.Ask(t, method, api+strings.ReplaceAll(row.target, "{app}", url.PathEscape(app)), row.body, tokens[caller], row.headers...)
				return got
			}, patience, tick).ShouldNot(gomega.Equal(http.StatusTooManyRequests))
			if got != row.want[caller] {
				t.Errorf("%s as %s: %d, want %d: %.300s", route, caller, got, row.want[caller], answer)
			}
		}
	}
}

func compressed(text string) string {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = encoder.Close() }()
	return string(encoder.EncodeAll([]byte(text), nil))
}

// specifiedRoutes lists "METHOD /path" of every operation of openapi.yaml.
func specifiedRoutes(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var specification struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(content, &specification); err != nil {
		t.Fatal(err)
	}
	var routes []string
	for path, operations := range specification.Paths {
		for method := range operations {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return routes
}

// matrixTokens makes a token for each caller, and gives viewers and editors the roles of config/rbac.
func matrixTokens(t *testing.T, c client.Client, ns string, own, other *batchv1.Job) map[string]string {
	t.Helper()
	for name, file := range map[string]string{viewer: "viewer_role.yaml", editor: "editor_role.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict(content, &role); err != nil {
			t.Fatal(err)
		}
		role.Name = ns + "-" + name
		create(t, c, &role)
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
		create(t, c, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}},
		})
	}
	ours := tokenOf(t, c, ns, editor, scanjob.Audience)
	return map[string]string{
		anonymous: "",
		viewer:    tokenOf(t, c, ns, viewer, scanjob.Audience),
		editor:    ours,
		person:    tokenOf(t, c, ns, viewer),
		ownPod:    podOfJob(t, c, own, scanjob.Audience),
		otherPod:  podOfJob(t, c, other, scanjob.Audience),
		expired:   expire(t, ours), wrongAudience: tokenOf(t, c, ns, editor, "vault"),
	}
}

// expire makes of a token one that ended an hour ago, signed as the API server signs them.
func expire(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	for claim, ago := range map[string]time.Duration{"iat": 2 * time.Hour, "nbf": 2 * time.Hour, "exp": time.Hour} {
		claims[claim] = time.Now().Add(-ago).Unix()
	}
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + base64.RawURLEncoding.EncodeToString(sign(t, signed))
}

func sign(t *testing.T, text string) []byte {
	t.Helper()
	content, err := os.ReadFile(controllertest.SigningKey())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the API server signs with a %T", parsed)
	}
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return append(fixed(r), fixed(s)...)
}

func fixed(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }
