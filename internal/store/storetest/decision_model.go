package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// modelDecisions are the decisions of a store, by name.
type modelDecisions struct {
	random *rand.Rand
	// ids and patterns are what random decisions name.
	ids, patterns []string
	wanted        map[string]store.Decision
	// namespaces are those that random decisions with places name, none if there are no such decisions. selectors counts their selectors.
	namespaces []string
	selectors  int
	// changed is the name of the last one that was changed.
	changed string
	// over are the decisions that ended because of their time and that nothing replaced.
	over map[string]store.Decision
}

func newModelDecisions(random *rand.Rand, ids, patterns []string) *modelDecisions {
	return &modelDecisions{random: random, ids: ids, patterns: patterns, wanted: map[string]store.Decision{}, over: map[string]store.Decision{}}
}

// change changes, adds or removes a decision.
func (d *modelDecisions) change(now time.Time) string {
	name := fmt.Sprint("d", d.random.IntN(4))
	d.changed = name
	if d.random.IntN(3) == 0 {
		delete(d.wanted, name)
		return "remove decision " + name
	}
	if one, exists := d.wanted[name]; exists && one.Places != nil && d.random.IntN(2) == 0 {
		one.Places = d.places(one.Places.Selector)
		d.wanted[name] = one
		return fmt.Sprintf("move %s to %+v", name, one.Places)
	}
	if before, expired := d.over[name]; expired && d.random.IntN(2) == 0 {
		d.wanted[name] = before
		return "repeat decision " + name
	}
	one := store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}, Comment: "why", Author: "jane",
		Status: []model.DecisionStatus{
			model.DecisionNotAffected, model.DecisionFalsePositive, model.DecisionAcceptedRisk, model.DecisionFixed, model.DecisionUnderInvestigation,
		}[d.random.IntN(5)],
		Unfixed: d.random.IntN(4) == 0, DryRun: d.random.IntN(6) == 0,
	}
	for d.random.IntN(3) == 0 && len(one.Images) < 3 {
		one.Images = append(one.Images, modelPatterns[d.random.IntN(len(modelPatterns))])
	}
	what := d.random.IntN(3)
	if what < 2 {
		one.Vulnerabilities = append(one.Vulnerabilities, d.ids[d.random.IntN(len(d.ids))])
		if d.random.IntN(3) == 0 {
			one.Vulnerabilities = append(one.Vulnerabilities, d.ids[d.random.IntN(len(d.ids))])
		}
	}
	if what > 0 {
		one.Packages = []string{d.patterns[d.random.IntN(len(d.patterns))]}
	}
	if d.random.IntN(3) == 0 {
		one.ExpiresAt = now.Add(time.Duration(d.random.IntN(8)-1)*time.Minute + time.Microsecond)
	}
	if len(d.namespaces) > 0 && d.random.IntN(3) > 0 {
		d.selectors++
		one.Places = d.places(fmt.Sprint("selector ", d.selectors))
		one.Unfixed = false // What a database changes then differs from namespace to namespace.
	}
	d.wanted[name] = one
	return fmt.Sprintf("decide %+v in %+v", one, one.Places)
}

// places are random places.
func (d *modelDecisions) places(selector string) *store.DecisionPlaces {
	places := &store.DecisionPlaces{Selector: selector}
	for _, namespace := range d.namespaces {
		switch d.random.IntN(3) {
		case 0:
			places.Namespaces = append(places.Namespaces, namespace)
		case 1:
			places.Workloads = append(places.Workloads, store.Workload{Namespace: namespace, Kind: "Deployment", Name: []string{"web", "db"}[d.random.IntN(2)]})
		}
	}
	return places
}

// preview previews the decision that was changed last. The function that it returns compares the preview with what came of it.
func (d *modelDecisions) preview(t *testing.T, f *fixture) func() {
	t.Helper()
	wanted, exists := d.wanted[d.changed]
	if !exists {
		return func() {}
	}
	object := wanted.Object
	before := f.open(t)
	preview, err := f.PreviewDecision(t.Context(), store.AllNamespaces(), store.DecisionSourceKubernetes, wanted)
	must(t, err)
	return func() {
		t.Helper()
		if after := f.open(t); after != before-preview.Closed+preview.Reopened {
			t.Errorf("of %d findings %d count after %s was decided, but its preview was %+v", before, after, object.Name, preview)
		}
		counts, err := f.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceKubernetes)
		must(t, err)
		if count, applies := counts[object]; applies != (preview.Problem == nil) || applies && count.Matched != preview.Findings+preview.Suppressed {
			t.Errorf("%s matches %+v, but its preview was %+v with the problem %+v", object.Name, count, preview, preview.Problem)
		}
	}
}

// open counts the findings of all images that are not suppressed.
func (f *fixture) open(t *testing.T) int {
	t.Helper()
	overview, err := f.Overview(t.Context(), store.AllNamespaces())
	must(t, err)
	return overview.Counts.Total()
}

// sync tells a store of the decisions, in any order.
func (d *modelDecisions) sync(t *testing.T, f *fixture) {
	t.Helper()
	all := slices.Collect(maps.Values(d.wanted))
	d.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, all)
	must(t, err)
	for name, one := range d.wanted {
		if before, expired := d.over[name]; expired && !cmp.Equal(before, one) {
			delete(d.over, name)
		}
		if !one.ExpiresAt.IsZero() && !one.ExpiresAt.After(f.clock.Now()) {
			d.over[name] = one
		}
		_, over := d.over[name]
		if problem, found := problems[one.Object]; found != over || over && problem.Reason != store.DecisionExpired {
			t.Errorf("decision %s, which is over: %t, has the problem %+v", name, over, problem)
		}
	}
}

