package catalog

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestMain(m *testing.M) {
	// Proxies of the environment have no place in tests against loopback.
	for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Unsetenv(variable)
	}
	os.Exit(m.Run())
}

// fakeRegistry serves images, after guard had its say; guard returns false when it has answered itself.
type fakeRegistry struct {
	host string
	// open admits everything, for pushing.
	server *httptest.Server
	guard  func(http.ResponseWriter, *http.Request) bool
}

func newRegistry(t *testing.T, options ...registry.Option) *fakeRegistry {
	t.Helper()
	f := &fakeRegistry{}
	backend := registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.guard == nil || f.guard(w, r) {
			backend.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.server.Close)
	f.host = strings.TrimPrefix(f.server.URL, "http://")
	return f
}

// push stores an image or index and returns its reference by digest.
func (f *fakeRegistry) push(t *testing.T, what any) string {
	t.Helper()
	tag, err := name.NewTag(f.host + "/team/app:latest")
	if err != nil {
		t.Fatal(err)
	}
	var digest v1.Hash
	switch content := what.(type) {
	case v1.Image:
		err = remote.Write(tag, content)
		if err == nil {
			digest, err = content.Digest()
		}
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, content)
		if err == nil {
			digest, err = content.Digest()
		}
	}
	if err != nil {
		t.Fatalf("push: %v", err)
	}
	return tag.Context().Name() + "@" + digest.String()
}

// put stores a manifest as it is and returns its reference by digest.
func (f *fakeRegistry) put(t *testing.T, mediaType types.MediaType, manifest []byte) string {
	t.Helper()
	digest := hashOf(manifest).String()
	f.putAs(t, digest, mediaType, manifest)
	return f.host + "/team/app@" + digest
}

// putAs stores a manifest as it is under a tag or a digest.
func (f *fakeRegistry) putAs(t *testing.T, reference string, mediaType types.MediaType, manifest []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.server.URL+"/v2/team/app/manifests/"+reference, bytes.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", string(mediaType))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("put a manifest: %s: %s", response.Status, body)
	}
}

func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// run catalogs with an empty scratch folder and checks that it is empty again.
func runIn(t *testing.T, ctx context.Context, request Request) (*Result, error) { //nolint:revive // t first, as in all helpers
	t.Helper()
	request.ScratchDir = t.TempDir()
	if request.sleep == nil {
		request.sleep = noSleep
	}
	result, err := Run(ctx, request)
	left, readErr := os.ReadDir(request.ScratchDir)
	if readErr != nil || len(left) != 0 {
		t.Errorf("the scratch folder holds %v afterwards (%v)", left, readErr)
	}
	return result, err
}

// wantFailure checks the reason, that the message holds a phrase, and that it holds no secret.
func wantFailure(t *testing.T, err error, reason model.Reason, phrase string) {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want a failure with the reason %s", err, reason)
	}
	if failure.Reason != reason || !strings.Contains(err.Error(), phrase) {
		t.Fatalf("got %q, want reason %s and %q", err, reason, phrase)
	}
	if strings.Contains(err.Error(), secret) {
		t.Fatalf("the error shows a secret: %q", err)
	}
}

const secret = "hunter2-secret"

type tarEntry struct {
	tar.Header
	content string
}

func regular(name, content string) tarEntry {
	return tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}, content}
}

func tarOf(t *testing.T, entries ...tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, e := range entries {
		if err := writer.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// rawLayer is a layer whose digests are those of what it is given, true or not.
type rawLayer struct {
	compressed []byte
	diffID     v1.Hash
	mediaType  types.MediaType
}

func newRawLayer(compressed, plain []byte) *rawLayer {
	return &rawLayer{compressed, hashOf(plain), types.OCILayer}
}

func hashOf(content []byte) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sha256.Sum256(content))}
}

func (l *rawLayer) Digest() (v1.Hash, error) { return hashOf(l.compressed), nil }
func (l *rawLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }
func (l *rawLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.compressed)), nil
}
func (l *rawLayer) Uncompressed() (io.ReadCloser, error) { return nil, errNotKept }
func (l *rawLayer) Size() (int64, error)                 { return int64(len(l.compressed)), nil }
func (l *rawLayer) MediaType() (types.MediaType, error)  { return l.mediaType, nil }

// imageOf makes an image for linux/amd64.
func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	return imageFor(t, "linux", "amd64", layers...)
}

func imageFor(t *testing.T, system, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layers...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = system, arch
	config.Config.Env = []string{"PASSWORD=" + secret}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// debian is an image with one Debian package.
func debian(t *testing.T) v1.Image {
	t.Helper()
	content := debianTar(t)
	return imageOf(t, newRawLayer(gzipped(t, content), content))
}

func debianTar(t *testing.T) []byte {
	t.Helper()
	return tarOf(t,
		regular("etc/os-release", "ID=debian\nVERSION_ID=\"11\"\n"),
		regular("var/lib/dpkg/status", "Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.1.1k-1\nMaintainer: x\n\n"))
}

func names(t *testing.T, result *Result) []string {
	t.Helper()
	var document struct {
		Artifacts []struct {
			Name, Version string
		}
	}
	if err := json.Unmarshal(result.SBOM, &document); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, a := range document.Artifacts {
		found = append(found, a.Name+" "+a.Version)
	}
	return found
}

// dockerConfig writes a docker configuration for the host.
func dockerConfig(t *testing.T, host, username, password string) string {
	t.Helper()
	content, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": username, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/config.json"
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newGzipWriter(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }

func zipOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range files {
		writer, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// countBlobs counts the blobs that are asked for.
func countBlobs(n *int) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			*n++
		}
		return true
	}
}

// replaceIn answers requests whose path holds part with other content.
func replaceIn(part string, content []byte) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
			return true
		}
		_, _ = w.Write(content)
		return false
	}
}

func pemOf(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}
