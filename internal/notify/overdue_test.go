package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A rule of a namespace is told of what is overdue for those who see this namespace only, a rule of the cluster once of each image.
func TestOverdueFindings(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	one := 1
	policy := store.Policy{Name: "p", Select: `workload.namespace == "one"`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one}}
	_, err := f.SyncPolicies(t.Context(), []store.Policy{policy})
	must(t, err)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityCritical)}})
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	const overdue = `change.kind == "FindingOverdue"`
	f.start(t, e, rule(t, Definition{Name: "all", When: overdue}), rule(t, Definition{Namespace: "one", Name: "own", When: overdue}),
		rule(t, Definition{Namespace: "two", Name: "own", When: overdue}), rule(t, Definition{Namespace: "one", Name: "low", When: overdue + ` && change.severity == "Low"`}))
	f.clock.move(25 * time.Hour)
	_, err = f.RecordOverdue(t.Context())
	must(t, err)
	said := func() []string {
		all := []string{}
		for _, one := range r.all() {
			m := &one.message
			all = append(all, fmt.Sprintf("%s [%s] %d critical: %s", m.Rule, m.Group, m.Severities[FindingOverdue].Critical, strings.SplitN(m.Others[0].Text, "@", 2)[0]))
		}
		slices.Sort(all)
		return all
	}
	const text = "2 findings are overdue in registry.example/a"
	g.Eventually(said, patience, tick).Should(gomega.Equal([]string{"all [one] 2 critical: " + text, "all [two] 2 critical: " + text, "one/own [one] 2 critical: " + text}))
}

// An image is left out of a message when a rule does not select what is left of its findings.
func TestOverdueFindingsThatARuleNoLongerSelects(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	one := 1
	_, err := f.SyncPolicies(t.Context(), []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, Low: &one}}})
	must(t, err)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}})
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	const overdue = `change.kind == "FindingOverdue"`
	names := []string{"all", "expression", "severe"}
	f.start(t, e, rule(t, Definition{Name: "all", When: overdue, Window: time.Hour}), rule(t, Definition{Name: "severe", When: overdue, MinSeverity: "High", Window: time.Hour}),
		rule(t, Definition{Name: "expression", When: overdue + ` && change.severity == "Critical"`, Window: time.Hour}))
	f.clock.move(25 * time.Hour)
	_, err = f.RecordOverdue(t.Context())
	must(t, err)
	waiting := func() (counts []int) {
		for _, name := range names {
			counts = append(counts, e.States()["uid-"+name].Queues["sink"].Pending)
		}
		return counts
	}
	g.Eventually(waiting, patience, tick).Should(gomega.Equal([]int{1, 1, 1}))
	f.suppress(t, map[string][]string{"": {"CVE-1"}})
	f.clock.move(time.Hour)
	g.Eventually(waiting, patience, tick).Should(gomega.Equal([]int{0, 0, 0}))
	if got := r.all(); len(got) != 1 || got[0].message.Rule != "all" || got[0].message.Severities[FindingOverdue] != (model.SeverityCounts{Low: 1}) {
		t.Errorf("sent are %+v", got)
	}
}

// What is suppressed, or not overdue any more, when a digest is sent is left out of it.
func TestOverdueFindingsThatAreSuppressed(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	one := 1
	_, err := f.SyncPolicies(t.Context(), []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one}}})
	must(t, err)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	f.run(t, image("bb"), []string{"q"}, workload("one", "job", ""))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityCritical)}, "q": {finding("CVE-2", model.SeverityCritical)}})
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Namespace: "one", Name: "r", When: `change.kind == "FindingOverdue"`, Window: time.Hour}))
	f.clock.move(25 * time.Hour)
	_, err = f.RecordOverdue(t.Context())
	must(t, err)
	g.Eventually(func() int { return e.States()["uid-oner"].Queues["sink"].Pending }, patience, tick).Should(gomega.Equal(1))
	f.suppress(t, map[string][]string{"one": {"CVE-2"}})
	f.clock.move(time.Hour)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(1))
	m := r.all()[0].message
	if len(m.Others) != 1 || !strings.HasPrefix(m.Others[0].Text, "1 finding is overdue in registry.example/a@") || m.Others[0].Overdue != nil ||
		m.Counts[FindingOverdue] != 1 || m.Severities[FindingOverdue] != (model.SeverityCounts{Critical: 1}) {
		t.Errorf("the message is %s", asJSON(t, m))
	}
}

