package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(fanOutVariable); url != "" {
		if err := followAll(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(dbserver.Main{M: m})
}

// patience bounds every wait of the tests.
const patience = time.Minute

// Image IDs of the tests, in order.
const (
	scannedID  = "docker.io/library/alpine@sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"
	failedID   = "quay.io/team/failed@sha256:2e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"
	pendingID  = "registry.k8s.io/pending@sha256:3e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"
	reportedID = "registry.k8s.io/reported@sha256:4e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"
	unknownID  = "example.com/unknown@sha256:5e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"
)

var linux = model.Platform{OS: "linux", Architecture: "amd64"}

// fixture is a running server with a store of its own.
type fixture struct {
	t      testing.TB
	server *server.Server
	store  store.Store
	ingest *ingester
	base   string
	client *http.Client
	// session is the cookie of the user of the matrix who signed in with a provider.
	session string
	// stop ends the server; wait returns what Start returned.
	stop func()
	wait func() error
}

// ingester remembers what it was given. Reports it keeps without their components.
type ingester struct {
	store      store.Reader
	mu         sync.Mutex
	err        error
	got        []byte
	keys       []model.ImageKey
	deliveries []store.Delivery
	reports    []server.UploadedReport
}

func (i *ingester) IngestReport(ctx context.Context, imageID string, uploaded server.UploadedReport) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return i.err
	}
	i.reports = append(i.reports, uploaded)
	return i.store.SaveReport(ctx, uploaded.May, imageID, store.Report{Content: uploaded.Content, Counts: uploaded.Counts})
}

func (i *ingester) IngestSBOM(_ context.Context, key model.ImageKey, delivery store.Delivery, body io.Reader) error {
	content, err := io.ReadAll(body)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got, i.keys, i.deliveries = content, append(i.keys, key), append(i.deliveries, delivery)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return i.err
}

func (i *ingester) IngestNewerTags(_ context.Context, delivery store.Delivery, body io.Reader) error {
	content, err := io.ReadAll(body)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got, i.deliveries = content, append(i.deliveries, delivery)
	return errors.Join(err, i.err)
}

// emptyDatabase is the file of a database with the current schema. Migrations take longer than most tests.
var emptyDatabase = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "scanner-operator-server-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "test.db")
	st, err := sqlstore.Open(context.Background(), sqlstore.Config{Type: "sqlite", DSN: file})
	if err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// newDatabase makes an empty database, and returns the name of its file.
func newDatabase(tb testing.TB) string {
	tb.Helper()
	content, err := emptyDatabase()
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "test.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

func openStore(tb testing.TB) store.Store {
	tb.Helper()
	st, err := sqlstore.Open(tb.Context(), sqlstore.Config{Type: "sqlite", DSN: newDatabase(tb), BaseImages: baseImages})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

// newFixture starts a server without authentication; change may make it another one.
func newFixture(tb testing.TB, change func(*server.Config)) *fixture {
	tb.Helper()
	f := &fixture{t: tb, store: openStore(tb), ingest: &ingester{}}
	hub := feed.New(f.store, feed.Config{PollInterval: 50 * time.Millisecond, Log: logr.Discard()})
	config := server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.None, Store: f.store, Ingest: f.ingest, Version: "v1.2.3", Previews: previews{},
		Feed:       func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) },
		Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Limits: server.Limits{
			ShutdownTimeout: 5 * time.Second,
			RateLimits:      auth.RateLimits{RequestRate: 1e6, RequestBurst: 1e6, FailureRate: 1e6, FailureBurst: 1e6},
		},
	}
	if change != nil {
		change(&config)
	}
	f.ingest.store = config.Store
	var err error
	if f.server, err = server.New(config); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var startErr error
	done := make(chan struct{})
	feedCtx, stopFeed := context.WithCancel(context.Background())
	running.Go(func() {
		if err := hub.Start(feedCtx); err != nil {
			tb.Error(err)
		}
	})
	<-hub.Started()
	running.Go(func() {
		defer close(done)
		startErr = f.server.Start(ctx)
	})
	f.stop = cancel
	f.wait = func() error {
		select {
		case <-done:
			return startErr
		case <-time.After(patience):
			tb.Fatal("the server did not stop")
			return nil
		}
	}
	select {
	case <-f.server.Ready():
	case <-done:
		cancel()
		tb.Fatal(startErr)
	}
	f.base = "http://" + f.server.Addr()
	transport := &http.Transport{DisableCompression: true}
	f.client = &http.Client{Transport: transport}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := f.wait(); err != nil {
			tb.Error(err)
		}
		stopFeed()
		running.Wait()
	})
	return f
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request. Headers are "Name: value".
func (f *fixture) do(method, target, body string, headers ...string) answer {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, f.base+target, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header.Set(name, value)
	}
	response, err := f.client.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

