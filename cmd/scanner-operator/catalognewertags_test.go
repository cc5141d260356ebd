package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// lookUp runs the command as a scan pod does, and returns what it uploads, nil if it uploads nothing, and its outcome.
func lookUp(t *testing.T, image string, args ...string) (report *candidates.Report, outcome model.Outcome) {
	t.Helper()
	operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		want := []string{"PUT", "/api/v1/images/registry.example%2Fteam%2Fapp@sha256:0/newer-tags", "platform=linux/amd64", catalog.MediaTypeNewerTags, "", "Bearer token"}
		got := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), r.Header.Get("Authorization")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("upload (-want +got):\n%s", diff)
		}
		if report, err = candidates.ReadReport(body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer operator.Close()
	t.Setenv("TMPDIR", t.TempDir())
	message, token := filepath.Join(t.TempDir(), "termination-log"), filepath.Join(t.TempDir(), "token")
	for path, content := range map[string]string{message: "old", token: "token"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := newCatalogNewerTagsCommand()
	var log bytes.Buffer
	command.SetErr(&log)
	command.SetArgs(append([]string{
		image, "--image-id=registry.example/team/app@sha256:0", "--platform=linux/amd64", "--upload-url=" + operator.URL, "--token-file=" + token,
		"--scratch-dir=" + t.TempDir(), "--termination-message-path=" + message,
	}, args...))
	err := command.ExecuteContext(t.Context())
	content, readErr := os.ReadFile(message)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if jsonErr := json.Unmarshal(content, &outcome); jsonErr != nil || (err == nil) != outcome.Succeeded() {
		t.Fatalf("%v, the termination message is %q; log:\n%s", err, content, log.String())
	}
	return report, outcome
}

// hasPackage reports whether a compressed SBOM has a package.
func hasPackage(t *testing.T, compressed []byte, title, version string) bool {
	t.Helper()
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	sbom, err := decoder.DecodeAll(compressed, nil)
	if err != nil {
		t.Fatalf("decompress an SBOM: %v", err)
	}
	return bytes.Contains(sbom, []byte(`"name":"`+title+`","version":"`+version+`"`))
}

func TestCatalogNewerTags(t *testing.T) {
	s := newTagsServer(t, map[string][]string{"1.1.0": {"a 1.0.0"}, "1.1.4": {"a 1.4.0"}, "1.3.0": {"a 3.0.0"}, "2.0.0": {"a 20.0.0"}, "latest": nil})
	report, outcome := lookUp(t, s.host+"/team/app:1.1.0")
	if !outcome.Succeeded() || report == nil || report.Listed != 5 || report.Incomplete != "" || report.Source != "" || len(report.Tags) != 3 {
		t.Fatalf("%+v, %+v", report, outcome)
	}
	for i, want := range []struct {
		tag, version string
		kind         candidates.Kind
	}{{"1.1.4", "1.4.0", candidates.KindPatch}, {"1.3.0", "3.0.0", candidates.KindMinor}, {"2.0.0", "20.0.0", candidates.KindMajor}} {
		got := report.Tags[i]
		if got.Tag != want.tag || got.Kind != want.kind || got.Digest == "" || got.Problem != "" || !hasPackage(t, got.SBOM, "a", want.version) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}

	// What the operator knows is not pulled again.
	s.asked = nil
	again, _ := lookUp(t, s.host+"/team/app:1.1.0", "--known-digest="+report.Tags[0].Digest, "--known-digest="+report.Tags[2].Digest, "--limit=2")
	if len(again.Tags) != 2 || again.Tags[0].Digest != report.Tags[0].Digest || again.Tags[0].SBOM != nil || again.Tags[1].SBOM == nil {
		t.Errorf("with known digests: %+v", again)
	}
	if n := s.requests("/blobs/"); n != 2 { // The configuration and the layer of one image.
		t.Errorf("%d blobs were pulled, want those of one image", n)
	}

	newest, outcome := lookUp(t, s.host+"/team/app:2.0.0")
	if newest == nil || len(newest.Tags) != 0 || newest.Reason != candidates.ReasonNewest || !outcome.Succeeded() {
		t.Errorf("the newest tag: %+v, %+v", newest, outcome)
	}
	s.asked = nil
	if latest, _ := lookUp(t, s.host+"/team/app:latest"); latest == nil || latest.Reason != candidates.ReasonNoVersion || len(s.asked) > 0 {
		t.Errorf("a tag that is no version: %+v, asked %v", latest, s.asked)
	}
}

// TestCatalogNewerTagsFailures: one image that cannot be cataloged does not prevent the others, and a registry that limits requests is not asked for more.
func TestCatalogNewerTagsFailures(t *testing.T) {
	s := newTagsServer(t, map[string][]string{"1.1.0": nil, "1.1.4": {"a 1.4.0"}, "1.3.0": {"a 3.0.0"}, "2.0.0": {"a 20.0.0"}})
	refuse := func(part string, status int) {
		s.guard = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, part) {
				return true
			}
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			return false
		}
	}
	refuse("/manifests/1.1.4", http.StatusForbidden)
	report, outcome := lookUp(t, s.host+"/team/app:1.1.0")
	if !outcome.Succeeded() || len(report.Tags) != 3 || report.Tags[0].Problem == "" || report.Tags[0].SBOM != nil || report.Tags[1].SBOM == nil || report.Tags[2].SBOM == nil {
		t.Errorf("one tag is denied: %+v, %+v", report, outcome)
	}
	refuse("/manifests/1.3.0", http.StatusTooManyRequests)
	report, _ = lookUp(t, s.host+"/team/app:1.1.0")
	if report.Tags[0].SBOM == nil || report.Tags[1].Problem == "" || !strings.Contains(report.Tags[2].Problem, "limits requests") {
		t.Errorf("requests are limited: %+v", report)
	}
	s.asked = nil
	refuse("/tags/list", http.StatusTooManyRequests)
	if report, outcome := lookUp(t, s.host+"/team/app:1.1.0"); report != nil || outcome.Reason != model.ReasonRegistryRateLimited || s.requests("/manifests/") > 0 {
		t.Errorf("the list is limited: %+v, %+v", report, outcome)
	}
	for _, image := range []string{"team/app:1", s.host + "/team/app@sha256:" + strings.Repeat("0", 64), "registry.example/App:1", s.host + "/team/app"} {
		if report, outcome := lookUp(t, image); report != nil || outcome.Reason != model.ReasonNotPullable {
			t.Errorf("%s: %+v, %+v", image, report, outcome)
		}
	}
	if report, outcome := lookUp(t, s.host+"/team/app:1.1.0", "--limit=11"); report != nil || outcome.Succeeded() {
		t.Errorf("a large limit: %+v, %+v", report, outcome)
	}
}
