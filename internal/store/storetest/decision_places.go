package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// placed makes a decision one about some places.
func placed(d store.Decision, selector string, namespaces []string, workloads ...store.Workload) store.Decision {
	d.Places = &store.DecisionPlaces{Selector: selector, Namespaces: namespaces, Workloads: workloads}
	return d
}

func deployment(namespace, name string) store.Workload {
	return store.Workload{Namespace: namespace, Kind: "Deployment", Name: name}
}

// countsIn are what who sees some namespaces counts of an image, overall, and in its workloads.
func (f *fixture) countsIn(t *testing.T, in store.Namespaces, key model.ImageKey) string {
	t.Helper()
	image, err := f.Image(t.Context(), in, key)
	must(t, err)
	list, err := f.ListImages(t.Context(), in, store.ImageQuery{})
	must(t, err)
	overview, err := f.Overview(t.Context(), in)
	must(t, err)
	findings, err := f.Findings(t.Context(), in, store.FindingQuery{Image: key})
	must(t, err)
	vulnerabilities, err := f.ListVulnerabilities(t.Context(), in, store.VulnerabilityQuery{})
	must(t, err)
	packages, err := f.ListPackages(t.Context(), in, store.PackageQuery{Vulnerable: true})
	must(t, err)
	var text strings.Builder
	fmt.Fprint(&text, image.Counts.Total(), " ", list.Images[0].Counts.Total(), " ", overview.Counts.Total(), " ", findings.Total, " of ", vulnerabilities.Total, " in ", packages.Total)
	workloads, err := f.ListWorkloads(t.Context(), in, store.WorkloadQuery{})
	must(t, err)
	for _, w := range workloads.Workloads {
		fmt.Fprint(&text, " ", w.Workload.Namespace, "/", w.Workload.Name, ":", w.Counts.Total())
	}
	return text.String()
}

