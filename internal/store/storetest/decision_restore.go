package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// restoreNamespaces are those in which random decisions of these tests apply.
var restoreNamespaces = []string{"a", "b", "c"}

// everything reads every list as those see it who see all namespaces, and as those who see some.
func (f *fixture) everything(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for name, in := range map[string]store.Namespaces{
		"everywhere": store.AllNamespaces(), "in a": store.OnlyNamespaces("a"), "in b": store.OnlyNamespaces("b"), "in b and c": store.OnlyNamespaces("b", "c"),
	} {
		for list, page := range f.readIn(t, in) {
			all[name+": "+list] = page
		}
	}
	return all
}

// decideAndRestore applies random decisions of both kinds: everywhere, in images, in namespaces and in workloads. When they have been removed, or have
// expired, each list is again what it was before.
func decideAndRestore(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 16))
	f.at(0)
	var uses []store.Use
	for n := range 4 {
		key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
		held := []string{"a", "b", "c"}[random.IntN(3):]
		f.catalog(t, key, fmt.Sprint(n), catalogOf(held...))
		f.match(t, key, fmt.Sprint(n), answers{
			"a": {finding("CVE-1", model.SeverityCritical, "2"), finding("CVE-2", model.SeverityHigh)}, "b": {finding("CVE-1", model.SeverityCritical)},
			"c": {finding("CVE-2", model.SeverityHigh), finding("CVE-3", model.SeverityLow, "9")},
		})
		for _, namespace := range restoreNamespaces {
			for _, name := range []string{"web", "db"} {
				if random.IntN(3) == 0 {
					uses = append(uses, ownedUse(key, namespace, name, "owner-"+namespace))
				}
			}
		}
	}
	must(t, f.RecordUses(t.Context(), "scope", uses))
	f.due(t, dueAfter("p", "", 1, 2))
	f.at(30)
	before, decisions := f.everything(t), newModelDecisions(random, []string{"CVE-1", "ghsa-cve-2", "CVE-3"}, []string{"pkg:deb/debian/a", "pkg:deb/debian/b@1.0-b", "pkg:deb/*"})
	decisions.namespaces = restoreNamespaces
	changing := 0
	for step := range 6 {
		now := f.clock.Now()
		var applied []store.Decision
		for range 3 {
			decisions.change(now)
		}
		for _, d := range decisions.wanted {
			d.ExpiresAt = now.Add(time.Minute)
			applied = append(applied, inOneNamespace(random, d))
		}
		f.decide(t, applied...)
		during := f.everything(t)
		if !cmp.Equal(before, during) {
			changing++
		}
		how := "were removed"
		if step%2 == 0 {
			f.decide(t)
		} else {
			how = "expired"
			f.expireAll(t, now.Add(time.Minute), during, len(applied))
			f.decide(t)
		}
		must(t, f.PruneDecisions(t.Context(), f.clock.Now().Add(time.Second)))
		if left := f.records(t, store.AllNamespaces(), store.DecisionQuery{}); len(left) > 0 {
			t.Fatalf("step %d: not deleted: %v", step, left)
		}
		if diff := cmp.Diff(before, f.everything(t)); diff != "" {
			t.Fatalf("step %d: after %+v %s (-before +after):\n%s", step, applied, how, diff)
		}
		clear(decisions.wanted)
	}
	if changing < 3 {
		t.Errorf("the decisions changed something in %d of 6 steps", changing)
	}
}

// expireAll expects that decisions apply until their end, and that each of them has one event then.
func (f *fixture) expireAll(t *testing.T, end time.Time, during map[string]any, count int) {
	t.Helper()
	since := f.last(t)
	for _, at := range []time.Time{end.Add(-time.Microsecond), end, end} {
		f.clock.set(at)
		_, err := f.ExpireDecisions(t.Context())
		must(t, err)
		if at.Before(end) {
			if diff := cmp.Diff(during, f.everything(t)); diff != "" {
				t.Errorf("before their end:\n%s", diff)
			}
		}
	}
	if events := f.decisionEvents(t, store.AllNamespaces(), since); len(events) != count {
		t.Errorf("%d decisions expired, with the events %v", count, events)
	}
}

// inOneNamespace makes most decisions with places those of an object in one of the namespaces.
func inOneNamespace(random *rand.Rand, d store.Decision) store.Decision {
	if d.Places == nil || random.IntN(4) == 0 {
		return d
	}
	namespace := restoreNamespaces[random.IntN(len(restoreNamespaces))]
	d.Object.Kind, d.Object.Namespace = "VulnerabilityException", namespace
	d.Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
	if random.IntN(2) == 0 {
		d.Places = &store.DecisionPlaces{Selector: namespace + " web", Workloads: []store.Workload{deployment(namespace, "web")}}
	}
	return d
}

// readIn reads every list.
func (f *fixture) readIn(t *testing.T, in store.Namespaces) map[string]any {
	t.Helper()
	ctx, all := t.Context(), map[string]any{}
	add := func(name string, page any, err error) {
		t.Helper()
		must(t, err)
		all[name] = page
	}
	images, err := f.ListImages(ctx, in, store.ImageQuery{Sort: store.SortSeverity})
	add("images", images, err)
	for i := range images.Images {
		findings, err := f.Findings(ctx, in, store.FindingQuery{Image: images.Images[i].Key, Page: store.Page{Size: store.MaxPageSize}})
		add("findings of "+images.Images[i].Key.String(), findings, err)
	}
	vulnerabilities, err := f.ListVulnerabilities(ctx, in, store.VulnerabilityQuery{})
	add("vulnerabilities", vulnerabilities, err)
	packages, err := f.ListPackages(ctx, in, store.PackageQuery{Sort: store.SortPackageSeverity})
	add("packages", packages, err)
	workloads, err := f.ListWorkloads(ctx, in, store.WorkloadQuery{Sort: store.SortWorkloadSeverity})
	add("workloads", workloads, err)
	for name, by := range map[string]store.GroupBy{"owners": store.ByOwner, "namespaces": store.ByNamespace} {
		groups, err := f.ListGroups(ctx, in, store.GroupQuery{By: by})
		add(name, groups, err)
	}
	policies, err := f.ListPolicies(ctx, in)
	add("policies", policies, err)
	overview, err := f.Overview(ctx, in)
	add("overview", overview, err)
	for _, id := range []string{"CVE-1", "CVE-2"} {
		if slices.ContainsFunc(vulnerabilities.Vulnerabilities, func(v store.VulnerabilitySummary) bool { return v.ID == id }) {
			affected, err := f.Affected(ctx, in, store.AffectedQuery{ID: id})
			add("affected by "+id, affected, err)
		}
	}
	return all
}
