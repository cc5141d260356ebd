package sinks

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// movable is a clock that is the real one, moved.
type movable struct {
	clock.RealClock
	mu     sync.Mutex
	offset time.Duration
}

func (c *movable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *movable) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}

// fixture is a store, and the files of the credential "c".
type fixture struct {
	*sqlstore.Store
	clock   *movable
	factory *Factory
	builds  int
}

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{clock: &movable{}}
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: storefile.New(t), Clock: f.clock})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	f.Store = s
	f.factory = &Factory{Config: &Config{Credentials: []string{"c"}}, Dir: t.TempDir(), Clock: f.clock}
	f.credential(t, files)
	return f
}

// credential writes the files of the credential.
func (f *fixture) credential(t *testing.T, files map[string]string) {
	t.Helper()
	dir := filepath.Join(f.factory.Dir, "c")
	must(t, os.MkdirAll(dir, 0o700))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600))
	}
}

// image is one with a name.
func image(name string) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprintf("registry.example/%s@%s", name, digest(name)), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

func digest(name string) string { return "sha256:" + digestOf(name) }

// catalog gives an image packages, and nothing is found in them. version tells SBOMs apart.
func (f *fixture) catalog(t *testing.T, key model.ImageKey, version string, packages ...string) {
	t.Helper()
	_, err := f.WantImages(t.Context(), []model.ImageKey{key})
	must(t, err)
	sbom, catalog := sbomOf(key, version, packages...)
	must(t, f.SaveSBOM(t.Context(), key, sbom, catalog))
	if _, found, err := f.CurrentResultSet(t.Context()); err != nil || !found {
		must(t, err)
		_, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: "first"}, "engine", false)
		must(t, err)
	}
	must(t, storetest.Match(t.Context(), f.Store, key, sbom.SHA256, nil))
}

// sbomOf is an SBOM of an image with packages, and what is read from it.
func sbomOf(key model.ImageKey, version string, packages ...string) (store.SBOM, model.Catalog) {
	catalog := model.Catalog{Distro: "debian:12"}
	for _, name := range packages {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: model.Package{
			Fingerprint: digestOf(name), Name: name, Version: "1.0", Type: "deb", Distro: "debian:12", PURL: "pkg:deb/debian/" + name + "@1.0",
		}})
	}
	return store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("x"), SHA256: digestOf(key.ImageID, version), Size: 1}, catalog
}

// run makes workloads run an image, none for nothing.
func (f *fixture) run(t *testing.T, key model.ImageKey, workloads ...store.Workload) {
	t.Helper()
	uses := make([]store.Use, len(workloads))
	for i, w := range workloads {
		uses[i] = store.Use{Image: key, Workload: w, Container: "c"}
	}
	must(t, f.RecordUses(t.Context(), "scope of "+key.Repository(), uses))
}

// workload is one of an owner.
func workload(namespace, name, owner string) store.Workload {
	return store.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Owner: owner}
}

// update makes a database build current that finds these vulnerabilities, by package.
func (f *fixture) update(t *testing.T, found map[string][]model.PackageFinding) {
	t.Helper()
	f.builds++
	next, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: fmt.Sprint("build ", f.builds), Built: time.Unix(0, 0)}, "engine", true)
	must(t, err)
	packages, err := f.AnsweredPackages(t.Context(), 0, store.MaxKeys)
	must(t, err)
	var ids []int64
	for _, p := range packages {
		ids = append(ids, p.ID)
	}
	must(t, f.QueuePackages(t.Context(), next.Number, ids))
	must(t, f.StartMatching(t.Context(), next.Number))
	queued, err := f.QueuedPackages(t.Context(), next.Number, store.MaxKeys)
	must(t, err)
	saved := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		saved[p.ID] = model.PackageAnswer{Findings: found[p.Name], SearchKeys: []model.SearchKey{1}}
	}
	must(t, f.SaveAnswers(t.Context(), next.Number, saved))
	_, err = f.Switch(t.Context(), next.Number)
	must(t, err)
}

// finding is a finding of a vulnerability.
func finding(id string, severity model.Severity) model.PackageFinding {
	return model.PackageFinding{
		Vulnerability: model.Vulnerability{
			ID: id, Namespace: "debian:distro:debian:12", Severity: severity, Description: "text", DataSource: "https://example.com/" + id, CWEs: []string{"CWE-79"},
			CVSS: []model.CVSS{{Version: "3.1", Vector: "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", Score: 9.8}},
		},
		Fix: model.Fix{State: model.FixStateFixed, Versions: []string{"2.0"}},
	}
}

// decide suppresses a vulnerability everywhere.
func (f *fixture) decide(t *testing.T, id string) {
	t.Helper()
	problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "d"}, Vulnerabilities: []string{id}, Status: model.DecisionNotAffected, Comment: "not used",
	}})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
}

// observed counts what an engine tells.
type observed struct {
	mu                     sync.Mutex
	results                map[string]int
	due, failed, unplanned int
}

func (o *observed) Delivered(sink, result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results[sink+" "+result]++
}

func (o *observed) Pending(due, failed, unplanned int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.due, o.failed, o.unplanned = due, failed, unplanned
}

// pending are the last numbers that were told.
func (o *observed) pending() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d due, %d failed, %d without a plan", o.due, o.failed, o.unplanned)
}

// expect compares the results since the last time.
func (o *observed) expect(t *testing.T, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var got []string
	for _, result := range slices.Sorted(maps.Keys(o.results)) {
		got = append(got, fmt.Sprintf("%s %d", result, o.results[result]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	o.results = map[string]int{}
}

// engine returns an engine on the store of the fixture, or on one that wraps it.
func (f *fixture) engine(t *testing.T, s Store) (*Engine, *observed) {
	t.Helper()
	o := &observed{results: map[string]int{}}
	return NewEngine(EngineConfig{Store: s, Clock: f.clock, Cluster: "prod", Version: "1.0", Observer: o, Log: testr.New(t), Changed: func() {}}), o
}

// sink is a valid sink.
func (f *fixture) sink(t *testing.T, d Definition) *Sink {
	t.Helper()
	if d.UID == "" {
		d.UID = "uid-" + d.Name
	}
	if !d.Namespaces.All() && d.Namespaces.Names() == nil {
		d.Namespaces = store.AllNamespaces()
	}
	s, err := f.factory.NewSink(d)
	must(t, err)
	return s
}

// use makes these the sinks of an engine.
func use(t *testing.T, e *Engine, sinks ...*Sink) {
	t.Helper()
	var known []string
	for _, s := range sinks {
		known = append(known, s.UID)
	}
	must(t, e.SetSinks(t.Context(), sinks, known))
}

// settle plans once, and delivers until nothing is due that can be delivered at that time.
func (f *fixture) settle(t *testing.T, e *Engine) {
	t.Helper()
	must(t, e.plan(t.Context()))
	f.deliver(t, e)
}

func (f *fixture) deliver(t *testing.T, e *Engine) {
	t.Helper()
	for range 100 {
		f.clock.move(time.Second) // the pace of deliveries
		e.dispatch(t.Context())
		e.running.Wait()
		ready := 0
		for _, l := range e.lanes {
			if l.next(f.clock.Now()) != nil {
				ready++
			}
		}
		if ready == 0 {
			return
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(e.lanes)), func(l *lane) bool { return l.problem != "" }) {
			return
		}
	}
	t.Fatal("deliveries do not end")
}

var errCrash = errors.New("crashed")
