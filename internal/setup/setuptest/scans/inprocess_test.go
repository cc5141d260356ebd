package scans

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// program builds the operator: children run it.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scanner-operator")
	// Without symbols, which take the linker most of its time.
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, "./cmd/scanner-operator")
	build.Dir = controllertest.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the operator: %v\n%s", err, out)
	}
	return path
}

// serveSample serves a sample image and returns its reference by digest.
func serveSample(t *testing.T, name string) string {
	t.Helper()
	images, err := sampleimages.Build(t.Context(), "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		if image.Name != name || image.Image == nil {
			continue
		}
		server, err := sampleimages.Serve(t.Context(), "127.0.0.1:0", []sampleimages.Image{image})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() })
		return server.References[0]
	}
	t.Fatalf("there is no sample %s", name)
	return ""
}

// TestInProcess is what make run does: from a pod to a report and an announcement, without a Job.
func TestInProcess(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, data, executable := setuptest.Namespace(t, c), t.TempDir(), program(t)
	reference := serveSample(t, "samples/java-app")
	api, _ := setuptest.StartOperator(t, ns, data, func(o *setup.Options) {
		o.Catalog, o.Auth, o.Executable = setup.CatalogInProcess, setup.AuthNone, executable
	})
	conn, res, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(api, "http")+"/subscribe", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })

	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	setuptest.RunningPod(t, c, ns, "java", reference)
	registry, _, _ := strings.Cut(reference, "/")
	missing := registry + "/samples/missing@sha256:" + strings.Repeat("0", 64)
	setuptest.RunningPod(t, c, ns, "missing", missing)

	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var announced string
	if err := conn.ReadJSON(&announced); err != nil || announced != reference {
		t.Fatalf("/subscribe named %q, %v; want %s", announced, err, reference)
	}
	results := scanResults(t, api)
	if len(results) != 1 || results[0].ImageID != reference || results[0].Report.SpecVersion != "1.6" ||
		!bytes.Contains(results[0].Report.Vulnerabilities, []byte("CVE-2021-44228")) {
		t.Errorf("scan results = %+v, want one with Log4Shell in CycloneDX 1.6", results)
	}
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, time.Minute, tick).Should(gomega.Equal("False/Failed"))
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(filepath.Join(data, "scratch")) }, patience, tick).
		Should(gomega.BeEmpty(), "the scratch folder is not emptied")
}

type scanResult struct {
	ImageID string `json:"imageId"`
	Report  struct {
		SpecVersion     string          `json:"specVersion"`
		Vulnerabilities json.RawMessage `json:"vulnerabilities"`
	} `json:"report"`
}

func scanResults(t *testing.T, api string) []scanResult {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/scan-results", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var results []scanResult
	if err := json.NewDecoder(res.Body).Decode(&results); err != nil {
		t.Fatal(err)
	}
	return results
}
