package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dueAfter is a policy by severity that counts from when findings were first seen.
func dueAfter(name, expression string, critical, high int) store.Policy {
	return store.Policy{Name: name, Select: expression, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &critical, High: &high}}
}

// due makes these the policies that apply.
func (f *fixture) due(t *testing.T, policies ...store.Policy) map[string]store.PolicyProblem {
	t.Helper()
	problems, err := f.SyncPolicies(t.Context(), policies)
	must(t, err)
	return problems
}

// dates lists "vulnerability package: policy hours" of the open findings of an image, with "!" for those that are overdue.
func (f *fixture) dates(t *testing.T, in store.Namespaces, query store.FindingQuery) []string {
	t.Helper()
	query.Size = store.MaxPageSize
	page, err := f.Findings(t.Context(), in, query)
	must(t, err)
	all := []string{}
	for _, one := range page.Findings {
		text := one.Vulnerability.ID + " " + one.Package.Name
		if d := one.Deadline; d != nil {
			text += fmt.Sprintf(": %s %v", d.Policy, d.At.Sub(day).Hours())
			if d.Overdue {
				text += "!"
			}
		}
		all = append(all, text)
	}
	if query.Sort != store.SortFindingDue {
		slices.Sort(all)
	}
	return all
}

// overdueEvents lists what events told of overdue findings after since.
func (f *fixture) overdueEvents(t *testing.T, since int64) []string {
	t.Helper()
	var all []string
	for _, e := range f.events(t, since) {
		if e.Kind != store.EventFindingOverdue {
			continue
		}
		var data store.OverdueEvent
		must(t, json.Unmarshal(e.Data, &data))
		if data.Omitted > 0 {
			all = append(all, fmt.Sprint("omitted ", data.Omitted))
			continue
		}
		all = append(all, fmt.Sprintf("%s critical=%d high=%d at=%v by %s", strings.SplitN(e.ImageID, "@", 2)[0], data.Findings.Critical, data.Findings.High,
			data.DueAt.Sub(day).Hours(), strings.Join(data.Policies, ",")))
	}
	return all
}

// namespaceEvents lists what events told namespaces of overdue findings after since.
func (f *fixture) namespaceEvents(t *testing.T, since int64) []string {
	t.Helper()
	var all []string
	for _, e := range f.events(t, since) {
		if e.Kind != store.EventNamespaceOverdue {
			continue
		}
		var data store.NamespaceOverdueEvent
		must(t, json.Unmarshal(e.Data, &data))
		for _, one := range data.Images {
			all = append(all, fmt.Sprintf("%s %s critical=%d high=%d at=%v by %s", data.Namespace, strings.SplitN(one.ImageID, "@", 2)[0], one.Findings.Critical,
				one.Findings.High, one.DueAt.Sub(day).Hours(), strings.Join(data.Policies, ",")))
		}
		if data.Omitted > 0 {
			all = append(all, fmt.Sprint(data.Namespace, " omitted ", data.Omitted))
		}
		for _, in := range []store.Namespaces{store.OnlyNamespaces(data.Namespace), store.OnlyNamespaces("another")} {
			if e.VisibleIn(in) != in.Contains(data.Namespace) {
				t.Errorf("the event about %s is shown in the wrong namespaces", data.Namespace)
			}
		}
	}
	return all
}

func (f *fixture) tell(t *testing.T) time.Time {
	t.Helper()
	next, err := f.RecordOverdue(t.Context())
	must(t, err)
	return next
}

func expectTexts(t *testing.T, step string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, got...)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

// running catalogs, matches and runs an image in namespaces.
func (f *fixture) running(t *testing.T, key model.ImageKey, namespaces ...string) {
	t.Helper()
	f.catalog(t, key, "1", catalogOf("a", "b"))
	f.match(t, key, "1", decided)
	var uses []store.Use
	for _, namespace := range namespaces {
		uses = append(uses, ownedUse(key, namespace, "web", "owner-"+namespace))
	}
	must(t, f.RecordUses(t.Context(), key.ImageID[:40], uses))
}

