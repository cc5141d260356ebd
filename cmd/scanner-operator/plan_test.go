package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// operatorOf answers as an operator would about containers that run, and notes what it is asked.
type operatorOf struct {
	t      *testing.T
	server *httptest.Server
	// coverage are the containers of the namespace "shop", and images those that are found by digest.
	coverage, images string
	// compared is the answer to a comparison, findings that about the image that runs.
	compared, findings string
	asked              []string
}

func (o *operatorOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked = append(o.asked, r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	answer := func(items string) string {
		return `{"items":[` + items + `],"total":0,"summary":{}}`
	}
	switch {
	case r.URL.Path == "/api/v1/coverage" && r.URL.Query().Get("namespace") == "shop":
		_, _ = io.WriteString(w, answer(o.coverage))
	case r.URL.Path == "/api/v1/coverage":
		_, _ = io.WriteString(w, `{"items":[],"total":0,"summary":{}}`)
	case r.URL.Path == "/api/v1/images":
		_, _ = io.WriteString(w, answer(o.images))
	case r.URL.Path == "/api/v1/compare":
		_, _ = io.WriteString(w, o.compared)
	case strings.HasSuffix(r.URL.Path, "/findings"):
		_, _ = io.WriteString(w, answer(o.findings))
	case r.URL.Path == "/api/v1/databases":
		_, _ = io.WriteString(w, `{"items":[{"id":"xxh64:other","state":"Current"}]}`)
	default:
		http.NotFound(w, r)
	}
}

func newOperatorOf(t *testing.T) *operatorOf {
	t.Helper()
	o := &operatorOf{t: t}
	o.server = httptest.NewServer(o)
	t.Cleanup(o.server.Close)
	return o
}

// kubeconfig writes a file whose context has the namespace "shop".
func (o *operatorOf) kubeconfig() string {
	o.t.Helper()
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1"}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "shop"}}, CurrentContext: "x",
	}
	path := filepath.Join(o.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		o.t.Fatal(err)
	}
	return path
}

func (o *operatorOf) plan(input string, args ...string) (stdout, stderr string, err error) {
	o.t.Helper()
	return runOffline(o.t, newPlanCommand(), input, append(args, "--kubeconfig", o.kubeconfig(), "--url", o.server.URL)...)
}

const runsOld = `{"workload":{"namespace":"shop","kind":"Deployment","name":"web"},"container":"app","imageId":"r.example/web@sha256:old","platform":"linux/amd64",
	"reference":"r.example/web:1","pods":3,"state":"Scanned"}`

func deployment(name, image string) string {
	return "kind: Deployment\nmetadata: {name: " + name + "}\nspec: {template: {spec: {containers: [{name: app, image: \"" + image + "\"}]}}}\n---\n"
}

// planOf is what is read of the output in JSON.
type planOf struct {
	Containers []struct {
		Namespace, Kind, Name, Container, From, To, ToImageID, State, Error string
		Opened, Closed                                                      struct{ Critical, High, Medium int }
	}
}

func TestPlanAsksTheOperator(t *testing.T) {
	digest := "sha256:" + strings.Repeat("b", 64)
	o := newOperatorOf(t)
	o.coverage = runsOld
	o.images = `{"imageId":"r.example/web@` + digest + `","platform":"linux/amd64","state":"Scanned"}`
	o.compared = `{"from":{},"to":{},"evaluation":{"state":"evaluated","opened":{"high":1},"closed":{"critical":1}},
		"opened":[{"vulnerabilityId":"CVE-2","package":"curl","severity":"High","kev":true,"fixable":true}],
		"closed":[{"vulnerabilityId":"CVE-1","package":"log4j\u001b[31m","severity":"Critical","kev":false,"fixable":false}]}`
	manifests := deployment("web", "r.example/web@"+digest) + "kind: Service\n---\n" + deployment("web", "r.example/web:1")
	out, stderr, err := o.plan(manifests, "-f", "-")
	want := `shop/Deployment web, container app
Image:  r.example/web:1 -> r.example/web@` + digest[:20]
	if err != nil || !strings.HasPrefix(out, want) || !strings.Contains(out, "opened  CVE-2          High      curl       yes  yes") ||
		!strings.Contains(out, "Image:  r.example/web:1 (unchanged)") || strings.Contains(out, "\x1b") || stderr != "" {
		t.Errorf("%v, %q\n%s", err, stderr, out)
	}
	if asked := strings.Join(o.asked, " "); strings.Count(asked, "/api/v1/coverage") != 1 || strings.Count(asked, "/api/v1/compare") != 1 || strings.Contains(asked, "findings") {
		t.Errorf("it asked %s", asked)
	}
	var exit exitError
	out, _, err = o.plan(manifests, "-f", "-", "-o", "json", "--fail-on", "high")
	var got planOf
	if !errors.As(err, &exit) || exit != 2 || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c := got.Containers; len(c) != 2 || c[0].State != "compared" || c[0].Opened.High != 1 || c[0].Closed.Critical != 1 || c[1].State != "unchanged" {
		t.Errorf("%+v", got)
	}
	if _, _, err := o.plan(manifests, "-f", "-", "--fail-on", "critical"); err != nil {
		t.Errorf("--fail-on critical: %v", err)
	}
}

