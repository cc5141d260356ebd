// Package storetest is the suite that every implementation of the store passes.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Run runs the suite. open returns a new empty store each time that takes the time from clk and has the list BaseImages, and closes it at the end of the test.
func Run(t *testing.T, extent Extent, open func(t *testing.T, clk clock.PassiveClock) store.Store) {
	t.Helper()
	runGroups(t, extent, open,
		extent.randomTests(t), imageTests, sbomTests, listTests, findingTests, resultSetTests, answerTests, failureTests, symbolTests, expiryTests, changeTests, openingTests, presenceTests, rolloutTests, undoTests, evaluationTests, coverageTests, ownerTests, baseTests, listedBaseTests, exposureTests, imagePackageTests, runningTests, trendTests, scanTests, scanJobTests, newerTagTests, recatalogTests, sourceTests, lifecycleTests, reportTests, sharedDatabaseTests, sessionTests, decisionTests, decisionRecordTests, decisionAudienceTests, decisionDeletionTests, decisionRetentionTests, decisionImageTests, decisionPlaceTests, previewTests, policyTests, policyPlaceTests, notificationTests, reportSinkTests, introductionTests, reminderTests, summaryTests, fixTests, eventTests, feedTests, concurrencyTests,
	)
}

// RunConcurrent runs the part of the suite in which several goroutines use a store, for the race detector.
func RunConcurrent(t *testing.T, open func(t *testing.T, clk clock.PassiveClock) store.Store) {
	t.Helper()
	runGroups(t, Extent{}, open, resultSetTests, feedTests, concurrencyTests)
}

func runGroups(t *testing.T, extent Extent, open func(t *testing.T, clk clock.PassiveClock) store.Store, groups ...map[string]func(*testing.T, *fixture)) {
	t.Helper()
	for _, group := range groups {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				clk := &stoppableClock{}
				test(t, &fixture{Store: open(t, clk), clock: clk, extent: extent})
			})
		}
	}
}

// fixture is a store with steps that must succeed.
type fixture struct {
	store.Store
	clock  *stoppableClock
	extent Extent
}

// stoppableClock is the real clock until it is set. It is safe for concurrent use.
type stoppableClock struct {
	clock.RealClock
	mu  sync.Mutex
	now time.Time
}

// Now is the real time until set was called.
func (c *stoppableClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.IsZero() {
		return c.RealClock.Now()
	}
	return c.now
}

// Since is the time that went by since then.
func (c *stoppableClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// set stops the clock at a time.
func (c *stoppableClock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

var (
	amd64 = model.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = model.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
	s390x = model.Platform{OS: "linux", Architecture: "s390x"}

	oldBuild = model.DatabaseBuild{
		ID: "xxh64:1", SchemaVersion: "v6.1.0", Built: time.Date(2026, 1, 1, 2, 3, 4, 567_000, time.UTC), Source: model.DatabaseSourceOfficial,
	}
	newBuild = model.DatabaseBuild{
		ID: "xxh64:2", SchemaVersion: "v6.1.0", Built: time.Date(2026, 1, 2, 2, 3, 4, 0, time.UTC), Source: model.DatabaseSourceImported,
	}
)

func image(name string, platform model.Platform) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprintf("registry.example/%s@sha256:%064x", name, len(name)), Platform: platform}
}

func pkg(name string) model.Package {
	return model.Package{
		Fingerprint: fmt.Sprintf("%064x", name), Name: name, Version: "1.0-" + name, Type: "deb", Language: "c",
		PURL: "pkg:deb/debian/" + name + "@1.0", Distro: "debian:12", Licenses: []string{"MIT", "GPL-2.0 \"or\" later"},
		CPEs: []string{"cpe:2.3:a:" + name + ":" + name + ":1.0:*:*:*:*:*:*:*"}, MatchInput: json.RawMessage(`{"a": [1,  2]}`),
	}
}

func catalogOf(names ...string) model.Catalog {
	catalog := model.Catalog{Distro: "debian:12", Size: 12345}
	for _, name := range names {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{
			Package: pkg(name), Locations: []model.Location{{Path: "/usr/lib/" + name, Layer: "sha256:1"}, {Path: "/x"}},
		})
	}
	return catalog
}

func sbomOf(digest string) store.SBOM {
	return store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("\x00zstd\xff" + digest), SHA256: digest, Size: 99}
}

// finding is a finding of that vulnerability; a fix makes it fixable.
func finding(id string, severity model.Severity, fix ...string) model.PackageFinding {
	f := model.PackageFinding{
		Vulnerability: model.Vulnerability{
			ID: id, Namespace: "debian:distro:debian:12", Severity: severity, Risk: float64(severity) * 10.125,
			Description: "what " + id + " is", Aliases: []string{"GHSA-" + id}, URLs: []string{"https://example.org/" + id},
			CVSS: []model.CVSS{{Version: "3.1", Vector: "AV:N", Score: 7.5}}, EPSS: &model.EPSS{CVE: id, Score: 0.123456789, Percentile: 0.9},
		},
		Fix: model.Fix{State: model.FixStateNotFixed},
		Details: []model.MatchDetail{{
			Type: "exact-direct-match", Matcher: "dpkg-matcher", SearchedBy: json.RawMessage(`{"distro":"debian"}`), Found: json.RawMessage(`{"x":1}`),
		}},
	}
	if len(fix) > 0 {
		f.Fix = model.Fix{State: model.FixStateFixed, Versions: fix}
	}
	return f
}

