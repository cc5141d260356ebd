package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// emptyLayout is an OCI layout with an image without files.
func emptyLayout(t *testing.T) string {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	return folder
}

// execute runs the command with a termination message file, and returns what it wrote.
func execute(t *testing.T, ctx context.Context, args ...string) (stdout string, outcome model.Outcome, err error) { //nolint:revive // t first, as in all helpers
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	message, scratch := filepath.Join(t.TempDir(), "termination-log"), t.TempDir()
	if err := os.WriteFile(message, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := newCatalogCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs(append(args, "--termination-message-path", message, "--scratch-dir", scratch))
	err = command.ExecuteContext(ctx)
	content, readErr := os.ReadFile(message)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if jsonErr := json.Unmarshal(content, &outcome); jsonErr != nil && string(content) != "old" {
		t.Fatalf("the termination message is %q", content)
	}
	if left, readErr := os.ReadDir(scratch); readErr != nil || len(left) != 0 {
		t.Errorf("the scratch folder holds %v (%v)", left, readErr)
	}
	return out.String(), outcome, err
}

func TestCatalogCommandWritesTheSBOM(t *testing.T) {
	stdout, outcome, err := execute(t, t.Context(), emptyLayout(t), "--file", "-", "--max-image-bytes", "1Gi", "--platform", "linux/amd64")
	if err != nil || !outcome.Succeeded() {
		t.Fatalf("%v, outcome %+v", err, outcome)
	}
	if !json.Valid([]byte(stdout)) {
		t.Errorf("the standard output is not clean: %.200s", stdout)
	}
	file := filepath.Join(t.TempDir(), "sbom.json")
	if _, _, err := execute(t, t.Context(), emptyLayout(t), "--file", file); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(file); err != nil || !json.Valid(content) {
		t.Errorf("the file holds %d bytes (%v)", len(content), err)
	}
}

func TestCatalogCommandReadsARootFileSystem(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "package.json"), []byte(`{"name":"mounted","version":"1.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, outcome, err := execute(t, t.Context(), "registry.example/app@sha256:0", "--rootfs", root, "--platform", "linux/arm64", "--file", "-")
	if err != nil || !outcome.Succeeded() {
		t.Fatalf("%v, outcome %+v", err, outcome)
	}
	for _, want := range []string{`"name":"mounted"`, `"userInput":"registry.example/app@sha256:0"`, `"architecture":"arm64"`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the SBOM does not have %s: %s", want, stdout)
		}
	}
	if _, outcome, err := execute(t, t.Context(), "app", "--rootfs", root, "--file", "-"); err == nil || !strings.Contains(outcome.Message, "--platform") {
		t.Errorf("without a platform: %v, outcome %+v", err, outcome)
	}
}

func TestCatalogCommandUploads(t *testing.T) {
	var path, query string
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"detail":"the SBOM is too large"}`)
	}))
	defer server.Close()
	folder := emptyLayout(t)
	_, outcome, err := execute(t, t.Context(), folder, "--upload-url", server.URL, "--image-id", "r.example/a@sha256:b")
	if err != nil || !outcome.Succeeded() || path != "/api/v1/images/r.example%2Fa@sha256:b/sbom" || query != "platform=linux/amd64" {
		t.Fatalf("%v, outcome %+v, %s?%s", err, outcome, path, query)
	}
	status = http.StatusRequestEntityTooLarge
	_, outcome, err = execute(t, t.Context(), folder, "--upload-url", server.URL)
	if err == nil || outcome.Reason != model.ReasonUploadFailed || !strings.Contains(outcome.Message, "the SBOM is too large") {
		t.Fatalf("%v, outcome %+v", err, outcome)
	}
}

func TestCatalogCommandFailures(t *testing.T) {
	_, outcome, err := execute(t, t.Context(), "./nothing.tar", "--file", "-")
	if err == nil || outcome.Reason != model.ReasonImageNotFound {
		t.Errorf("%v, outcome %+v", err, outcome)
	}
	_, outcome, err = execute(t, t.Context(), emptyLayout(t), "--file", "-", "--platform", "nonsense")
	if err == nil || outcome.Reason != model.ReasonCatalogFailed {
		t.Errorf("%v, outcome %+v", err, outcome)
	}
	for _, args := range [][]string{{}, {"a"}, {"a", "--file", "-", "--upload-url", "http://x"}, {"a", "--file", "-", "--max-image-bytes", "many"}, {"a", "--file", "-", "--max-image-bytes", "-1"}} {
		if _, _, err := execute(t, t.Context(), args...); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// TestCatalogCommandTerminated sends this process the signal that a Job's deadline sends.
func TestCatalogCommandTerminated(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/a@sha256:" + strings.Repeat("0", 64)
	_, outcome, err := execute(t, t.Context(), image, "--file", "-")
	if err == nil || outcome.Reason != model.ReasonDeadlineExceeded || !strings.Contains(outcome.Message, `signal "terminated"`) {
		t.Errorf("%v, outcome %+v", err, outcome)
	}
}

func TestTerminationMessage(t *testing.T) {
	for name, message := range map[string]string{
		"short": "gone", "long": strings.Repeat("x", 9000), "escapes": strings.Repeat("<\x01", 5000), "letters": strings.Repeat("é", 5000), "not UTF-8": strings.Repeat("\xff", 5000),
	} {
		encoded := encodeOutcome(model.Outcome{Reason: model.ReasonCatalogFailed, Message: message})
		var decoded model.Outcome
		if err := json.Unmarshal(encoded, &decoded); err != nil || len(encoded) > maxTerminationMessage || decoded.Reason != model.ReasonCatalogFailed || decoded.Message == "" {
			t.Errorf("%s: %d bytes, %v", name, len(encoded), err)
		}
		if name == "short" && decoded.Message != message {
			t.Errorf("got %q", decoded.Message)
		}
		if name != "short" && name != "not UTF-8" && len(encoded) < maxTerminationMessage/2 {
			t.Errorf("%s: cut down to %d bytes", name, len(encoded))
		}
	}
	if err := writeOutcome(filepath.Join(t.TempDir(), "none"), model.Outcome{}); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := writeOutcome(t.TempDir(), model.Outcome{}); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder: %v", err)
	}
}

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "8Gi": 8 << 30, "1500M": 1_500_000_000, "0": 0, "-1": 0, "x": 0, "": 0, "99999Ei": 0} {
		var got byteSize
		if err := got.Set(text); (err == nil) != (want > 0) {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, int64(got)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
