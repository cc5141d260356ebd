package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ownedUse says that a Deployment of an owner runs an image.
func ownedUse(key model.ImageKey, namespace, name, owner string) store.Use {
	return store.Use{Image: key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Owner: owner}, Container: "c"}
}

// owners lists "owner: workloads w, images i" in the order of the store.
func (f *fixture) owners(t *testing.T, in store.Namespaces, query store.GroupQuery) []string {
	t.Helper()
	page, err := f.ListGroups(t.Context(), in, query)
	must(t, err)
	texts := []string{}
	for _, o := range page.Groups {
		texts = append(texts, fmt.Sprintf("%s: workloads %d, images %d", o.Name, o.Workloads, o.Images))
	}
	return texts
}

func (f *fixture) expectOwners(t *testing.T, step string, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(append([]string{}, want...), f.owners(t, store.AllNamespaces(), store.GroupQuery{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

// expectReport expects that the report of an owner has the numbers of the list of owners.
func (f *fixture) expectReport(t *testing.T, name string, in store.Namespaces, namespace string, owner store.Group) {
	t.Helper()
	if namespace != "" {
		return // Reports are about all namespaces of an owner.
	}
	summary, err := f.Summary(t.Context(), in, store.SummaryQuery{Ownership: store.Ownership{Owner: owner.Name, None: owner.Name == ""}, Since: day.AddDate(-1, 0, 0), Limit: store.MaxSummaryRows})
	must(t, err)
	if diff := gocmp.Diff(owner.Counts, summary.Counts); diff != "" {
		t.Errorf("%s: counts of the report of %q (-owner +report):\n%s", name, owner.Name, diff)
	}
	// Vulnerabilities that are open somewhere.
	if worst := owner.Counts.Critical > 0; worst != (summary.Opened.Counts.Critical > 0) {
		t.Errorf("%s: the report of %q lists %+v as opened, with counts %+v", name, owner.Name, summary.Opened, owner.Counts)
	}
}

var ownerTests = map[string]func(*testing.T, *fixture){
	"Owners follow what is recorded": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.want(t, a, b)
		record := func(uses ...store.Use) { must(t, f.RecordUses(t.Context(), "scope", uses)) }
		record(ownedUse(a, "n", "web", "red"), ownedUse(b, "n", "web", "red"), ownedUse(a, "m", "web", "Red ü"), ownedUse(a, "n", "db", ""))
		f.expectOwners(t, "first", ": workloads 1, images 1", "Red ü: workloads 1, images 1", "red: workloads 1, images 2")
		record(ownedUse(a, "n", "web", "blue"), ownedUse(b, "n", "web", "blue"), ownedUse(a, "m", "web", ""), ownedUse(a, "n", "db", "blue"))
		f.expectOwners(t, "changed", ": workloads 1, images 1", "blue: workloads 2, images 2")
		must(t, f.RecordUses(t.Context(), "other", []store.Use{ownedUse(a, "n", "db", "green")}))
		f.expectOwners(t, "another scope", ": workloads 1, images 1", "blue: workloads 1, images 2", "green: workloads 1, images 1")
		if diff := gocmp.Diff([]string{": workloads 1, images 1"}, f.owners(t, store.OnlyNamespaces("m"), store.GroupQuery{})); diff != "" {
			t.Errorf("of one namespace: %s", diff)
		}
	},
	"The owner of what runs no more is the last one": func(t *testing.T, f *fixture) {
		f.at(0)
		a := image("a", amd64)
		f.want(t, a)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(a, "n", "web", "red")}))
		f.at(1)
		must(t, f.RecordUses(t.Context(), "scope", nil))
		f.expectOwners(t, "nothing runs")
		shown := func() []string {
			page, err := f.Presences(t.Context(), store.AllNamespaces(), store.PresenceQuery{Image: a})
			must(t, err)
			var owners []string
			for _, p := range page.Presences {
				owners = append(owners, p.Workload.Name+" of "+p.Workload.Owner)
			}
			return owners
		}
		must(t, f.Prune(t.Context(), day))
		if diff := gocmp.Diff([]string{"web of red"}, shown()); diff != "" {
			t.Error(diff)
		}
	},
	"Coverage has owners": func(t *testing.T, f *fixture) {
		web, db := covered("n", "web", "Pending", "", 1), covered("n", "db", "Pending", "", 1)
		web.Workload.Owner = "red"
		list := func(owned store.Ownership) []string {
			page := f.coverage(t, store.CoverageQuery{Ownership: owned})
			texts := []string{fmt.Sprint(page.Total, page.Counts["Pending"])}
			for _, c := range page.Containers {
				texts = append(texts, c.Workload.Name+" of "+c.Workload.Owner)
			}
			return texts
		}
		must(t, f.RecordCoverage(t.Context(), "scope", []store.ContainerCoverage{web, db}))
		for _, tt := range []struct {
			owned store.Ownership
			want  []string
		}{
			{store.Ownership{}, []string{"2 2", "db of ", "web of red"}},
			{store.Ownership{Owner: "red"}, []string{"1 1", "web of red"}},
			{store.Ownership{Owner: "Red"}, []string{"0 0"}},
			{store.Ownership{Owner: "re\x00d"}, []string{"0 0"}},
			{store.Ownership{None: true}, []string{"1 1", "db of "}},
			{store.Ownership{Owner: "red", None: true}, []string{"0 0"}},
		} {
			if diff := gocmp.Diff(tt.want, list(tt.owned)); diff != "" {
				t.Errorf("%+v: %s", tt.owned, diff)
			}
		}
		// Nothing but the owner changes.
		db.Workload.Owner = "blue"
		must(t, f.RecordCoverage(t.Context(), "scope", []store.ContainerCoverage{web, db}))
		if diff := gocmp.Diff([]string{"2 2", "db of blue", "web of red"}, list(store.Ownership{})); diff != "" {
			t.Error(diff)
		}
	},
	"Rollouts and their events have owners": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.want(t, a, b)
		f.at(0)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(a, "n", "web", "red"), ownedUse(a, "n", "db", "")}))
		f.at(1)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(b, "n", "web", "blue"), ownedUse(b, "n", "db", "")}))
		page, err := f.ListRollouts(t.Context(), store.AllNamespaces(), store.RolloutQuery{Ownership: store.Ownership{Owner: "blue"}})
		must(t, err)
		if len(page.Rollouts) != 1 || page.Total != 1 || page.Rollouts[0].Workload.Owner != "blue" {
			t.Errorf("got %+v, want the rollout of the owner", page)
		}
		events, err := f.EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
		must(t, err)
		var owners []string
		for _, event := range events {
			var data struct {
				Workload map[string]string `json:"workload"`
			}
			if event.Kind == store.EventRolloutChanged {
				must(t, json.Unmarshal(event.Data, &data))
				owner, has := data.Workload["owner"]
				owners = append(owners, fmt.Sprint(data.Workload["name"], " ", owner, " ", has))
			}
		}
		slices.Sort(owners)
		if diff := gocmp.Diff([]string{"db  false", "web blue true"}, owners); diff != "" {
			t.Error(diff)
		}
	},
	"Events about findings have owners": func(t *testing.T, f *fixture) {
		first, second, idle := image("first", amd64), image("second", amd64), image("idle", amd64)
		for _, key := range []model.ImageKey{first, second, idle} {
			f.catalog(t, key, "1", catalogOf("p"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
		}
		uses := []store.Use{ownedUse(first, "a", "web", "red"), ownedUse(first, "a", "db", ""), ownedUse(second, "b", "web", "blue, and green")}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		// The second image has another change: there, the finding is suppressed.
		f.decide(t, placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil), "s", []string{"b"}))
		told := func(build model.DatabaseBuild, severity model.Severity) []string {
			last := f.last(t)
			f.rematch(t, build, answers{"p": {finding("CVE-1", severity), finding("CVE-2", severity)}})
			var texts []string
			for _, e := range f.events(t, last) {
				var data store.FindingEvent
				if strings.HasPrefix(string(e.Kind), "finding.") {
					must(t, json.Unmarshal(e.Data, &data))
					texts = append(texts, fmt.Sprintf("%s %s %d %q", e.Kind, data.VulnerabilityID, data.Images, data.Owners))
				}
			}
			return texts
		}
		want := []string{`finding.changed CVE-1 3 ["blue, and green" "red"]`, `finding.changed CVE-2 2 ["red"]`}
		if diff := gocmp.Diff(want, told(newBuild, model.SeverityHigh)); diff != "" {
			t.Error(diff)
		}
		for i := range store.MaxImageOwners + 1 {
			uses = append(uses, ownedUse(idle, "c", fmt.Sprint("web-", i), fmt.Sprintf("team-%02d", i)))
		}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		first20 := []string{"blue, and green", "red"}
		for i := range store.MaxImageOwners - len(first20) {
			first20 = append(first20, fmt.Sprintf("team-%02d", i))
		}
		want = []string{fmt.Sprintf("finding.changed CVE-1 3 %q", first20), fmt.Sprintf("finding.changed CVE-2 2 %q", append(first20[1:], "team-18"))}
		next := newBuild
		next.ID, next.Built = "next", newBuild.Built.AddDate(0, 0, 1)
		if diff := gocmp.Diff(want, told(next, model.SeverityLow)); diff != "" {
			t.Error(diff)
		}
		page, err := f.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{Owners: true})
		must(t, err)
		if diff := gocmp.Diff(first20, page.Packages[0].Owners); diff != "" {
			t.Errorf("owners of a package: %s", diff)
		}
	},
	"Decisions in some places suppress findings for some owners and namespaces": func(t *testing.T, f *fixture) {
		first, second := image("first", amd64), image("second", amd64)
		for _, key := range []model.ImageKey{first, second} {
			f.catalog(t, key, "1", catalogOf("a", "b"))
			f.match(t, key, "1", decided)
		}
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			ownedUse(first, "a", "web", "red"), ownedUse(first, "a", "db", "red"), ownedUse(first, "b", "web", "blue"), ownedUse(first, "b", "db", ""),
			ownedUse(second, "b", "api", "red"),
		}))
		// Two of the three findings of an image are of CVE-1.
		in := func(namespaces []string, workloads ...store.Workload) store.Decision {
			return placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), "s", namespaces, workloads...)
		}
		for _, c := range []struct {
			step                      string
			decisions                 []store.Decision
			all, a, onlyB, namespaces string
		}{
			{"none", nil, " 3, blue 3, red 6", "red 3", " 3, blue 3, red 3", "a 3, b 6"},
			{"one of two workloads", []store.Decision{in(nil, deployment("a", "web"))}, " 3, blue 3, red 6", "red 3", " 3, blue 3, red 3", "a 3, b 6"},
			{"all workloads with the image", []store.Decision{in([]string{"a"})}, " 3, blue 3, red 4", "red 1", " 3, blue 3, red 3", "a 1, b 6"},
			{"by name", []store.Decision{in(nil, deployment("a", "web"), deployment("a", "db"))}, " 3, blue 3, red 4", "red 1", " 3, blue 3, red 3", "a 1, b 6"},
			{"of another owner", []store.Decision{in(nil, deployment("b", "web"))}, " 3, blue 1, red 6", "red 3", " 3, blue 1, red 3", "a 3, b 6"},
			{"without an owner", []store.Decision{in(nil, deployment("b", "db"))}, " 1, blue 3, red 6", "red 3", " 1, blue 3, red 3", "a 3, b 6"},
			{"everywhere", []store.Decision{in([]string{"a", "b"})}, " 1, blue 1, red 2", "red 1", " 1, blue 1, red 1", "a 1, b 2"},
			{"removed", nil, " 3, blue 3, red 6", "red 3", " 3, blue 3, red 3", "a 3, b 6"},
		} {
			f.decide(t, c.decisions...)
			for _, seen := range []struct {
				in    store.Namespaces
				query store.GroupQuery
				want  string
			}{
				{store.AllNamespaces(), store.GroupQuery{}, c.all},
				{store.OnlyNamespaces("a"), store.GroupQuery{}, c.a},
				{store.OnlyNamespaces("b"), store.GroupQuery{}, c.onlyB},
				{store.AllNamespaces(), store.GroupQuery{Where: store.Where{Namespace: "b"}}, c.onlyB},
				{store.AllNamespaces(), store.GroupQuery{By: store.ByNamespace}, c.namespaces},
			} {
				page, err := f.ListGroups(t.Context(), seen.in, seen.query)
				must(t, err)
				var got []string
				for _, group := range page.Groups {
					if seen.query.By == store.ByOwner {
						f.expectReport(t, fmt.Sprintf("%s, seen by %v", c.step, seen.in), seen.in, seen.query.Namespace, group)
					}
					got = append(got, fmt.Sprint(group.Name, " ", group.Counts.Total()))
				}
				if diff := gocmp.Diff(seen.want, strings.Join(got, ", ")); diff != "" {
					t.Errorf("%s, seen by %v, %+v (-want +got):\n%s", c.step, seen.in, seen.query, diff)
				}
			}
		}
	},
	"No namespace displaces the owners of another": func(t *testing.T, f *fixture) {
		a := image("a", amd64)
		f.want(t, a)
		uses := []store.Use{ownedUse(a, "z", "web", "legit"), ownedUse(a, "z", "free", "")}
		for i := range 30 {
			uses = append(uses, ownedUse(a, "flood", fmt.Sprint("web-", i), fmt.Sprintf("flood-%02d", i)))
		}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		counts, err := f.FindingsByOwner(t.Context(), 3)
		must(t, err)
		var names []string
		for owner := range counts {
			names = append(names, owner)
		}
		slices.Sort(names)
		if diff := gocmp.Diff([]string{"", "flood-00", "flood-01", "legit", store.Other}, names); diff != "" {
			t.Error(diff)
		}
	},
}