var policyTests = map[string]func(*testing.T, *fixture){
	"Findings are due by severity": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "n")
		if problems := f.due(t, dueAfter("p", "", 1, 2), dueAfter("later", "", 3, 3)); len(problems) > 0 {
			t.Error(problems)
		}
		all := store.FindingQuery{Image: key}
		expectTexts(t, "first", f.dates(t, store.AllNamespaces(), all), "CVE-1 a: p 24", "CVE-1 b: p 24", "CVE-2 a: p 48")
		// It is overdue from the very moment on.
		f.clock.set(day.Add(24*time.Hour - time.Microsecond))
		expectTexts(t, "before", f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key, Overdue: true}))
		f.at(24)
		expectTexts(t, "then", f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key, Overdue: true}), "CVE-1 a: p 24!", "CVE-1 b: p 24!")
		expectTexts(t, "due before", f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key, DueBefore: day.Add(48 * time.Hour)}), "CVE-1 a: p 24!", "CVE-1 b: p 24!")
		if got := f.image(t, key).Overdue; got != 2 {
			t.Errorf("the image has %d overdue findings, want 2", got)
		}
		if got := f.list(t, store.ImageQuery{Overdue: true}).Total; got != 1 {
			t.Errorf("%d images have overdue findings, want 1", got)
		}
		policies, err := f.ListPolicies(t.Context(), store.AllNamespaces())
		must(t, err)
		if len(policies) != 2 || policies[1].Name != "p" || policies[1].Due.Total() != 3 || policies[1].Overdue.Critical != 2 || !policies[1].Next.Equal(day.Add(48*time.Hour)) ||
			policies[0].Due.Total() != 0 {
			t.Errorf("policies: %+v", policies)
		}
		// What is suppressed is not due, and what nothing runs is not either.
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil))
		expectTexts(t, "suppressed", f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key, Suppressed: true, Sort: store.SortFindingDue}),
			"CVE-2 a: p 48", "CVE-1 a", "CVE-1 b")
		f.decide(t)
		must(t, f.RecordUses(t.Context(), key.ImageID[:40], nil))
		expectTexts(t, "stopped", f.dates(t, store.AllNamespaces(), all), "CVE-1 a", "CVE-1 b", "CVE-2 a")
		f.due(t)
		if policies, err := f.ListPolicies(t.Context(), store.AllNamespaces()); err != nil || len(policies) > 0 {
			t.Errorf("after the removal: %+v, %v", policies, err)
		}
	},
	"Policies select findings and places": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "dev", "prod")
		for expression, want := range map[string][]string{
			`finding.id == "CVE-1" && finding.package.name == "b"`: {"CVE-1 a", "CVE-1 b: p 24", "CVE-2 a"},
			`finding.fixable`: {"CVE-1 a: p 24", "CVE-1 b", "CVE-2 a"},
			`finding.severity in ["High"] && finding.epss > 0.1`:                              {"CVE-1 a", "CVE-1 b", "CVE-2 a: p 48"},
			`workload.namespace == "prod"`:                                                    {"CVE-1 a: p 24", "CVE-1 b: p 24", "CVE-2 a: p 48"},
			`workload.namespace.startsWith("q")`:                                              {"CVE-1 a", "CVE-1 b", "CVE-2 a"},
			`image.distro == "debian:12" && workload.owner == "owner-dev" && finding.fixable`: {"CVE-1 a: p 24", "CVE-1 b", "CVE-2 a"},
			`image.repository.startsWith("registry.example/i") || workload.kind == "Job"`:     {"CVE-1 a: p 24", "CVE-1 b: p 24", "CVE-2 a: p 48"},
		} {
			if problems := f.due(t, dueAfter("p", expression, 1, 2)); len(problems) > 0 {
				t.Errorf("%s: %v", expression, problems)
			}
			expectTexts(t, expression, f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key}), want...)
		}
		// Each namespace sees what follows from itself.
		f.due(t, dueAfter("prod", `workload.namespace == "prod"`, 1, 1), dueAfter("dev", `workload.namespace == "dev"`, 2, 2))
		query := store.FindingQuery{Image: key, Text: "CVE-2"}
		expectTexts(t, "all", f.dates(t, store.AllNamespaces(), query), "CVE-2 a: prod 24")
		expectTexts(t, "prod", f.dates(t, store.OnlyNamespaces("prod"), query), "CVE-2 a: prod 24")
		expectTexts(t, "dev", f.dates(t, store.OnlyNamespaces("dev"), query), "CVE-2 a: dev 48")
		f.at(30)
		for namespace, want := range map[string]int{"prod": 3, "dev": 0} {
			page, err := f.ListWorkloads(t.Context(), store.AllNamespaces(), store.WorkloadQuery{Where: store.Where{Namespace: namespace}})
			must(t, err)
			if len(page.Workloads) != 1 || page.Workloads[0].Overdue != want {
				t.Errorf("workloads in %s: %+v, want %d overdue findings", namespace, page.Workloads, want)
			}
			page, err = f.ListWorkloads(t.Context(), store.AllNamespaces(), store.WorkloadQuery{Where: store.Where{Namespace: namespace}, Overdue: true})
			must(t, err)
			if (page.Total > 0) != (want > 0) {
				t.Errorf("overdue workloads in %s: %d", namespace, page.Total)
			}
		}
		// Owners and places change.
		f.due(t, dueAfter("p", `workload.owner == "red"`, 1, 1))
		expectTexts(t, "no owner", f.dates(t, store.AllNamespaces(), query), "CVE-2 a")
		must(t, f.RecordUses(t.Context(), key.ImageID[:40], []store.Use{ownedUse(key, "dev", "web", "red")}))
		expectTexts(t, "an owner", f.dates(t, store.AllNamespaces(), query), "CVE-2 a: p 24!")
		must(t, f.RecordUses(t.Context(), key.ImageID[:40], []store.Use{ownedUse(key, "dev", "web", "blue")}))
		expectTexts(t, "another owner", f.dates(t, store.AllNamespaces(), query), "CVE-2 a")
	},
	"Deadlines count from fixes, and from when a vulnerability is exploited": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		days := 1
		exploited := finding("CVE-1", model.SeverityLow)
		exploited.Vulnerability.KEV = []model.KnownExploited{{DateAdded: "2026-01-09"}, {DateAdded: "2026-01-07"}}
		f.at(0)
		f.due(t,
			store.Policy{Name: "fix", From: model.DueFromFixAvailable, DueIn: model.DueIn{High: &days}},
			store.Policy{Name: "kev", From: model.DueFromFirstSeen, DueIn: model.DueIn{KEV: &days}})
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", answers{"a": {exploited, finding("CVE-2", model.SeverityHigh)}})
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(key, "n", "web", "")}))
		listed := time.Date(2026, 1, 7, 0, 0, 0, 0, time.UTC).Sub(day).Hours()
		kev := fmt.Sprintf("CVE-1 a: kev %v", max(listed, 0)+24)
		query := store.FindingQuery{Image: key}
		expectTexts(t, "without a fix", f.dates(t, store.AllNamespaces(), query), kev, "CVE-2 a")
		f.at(5)
		f.rematch(t, newBuild, answers{"a": {exploited, finding("CVE-2", model.SeverityHigh, "2")}})
		expectTexts(t, "with a fix", f.dates(t, store.AllNamespaces(), query), kev, "CVE-2 a: fix 29")
		f.at(7)
		later := newBuild
		later.ID = "xxh64:3"
		f.rematch(t, later, answers{"a": {exploited, finding("CVE-2", model.SeverityHigh, "2", "3")}})
		expectTexts(t, "with another fix", f.dates(t, store.AllNamespaces(), query), kev, "CVE-2 a: fix 29")
		// Scores change with a switch: whether it is exploited, and its EPSS.
		f.at(9)
		last := newBuild
		last.ID = "xxh64:4"
		f.due(t,
			store.Policy{Name: "kev", From: model.DueFromFirstSeen, DueIn: model.DueIn{KEV: &days}},
			store.Policy{Name: "likely", Select: `finding.epss > 0.5`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Low: new(0)}})
		next := f.prepare(t, last, answers{"a": {exploited, finding("CVE-2", model.SeverityHigh, "2", "3")}})
		listedNow, likely := finding("CVE-2", model.SeverityHigh), finding("CVE-1", model.SeverityLow)
		listedNow.Vulnerability.KEV = []model.KnownExploited{{DateAdded: "2026-03-01"}}
		likely.Vulnerability.EPSS = &model.EPSS{Score: 0.9}
		f.stage(t, next.Number, map[string]model.PackageFinding{"CVE-2": listedNow, "CVE-1": likely})
		expectTexts(t, "before the switch", f.dates(t, store.AllNamespaces(), query), kev, "CVE-2 a")
		f.switchTo(t, next.Number)
		expectTexts(t, "after the switch", f.dates(t, store.AllNamespaces(), query), "CVE-1 a: likely 0!", "CVE-2 a: kev 24")

		// The catalog corrects the date of an entry.
		corrected := newBuild
		corrected.ID = "xxh64:5"
		date := day.AddDate(0, 0, 10).Truncate(24 * time.Hour)
		moved := finding("CVE-2", model.SeverityHigh)
		moved.Vulnerability.KEV = []model.KnownExploited{{DateAdded: date.Format(time.DateOnly)}}
		next = f.prepare(t, corrected, answers{"a": {exploited, finding("CVE-2", model.SeverityHigh, "2", "3")}})
		f.stage(t, next.Number, map[string]model.PackageFinding{"CVE-2": moved})
		f.switchTo(t, next.Number)
		expectTexts(t, "after a corrected date", f.dates(t, store.AllNamespaces(), query), "CVE-1 a: likely 0!", fmt.Sprintf("CVE-2 a: kev %v", date.Sub(day).Hours()+24))
	},
	"Passed dates are told once": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "n")
		f.at(30)
		f.due(t, dueAfter("p", "", 1, 2))
		last := f.last(t)
		if next := f.tell(t); !next.Equal(day.Add(48 * time.Hour)) {
			t.Errorf("the next date is %s", next)
		}
		expectTexts(t, "overdue from the beginning", f.overdueEvents(t, last))
		f.clock.set(day.Add(48*time.Hour - time.Microsecond))
		f.tell(t)
		expectTexts(t, "before", f.overdueEvents(t, last))
		f.at(48)
		for range 2 {
			if next := f.tell(t); !next.IsZero() {
				t.Errorf("the next date is %s", next)
			}
			f.due(t, dueAfter("p", "", 1, 2))
		}
		expectTexts(t, "then", f.overdueEvents(t, last), "registry.example/i critical=0 high=1 at=48 by p")
		if events, err := f.EventsSince(t.Context(), store.OnlyNamespaces("n"), 0, store.MaxKeys); err != nil || slices.ContainsFunc(events, func(e store.Event) bool { return e.Kind == store.EventFindingOverdue }) {
			t.Errorf("a namespace is told of overdue findings: %v", err)
		}
	},
	"Namespaces are told of what is overdue for them": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.due(t, dueAfter("all", "", 2, 2), dueAfter("prod", `workload.namespace == "prod"`, 1, 1))
		f.running(t, key, "dev", "prod")
		// It began to run in a third namespace later, where nothing was overdue before.
		f.at(12)
		must(t, f.RecordUses(t.Context(), "later", []store.Use{ownedUse(key, "late", "web", "")}))
		last := f.last(t)
		f.at(24)
		if next := f.tell(t); !next.Equal(day.Add(48 * time.Hour)) {
			t.Errorf("the next date is %s", next)
		}
		expectTexts(t, "of one namespace", f.namespaceEvents(t, last), "prod registry.example/i critical=2 high=1 at=24 by prod")
		expectTexts(t, "of the cluster", f.overdueEvents(t, last), "registry.example/i critical=2 high=1 at=24 by prod")
		// What is suppressed in a namespace is not overdue there.
		d := exception("d", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil)
		d.Places = &store.DecisionPlaces{Selector: "dev", Namespaces: []string{"dev"}}
		f.decide(t, d)
		last = f.last(t)
		f.at(48)
		for range 2 {
			f.tell(t)
		}
		for in, want := range map[string]model.SeverityCounts{"dev": {Critical: 2}, "prod": {Critical: 2, High: 1}, "late": {}, "none": {}} {
			overdue, err := f.OverdueFindings(t.Context(), store.OnlyNamespaces(in), []model.ImageKey{key, image("unknown", amd64)})
			must(t, err)
			var counts model.SeverityCounts
			for _, one := range overdue[key] {
				counts.Add(one.Severity)
			}
			if len(overdue) > 1 || counts != want {
				t.Errorf("in %s, %+v are overdue, want %+v", in, overdue, want)
			}
		}
		expectTexts(t, "of another namespace", f.namespaceEvents(t, last), "dev registry.example/i critical=2 high=0 at=48 by all")
		expectTexts(t, "not again of the cluster", f.overdueEvents(t, last))
		f.decide(t)
		f.tell(t)
		// Events have the keys of their findings, each in one event.
		told := store.FindingKeys{}
		for _, e := range f.events(t, 0) {
			var data store.NamespaceOverdueEvent
			if e.Kind == store.EventNamespaceOverdue {
				must(t, json.Unmarshal(e.Data, &data))
			}
			if data.Namespace == "dev" {
				told = append(told, data.Images[0].Keys...)
			}
		}
		overdue, err := f.OverdueFindings(t.Context(), store.OnlyNamespaces("dev"), []model.ImageKey{key})
		must(t, err)
		now := store.FindingKeys{}
		for _, one := range overdue[key] {
			now = append(now, one.Key)
		}
		slices.Sort(told)
		slices.Sort(now)
		if diff := cmp.Diff(now, told); diff != "" || len(now) != 3 {
			t.Errorf("keys of what is overdue in dev, and of the events (-now +told):\n%s", diff)
		}
		expectTexts(t, "no longer suppressed", f.namespaceEvents(t, last), "dev registry.example/i critical=2 high=0 at=48 by all", "dev registry.example/i critical=0 high=1 at=48 by all")
		last = f.last(t)
		f.at(60)
		f.tell(t)
		expectTexts(t, "of the namespace where it is new", f.namespaceEvents(t, last), "late registry.example/i critical=2 high=1 at=60 by all")
		// What a namespace was told is forgotten when the image does not run there any more, and dates begin again when it does.
		last = f.last(t)
		must(t, f.RecordUses(t.Context(), "later", nil))
		f.at(70)
		f.tell(t)
		must(t, f.RecordUses(t.Context(), "later", []store.Use{ownedUse(key, "late", "web", "")}))
		f.tell(t)
		f.due(t)
		f.tell(t)
		expectTexts(t, "without policies", f.namespaceEvents(t, last))
	},
	"Findings that begin to be open after their date are told once": func(t *testing.T, f *fixture) {
		f.at(0)
		f.due(t, dueAfter("p", "", 1, 2))
		// The findings are known of another image, which does not run.
		f.running(t, image("other", amd64))
		// The image is cataloged after the first date, and CVE-2 is suppressed when its date passes.
		key := image("i", amd64)
		_, err := f.WantImages(t.Context(), []model.ImageKey{key})
		must(t, err)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(key, "n", "web", "")}))
		last := f.last(t)
		f.at(30)
		f.catalog(t, key, "2", catalogOf("a", "b"))
		f.match(t, key, "2", decided)
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil))
		for range 2 {
			f.tell(t)
		}
		expectTexts(t, "cataloged late", f.overdueEvents(t, last), "registry.example/i critical=2 high=0 at=24 by p")
		last = f.last(t)
		f.at(50)
		f.tell(t)
		expectTexts(t, "suppressed", f.overdueEvents(t, last))
		f.decide(t)
		for range 2 {
			f.tell(t)
		}
		expectTexts(t, "no longer suppressed", f.overdueEvents(t, last), "registry.example/i critical=0 high=1 at=48 by p")
		// What was told is not told again: when it was suppressed for some time, and when nothing ran the image.
		last = f.last(t)
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-1", "CVE-2"}, nil))
		f.tell(t)
		f.decide(t)
		f.tell(t)
		must(t, f.RecordUses(t.Context(), "scope", nil))
		f.tell(t)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(key, "n", "web", "")}))
		f.tell(t)
		expectTexts(t, "again", f.overdueEvents(t, last))
		// With a later date it becomes overdue again.
		f.due(t, dueAfter("p", "", 1, 3))
		f.tell(t)
		f.at(72)
		f.tell(t)
		expectTexts(t, "a later date", f.overdueEvents(t, last), "registry.example/i critical=0 high=1 at=72 by p")
	},
	"Few events tell of many images": func(t *testing.T, f *fixture) {
		f.at(0)
		f.due(t, dueAfter("p", "", 1, 1))
		var uses []store.Use
		for i := range store.MaxOverdueEvents + 2 {
			key := image(fmt.Sprint("i", i), amd64)
			f.catalog(t, key, fmt.Sprint(i), catalogOf("a"))
			f.match(t, key, fmt.Sprint(i), decided)
			uses = append(uses, ownedUse(key, "n", fmt.Sprint("w", i), ""))
		}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		last := f.last(t)
		f.at(100)
		f.tell(t)
		if got := f.overdueEvents(t, last); len(got) != store.MaxOverdueEvents+1 || got[store.MaxOverdueEvents] != "omitted 2" {
			t.Errorf("%d events, the last is %q", len(got), got[len(got)-1])
		}
		if got := f.namespaceEvents(t, last); len(got) != store.MaxOverdueEvents+1 || got[store.MaxOverdueEvents] != "n omitted 2" {
			t.Errorf("the namespace is told of %d images, the last is %q", len(got), got[len(got)-1])
		}
	},
	"Policies that cannot apply": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.at(0)
		f.running(t, key, "n")
		days := 4000
		problems := f.due(t, dueAfter("syntax", `finding.severity ==`, 1, 1), dueAfter("field", "finding.kev &&\n  finding.sevrity == 'High'", 1, 1),
			dueAfter("mixed", `finding.kev || workload.namespace == "n"`, 1, 1), dueAfter("failing", `finding.id == "x" || 1 / int(finding.epss) > 0`, 1, 1),
			store.Policy{Name: "empty", From: model.DueFromFirstSeen}, store.Policy{Name: "days", From: model.DueFromFirstSeen, DueIn: model.DueIn{Low: &days}},
			store.Policy{Name: "from", From: "x", DueIn: model.DueIn{Low: new(1)}})
		for name, want := range map[string]struct {
			reason store.PolicyReason
			text   string
		}{
			"syntax": {store.PolicyInvalid, "line 1, column "}, "field": {store.PolicyInvalid, "line 2, column 10: undefined field 'sevrity'"},
			"mixed": {store.PolicyInvalid, "about the finding and about where it is"}, "failing": {store.PolicyEvaluationFailed, "failed 3 times"},
			"empty": {store.PolicyInvalid, "dueIn is empty"}, "days": {store.PolicyInvalid, "the maximum is 3650"}, "from": {store.PolicyInvalid, "firstSeen"},
		} {
			if got := problems[name]; got.Reason != want.reason || !strings.Contains(got.Message, want.text) {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		expectTexts(t, "none", f.dates(t, store.AllNamespaces(), store.FindingQuery{Image: key}), "CVE-1 a", "CVE-1 b", "CVE-2 a")
		var many []store.Policy
		for i := range store.MaxPolicies + 1 {
			many = append(many, dueAfter(fmt.Sprint("p", i), "finding.kev", 1, 1))
		}
		if problems := f.due(t, many...); len(problems) != 1 || problems[fmt.Sprint("p", store.MaxPolicies)].Reason != store.PolicyTooMany {
			t.Errorf("%v", problems)
		}
		// The same again changes nothing, and tells the same.
		last := f.due(t, dueAfter("failing", `1 / int(finding.epss) > 0`, 1, 1))
		if again := f.due(t, dueAfter("failing", `1 / int(finding.epss) > 0`, 1, 1)); !cmp.Equal(last, again) || len(again) != 1 {
			t.Errorf("%v, then %v", last, again)
		}
	},
}