var decisionPlaceTests = map[string]func(*testing.T, *fixture){
	"Decisions in some places suppress findings there": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		run := func(workloads ...store.Workload) {
			t.Helper()
			uses := make([]store.Use, len(workloads))
			for i, w := range workloads {
				uses[i] = store.Use{Image: key, Workload: w, Container: "c"}
			}
			must(t, f.RecordUses(t.Context(), "scope", uses))
		}
		a, b, both := store.OnlyNamespaces("a"), store.OnlyNamespaces("b"), store.OnlyNamespaces("a", "b")
		expect := func(what string, want ...string) {
			t.Helper()
			var got []string
			for _, in := range []store.Namespaces{store.AllNamespaces(), a, b, both} {
				got = append(got, f.countsIn(t, in, key))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		run(deployment("a", "web"), deployment("a", "db"), deployment("b", "web"))
		all := "3 3 3 3 of 2 in 2"
		open := []string{all + " a/db:3 a/web:3 b/web:3", all + " a/db:3 a/web:3", all + " b/web:3", all + " a/db:3 a/web:3 b/web:3"}
		expect("without decisions", open...)

		d := exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		inA := placed(d, "a", []string{"a"})
		f.decide(t, inA)
		less := "1 1 1 1 of 1 in 1"
		mixed := all + " a/db:1 a/web:1 b/web:3"
		expect("in a", mixed, less+" a/db:1 a/web:1", open[2], mixed)

		// Another decision about the other namespace closes it for all.
		other := placed(exception("other", model.DecisionFixed, []string{"CVE-1"}, nil), "b", []string{"b"})
		f.decide(t, inA, other)
		closed := less + " a/db:1 a/web:1 b/web:1"
		expect("in a and in b", closed, less+" a/db:1 a/web:1", less+" b/web:1", closed)

		// One workload of two in a.
		single := placed(d, "web", nil, deployment("a", "web"))
		f.decide(t, single)
		expect("in a workload", all+" a/db:3 a/web:1 b/web:3", all+" a/db:3 a/web:1", open[2], all+" a/db:3 a/web:1 b/web:3")

		// The selector selects the other one as well: this changes the places, and adds nothing to the history.
		before, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{})
		must(t, err)
		f.decide(t, placed(d, "web", nil, deployment("a", "web"), deployment("a", "db")))
		expect("in both workloads", mixed, less+" a/db:1 a/web:1", open[2], mixed)
		after, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{})
		must(t, err)
		if before.Total != after.Total {
			t.Errorf("the history has %d decisions, and had %d", after.Total, before.Total)
		}

		// The image stops in b, and starts there again.
		run(deployment("a", "web"), deployment("a", "db"))
		must(t, f.ExpireUses(t.Context(), "scope", f.clock.Now().Add(time.Hour)))
		if got, want := f.countsIn(t, store.AllNamespaces(), key), less+" a/db:1 a/web:1"; got != want {
			t.Errorf("after it stopped in b: %s, want %s", got, want)
		}
		run(deployment("a", "web"), deployment("a", "db"), deployment("b", "web"))
		expect("after it started in b", mixed, less+" a/db:1 a/web:1", open[2], mixed)
		f.decide(t)
		expect("without decisions again", open...)
	},
	"Decisions that have ended have no places": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: deployment("a", "web"), Container: "c"}}))
		ended := placed(exception("ended", model.DecisionFixed, []string{"CVE-1"}, nil), "s", nil)
		ended.ExpiresAt = oldBuild.Built
		live := placed(exception("live", model.DecisionFixed, []string{"CVE-1"}, nil), "s", []string{"a"})
		for range 2 {
			problems := f.decide(t, ended, live)
			if len(problems) != 1 || problems[ended.Object].Reason != store.DecisionExpired {
				t.Errorf("problems: %v", problems)
			}
			if diff := cmp.Diff("1 1 1 1 of 1 in 1 a/web:1", f.countsIn(t, store.OnlyNamespaces("a"), key)); diff != "" {
				t.Error(diff)
			}
		}
	},
	"Decisions of a namespace are shown there": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			{Image: key, Workload: deployment("a", "web"), Container: "c"}, {Image: key, Workload: deployment("b", "web"), Container: "c"},
		}))
		d := placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), "a", []string{"a"})
		d.Object.Kind, d.Object.Namespace, d.Author = "VulnerabilityException", "a", "jane"
		f.decide(t, d)
		for namespace, want := range map[string][]string{"a": {"-CVE-1 a[d jane]", "-CVE-1 b[d jane]", "CVE-2 a[]"}, "b": {"CVE-1 a[]", "CVE-1 b[]", "CVE-2 a[]"}} {
			in := store.OnlyNamespaces(namespace)
			page, err := f.Findings(t.Context(), in, store.FindingQuery{Image: key, Suppressed: true})
			must(t, err)
			var got []string
			for _, one := range page.Findings {
				text := one.Vulnerability.ID + " " + one.Package.Name + "["
				for _, said := range one.Decisions {
					text += said.Name + " " + said.Author
				}
				if text += "]"; one.Suppressed {
					text = "-" + text
				}
				got = append(got, text)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", namespace, diff)
			}
			records, err := f.ListDecisions(t.Context(), in, store.DecisionQuery{})
			must(t, err)
			events, err := f.EventsSince(t.Context(), in, 0, store.MaxKeys)
			must(t, err)
			told := slices.ContainsFunc(events, func(e store.Event) bool { return e.Kind == store.EventDecisionChanged })
			counts, err := f.DecisionCounts(t.Context(), in, store.DecisionSourceKubernetes)
			must(t, err)
			matched := counts[d.Object].Matched
			if own := namespace == "a"; records.Total == 1 != own || told != own || matched == 2 != own {
				t.Errorf("who sees %s sees %d decisions, its event: %t, %d matches", namespace, records.Total, told, matched)
			}
		}
	},
	"Findings are those of some workloads of an image": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		web, db, other := deployment("a", "web"), deployment("a", "db"), deployment("b", "web")
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			{Image: key, Workload: web, Container: "c"}, {Image: key, Workload: db, Container: "c"}, {Image: key, Workload: other, Container: "c"},
		}))
		everywhere := exception("everywhere", model.DecisionFixed, []string{"CVE-2"}, nil)
		single := placed(exception("single", model.DecisionFixed, []string{"CVE-1"}, nil), "web", nil, web)
		f.decide(t, everywhere, single, placed(exception("whole", model.DecisionFixed, []string{"CVE-1"}, nil), "b", []string{"b"}))
		for what, one := range map[string]struct {
			workloads []store.Workload
			want      []string
		}{
			"all":                {nil, []string{"CVE-1[single whole]", "-CVE-2[everywhere]"}},
			"one of its own":     {[]store.Workload{web}, []string{"-CVE-1[single]", "-CVE-2[everywhere]"}},
			"one without":        {[]store.Workload{db}, []string{"CVE-1[]", "-CVE-2[everywhere]"}},
			"of a namespace":     {[]store.Workload{other}, []string{"-CVE-1[whole]", "-CVE-2[everywhere]"}},
			"two with decisions": {[]store.Workload{web, other}, []string{"-CVE-1[single whole]", "-CVE-2[everywhere]"}},
			"two, one without":   {[]store.Workload{web, db}, []string{"CVE-1[single]", "-CVE-2[everywhere]"}},
		} {
			var got []string
			open := 0
			for _, found := range f.findings(t, store.FindingQuery{Image: key, Workloads: one.workloads, Suppressed: true, Sort: store.SortFindingPackage}).Findings {
				text := found.Vulnerability.ID
				if found.Suppressed {
					text = "-" + text
				} else {
					open++
				}
				var names []string
				for _, d := range found.Decisions {
					names = append(names, d.Name)
				}
				slices.Sort(names)
				got = append(got, text+"["+strings.Join(names, " ")+"]")
			}
			if diff := cmp.Diff(one.want, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			if n := f.findings(t, store.FindingQuery{Image: key, Workloads: one.workloads}).Total; n != open {
				t.Errorf("%s: %d open findings, want %d", what, n, open)
			}
		}
	},
	"Reports tell workloads apart in which other findings are suppressed": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		workloads := []store.Workload{deployment("a", "db"), deployment("a", "web"), deployment("b", "db")}
		uses := make([]store.Use, len(workloads))
		for i, w := range workloads {
			uses[i] = store.Use{Image: key, Workload: w, Container: "c"}
		}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		apart := func() []string {
			t.Helper()
			reports, err := f.RunningReports(t.Context())
			must(t, err)
			if len(reports) != 1 || !cmp.Equal(reports[0].Workloads, workloads) {
				t.Fatalf("reports: %+v", reports)
			}
			return reports[0].Decided
		}
		if got := apart(); got != nil {
			t.Errorf("without decisions: %q", got)
		}
		d := exception("d", model.DecisionFixed, []string{"CVE-1"}, nil)
		f.decide(t, placed(exception("nothing", model.DecisionFixed, []string{"CVE-9"}, nil), "nothing", []string{"a"}))
		if got := apart(); got != nil {
			t.Errorf("a decision that matches nothing: %q", got)
		}
		f.decide(t, placed(d, "web", nil, workloads[1]))
		first := apart()
		if len(first) != 3 || first[0] != "" || first[1] == "" || first[2] != "" {
			t.Errorf("in a workload: %q", first)
		}
		// The selector selects another one.
		f.decide(t, placed(d, "web", nil, workloads[0]))
		if got := apart(); len(got) != 3 || got[0] != first[1] || got[1] != "" || got[2] != "" {
			t.Errorf("in another one: %q, was %q", got, first)
		}
		f.decide(t, placed(d, "a", []string{"a"}), placed(exception("e", model.DecisionFixed, []string{"CVE-2"}, nil), "db", nil, workloads[0]))
		if got := apart(); len(got) != 3 || got[0] == got[1] || got[1] == "" || got[2] != "" {
			t.Errorf("in a namespace: %q", got)
		}
	},
	"Events of a namespace count what runs there": func(t *testing.T, f *fixture) {
		own, other := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}, model.ImageKey{ImageID: modelImageID(1), Platform: amd64}
		f.catalog(t, own, "1", catalogOf("a"))
		f.catalog(t, other, "2", catalogOf("a", "b"))
		f.match(t, own, "1", decided)
		f.match(t, other, "2", decided)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			{Image: own, Workload: deployment("a", "web"), Container: "c"}, {Image: other, Workload: deployment("b", "web"), Container: "c"},
		}))
		in := func(namespace, name string) store.Decision {
			d := placed(exception(name, model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), namespace, []string{namespace})
			d.Object.Kind, d.Object.Namespace = "VulnerabilityException", namespace
			return d
		}
		since := int64(0)
		told := func(step string, want ...string) {
			t.Helper()
			all := slices.Concat(f.decisionEvents(t, store.AllNamespaces(), since), f.reminders(t, store.AllNamespaces(), since))
			log, err := f.EventLog(t.Context())
			must(t, err)
			if since = log.Last; !cmp.Equal(want, all) {
				t.Errorf("%s: %s", step, cmp.Diff(want, all))
			}
		}
		told("before")
		first, elsewhere, cluster := in("a", "first"), in("c", "elsewhere"), exception("cluster", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		f.decide(t, first, elsewhere, cluster)
		told("begin", "decision.changed applied cluster 2 jane", "decision.changed applied first 1 jane", "decision.changed applied elsewhere 0 jane")
		first.ExpiresAt = f.clock.Now().Add(store.ExpiringWithin / 2)
		f.decide(t, first, cluster)
		told("edit", "decision.changed changed first 1 jane", "decision.changed removed elsewhere 0 jane")
		f.clock.set(first.ExpiresAt.Add(-time.Minute))
		must(t, f.RecordExpiring(t.Context()))
		told("reminder", "decision.expiring first 1 ")
		f.clock.set(first.ExpiresAt)
		_, err := f.ExpireDecisions(t.Context())
		must(t, err)
		told("end", "decision.expired  first 1 jane")
	},
	"Decisions with places that cannot be read": func(t *testing.T, f *fixture) {
		d := exception("d", model.DecisionFixed, []string{"CVE-1"}, nil)
		tooMany := make([]store.Workload, store.MaxDecisionWorkloads+1)
		for i := range tooMany {
			tooMany[i] = deployment("a", fmt.Sprint(i))
		}
		for what, one := range map[string]store.Decision{
			"no selector": placed(d, "", []string{"a"}), "no kind": placed(d, "s", nil, store.Workload{Namespace: "a", Name: "web"}),
			"too many workloads": placed(d, "s", nil, tooMany...), "no namespace": placed(d, "s", []string{""}),
		} {
			if problem := f.decide(t, one)[d.Object]; problem.Reason != store.DecisionInvalid || problem.Message == "" {
				t.Errorf("%s: %+v", what, problem)
			}
		}
		other := placed(exception("other", model.DecisionFixed, []string{"CVE-1"}, nil), "s", []string{"b"})
		if problem := f.decide(t, placed(d, "s", []string{"a"}), other)[other.Object]; problem.Reason != store.DecisionInvalid {
			t.Errorf("other places with the same selector: %+v", problem)
		}
	},
}