// own returns uses with the owners of their workloads, which it makes up.
func (m *searchModel) own(uses []store.Use) []store.Use {
	owned := slices.Clone(uses)
	for i := range owned {
		w := &owned[i].Workload
		if m.random.IntN(5) == 0 {
			m.owners[*w] = []string{"", "red", "blue"}[m.random.IntN(3)]
		}
	}
	for i := range owned {
		owned[i].Workload = m.owned(owned[i].Workload)
	}
	return owned
}

func (m *searchModel) owned(w store.Workload) store.Workload {
	w.Owner = m.owners[w]
	return w
}

// ownersIn are the owners of workloads in a list, by name.
func ownersIn(workloads []store.Workload) []string {
	distinct := map[store.Workload]bool{}
	for _, w := range workloads {
		distinct[w] = true
	}
	return ownersOf(distinct)
}

// ownersOf are the owners of workloads, by name.
func ownersOf(workloads map[store.Workload]bool) []string {
	owners := map[string]bool{}
	for w := range workloads {
		owners[w.Owner] = true
	}
	delete(owners, "")
	return slices.Sorted(maps.Keys(owners))
}

func unowned(w store.Workload) store.Workload {
	w.Owner = ""
	return w
}

func (m *searchModel) checkGroups() {
	query := store.GroupQuery{
		By: []store.GroupBy{store.ByOwner, store.ByNamespace}[m.random.IntN(2)], Where: m.randomWhere(), Text: m.randomText("RE", "e", "_"), Sort: []store.GroupSort{"", store.SortGroupSeverity}[m.random.IntN(2)],
	}
	comparePages(m.t, fmt.Sprintf("groups %+v", query), m.listedGroups(query), func(page store.Page) ([]store.Group, string, int, error) {
		query.Page = page
		got, err := m.ListGroups(m.t.Context(), store.AllNamespaces(), query)
		return got.Groups, got.NextToken, got.Total, err
	})
}