// What the operator does not know is scanned here.
func TestPlanScans(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	pushed(t, host, imageWith(t, map[string]string{"app/node_modules/lodash/package.json": `{"name":"lodash","version":"4.17.20"}`}))
	o := newOperatorOf(t)
	o.coverage = runsOld
	o.findings = `{"package":{"name":"lodash","version":"4.17.15","type":"npm"},"vulnerability":{"id":"GHSA-35jh-r3h4-6jhm","namespace":"n","severity":"High","risk":1},"fix":{"state":"fixed"}},
		{"package":{"name":"zlib","version":"1","type":"deb"},"vulnerability":{"id":"CVE-9","namespace":"n","severity":"Critical","risk":1,"kev":[{}]},"fix":{"state":"unknown"}}`
	image := host + "/team/app:latest"
	out, stderr, err := o.plan(deployment("web", image)+deployment("new", image), "-f", "-", "-o", "json")
	var got planOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("%v, %s\n%s", err, stderr, out)
	}
	if c := got.Containers; len(c) != 2 || c[0].State != "compared" || c[0].Opened.Medium != 1 || c[0].Opened.High != 0 || c[0].Closed.Critical != 1 || c[1].State != "new" || c[1].Opened.High != 1 ||
		!strings.HasPrefix(c[0].ToImageID, host+"/team/app@sha256:") {
		t.Errorf("%+v", got)
	}
	if strings.Count(stderr, "Scanning ") != 1 || !strings.Contains(stderr, `the operator uses the database build "xxh64:other"`) {
		t.Errorf("%s", stderr)
	}
}

func TestPlanFails(t *testing.T) {
	o := newOperatorOf(t)
	o.coverage = strings.Replace(runsOld, "Scanned", "Failed", 1)
	out, _, err := o.plan(deployment("web", "r.example/web:2")+deployment("same", "R.example/Bad Reference"), "-f", "-")
	if err == nil || err.Error() != "2 of 2 containers could not be compared" || !strings.Contains(out, "Error:  the image that runs is not scanned: Failed") ||
		!strings.Contains(out, "Error:  the image reference: ") {
		t.Errorf("%v\n%s", err, out)
	}
	// What could not be compared has no counts.
	o.coverage, o.compared = runsOld, "{"
	o.images = `{"imageId":"r.example/web@sha256:` + strings.Repeat("b", 64) + `","platform":"linux/amd64","state":"Scanned"}`
	if out, _, err := o.plan(deployment("web", "r.example/web@sha256:"+strings.Repeat("b", 64)), "-f", "-", "-o", "json"); err == nil || !strings.Contains(out, `"state": "failed"`) ||
		strings.Contains(out, "opened") || strings.Contains(out, "closed") {
		t.Errorf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "absent.yaml")
	for want, args := range map[string][]string{
		"-f is missing":              {},
		"no such file":               {"-f", file},
		`--output "yaml" is not`:     {"-f", "-", "-o", "yaml"},
		"--fail-on":                  {"-f", "-", "--fail-on", "x"},
		"document 1 of the manifest": {"-f", "-"},
	} {
		asked := len(o.asked)
		if out, _, err := o.plan("kind: [\n", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" || len(o.asked) > asked {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
	// A reference in a manifest is never a file of this machine.
	dir := t.TempDir()
	t.Chdir(dir)
	if out, _, err := o.plan(deployment("other", "./"+filepath.Base(dir)), "-f", "-"); err == nil || !strings.Contains(out, " names no registry\n") {
		t.Errorf("a file as image: %v\n%s", err, out)
	}
	if out, _, err := o.plan("kind: Service\n", "-f", "-"); err != nil || out != "The manifests run no containers.\n" {
		t.Errorf("no containers: %v, %q", err, out)
	}
}
