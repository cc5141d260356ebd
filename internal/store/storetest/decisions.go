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

// exception is a decision of an object of the cluster.
func exception(name string, status model.DecisionStatus, vulnerabilities, packages []string) store.Decision {
	return store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}, Vulnerabilities: vulnerabilities, Packages: packages, Status: status,
		Comment: "why", Author: "jane",
	}
}

// decide makes these the decisions that apply.
func (f *fixture) decide(t *testing.T, decisions ...store.Decision) map[store.DecisionObject]store.DecisionProblem {
	t.Helper()
	problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions)
	must(t, err)
	return problems
}

// decisionsOfImage lists "vulnerability package: decisions" of all findings of an image; "-" marks those that are suppressed.
func (f *fixture) decisionsOfImage(t *testing.T, key model.ImageKey) []string {
	t.Helper()
	var all []string
	for _, one := range f.findings(t, store.FindingQuery{Image: key, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}}).Findings {
		text := fmt.Sprint(one.Vulnerability.ID, " ", one.Package.Name, decisionNames(one.Decisions))
		if one.Suppressed {
			text = "-" + text
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// decisionEvents are the events about decisions after since.
func (f *fixture) decisionEvents(t *testing.T, in store.Namespaces, since int64) []string {
	t.Helper()
	events, err := f.EventsSince(t.Context(), in, since, store.MaxKeys)
	must(t, err)
	var all []string
	for _, e := range events {
		var data store.DecisionEvent
		if e.Kind != store.EventDecisionChanged && e.Kind != store.EventDecisionExpired {
			continue
		}
		must(t, json.Unmarshal(e.Data, &data))
		name := ""
		if data.Object != nil {
			name = data.Object.Name
		}
		all = append(all, strings.TrimSpace(fmt.Sprint(e.Kind, " ", data.Action, " ", name, " ", data.Findings, " ", data.Author)))
	}
	return all
}

var decided = answers{
	"a": {finding("CVE-1", model.SeverityCritical, "2"), finding("CVE-2", model.SeverityHigh)},
	"b": {finding("CVE-1", model.SeverityCritical)},
}

var decisionTests = map[string]func(*testing.T, *fixture){
	"Decisions about one CVE match no advisory that combines several": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		combined := finding("ALAS-1", model.SeverityCritical)
		combined.Vulnerability.Aliases = []string{"CVE-1", "CVE-2"}
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil))
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", answers{"a": {combined}})
		for _, c := range []struct{ name, want string }{{"CVE-1", "ALAS-1 a[]"}, {"CVE-2", "ALAS-1 a[]"}, {"alas-1", "-ALAS-1 a[d]"}} {
			f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{c.name}, nil))
			if diff := cmp.Diff([]string{c.want}, f.decisionsOfImage(t, key)); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
	},
	"Decisions suppress findings": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		for name, c := range map[string]struct {
			decision store.Decision
			want     []string
			counts   [2]int // Critical and high.
		}{
			"by ID":              {exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), []string{"-CVE-1 a[d]", "-CVE-1 b[d]", "CVE-2 a[]"}, [2]int{0, 1}},
			"by alias":           {exception("d", model.DecisionNotAffected, []string{"ghsa-cve-2"}, nil), []string{"-CVE-2 a[d]", "CVE-1 a[]", "CVE-1 b[]"}, [2]int{2, 0}},
			"by package":         {exception("d", model.DecisionFalsePositive, nil, []string{"pkg:deb/debian/a"}), []string{"-CVE-1 a[d]", "-CVE-2 a[d]", "CVE-1 b[]"}, [2]int{1, 0}},
			"by both":            {exception("d", model.DecisionFixed, []string{"CVE-1"}, []string{"pkg:deb/debian/b@1.0-b"}), []string{"-CVE-1 b[d]", "CVE-1 a[]", "CVE-2 a[]"}, [2]int{1, 1}},
			"by every package":   {exception("d", model.DecisionFixed, nil, []string{"pkg:deb/*"}), []string{"-CVE-1 a[d]", "-CVE-1 b[d]", "-CVE-2 a[d]"}, [2]int{0, 0}},
			"only investigated":  {exception("d", model.DecisionUnderInvestigation, []string{"CVE-1"}, nil), []string{"CVE-1 a[d]", "CVE-1 b[d]", "CVE-2 a[]"}, [2]int{2, 1}},
			"nothing is matched": {exception("d", model.DecisionFixed, []string{"CVE-1'; --"}, []string{"pkg:npm/*"}), []string{"CVE-1 a[]", "CVE-1 b[]", "CVE-2 a[]"}, [2]int{2, 1}},
		} {
			if problems := f.decide(t, c.decision); len(problems) > 0 {
				t.Errorf("%s: %v", name, problems)
			}
			if diff := cmp.Diff(c.want, f.decisionsOfImage(t, key)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if counts := f.image(t, key).Counts; [2]int{counts.Critical, counts.High} != c.counts {
				t.Errorf("%s: counts %+v, want %v", name, counts, c.counts)
			}
		}
		dry, unfixed := exception("dry", model.DecisionFixed, []string{"CVE-1"}, nil), exception("unfixed", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		dry.DryRun, unfixed.Unfixed = true, true
		f.decide(t, dry, unfixed)
		if diff := cmp.Diff([]string{"-CVE-1 b[dry unfixed]", "CVE-1 a[dry]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
			t.Error(diff)
		}
		counts, err := f.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceKubernetes)
		must(t, err)
		for object, want := range map[store.DecisionObject][2]int{dry.Object: {2, 0}, unfixed.Object: {1, 1}} {
			if got := counts[object]; got.Matched != want[0] || got.Suppressed != want[1] || got.Since.IsZero() {
				t.Errorf("%s: %+v, want %v", object.Name, got, want)
			}
		}
		none, err := f.DecisionCounts(t.Context(), store.OnlyNamespaces("n"), store.DecisionSourceKubernetes)
		must(t, err)
		if none[dry.Object].Matched != 0 {
			t.Errorf("in a namespace that runs nothing: %+v", none)
		}
	},
	"Decisions about what is found later": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil))
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", answers{"a": decided["a"]})
		if diff := cmp.Diff([]string{"-CVE-1 a[d]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
			t.Error(diff)
		}
		last := f.last(t)
		next := f.prepare(t, newBuild, decided)
		switched := f.switchTo(t, next.Number)
		if switched.Changes != (store.ChangeCounts{}) || f.changes(t, store.ChangeQuery{ResultSet: next.Number}).Total != 0 {
			t.Errorf("what is suppressed changed: %+v", switched.Changes)
		}
		if kinds := f.kinds(t, last); slices.Contains(kinds, store.EventFindingOpened) {
			t.Errorf("events: %v", kinds)
		}
		if diff := cmp.Diff([]string{"-CVE-1 a[d]", "-CVE-1 b[d]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
			t.Error(diff)
		}
	},
	"Decisions are told of once": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		must(t, f.RecordUses(t.Context(), "n", []store.Use{{Image: key, Workload: deployment("n", "web"), Container: "c"}}))
		last := f.last(t)
		one, other := exception("one", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), exception("other", model.DecisionFixed, []string{"CVE-2"}, nil)
		f.decide(t, one, other)
		f.decide(t, other, one, one)
		one.Status = model.DecisionFalsePositive
		f.decide(t, one)
		f.decide(t)
		f.decide(t)
		want := []string{
			"decision.changed applied one 2 jane", "decision.changed applied other 1 jane", "decision.changed changed one 2 jane", "decision.changed removed other 1 jane",
			"decision.changed removed one 2 jane",
		}
		if diff := cmp.Diff(want, f.decisionEvents(t, store.AllNamespaces(), last)); diff != "" {
			t.Error(diff)
		}
		for i := range want {
			want[i] = strings.TrimSuffix(want[i][:strings.LastIndexByte(want[i], ' ')-1], " ") + " 0"
		}
		if diff := cmp.Diff(want, f.decisionEvents(t, store.OnlyNamespaces("n"), last)); diff != "" {
			t.Errorf("in a namespace: %s", diff)
		}
		last = f.last(t)
		var many []store.Decision
		for i := range store.MaxDecisionEvents + 3 {
			many = append(many, exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{"CVE-9"}, nil))
		}
		f.decide(t, many...)
		events := f.events(t, last)
		var omitted store.DecisionEvent
		must(t, json.Unmarshal(events[len(events)-1].Data, &omitted))
		if len(events) != store.MaxDecisionEvents+1 || omitted.Omitted != 3 || omitted.Object != nil {
			t.Errorf("%d events, the last is %+v", len(events), omitted)
		}
	},
	"Events about many decisions count all that were removed, in each namespace": func(t *testing.T, f *fixture) {
		in := func(namespace string, count int) (all []store.Decision) {
			for i := range count {
				d := exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{"CVE-9"}, nil)
				if namespace != "" {
					d.Object.Kind, d.Object.Namespace = "VulnerabilityException", namespace
				}
				all = append(all, d)
			}
			return all
		}
		const most = store.MaxDecisionEvents
		// Those that change come before those that are removed, by object.
		changed := in("a", 2)
		f.decide(t, slices.Concat(changed, in("", 3), in("n", most), in("o", 20))...)
		changed[0].Status, changed[1].Status = model.DecisionNotAffected, model.DecisionNotAffected
		last := f.last(t)
		f.decide(t, slices.Concat(changed, in("p", 1))...)
		for _, c := range []struct {
			of      store.Namespaces
			events  int
			omitted []string
		}{
			{store.AllNamespaces(), most + 4, []string{
				"changed 2 VulnerabilityException a", "changed 1 VulnerabilityException p", "removed 3 VulnerabilityException n", "removed 20 VulnerabilityException o",
			}},
			// Those of the cluster match nothing.
			{store.OnlyNamespaces("a"), 1, []string{"changed 2 VulnerabilityException a"}},
			{store.OnlyNamespaces("n"), most - 3 + 1, []string{"removed 3 VulnerabilityException n"}},
			{store.OnlyNamespaces("o"), 1, []string{"removed 20 VulnerabilityException o"}},
			{store.OnlyNamespaces("p"), 1, []string{"changed 1 VulnerabilityException p"}},
		} {
			events, err := f.EventsSince(t.Context(), c.of, last, store.MaxKeys)
			must(t, err)
			var omitted []string
			for i := range events {
				var data store.DecisionEvent
				must(t, json.Unmarshal(events[i].Data, &data))
				switch {
				case data.Omitted > 0 && data.Object == nil:
					omitted = append(omitted, fmt.Sprint(data.Action, " ", data.Omitted, " ", data.Kind, " ", data.Namespace))
				case data.Action != store.DecisionRemoved || data.Object == nil:
					t.Errorf("of %v: an event of its own has %+v", c.of, data)
				}
			}
			if diff := cmp.Diff(c.omitted, omitted); diff != "" || len(events) != c.events {
				t.Errorf("of %v: %d events, want %d; those of several (-want +got):\n%s", c.of, len(events), c.events, diff)
			}
		}
	},
	"Events about many decisions that expire are bounded": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		var many []store.Decision
		for i := range store.MaxDecisionEvents + 3 {
			d := exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{"CVE-9"}, nil)
			d.ExpiresAt = oldBuild.Built.Add(time.Hour)
			many = append(many, d)
		}
		f.decide(t, many...)
		last := f.last(t)
		f.clock.set(oldBuild.Built.Add(time.Hour))
		_, err := f.ExpireDecisions(t.Context())
		must(t, err)
		events := f.events(t, last)
		var omitted store.DecisionEvent
		must(t, json.Unmarshal(events[len(events)-1].Data, &omitted))
		if len(events) != store.MaxDecisionEvents+1 || events[0].Kind != store.EventDecisionExpired || omitted.Omitted != 3 || omitted.Object != nil || omitted.Action != "" {
			t.Errorf("%d events, the last is %+v", len(events), omitted)
		}
	},
	"Decisions expire": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		end := oldBuild.Built.Add(time.Hour)
		one, past := exception("one", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), exception("past", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil)
		one.ExpiresAt, past.ExpiresAt = end, oldBuild.Built
		last := f.last(t)
		expire := func(at, next time.Time) {
			t.Helper()
			f.clock.set(at)
			got, err := f.ExpireDecisions(t.Context())
			must(t, err)
			if !got.Equal(next) {
				t.Errorf("the next ends at %s, want %s", got, next)
			}
		}
		expect := func(findings []string, events ...string) {
			t.Helper()
			if diff := cmp.Diff(findings, f.decisionsOfImage(t, key)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(events, f.decisionEvents(t, store.AllNamespaces(), last)); diff != "" {
				t.Error(diff)
			}
			last = f.last(t)
		}
		if problems := f.decide(t, one, past); len(problems) != 1 || problems[past.Object].Reason != store.DecisionExpired {
			t.Errorf("problems: %v", problems)
		}
		expect([]string{"-CVE-1 a[one]", "CVE-2 a[]"}, "decision.changed applied one 1 jane")
		expire(end.Add(-time.Microsecond), end)
		expect([]string{"-CVE-1 a[one]", "CVE-2 a[]"})
		expire(end, time.Time{})
		expire(end, time.Time{})
		expect([]string{"CVE-1 a[]", "CVE-2 a[]"}, "decision.expired  one 1 jane")
		// The same again stays ended, also after it was away.
		f.decide(t, one)
		f.decide(t)
		if problems := f.decide(t, one); problems[one.Object].Reason != store.DecisionExpired {
			t.Errorf("problems: %v", problems)
		}
		expect([]string{"CVE-1 a[]", "CVE-2 a[]"})
		one.ExpiresAt = end.Add(time.Hour)
		f.decide(t, one)
		expect([]string{"-CVE-1 a[one]", "CVE-2 a[]"}, "decision.changed applied one 1 jane")
		// An end that is moved into the past ends it, too.
		one.ExpiresAt = end.Add(-time.Minute)
		f.decide(t, one)
		expect([]string{"CVE-1 a[]", "CVE-2 a[]"}, "decision.expired  one 1 jane")
	},
	"Events about many ends that are moved into the past are bounded": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		var many []store.Decision
		for i := range store.MaxDecisionEvents + 3 {
			many = append(many, exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{"CVE-9"}, nil))
		}
		f.decide(t, many...)
		last := f.last(t)
		for i := range many {
			many[i].ExpiresAt = oldBuild.Built
		}
		f.decide(t, many...)
		events := f.events(t, last)
		var omitted store.DecisionEvent
		must(t, json.Unmarshal(events[len(events)-1].Data, &omitted))
		if len(events) != store.MaxDecisionEvents+1 || events[0].Kind != store.EventDecisionExpired || omitted.Omitted != 3 || omitted.Object != nil {
			t.Errorf("%d events, the last is %+v", len(events), omitted)
		}
	},
	"Decisions that cannot apply": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		ids := func(n int) []string { return slices.Repeat([]string{"CVE-1"}, n) }
		var all []store.Decision
		want := map[string]store.DecisionReason{}
		for name, one := range map[string]store.Decision{
			"nothing named": exception("", model.DecisionFixed, nil, nil), "too many": exception("", model.DecisionFixed, ids(store.MaxDecisionVulnerabilities+1), nil),
			"status": exception("", "Ignored", ids(1), nil), "pattern": exception("", model.DecisionFixed, nil, []string{"pkg:deb/a?arch=x"}),
			"ID": exception("", model.DecisionFixed, []string{strings.Repeat("x", 300)}, nil), "empty ID": exception("", model.DecisionFixed, []string{""}, nil),
			"NUL": exception("", model.DecisionFixed, []string{"CVE-1\x00"}, nil),
		} {
			one.Object.Name = name
			all, want[name] = append(all, one), store.DecisionInvalid
		}
		early, late := exception("early", model.DecisionFixed, ids(1), nil), exception("late'; DROP TABLE decisions; --", model.DecisionFixed, ids(1), nil)
		early.ExpiresAt, late.ExpiresAt = time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)
		late.Comment, late.Author = "\x00\xff"+strings.Repeat("é", 5000), strings.Repeat("a", 5000)
		want["early"] = store.DecisionExpired
		got := map[string]store.DecisionReason{}
		for object, problem := range f.decide(t, append(all, early, late)...) {
			if got[object.Name] = problem.Reason; problem.Message == "" {
				t.Errorf("%s has no message", object.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"-CVE-1 a[late'; DROP TABLE decisions; --]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
			t.Error(diff)
		}
		if next, err := f.ExpireDecisions(t.Context()); err != nil || next.IsZero() {
			t.Errorf("the next ends at %s, %v", next, err)
		}
		// What says nothing any more ends.
		late.Status = "Other"
		f.decide(t, late)
		if diff := cmp.Diff([]string{"CVE-1 a[]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
			t.Error(diff)
		}
	},
	"More decisions than apply": func(t *testing.T, f *fixture) {
		all := make([]store.Decision, store.MaxDecisions+1)
		for i := range all {
			all[i] = exception(fmt.Sprint("d", i), model.DecisionFixed, []string{fmt.Sprint("CVE-", i)}, nil)
		}
		for range 2 {
			problems := f.decide(t, all...)
			if len(problems) != 1 || problems[all[store.MaxDecisions].Object].Reason != store.DecisionTooMany {
				t.Fatalf("problems: %v", problems)
			}
		}
		if problems := f.decide(t, all[1:]...); len(problems) > 0 {
			t.Errorf("problems: %v", problems)
		}
		f.decide(t)
	},
	"A package URL from an image has no say": func(t *testing.T, f *fixture) {
		// The scan of the first image says that its package is another one, which is excepted.
		planted, honest := catalogOf("a"), catalogOf("a")
		planted.Packages[0].Package.PURL = "pkg:deb/debian/excepted@1.0"
		first, second := image("i", amd64), image("ii", amd64)
		f.decide(t, exception("d", model.DecisionFixed, nil, []string{"pkg:deb/debian/excepted"}))
		f.catalog(t, first, "1", planted)
		f.match(t, first, "1", decided)
		f.catalog(t, second, "1", honest)
		f.match(t, second, "1", decided)
		for _, key := range []model.ImageKey{first, second} {
			if diff := cmp.Diff([]string{"CVE-1 a[]", "CVE-2 a[]"}, f.decisionsOfImage(t, key)); diff != "" {
				t.Errorf("%s: %s", key, diff)
			}
		}
	},
	"Decisions that end leave no trace": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		for name, held := range map[string][]string{"i": {"a", "b"}, "ii": {"b"}} {
			key := image(name, amd64)
			f.catalog(t, key, "1", catalogOf(held...))
			f.match(t, key, "1", decided)
			must(t, f.RecordUses(t.Context(), name, []store.Use{{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Pod", Name: name}, Container: "c"}}))
		}
		before := f.readIn(t, store.AllNamespaces())
		f.decide(t, exception("d", model.DecisionFixed, []string{"CVE-1"}, nil), exception("e", model.DecisionAcceptedRisk, nil, []string{"pkg:deb/debian/b"}))
		if cmp.Equal(before, f.readIn(t, store.AllNamespaces())) {
			t.Error("the decisions change nothing")
		}
		f.decide(t)
		if diff := cmp.Diff(before, f.readIn(t, store.AllNamespaces())); diff != "" {
			t.Error(diff)
		}
	},
}