// listedGroups is what ListGroups should return.
func (m *searchModel) listedGroups(query store.GroupQuery) []store.Group {
	nameOf := func(w store.Workload) string { return m.owners[w] }
	if query.By == store.ByNamespace {
		nameOf = func(w store.Workload) string { return w.Namespace }
	}
	names := map[string]bool{}
	for use := range m.running() {
		names[nameOf(use.Workload)] = true
	}
	var all []store.Group
	for name := range names {
		if query.Text != "" && (name == "" || !strings.Contains(name, strings.ToLower(query.Text))) {
			continue
		}
		one := store.Group{Name: name}
		images, workloads := map[string]bool{}, map[string]bool{}
		for use := range m.running() {
			if nameOf(use.Workload) != name || !m.chosen(query.Where, use.Workload) {
				continue
			}
			once(workloads, fmt.Sprint(use.Workload), &one.Workloads)
			if images[use.Image.String()] {
				continue
			}
			once(images, use.Image.String(), &one.Images)
			image := m.images[slices.IndexFunc(m.images, func(i *searchImage) bool { return i.key == use.Image })]
			if !image.matched {
				continue
			}
			one.Scanned++
			for _, f := range m.findings {
				if m.counts(image, f) {
					add(&one.Counts, f.last())
				}
			}
		}
		if one.Workloads > 0 {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b store.Group) int {
		if query.Sort == store.SortGroupSeverity {
			return cmp.Or(compareWorst(a.Counts, b.Counts), cmp.Compare(a.Name, b.Name))
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all
}

// checkFindingsByOwner expects the counts of the list of owners.
func (m *searchModel) checkFindingsByOwner() {
	want := map[string]store.Counts{}
	for _, one := range m.listedGroups(store.GroupQuery{}) {
		want[one.Name] = one.Counts
	}
	found, err := m.FindingsByOwner(m.t.Context(), 2)
	must(m.t, err)
	got := map[string]store.Counts{}
	for owner, counts := range found {
		got[owner] = counts.Counts
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		m.t.Errorf("findings by owner (-want +got):\n%s", diff)
	}
}