// problem checks that an answer is a problem document with that status and a detail that contains the text.
func (a answer) problem(t *testing.T, status int, detail string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(a.body), &p) != nil {
		t.Fatalf("no problem document: %d %v %s", a.status, a.header, a.body)
	}
	if a.status != status || p.Status != status || p.Type == "" || p.Title == "" || !strings.Contains(p.Detail, detail) {
		t.Errorf("got %d %s, want %d with %q", a.status, a.body, status, detail)
	}
	validate(t, "/components/schemas/Problem", a.body)
	a.secure(t)
}

// secure checks the headers that every answer carries.
func (a answer) secure(t *testing.T) {
	t.Helper()
	if !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") ||
		a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Referrer-Policy") != "no-referrer" ||
		a.header.Get("Cross-Origin-Opener-Policy") == "" || a.header.Get("Cross-Origin-Resource-Policy") == "" ||
		a.header.Get("Permissions-Policy") == "" || a.header.Get("Cache-Control") == "" {
		t.Errorf("headers are missing: %v", a.header)
	}
}

func escape(id string) string { return url.PathEscape(id) }

// specification compiles a part of openapi.yaml, given as a JSON pointer.
var specification = sync.OnceValues(func() (any, error) {
	content, err := os.ReadFile("../../openapi/openapi.yaml")
	if err != nil {
		return nil, err
	}
	if content, err = yaml.YAMLToJSON(content); err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(content))
})

// schemas holds, by JSON pointer, the functions that return compiled schemas.
var schemas sync.Map