// answers are the findings of packages, by name. A package that is not among them has none.
type answers map[string][]model.PackageFinding

// answerOf is an answer with these findings; its search keys follow from them.
func answerOf(findings ...model.PackageFinding) model.PackageAnswer {
	answer := model.PackageAnswer{Findings: findings, SearchKeys: []model.SearchKey{1}}
	for i := range findings {
		answer.SearchKeys = append(answer.SearchKeys, model.SearchKey(i+2))
	}
	return answer
}

func (f *fixture) want(t *testing.T, keys ...model.ImageKey) map[model.ImageKey]store.Image {
	t.Helper()
	images, err := f.WantImages(t.Context(), keys)
	if err != nil {
		t.Fatalf("WantImages: %v", err)
	}
	return images
}

func (f *fixture) catalog(t *testing.T, key model.ImageKey, digest string, catalog model.Catalog) {
	t.Helper()
	f.want(t, key)
	if err := f.SaveSBOM(t.Context(), key, sbomOf(digest), catalog); err != nil {
		t.Fatalf("SaveSBOM: %v", err)
	}
}

// start begins a result set. The first one is current at once.
func (f *fixture) start(t *testing.T, build model.DatabaseBuild) store.ResultSet {
	t.Helper()
	resultSet, err := f.StartResultSet(t.Context(), build, "engine", false)
	if err != nil {
		t.Fatalf("StartResultSet: %v", err)
	}
	return resultSet
}

// current is the current result set; it is started from oldBuild when there is none.
func (f *fixture) current(t *testing.T) store.ResultSet {
	t.Helper()
	resultSet, found, err := f.CurrentResultSet(t.Context())
	if err != nil {
		t.Fatalf("CurrentResultSet: %v", err)
	}
	if !found {
		return f.start(t, oldBuild)
	}
	return resultSet
}

// match answers for the packages of an image under the current result set and finishes the image.
func (f *fixture) match(t *testing.T, key model.ImageKey, digest string, a answers) {
	t.Helper()
	f.current(t)
	if err := Match(t.Context(), f.Store, key, digest, a); err != nil {
		t.Fatalf("match %s: %v", key, err)
	}
}

// Match does what matching does with an image under the current result set: it answers for the packages that have no answer,
// with the findings that are given by name, and finishes the image.
func Match(ctx context.Context, s store.ResultSets, key model.ImageKey, digest string, findings map[string][]model.PackageFinding) error {
	current, found, err := s.CurrentResultSet(ctx)
	if err != nil || !found {
		return fmt.Errorf("there is no result set: %w", err)
	}
	_, packages, err := s.UnansweredPackages(ctx, key)
	if err != nil {
		return err
	}
	answers := map[int64]model.PackageAnswer{}
	for _, p := range packages {
		answers[p.ID] = answerOf(findings[p.Name]...)
	}
	if err := s.SaveAnswers(ctx, current.Number, answers); err != nil {
		return err
	}
	return s.FinishImage(ctx, key, digest)
}

func (f *fixture) image(t *testing.T, key model.ImageKey) store.Image {
	t.Helper()
	found, err := f.Image(t.Context(), store.AllNamespaces(), key)
	if err != nil {
		t.Fatalf("Image: %v", err)
	}
	return found
}

func (f *fixture) list(t *testing.T, query store.ImageQuery) store.ImagePage {
	t.Helper()
	page, err := f.ListImages(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("ListImages: %v", err)
	}
	return page
}

func (f *fixture) findings(t *testing.T, query store.FindingQuery) store.FindingPage {
	t.Helper()
	page, err := f.Findings(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("Findings: %v", err)
	}
	return page
}

// found lists "vulnerability package" of all findings of an image, sorted.
func (f *fixture) found(t *testing.T, key model.ImageKey) []string {
	t.Helper()
	page := f.findings(t, store.FindingQuery{Image: key, Page: store.Page{Size: store.MaxPageSize}})
	names := names(page)
	slices.Sort(names)
	return names
}

func names(page store.FindingPage) []string {
	names := []string{}
	for _, found := range page.Findings {
		names = append(names, found.Vulnerability.ID+" "+found.Package.Name)
	}
	return names
}

func (f *fixture) events(t *testing.T, since int64) []store.Event {
	t.Helper()
	events, err := f.EventsSince(t.Context(), store.AllNamespaces(), since, store.MaxKeys)
	if err != nil {
		t.Fatalf("EventsSince: %v", err)
	}
	return events
}

func (f *fixture) last(t *testing.T) int64 {
	t.Helper()
	last, err := f.LastSequence(t.Context())
	if err != nil {
		t.Fatalf("LastSequence: %v", err)
	}
	return last
}

// kinds lists the kinds of the events after since.
func (f *fixture) kinds(t *testing.T, since int64) []store.EventKind {
	t.Helper()
	var kinds []store.EventKind
	for _, event := range f.events(t, since) {
		kinds = append(kinds, event.Kind)
	}
	return kinds
}

func expectKinds(t *testing.T, got []store.EventKind, want ...store.EventKind) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("events: got %v, want %v", got, want)
	}
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
