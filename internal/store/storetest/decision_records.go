package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// records lists "name status" of decisions on all pages of two, in the order of the store.
func (f *fixture) records(t *testing.T, in store.Namespaces, query store.DecisionQuery) []string {
	t.Helper()
	var all []string
	for query.Size = 2; ; {
		page, err := f.ListDecisions(t.Context(), in, query)
		must(t, err)
		for _, d := range page.Decisions {
			all = append(all, d.Object.Name+" "+string(d.Status))
			single, err := f.Decision(t.Context(), in, d.ID)
			must(t, err)
			if diff := cmp.Diff(d, single); diff != "" {
				t.Errorf("decision %d alone: %s", d.ID, diff)
			}
		}
		if query.Token = page.NextToken; query.Token == "" {
			if page.Total != len(all) {
				t.Errorf("%+v: %d of %d decisions", query, len(all), page.Total)
			}
			return all
		}
	}
}

// decisionHistory makes a history: accepted was changed and changed again, gone was deleted, over has expired, soon ends in five days, tried is a dry
// run, and there is one in each of two namespaces.
func (f *fixture) decisionHistory(t *testing.T) {
	t.Helper()
	start := oldBuild.Built
	f.clock.set(start)
	key := image("i", amd64)
	f.catalog(t, key, "1", catalogOf("a", "b"))
	f.match(t, key, "1", decided)
	must(t, f.RecordUses(t.Context(), "n", []store.Use{{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Pod", Name: "p"}, Container: "c"}}))
	accepted, gone := exception("accepted", model.DecisionUnderInvestigation, []string{"CVE-1"}, nil), exception("gone", model.DecisionFixed, nil, []string{"pkg:deb/debian/b"})
	over, soon := exception("over", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil), exception("soon", model.DecisionNotAffected, []string{"cve-2", "CVE-3"}, nil)
	over.ExpiresAt, soon.ExpiresAt, soon.Justification, soon.Unfixed = start.Add(time.Hour), start.Add(120*time.Hour), "component_not_present", true
	soon.Author = "joe"
	f.decide(t, accepted, gone, over)
	f.clock.set(start.Add(time.Hour))
	_, err := f.ExpireDecisions(t.Context())
	must(t, err)
	accepted.Status, accepted.Comment = model.DecisionFalsePositive, "looked at"
	f.decide(t, accepted, gone, over, soon)
	f.clock.set(start.Add(2 * time.Hour))
	accepted.Status, accepted.Comment = model.DecisionAcceptedRisk, "no fix"
	tried := exception("tried", model.DecisionFixed, []string{"CVE-1"}, nil)
	tried.DryRun = true
	f.decide(t, accepted, over, soon, tried)
	var mine []store.Decision
	for _, namespace := range []string{"n", "other"} {
		one := exception("mine", model.DecisionFixed, []string{"CVE-7"}, nil)
		one.Object.Kind, one.Object.Namespace = "VulnerabilityException", namespace
		mine = append(mine, one)
	}
	_, err = f.SyncDecisions(t.Context(), "elsewhere", mine)
	must(t, err)
}

var decisionRecordTests = map[string]func(*testing.T, *fixture){
	"Decisions are listed": func(t *testing.T, f *fixture) {
		f.decisionHistory(t)
		all := store.AllNamespaces()
		five, start := 5, oldBuild.Built
		for name, c := range map[string]struct {
			query store.DecisionQuery
			want  []string
		}{
			"standing": {
				store.DecisionQuery{State: store.DecisionStanding, Source: store.DecisionSourceKubernetes, Sort: store.SortDecisionName},
				[]string{"accepted AcceptedRisk", "soon NotAffected", "tried Fixed"},
			},
			"ended": {store.DecisionQuery{State: store.DecisionEnded, Sort: store.SortDecisionName}, []string{
				"accepted FalsePositive", "accepted UnderInvestigation", "gone Fixed", "over AcceptedRisk",
			}},
			"all by name": {store.DecisionQuery{Sort: store.SortDecisionName}, []string{
				"accepted AcceptedRisk", "accepted FalsePositive", "accepted UnderInvestigation", "gone Fixed", "over AcceptedRisk", "soon NotAffected", "tried Fixed",
				"mine Fixed", "mine Fixed",
			}},
			"all by end": {store.DecisionQuery{Sort: store.SortDecisionExpiry, Author: "joe"}, []string{"soon NotAffected"}},
			"by end":     {store.DecisionQuery{Sort: store.SortDecisionExpiry, Object: store.DecisionObject{Kind: "ClusterVulnerabilityException"}, Statuses: []model.DecisionStatus{model.DecisionNotAffected, model.DecisionAcceptedRisk}}, []string{"over AcceptedRisk", "soon NotAffected", "accepted AcceptedRisk"}},
			"status":     {store.DecisionQuery{State: store.DecisionStanding, Statuses: []model.DecisionStatus{model.DecisionNotAffected}}, []string{"soon NotAffected"}},
			"source":     {store.DecisionQuery{Source: "elsewhere"}, []string{"mine Fixed", "mine Fixed"}},
			"object": {store.DecisionQuery{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "accepted"}}, []string{
				"accepted AcceptedRisk", "accepted FalsePositive", "accepted UnderInvestigation",
			}},
			"namespace":             {store.DecisionQuery{Object: store.DecisionObject{Namespace: "n"}}, []string{"mine Fixed"}},
			"vulnerability":         {store.DecisionQuery{Vulnerability: "CVE-2", Sort: store.SortDecisionName}, []string{"over AcceptedRisk", "soon NotAffected"}},
			"part of an ID":         {store.DecisionQuery{Vulnerability: "CVE"}, nil},
			"last of the list":      {store.DecisionQuery{Vulnerability: "cve-3"}, []string{"soon NotAffected"}},
			"key of the content":    {store.DecisionQuery{Vulnerability: "vulnerabilities"}, nil},
			"hostile vulnerability": {store.DecisionQuery{Vulnerability: `%"' OR 1=1; --`}, nil},
			"no ID":                 {store.DecisionQuery{Vulnerability: "\x00"}, nil},
			"hostile name":          {store.DecisionQuery{Object: store.DecisionObject{Name: "\xff"}}, nil},
			"expiring":              {store.DecisionQuery{State: store.DecisionStanding, ExpiringWithin: &five}, []string{"soon NotAffected"}},
			"that began in an hour": {store.DecisionQuery{Since: start.Add(time.Hour), Until: start.Add(2 * time.Hour), Sort: store.SortDecisionName}, []string{
				"accepted FalsePositive", "soon NotAffected",
			}},
			"that began before": {store.DecisionQuery{Until: start.Add(time.Hour), Sort: store.SortDecisionName}, []string{"accepted UnderInvestigation", "gone Fixed", "over AcceptedRisk"}},
			"that began after":  {store.DecisionQuery{Since: start.Add(2*time.Hour + time.Second)}, nil},
			"expiring today":    {store.DecisionQuery{State: store.DecisionStanding, ExpiringWithin: new(int)}, nil},
		} {
			if diff := cmp.Diff(c.want, f.records(t, all, c.query)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		latest := f.records(t, all, store.DecisionQuery{})
		if len(latest) != 9 || !slices.Contains(latest[:4], "tried Fixed") || !slices.Contains(latest[6:], "gone Fixed") {
			t.Errorf("the latest first: %v", latest)
		}
		if _, err := f.ListDecisions(t.Context(), all, store.DecisionQuery{Sort: "x"}); err == nil {
			t.Error("an order that is none is listed")
		}
	},
	"Decisions of the cluster are listed where they match": func(t *testing.T, f *fixture) {
		own, other := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}, model.ImageKey{ImageID: modelImageID(1), Platform: amd64}
		f.catalog(t, own, "1", catalogOf("a"))
		f.catalog(t, other, "2", catalogOf("b"))
		f.match(t, own, "1", answers{"a": {finding("CVE-1", model.SeverityHigh)}})
		f.match(t, other, "2", answers{"b": {finding("CVE-2", model.SeverityHigh)}})
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			{Image: own, Workload: deployment("a", "web"), Container: "c"}, {Image: other, Workload: deployment("b", "web"), Container: "c"},
		}))
		about := func(name string, vulnerabilities ...string) store.Decision {
			return exception(name, model.DecisionAcceptedRisk, vulnerabilities, nil)
		}
		changed, ended := about("changed", "CVE-2"), about("ended", "CVE-1")
		inImages := about("of images", "CVE-1")
		inImages.Images = []string{"elsewhere/*"}
		all := []store.Decision{
			about("both", "CVE-1", "CVE-2"), about("hidden", "CVE-2"), about("nothing", "CVE-3"), inImages,
			placed(about("in a", "CVE-1"), "a", []string{"a"}), placed(about("in b", "CVE-1"), "b", []string{"b"}),
		}
		f.decide(t, append(all, changed, ended)...)
		changed.Vulnerabilities = []string{"CVE-1"}
		f.decide(t, append(all, changed)...)
		for namespace, want := range map[string][]string{"a": {"both", "changed", "in a"}, "b": {"both", "hidden"}, "c": nil} {
			in := store.OnlyNamespaces(namespace)
			page, err := f.ListDecisions(t.Context(), in, store.DecisionQuery{Sort: store.SortDecisionName})
			must(t, err)
			var got []string
			for _, one := range page.Decisions {
				if got = append(got, one.Object.Name); one.Previous != nil {
					t.Errorf("who sees %s sees what %s was before: %+v", namespace, one.Object.Name, one.Previous)
				}
			}
			if !cmp.Equal(want, got) || page.Total != len(want) {
				t.Errorf("who sees %s sees %d: %s", namespace, page.Total, cmp.Diff(want, got))
			}
			everything, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{})
			must(t, err)
			for _, one := range everything.Decisions {
				shown := one.Until.IsZero() && slices.Contains(want, one.Object.Name)
				if _, err := f.Decision(t.Context(), in, one.ID); (err == nil) != shown || !shown && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("who sees %s reads %s: %v", namespace, one.Object.Name, err)
				}
			}
		}
	},
	"Comments have characters of all languages, and each edit is a decision": func(t *testing.T, f *fixture) {
		d := exception("d", model.DecisionFixed, []string{"CVE-1"}, nil)
		all := func(want ...string) {
			t.Helper()
			f.decide(t, d)
			page, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionSince})
			must(t, err)
			got := make([]string, len(page.Decisions))
			for i, one := range page.Decisions {
				got[i] = one.Comment
			}
			if !slices.Equal(want, got) {
				t.Errorf("%d comments of %d bytes and others, want %d", len(got), len(got[0]), len(want))
			}
		}
		const most = 4096 // As the schema of exceptions says.
		long := strings.Repeat("漢😀", most/2)
		d.Comment = long
		all(long)
		d.Comment = long + "one"
		all(long, long)
		all(long, long)
		d.Comment = long + "two"
		all(long, long, long)
	},
	"Decisions tell what was said before": func(t *testing.T, f *fixture) {
		f.decisionHistory(t)
		start := oldBuild.Built
		page, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})
		must(t, err)
		var got []string
		for _, d := range page.Decisions[:7] {
			text := fmt.Sprint(d.Object.Name, " ", d.Status, " ", d.Suppresses, " ", d.Comment, " ", d.Author, " ", d.State(), " ", d.EndedBy, " ", d.Since.Sub(start), " ", d.Matched, "/", d.Suppressed)
			if d.Previous != nil {
				text += fmt.Sprint(" after ", d.Previous.Status, " ", d.Previous.Comment, " ", d.Previous.EndedBy)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff([]string{
			"accepted AcceptedRisk true no fix jane standing  2h0m0s 2/2 after FalsePositive looked at Changed",
			"accepted FalsePositive true looked at jane ended Changed 1h0m0s 0/0 after UnderInvestigation why Changed",
			"accepted UnderInvestigation false why jane ended Changed 0s 0/0",
			"gone Fixed true why jane ended Deleted 0s 0/0",
			"over AcceptedRisk true why jane ended Expired 0s 0/0",
			"soon NotAffected true why joe standing  1h0m0s 1/1",
			"tried Fixed false why jane standing  2h0m0s 2/0",
		}, got); diff != "" {
			t.Error(diff)
		}
		soon := page.Decisions[5]
		want := store.DecisionContent{
			ID: soon.ID, Status: model.DecisionNotAffected, Suppresses: true, Vulnerabilities: []string{"CVE-3", "cve-2"}, Unfixed: true,
			Justification: "component_not_present", Comment: "why", Author: "joe", ExpiresAt: start.Add(120 * time.Hour), Since: start.Add(time.Hour),
		}
		if diff := cmp.Diff(want, soon.DecisionContent); diff != "" {
			t.Error(diff)
		}
	},
	"Decisions are summed up": func(t *testing.T, f *fixture) {
		f.decisionHistory(t)
		end := oldBuild.Built.Add(120 * time.Hour)
		for left, expiring := range map[time.Duration]int{0: 1, -time.Microsecond: 0} {
			got, err := f.DecisionSums(t.Context(), end.Sub(f.clock.Now())+left)
			must(t, err)
			want := store.DecisionSums{
				Standing: map[store.DecisionGroup]int{
					{Source: store.DecisionSourceKubernetes, Status: model.DecisionAcceptedRisk}: 1, {Source: store.DecisionSourceKubernetes, Status: model.DecisionNotAffected}: 1,
					{Source: store.DecisionSourceKubernetes, Status: model.DecisionFixed}: 1, {Source: "elsewhere", Status: model.DecisionFixed}: 2,
				},
				Expiring: expiring, Suppressed: 3,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	},
	"Images of decisions are visible where their places are": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		pattern := "registry.example/secret-team/*"
		// The pattern selects an image in n, so that the decisions of the cluster are listed there, and one that only others run.
		for number, namespace := range []string{"n", "hidden"} {
			key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/secret-team/%s@sha256:%064x", namespace, number), Platform: amd64}
			f.catalog(t, key, namespace, catalogOf("a", "b"))
			f.match(t, key, namespace, decided)
			must(t, f.RecordUses(t.Context(), namespace, []store.Use{{Image: key, Workload: deployment(namespace, "web"), Container: "c"}}))
		}
		cluster := exception("cluster", model.DecisionFixed, []string{"CVE-1"}, nil)
		cluster.Images = []string{pattern}
		edited := cluster
		edited.Object.Name, edited.Vulnerabilities, edited.Packages = "edited", nil, []string{"pkg:deb/debian/b"}
		mine := cluster
		mine.Object = store.DecisionObject{Kind: "VulnerabilityException", Namespace: "n", Name: "mine"}
		f.decide(t, cluster, edited, mine)
		edited.Comment = "changed"
		f.decide(t, cluster, edited, mine)
		for in, want := range map[string][]string{
			"n": {"cluster", "edited", "mine with images"}, "other": nil,
			"": {"cluster with images", "edited with images", "edited with images", "edited with images before", "mine with images"},
		} {
			in := store.AllNamespaces().In(in)
			page, err := f.ListDecisions(t.Context(), in, store.DecisionQuery{Sort: store.SortDecisionName})
			must(t, err)
			var got []string
			for _, d := range page.Decisions {
				name := d.Object.Name
				if len(d.Images) > 0 {
					name += " with images"
				}
				if got = append(got, name); d.Previous != nil && len(d.Previous.Images) > 0 {
					got = append(got, name+" before")
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("decisions that %v sees (-want +got):\n%s", in, diff)
			}
			// The filter does not tell either: it compares with vulnerabilities only.
			if got := f.records(t, in, store.DecisionQuery{Vulnerability: pattern}); got != nil {
				t.Errorf("the pattern is a vulnerability of %v", got)
			}
		}
		want := []string{"cluster Fixed", "mine Fixed"}
		if got := f.records(t, store.OnlyNamespaces("n"), store.DecisionQuery{Vulnerability: "cve-1", Sort: store.SortDecisionName}); !slices.Equal(got, want) {
			t.Errorf("decisions about a vulnerability: %v", got)
		}
	},
	"Decisions end as changed when an edit is refused": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		var all []store.Decision
		for _, name := range []string{"deleted", "invalid", "kept", "refused"} {
			all = append(all, exception(name, model.DecisionFixed, []string{"CVE-1"}, nil))
		}
		f.decide(t, all...)
		from := f.last(t)
		f.clock.set(oldBuild.Built.Add(time.Hour))
		all[1].Packages = []string{"not a pattern"}
		all[3] = store.Decision{Object: all[3].Object, Refused: true}
		problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, all[1:])
		must(t, err)
		if _, found := problems[all[1].Object]; !found || len(problems) != 1 { // Who refuses says why.
			t.Errorf("problems: %+v", problems)
		}
		page, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})
		must(t, err)
		var got []string
		for _, d := range page.Decisions {
			got = append(got, strings.TrimSpace(fmt.Sprint(d.Object.Name, " ", d.EndedBy)))
		}
		if diff := cmp.Diff([]string{"deleted Deleted", "invalid Changed", "kept", "refused Changed"}, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
		// Of each that ended, users are told that it is no more.
		events, err := f.EventsSince(t.Context(), store.AllNamespaces(), from, store.MaxKeys)
		must(t, err)
		removed := 0
		for _, e := range events {
			if e.Kind == store.EventDecisionChanged && strings.Contains(string(e.Data), string(store.DecisionRemoved)) {
				removed++
			}
		}
		if removed != 3 {
			t.Errorf("%d events about removed decisions, want 3", removed)
		}
	},
	"Exceptions that never applied leave no history": func(t *testing.T, f *fixture) {
		start := oldBuild.Built
		f.clock.set(start)
		over := exception("over", model.DecisionFixed, []string{"CVE-1"}, nil)
		over.ExpiresAt = start.Add(-time.Hour)
		was := exception("was", model.DecisionFixed, []string{"CVE-1"}, nil)
		f.decide(t, was)
		was.ExpiresAt = start
		for i := range 3 {
			over.Comment = fmt.Sprint("edit ", i)
			problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{over, was})
			must(t, err)
			if problems[over.Object].Reason != store.DecisionExpired || problems[was.Object].Reason != store.DecisionExpired {
				t.Errorf("problems: %+v", problems)
			}
		}
		// The end of one that applied is in its history.
		if diff := cmp.Diff([]string{"was Fixed", "was Fixed"}, f.records(t, store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
	},
	"Decisions are visible in their namespaces": func(t *testing.T, f *fixture) {
		f.decisionHistory(t)
		for _, c := range []struct {
			in   store.Namespaces
			want []string
			// cluster counts the decisions of objects of the cluster: of who sees some namespaces, those that match there.
			cluster int
		}{
			{store.OnlyNamespaces("n"), []string{"n"}, 3},
			{store.OnlyNamespaces("other", "x"), []string{"other"}, 0},
			{store.OnlyNamespaces(), nil, 0},
			{store.AllNamespaces(), []string{"n", "other"}, 7},
		} {
			page, err := f.ListDecisions(t.Context(), c.in, store.DecisionQuery{Sort: store.SortDecisionName})
			must(t, err)
			var namespaces, authors []string
			for _, d := range page.Decisions {
				if d.Object.Namespace != "" {
					if namespaces = append(namespaces, d.Object.Namespace); d.Author == "" {
						t.Errorf("%v: %+v has no author", c.in, d.Object)
					}
					continue
				}
				if authors = append(authors, d.Author); d.Previous != nil {
					authors = append(authors, d.Previous.Author)
				}
			}
			if known := strings.Join(authors, ""); c.in.All() == (known == "") {
				t.Errorf("%v: authors %q", c.in, known)
			}
			if diff := cmp.Diff(c.want, namespaces); diff != "" || page.Total != c.cluster+len(c.want) {
				t.Errorf("%v: %d decisions, %s", c.in, page.Total, diff)
			}
			if authored := f.records(t, c.in, store.DecisionQuery{Author: "joe"}); c.in.All() != (len(authored) == 1) { // His is of the cluster.
				t.Errorf("%v: the author tells %v", c.in, authored)
			}
		}
		hidden, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Object: store.DecisionObject{Namespace: "other"}})
		must(t, err)
		if _, err := f.Decision(t.Context(), store.OnlyNamespaces("n"), hidden.Decisions[0].ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a decision of another namespace: %v", err)
		}
		// What the decisions match is counted in visible images.
		page, err := f.ListDecisions(t.Context(), store.OnlyNamespaces("n"), store.DecisionQuery{State: store.DecisionStanding, Object: store.DecisionObject{Name: "accepted"}})
		must(t, err)
		if len(page.Decisions) != 1 || page.Decisions[0].Matched != 2 || page.Decisions[0].Suppressed != 2 {
			t.Errorf("%+v, want 2 findings", page.Decisions)
		}
	},
}
