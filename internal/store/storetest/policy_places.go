package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// selecting makes a policy one with selectors, which select some places.
func selecting(p store.Policy, namespaces []string, workloads ...store.Workload) store.Policy {
	p.Places = &store.DecisionPlaces{Selector: "team", Namespaces: namespaces, Workloads: workloads}
	return p
}

// dueIn makes these the policies that apply, and expects no problem.
func (f *fixture) dueIn(t *testing.T, step string, policies ...store.Policy) {
	t.Helper()
	if problems := f.due(t, policies...); len(problems) > 0 {
		t.Errorf("%s: %v", step, problems)
	}
}

var policyPlaceTests = map[string]func(*testing.T, *fixture){
	"Policies follow what their selectors select": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "dev", "prod")
		query := store.FindingQuery{Image: key, Text: "CVE-2"}
		expect := func(step, all, dev, prod string) {
			t.Helper()
			for _, c := range []struct {
				in   store.Namespaces
				want string
			}{{store.AllNamespaces(), all}, {store.OnlyNamespaces("dev"), dev}, {store.OnlyNamespaces("prod"), prod}} {
				expectTexts(t, fmt.Sprintf("%s, seen by %v", step, c.in), f.dates(t, c.in, query), "CVE-2 a"+c.want)
			}
		}
		p := dueAfter("p", "", 1, 1)
		for _, c := range []struct {
			step, all, dev, prod string
			policies             []store.Policy
		}{
			{"none", "", "", "", []store.Policy{selecting(p, nil)}},
			{"a namespace", ": p 24", ": p 24", "", []store.Policy{selecting(p, []string{"dev"})}},
			{"another namespace", ": p 24", "", ": p 24", []store.Policy{selecting(p, []string{"prod"})}},
			{"a workload", ": p 24", ": p 24", "", []store.Policy{selecting(p, nil, deployment("dev", "web"), deployment("dev", "absent"))}},
			{"a namespace and a workload in it", ": p 24", "", ": p 24", []store.Policy{selecting(p, []string{"prod"}, deployment("prod", "web"))}},
			{"only the workload", ": p 24", "", ": p 24", []store.Policy{selecting(p, nil, deployment("prod", "web"))}},
			{"an expression, too", ": p 24", "", ": p 24", []store.Policy{selecting(dueAfter("p", `workload.owner == "owner-prod"`, 1, 1), []string{"dev", "prod"})}},
			{"two", ": first 0!", ": p 24", ": first 0!", []store.Policy{selecting(p, []string{"dev"}), selecting(dueAfter("first", "", 0, 0), []string{"prod"})}},
			{"everywhere", ": p 24", ": p 24", ": p 24", []store.Policy{p}},
			{"without an expression", ": p 24", ": p 24", "", []store.Policy{selecting(p, []string{"dev"})}},
		} {
			f.dueIn(t, c.step, c.policies...)
			expect(c.step, c.all, c.dev, c.prod)
		}
		// What starts later is selected, too.
		f.dueIn(t, "before", selecting(p, []string{"dev"}, deployment("prod", "db")))
		must(t, f.RecordUses(t.Context(), key.ImageID[:40], []store.Use{ownedUse(key, "prod", "db", "")}))
		expectTexts(t, "started", f.dates(t, store.OnlyNamespaces("prod"), query), "CVE-2 a: p 24")
		must(t, f.RecordUses(t.Context(), key.ImageID[:40], []store.Use{ownedUse(key, "prod", "web", "")}))
		expectTexts(t, "replaced", f.dates(t, store.OnlyNamespaces("prod"), query), "CVE-2 a")
	},
	"Selectors of policies are shown to those who see all namespaces": func(t *testing.T, f *fixture) {
		listed := func(in store.Namespaces) string {
			t.Helper()
			policies, err := f.ListPolicies(t.Context(), in)
			must(t, err)
			if len(policies) != 1 {
				t.Fatalf("%d policies", len(policies))
			}
			return fmt.Sprintf("%q %+v", policies[0].Select, policies[0].Places)
		}
		f.dueIn(t, "first", selecting(dueAfter("p", "finding.kev", 1, 1), []string{"secret"}, deployment("shop", "web")))
		if got, want := listed(store.AllNamespaces()), `"finding.kev" `+fmt.Sprintf("%+v", &store.DecisionPlaces{Selector: "team"}); got != want {
			t.Errorf("all namespaces: %s, want %s", got, want)
		}
		if got, want := listed(store.OnlyNamespaces("shop")), `"" <nil>`; got != want {
			t.Errorf("a namespace: %s, want %s", got, want)
		}
	},
	"Selections of policies that cannot apply": func(t *testing.T, f *fixture) {
		p := dueAfter("p", "", 1, 1)
		tooMany := make([]store.Workload, store.MaxDecisionWorkloads+1)
		for i := range tooMany {
			tooMany[i] = deployment("a", fmt.Sprint(i))
		}
		unnamed := selecting(p, nil)
		unnamed.Places.Selector = ""
		for name, c := range map[string]struct {
			policy store.Policy
			reason store.PolicyReason
			text   string
		}{
			"a workload without a name": {selecting(p, nil, store.Workload{Namespace: "a"}), store.PolicyInvalid, "has no kind or no name"},
			"no description":            {unnamed, store.PolicyInvalid, "the description of its places"},
			"too many workloads":        {selecting(p, nil, tooMany...), store.PolicyTooBroad, "select fewer"},
		} {
			if got := f.due(t, c.policy)["p"]; got.Reason != c.reason || !strings.Contains(got.Message, c.text) {
				t.Errorf("%s: %+v", name, got)
			}
			if policies, err := f.ListPolicies(t.Context(), store.AllNamespaces()); err != nil || len(policies) > 0 {
				t.Errorf("%s: it applies: %+v, %v", name, policies, err)
			}
		}
	},
	"Dates in places that are selected later are told": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "dev", "prod")
		p := dueAfter("p", "", 1, 2)
		f.dueIn(t, "first", selecting(p, nil))
		f.at(30)
		last := f.last(t)
		f.tell(t)
		expectTexts(t, "none", f.overdueEvents(t, last))
		// The policy began before the date, whatever its selectors selected then.
		for _, namespaces := range [][]string{{"dev"}, nil, {"prod"}} {
			f.dueIn(t, "later", selecting(p, namespaces))
			f.tell(t)
		}
		expectTexts(t, "once", f.overdueEvents(t, last), "registry.example/i critical=2 high=0 at=24 by p")
		// An edit continues the policy, also with other selectors.
		other := selecting(dueAfter("p", "", 1, 3), []string{"dev"})
		other.Places.Selector = "other"
		last = f.last(t)
		f.at(100)
		f.dueIn(t, "edited", other)
		f.tell(t)
		expectTexts(t, "edited", f.overdueEvents(t, last), "registry.example/i critical=0 high=1 at=72 by p")
	},
}

