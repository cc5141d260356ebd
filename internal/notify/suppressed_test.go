package notify

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// suppress makes exceptions in effect: vulnerabilities by the namespace in which they are suppressed, "" for everywhere.
func (f *fixture) suppress(t *testing.T, places map[string][]string) {
	t.Helper()
	var decisions []store.Decision
	for namespace, ids := range places {
		d := store.Decision{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "e" + namespace}, Vulnerabilities: ids, Status: model.DecisionNotAffected, Comment: "why",
		}
		if namespace != "" {
			d.Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
		}
		decisions = append(decisions, d)
	}
	_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions)
	must(t, err)
}

// received lists "group: counted, and named" of messages.
func (r *recorder) received() []string {
	var all []string
	for _, one := range r.all() {
		m := &one.message
		all = append(all, fmt.Sprintf("%s: %d, %d Critical: %s", m.Group, m.Counts[FindingOpened], m.Severities[FindingOpened].Critical, vulnerabilities(m)))
	}
	slices.Sort(all)
	return all
}

// What a decision suppresses where the rule sees it is not reported, whether the decision is there before a change is collected or comes while the message
// waits. A message without anything else is not sent.
func TestSuppressedBeforeDelivery(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
	f.run(t, image("bb"), []string{"q"}, workload("three", "web", ""))
	f.suppress(t, map[string][]string{"one": {"CVE-1"}})
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Window: time.Hour}))
	many := []model.PackageFinding{finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityCritical), finding("CVE-3", model.SeverityLow)}
	f.update(t, findings{"p": many, "q": {finding("CVE-2", model.SeverityCritical)}})
	waiting := func() int { return e.States()["uid-r"].Queues["sink"].Pending }
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(3))
	f.suppress(t, map[string][]string{"": {"CVE-2"}, "one": {"CVE-1"}})
	f.clock.move(time.Hour)
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(0))
	g.Expect(r.received()).To(gomega.Equal([]string{"one: 1, 0 Critical: CVE-3", "two: 2, 1 Critical: CVE-1 CVE-3"}))
	if q := e.States()["uid-r"].Queues["sink"]; q.Delivered != 2 || q.Dropped != 0 {
		t.Errorf("%d messages were delivered and %d dropped", q.Delivered, q.Dropped)
	}
	for _, one := range r.all() {
		if one.message.Changes != nil || one.message.Worst[0].Change != 0 {
			t.Errorf("the receiver gets %+v", one.message)
		}
	}
}

// A message of a group with more workloads than it lists concerns no workload of another group.
func TestSuppressedForManyWorkloads(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	workloads := []store.Workload{workload("two", "web", "")}
	for i := range maxWorkloads + 1 {
		workloads = append(workloads, workload("one", fmt.Sprintf("web-%04d", i), ""))
	}
	f.run(t, image("a"), []string{"p"}, workloads...)
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Window: time.Hour}))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}})
	waiting := func() int { return e.States()["uid-r"].Queues["sink"].Pending }
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(2))
	f.suppress(t, map[string][]string{"one": {"CVE-1"}})
	f.clock.move(time.Hour)
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(0))
	g.Expect(r.received()).To(gomega.Equal([]string{"one: 1, 0 Critical: CVE-2", "two: 2, 1 Critical: CVE-1 CVE-2"}))
}

// Without their names, the workloads of a message are those of its group, and of all groups if several were combined.
func TestConcernedWorkloads(t *testing.T) {
	listed := []string{"shop/Deployment/web"}
	for name, c := range map[string]struct {
		message                             Message
		d                                   Definition
		listed, sameGroup, other, elsewhere bool
	}{
		"all are listed":  {Message{Group: "shop", Workloads: listed}, Definition{}, true, false, false, false},
		"a namespace":     {Message{Group: "shop", Workloads: listed, More: true}, Definition{}, true, true, true, false},
		"an owner":        {Message{Group: "team", Workloads: listed, More: true}, Definition{By: ByOwner}, true, true, false, true},
		"no owner":        {Message{Group: "workloads without an owner", Workloads: listed, More: true}, Definition{By: ByOwner}, true, false, true, false},
		"a rule":          {Message{Workloads: listed, More: true}, Definition{By: ByRule}, true, true, true, true},
		"several groups":  {Message{Combined: true, Workloads: listed, More: true}, Definition{}, true, true, true, true},
		"of a namespace":  {Message{Workloads: listed, More: true}, Definition{Namespace: "shop", By: ByRule}, true, true, true, false},
		"of another rule": {Message{Workloads: listed, More: true}, Definition{Namespace: "cart", By: ByRule}, false, false, false, true},
	} {
		concerned := c.message.concerned(rule(t, c.d))
		var got []bool
		for _, w := range []store.Workload{workload("shop", "web", "team"), workload("shop", "job", "team"), workload("shop", "cron", ""), workload("cart", "web", "team")} {
			got = append(got, concerned(&w))
		}
		if want := []bool{c.listed, c.sameGroup, c.other, c.elsewhere}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A message that was tried keeps its content: its receiver may have it already.
func TestSuppressedAfterAnAttempt(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	tries := 0
	r := &recorder{fail: func(*Sink, string) error {
		if tries++; tries == 1 {
			return errors.New("unreachable")
		}
		return nil
	}}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(1))
	f.suppress(t, map[string][]string{"": {"CVE-1"}})
	f.clock.move(retryMost)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(2))
	if got := r.all(); asJSON(t, got[0].message) != asJSON(t, got[1].message) || got[0].key != got[1].key {
		t.Errorf("the second attempt differs: %v", r.received())
	}
}

// When the worst findings are suppressed, the next ones are named.
func TestNextFindingsAreNamed(t *testing.T) {
	m := &Message{}
	var gone []int64
	for i := range int64(30) {
		severity := model.SeverityLow
		if i < 12 {
			severity = model.SeverityCritical
			gone = append(gone, i+1)
		}
		m.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: fmt.Sprintf("CVE-%02d", i), Severity: severity, Change: i + 1}, noon)
	}
	content, err := m.encode()
	must(t, err)
	m, err = decode(content)
	must(t, err)
	if m.leaveOut(gone); m.Counts[FindingOpened] != 18 || m.Severities[FindingOpened] != (model.SeverityCounts{Low: 18}) {
		t.Errorf("left are %v, %v", m.Counts, m.Severities)
	}
	if sent := m.forReceivers(); len(sent.Worst) != maxWorst || sent.Worst[0].VulnerabilityID != "CVE-12" {
		t.Errorf("named are %+v", sent.Worst)
	}
	if m.leaveOut(m.changeIDs()); len(m.Counts) > 0 {
		t.Errorf("left are %v", m.Counts)
	}
}

// A message that counts more changes than it can leave out keeps those beyond the bound.
func TestTrackedChangesAreBounded(t *testing.T) {
	m, all := &Message{}, &Message{}
	for i := range int64(maxTracked + 5) {
		m.addFinding(Finding{Kind: FindingOpened, Severity: model.SeverityLow, Change: i + 1}, noon)
	}
	for range 2 {
		all.merge(m)
	}
	if got := len(all.changeIDs()); got != maxTracked || all.tracked != maxTracked || all.Counts[FindingOpened] != 2*(maxTracked+5) {
		t.Errorf("%d changes are noted of %d", got, all.Counts[FindingOpened])
	}
}