// compiledSchema compiles the schema at a JSON pointer of openapi.yaml, once.
func compiledSchema(pointer string) (*jsonschema.Schema, error) {
	compile, _ := schemas.LoadOrStore(pointer, sync.OnceValues(func() (*jsonschema.Schema, error) {
		document, err := specification()
		if err != nil {
			return nil, err
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource("openapi.json", document); err != nil {
			return nil, err
		}
		return compiler.Compile("openapi.json#" + pointer)
	}))
	once, _ := compile.(func() (*jsonschema.Schema, error))
	return once()
}

// validate checks a JSON text against the schema at a JSON pointer of openapi.yaml.
func validate(t *testing.T, pointer, text string) {
	t.Helper()
	schema, err := compiledSchema(pointer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	if err := schema.Validate(parsed); err != nil {
		t.Errorf("%s: %v", pointer, err)
	}
}

// success is the JSON pointer to the schema of the answer to an operation.
func success(method, path string) string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1")
	return "/paths/" + url.PathEscape(path) + "/" + strings.ToLower(method) + "/responses/200/content/application~1json/schema"
}

var build = model.DatabaseBuild{ID: "xxh64:00ff00ff00ff00ff", SchemaVersion: "v6.1.0", Built: time.Unix(1700000000, 0).UTC(), Source: model.DatabaseSourceOfficial}

func packageOf(name, version string) model.Package {
	digest := sha256.Sum256([]byte(name + "@" + version))
	return model.Package{
		Fingerprint: hex.EncodeToString(digest[:]), Name: name, Version: version, Type: "apk", PURL: "pkg:apk/alpine/" + name + "@" + version,
		Distro: "alpine:3.20", Licenses: []string{"MIT"}, CPEs: []string{"cpe:2.3:a:x:" + name + ":*:*:*:*:*:*:*:*"}, MatchInput: json.RawMessage(`{}`),
	}
}

func findingOf(id string, severity model.Severity, risk float64) model.PackageFinding {
	return model.PackageFinding{
		Vulnerability: model.Vulnerability{
			ID: id, Namespace: "alpine:distro:alpine:3.20", Severity: severity, Description: "A <b>hole</b>.", DataSource: "https://example.com/" + id,
			URLs: []string{"https://example.com/" + id}, CWEs: []string{"CWE-79"}, Aliases: []string{"GHSA-" + id}, Risk: risk,
			CVSS: []model.CVSS{{Version: "3.1", Vector: "CVSS:3.1/AV:N", Score: 9.8}},
			EPSS: &model.EPSS{Score: 0.5, Percentile: 0.9}, KEV: []model.KnownExploited{{CVE: id, Product: "x"}},
		},
		Fix:     model.Fix{State: model.FixStateFixed, Versions: []string{"9.9"}},
		Details: []model.MatchDetail{{Type: "exact-direct-match", Matcher: "apk-matcher", SearchedBy: json.RawMessage(`{"a":1}`), Found: json.RawMessage(`"text"`)}},
	}
}

// seed stores one scanned, one failed and one pending image.
func (f *fixture) seed() {
	f.t.Helper()
	ctx := f.t.Context()
	keys := []model.ImageKey{{ImageID: scannedID, Platform: linux}, {ImageID: failedID, Platform: linux}, {ImageID: pendingID, Platform: linux}}
	states, err := f.store.WantImages(ctx, keys)
	f.must(err)
	f.scan(keys[0], packageOf("openssl", "3.0.1"), packageOf("zlib", "1.2.13"))
	recorded, err := f.store.RecordFailure(ctx, keys[1], states[keys[1]].Attempts, model.Outcome{Reason: model.ReasonImageNotFound, Message: "gone"}, time.Unix(4000000000, 0))
	f.must(err)
	if !recorded {
		f.t.Fatal("the failure was not recorded")
	}
}

// sbomText is what the stored SBOM of the tests says.
const sbomText = `{"artifacts":[],"schema":{"version":"16"}}`

// baseImages is the list of base images.
var baseImages = []string{"docker.io/library/alpine", "registry.example/base/*"}

// baseLayer is the lowest layer of each image that is scanned.
var baseLayer = "sha256:" + strings.Repeat("ba", sha256.Size)

// scan stores an SBOM and findings for an image that is known. It has two layers, unless it is the base image of others.
func (f *fixture) scan(key model.ImageKey, packages ...model.Package) {
	f.t.Helper()
	ctx := f.t.Context()
	digest := sha256.Sum256([]byte(sbomText))
	sbom := store.SBOM{MediaType: "application/vnd.syft+json", Content: compressed(sbomText), SHA256: hex.EncodeToString(digest[:]), Size: int64(len(sbomText)), ScannedIn: "team"}
	catalog := model.Catalog{Distro: "alpine:3.20", Size: 1234, Cataloger: "syft v1.49.0", AttestedBy: "sha256:0", Created: time.Date(2023, 11, 1, 8, 0, 0, 0, time.UTC)}
	catalog.Layers, catalog.Base = []string{baseLayer, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key.ImageID)))}, model.StatedBase{Name: "docker.io/library/alpine:3.20"}
	if key.ImageID == olderID {
		catalog.Layers = catalog.Layers[:1]
	}
	findings := map[string]model.PackageFinding{}
	for i, p := range packages {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: p, Locations: []model.Location{{Path: "/lib/apk/db/installed"}}})
		findings[p.Fingerprint] = findingOf(fmt.Sprintf("CVE-2024-%04d", i), model.Severities()[i%5], float64(90-i))
	}
	f.must(f.store.SaveSBOM(ctx, key, sbom, catalog))
	lifecycle := model.Lifecycle{EndOfSupport: time.Date(2025, 4, 1, 0, 0, 0, 0, time.UTC), EndOfLife: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	f.must(f.store.SaveLifecycles(ctx, build.ID, map[string]model.Lifecycle{catalog.Distro: lifecycle}))
	f.match(key, sbom.SHA256, findings)
}

// match gives the packages of an image their findings, by fingerprint, under the current result set of answers.
func (f *fixture) match(key model.ImageKey, sbomDigest string, findings map[string]model.PackageFinding) {
	f.t.Helper()
	ctx := f.t.Context()
	current, found, err := f.store.CurrentResultSet(ctx)
	f.must(err)
	if !found {
		current, err = f.store.StartResultSet(ctx, build, "test", true)
		f.must(err)
	}
	_, packages, err := f.store.UnansweredPackages(ctx, key)
	f.must(err)
	answers := map[int64]model.PackageAnswer{}
	for _, p := range packages {
		answers[p.ID] = model.PackageAnswer{Findings: []model.PackageFinding{findings[p.Fingerprint]}}
	}
	f.must(f.store.SaveAnswers(ctx, current.Number, answers))
	f.must(f.store.FinishImage(ctx, key, sbomDigest))
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func compressed(text string) []byte {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil
	}
	defer func() { _ = encoder.Close() }()
	return encoder.EncodeAll([]byte(text), nil)
}

func decompressed(t *testing.T, content []byte) string {
	t.Helper()
	decoder, err := zstd.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	text, err := io.ReadAll(decoder)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