// selectAndRestore lets selectors of policies select random places. When they select again what they did, and when the policies have been removed, each list
// is again what it was before.
func selectAndRestore(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 6))
	f.at(0)
	var uses []store.Use
	var workloads []store.Workload
	for n := range 3 {
		key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
		f.catalog(t, key, fmt.Sprint(n), catalogOf([]string{"a", "b"}[n%2:]...))
		f.match(t, key, fmt.Sprint(n), decided)
		for _, namespace := range restoreNamespaces {
			for _, name := range []string{"web", "db"} {
				if random.IntN(2) == 0 {
					uses = append(uses, ownedUse(key, namespace, name, "owner-"+namespace))
				}
				workloads = append(workloads, deployment(namespace, name))
			}
		}
	}
	must(t, f.RecordUses(t.Context(), "scope", uses))
	base := dueAfter("base", "", 2, 2)
	selected := func() []store.Policy {
		places := &store.DecisionPlaces{Selector: "team"}
		for _, namespace := range restoreNamespaces {
			if random.IntN(3) == 0 {
				places.Namespaces = append(places.Namespaces, namespace)
			}
		}
		for _, w := range workloads {
			if random.IntN(4) == 0 {
				places.Workloads = append(places.Workloads, w)
			}
		}
		first, second := dueAfter("first", "", 1, 2), dueAfter("second", `workload.owner != "owner-b" && finding.severity == "High"`, 0, 0)
		first.Places, second.Places = places, places
		return []store.Policy{base, first, second}
	}
	f.dueIn(t, "base", base)
	f.at(30)
	without := f.everything(t)
	some := selected()
	f.dueIn(t, "some", some...)
	before, changed := f.everything(t), 0
	if cmp.Equal(without, before) {
		t.Fatal("the first selection changes nothing")
	}
	for step := range 6 {
		others := selected()
		f.dueIn(t, "others", others...)
		if !cmp.Equal(before, f.everything(t)) {
			changed++
		}
		f.dueIn(t, "again", some...)
		if diff := cmp.Diff(before, f.everything(t)); diff != "" {
			t.Fatalf("step %d: after %+v (-before +after):\n%s", step, others[1].Places, diff)
		}
	}
	if changed < 3 {
		t.Errorf("%d of 6 selections changed something", changed)
	}
	f.dueIn(t, "removed", base)
	if diff := cmp.Diff(without, f.everything(t)); diff != "" {
		t.Errorf("after the removal (-before +after):\n%s", diff)
	}
	lists := slices.Collect(maps.Keys(without))
	if len(lists) < 20 {
		t.Errorf("only %d lists were compared", len(lists))
	}
}