// next is when the next decision ends, zero when none does.
func (d *modelDecisions) next() time.Time {
	var next time.Time
	for name, one := range d.wanted {
		if _, over := d.over[name]; !over && !one.ExpiresAt.IsZero() && (next.IsZero() || one.ExpiresAt.Before(next)) {
			next = one.ExpiresAt
		}
	}
	return next
}

// expire ends what is over.
func (d *modelDecisions) expire(t *testing.T, f *fixture) {
	t.Helper()
	got, err := f.ExpireDecisions(t.Context())
	must(t, err)
	for name, one := range d.wanted {
		if !one.ExpiresAt.IsZero() && !one.ExpiresAt.After(f.clock.Now()) {
			d.over[name] = one
		}
	}
	if want := d.next(); !got.Equal(want) {
		t.Errorf("the next decision ends at %s, want %s", got, want)
	}
}

// names are the decisions that apply to a finding in an image; suppressed says that one of them suppresses it.
func (d *modelDecisions) names(imageID string, p *model.Package, f *model.PackageFinding) (names []string, suppressed bool) {
	for name, one := range d.wanted {
		if _, over := d.over[name]; over || !applies(&one, p, f) || !reaches(&one, imageID) {
			continue
		}
		names = append(names, name)
		suppressed = suppressed || !one.DryRun && one.Status != model.DecisionUnderInvestigation
	}
	slices.Sort(names)
	return names, suppressed
}

// suppress says whether a finding does not count in an image.
func (d *modelDecisions) suppress(imageID string, p *model.Package, f *model.PackageFinding) bool {
	_, suppressed := d.names(imageID, p, f)
	return suppressed
}

// suppressIn says whether a finding of an image does not count in a workload.
func (d *modelDecisions) suppressIn(imageID string, f *model.Finding, w store.Workload) bool {
	for name, one := range d.wanted {
		at := one.Places
		if _, over := d.over[name]; over || one.DryRun || one.Status == model.DecisionUnderInvestigation || !applies(&one, &f.Package, &f.PackageFinding) || !reaches(&one, imageID) {
			continue
		}
		if at == nil || slices.Contains(at.Namespaces, w.Namespace) || slices.Contains(at.Workloads, unowned(w)) {
			return true
		}
	}
	return false
}

// modelImageID is an image ID that modelPatterns match.
func modelImageID(n int) string {
	return fmt.Sprintf("registry.example/team-%d/app-%d@sha256:%064x", n%2, n, n)
}

// modelPatterns are the image patterns of random decisions.
var modelPatterns = []string{
	"registry.example/team-0/*", "registry.example/team-1/app-1", "registry.example/*/app-2", "registry.example/team-1/app*", "registry.example/*", "docker.io/library/*",
	"*", fmt.Sprintf("sha256:%064x", 0), fmt.Sprintf("*@sha256:%064x", 3), fmt.Sprintf("registry.example/team-0/app-0@sha256:%064x", 1),
}

// reaches says whether a decision is about an image.
func reaches(d *store.Decision, imageID string) bool {
	repository, digest, _ := strings.Cut(imageID, "@")
	return len(d.Images) == 0 || slices.ContainsFunc(d.Images, func(pattern string) bool {
		if strings.HasPrefix(pattern, "sha256:") {
			return pattern == digest
		}
		name, wanted, _ := strings.Cut(pattern, "@")
		if wanted != "" && wanted != digest {
			return false
		}
		if before, after, found := strings.Cut(name, "/*/"); found {
			return strings.HasPrefix(repository, before+"/") && strings.HasSuffix(repository, "/"+after)
		}
		prefix, found := strings.CutSuffix(name, "*")
		return repository == name || found && strings.HasPrefix(repository, prefix)
	})
}

// applies says whether a decision matches a finding.
func applies(d *store.Decision, p *model.Package, f *model.PackageFinding) bool {
	if d.Unfixed && f.Fix.State == model.FixStateFixed {
		return false
	}
	named := len(d.Vulnerabilities) == 0
	names, cves := append([]string{f.Vulnerability.ID}, f.Vulnerability.Aliases...), map[string]bool{}
	for _, name := range names {
		if strings.HasPrefix(name, "CVE-") {
			cves[name] = true
		}
	}
	if len(cves) > 1 {
		names = names[:1]
	}
	for _, name := range names {
		named = named || slices.ContainsFunc(d.Vulnerabilities, func(id string) bool { return strings.EqualFold(id, name) })
	}
	url := "pkg:generic/" + p.Name + "@" + p.Version
	if p.Type == "deb" {
		url = strings.ToLower("pkg:deb/debian/" + p.Name + "@" + p.Version) // As the specification of package URLs says.
	}
	return named && (len(d.Packages) == 0 || slices.ContainsFunc(d.Packages, func(pattern string) bool {
		if strings.HasPrefix(pattern, "pkg:deb/") {
			pattern = strings.ToLower(pattern)
		}
		if prefix, found := strings.CutSuffix(pattern, "*"); found {
			return strings.HasPrefix(url, prefix)
		}
		return url == pattern || strings.HasPrefix(url, pattern+"@")
	}))
}

// decisionNames lists the names of decisions, sorted.
func decisionNames(decisions []model.Decision) []string {
	var names []string
	for _, d := range decisions {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}