// Only findings of which a message is are counted again: what was overdue before, and was reported then, does not take the place of what is suppressed.
func TestSuppressedAmongOverdueFindings(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	one := 1
	_, err := f.SyncPolicies(t.Context(), []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one}}})
	must(t, err)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	opened := findings{}
	overdue := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			opened["p"] = append(opened["p"], finding(id, model.SeverityCritical))
		}
		f.update(t, opened)
		f.clock.move(25 * time.Hour)
		_, err := f.RecordOverdue(t.Context())
		must(t, err)
	}
	overdue("CVE-1", "CVE-2")
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	// They begin after the first event.
	f.start(t, e, rule(t, Definition{Name: "cluster", When: `change.kind == "FindingOverdue"`, Window: time.Hour}),
		rule(t, Definition{Namespace: "one", Name: "own", When: `change.kind == "FindingOverdue"`, Window: time.Hour}))
	waiting := func() int {
		return e.States()["uid-cluster"].Queues["sink"].Pending + e.States()["uid-oneown"].Queues["sink"].Pending
	}
	overdue("CVE-3", "CVE-4")
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(2))
	f.suppress(t, map[string][]string{"": {"CVE-3", "CVE-4"}})
	f.clock.move(time.Hour)
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(0))
	if got := r.all(); len(got) != 0 {
		t.Fatalf("findings that others reported are sent: %+v", got)
	}
	overdue("CVE-5", "CVE-6")
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(2))
	f.suppress(t, map[string][]string{"": {"CVE-3", "CVE-4", "CVE-5"}})
	f.clock.move(time.Hour)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(2))
	for _, one := range r.all() {
		if one.message.Severities[FindingOverdue] != (model.SeverityCounts{Critical: 1}) {
			t.Errorf("%s has %+v", one.message.Rule, one.message.Severities)
		}
	}
}

// What is left of the entries of an image is together not more than what is overdue in it, with keys and without.
func TestEntriesOfAnImage(t *testing.T) {
	const critical, high = model.SeverityCritical, model.SeverityHigh
	entry := func(findings int, keys ...uint64) *store.OverdueImage {
		return &store.OverdueImage{ImageID: "i", Platform: "linux/amd64", Findings: model.SeverityCounts{High: findings}, Keys: keys}
	}
	for name, c := range map[string]struct {
		still   []store.OverdueFinding
		entries []*store.OverdueImage
		want    []string
	}{
		"all":                      {[]store.OverdueFinding{{Key: 1, Severity: high}, {Key: 2, Severity: high}}, []*store.OverdueImage{entry(1, 1), entry(1, 2)}, []string{"0+1", "0+1"}},
		"one of them":              {[]store.OverdueFinding{{Key: 2, Severity: high}}, []*store.OverdueImage{entry(1, 1), entry(1, 2)}, []string{"0+1"}},
		"another one":              {[]store.OverdueFinding{{Key: 3, Severity: high}}, []*store.OverdueImage{entry(1, 1), entry(1, 2)}, nil},
		"none":                     {nil, []*store.OverdueImage{entry(1, 1), entry(1)}, nil},
		"a severity that changed":  {[]store.OverdueFinding{{Key: 1, Severity: critical}}, []*store.OverdueImage{entry(2, 1, 2)}, []string{"1+0"}},
		"without keys":             {[]store.OverdueFinding{{Key: 1, Severity: high}}, []*store.OverdueImage{entry(2), entry(1)}, []string{"0+1"}},
		"without keys before keys": {[]store.OverdueFinding{{Key: 1, Severity: high}, {Key: 2, Severity: high}}, []*store.OverdueImage{entry(2), entry(1, 2)}, []string{"0+1", "0+1"}},
	} {
		m := &Message{}
		for _, one := range c.entries {
			m.addOther(Other{Kind: FindingOverdue, Overdue: one}, one.Findings, noon)
		}
		content, err := m.encode()
		must(t, err)
		m, err = decode(content)
		must(t, err)
		m.keepOverdue(rule(t, Definition{}), map[model.ImageKey][]store.OverdueFinding{keyOf(entry(0)): c.still})
		var got []string
		var sum model.SeverityCounts
		for _, o := range m.Others {
			got = append(got, fmt.Sprintf("%d+%d", o.Overdue.Findings.Critical, o.Overdue.Findings.High))
			sum = sum.Plus(o.Overdue.Findings)
		}
		if !slices.Equal(got, c.want) || m.Severities[FindingOverdue] != sum || m.Counts[FindingOverdue] != len(c.want) {
			t.Errorf("%s: %v, want %v: %+v", name, got, c.want, m)
		}
	}
}

// A message that has the keys of many findings keeps no more of them.
func TestKeysOfOverdueFindingsAreBounded(t *testing.T) {
	keys := make(store.FindingKeys, store.MaxFindingKeys)
	for i := range uint64(store.MaxFindingKeys) {
		keys[i] = i
	}
	m := &Message{}
	image := store.OverdueImage{ImageID: "i", Platform: "linux/amd64", Findings: model.SeverityCounts{Low: len(keys)}, Keys: keys}
	for range maxKept + 1 {
		m.addOther(Other{Kind: FindingOverdue, Overdue: &image}, image.Findings, noon)
	}
	content, err := m.encode()
	must(t, err)
	m, err = decode(content)
	must(t, err)
	known := 0
	for _, o := range m.Others {
		known += len(o.Overdue.Keys)
	}
	if known != maxTracked || m.tracked != maxTracked || len(m.Others) != maxKept || len(image.Keys) == 0 {
		t.Errorf("%d keys of %d images are kept, %d are counted", known, len(m.Others), m.tracked)
	}
}
