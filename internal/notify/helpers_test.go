package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
)

const (
	patience = 30 * time.Second
	tick     = 20 * time.Millisecond
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

func (c *movable) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

func (c *movable) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += by
}

// fixture is a store, and the engine that is under test.
type fixture struct {
	*sqlstore.Store
	clock  *movable
	builds int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{clock: &movable{}}
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: storefile.New(t), Clock: f.clock})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	f.Store = s
	return f
}

// image is one with a name.
func image(name string) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprintf("registry.example/%s@sha256:%064x", name, len(name)), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

// findings are those of packages, by name.
type findings map[string][]model.PackageFinding

// finding is a finding of a vulnerability.
func finding(id string, severity model.Severity) model.PackageFinding {
	return model.PackageFinding{
		Vulnerability: model.Vulnerability{ID: id, Namespace: "debian:distro:debian:12", Severity: severity},
		Fix:           model.Fix{State: model.FixStateFixed, Versions: []string{"2.0"}},
	}
}

// exploited is a finding that is known to be exploited.
func exploited(id string) model.PackageFinding {
	f := finding(id, model.SeverityHigh)
	f.Vulnerability.KEV = []model.KnownExploited{{CVE: id, DateAdded: "2026-01-01"}}
	return f
}

// run makes workloads run an image with packages that have no findings.
func (f *fixture) run(t *testing.T, key model.ImageKey, packages []string, workloads ...store.Workload) {
	t.Helper()
	_, err := f.WantImages(t.Context(), []model.ImageKey{key})
	must(t, err)
	catalog := model.Catalog{Distro: "debian:12"}
	for _, name := range packages {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: model.Package{
			Fingerprint: fmt.Sprintf("%064x", name), Name: name, Version: "1.0", Type: "deb", Distro: "debian:12",
		}})
	}
	digest := fmt.Sprintf("%064x", key.ImageID[:20])
	must(t, f.SaveSBOM(t.Context(), key, store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("x"), SHA256: digest, Size: 1}, catalog))
	if _, found, err := f.CurrentResultSet(t.Context()); err != nil || !found {
		must(t, err)
		_, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: "first"}, "engine", false)
		must(t, err)
	}
	must(t, storetest.Match(t.Context(), f.Store, key, digest, nil))
	uses := make([]store.Use, len(workloads))
	for i, w := range workloads {
		uses[i] = store.Use{Image: key, Workload: w, Container: "c"}
	}
	must(t, f.RecordUses(t.Context(), scopeOf(key), uses))
}

// scopeOf is the scope in which run records what runs an image.
func scopeOf(key model.ImageKey) string { return "scope of " + key.ImageID[:40] }

// workload is one of an owner.
func workload(namespace, name, owner string) store.Workload {
	return store.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Owner: owner}
}

// update makes a database build current that finds this.
func (f *fixture) update(t *testing.T, found findings) {
	t.Helper()
	f.builds++
	next, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: fmt.Sprint("build ", f.builds), Built: time.Unix(1000, 0)}, "engine", true)
	must(t, err)
	var ids []int64
	for after := int64(0); ; {
		packages, err := f.AnsweredPackages(t.Context(), after, store.MaxKeys)
		must(t, err)
		if len(packages) == 0 {
			break
		}
		for _, p := range packages {
			ids = append(ids, p.ID)
		}
		after = ids[len(ids)-1]
	}
	must(t, f.QueuePackages(t.Context(), next.Number, ids))
	must(t, f.StartMatching(t.Context(), next.Number))
	packages, err := f.QueuedPackages(t.Context(), next.Number, store.MaxKeys)
	must(t, err)
	saved := map[int64]model.PackageAnswer{}
	for _, p := range packages {
		saved[p.ID] = model.PackageAnswer{Findings: found[p.Name], SearchKeys: []model.SearchKey{1}}
	}
	must(t, f.SaveAnswers(t.Context(), next.Number, saved))
	_, err = f.Switch(t.Context(), next.Number)
	must(t, err)
}

// sent is a message that a recorder got.
type sent struct {
	sink, key string
	message   Message
}

// recorder is a Sender that keeps what it gets. It fails as long as fail says.
type recorder struct {
	mu   sync.Mutex
	got  []sent
	fail func(sink *Sink, key string) error
}

func (r *recorder) Send(_ context.Context, sink *Sink, key string, message *Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, sent{sink.Name, key, *message})
	if r.fail == nil {
		return nil
	}
	return r.fail(sink, key)
}

func (r *recorder) all() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sent{}, r.got...)
}

// observed counts what an engine tells.
type observed struct {
	mu      sync.Mutex
	results map[string]int
	skipped int64
	since   time.Time
}

func (o *observed) Sent(sink, result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results[sink+" "+result]++
}
func (o *observed) Pending(_ int, since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.since = since
}
func (o *observed) Skipped(events int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.skipped += events
}

// engine returns an engine on the store of the fixture, or on one that wraps it.
func (f *fixture) engine(t *testing.T, s Store, sender Sender) (*Engine, *observed) {
	t.Helper()
	o := &observed{results: map[string]int{}}
	return NewEngine(EngineConfig{
		Store: s, Sender: sender, Clock: f.clock, Observer: o, Log: logOf(t), Changed: func() {},
		Link: func(*Message) string { return "https://scanner.example/database" },
	}), o
}

// start runs an engine with rules until stop is called or the test ends.
func (f *fixture) start(t *testing.T, e *Engine, rules ...*Rule) (stop func()) {
	t.Helper()
	f.rules(t, e, rules...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// rules makes these the rules of an engine.
func (f *fixture) rules(t *testing.T, e *Engine, rules ...*Rule) {
	t.Helper()
	var known []store.NotificationRule
	for _, rule := range rules {
		known = append(known, store.NotificationRule{UID: rule.UID, Sinks: rule.sinkNames()})
	}
	must(t, e.SetRules(t.Context(), rules, known))
}

// rule is a valid rule with a sink named "sink".
func rule(t *testing.T, d Definition) *Rule {
	t.Helper()
	if d.UID == "" {
		d.UID = "uid-" + d.Namespace + d.Name
	}
	if len(d.Sinks) == 0 {
		d.Sinks = []Sink{{Name: "sink", Type: Webhook, URL: "https://receiver.example/"}}
	}
	r, err := NewRule(d, &Config{})
	must(t, err)
	return r
}

// logOf writes to the log of a test until it ends: goroutines of other tests may write later.
func logOf(t *testing.T) logr.Logger {
	t.Helper()
	return testr.New(t)
}

var errUnreachable = errors.New("unreachable")

// asJSON is a value as JSON for comparisons.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	must(t, err)
	return string(text)
}
