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

// groupsOf lists "group: findings opened" of messages.
func groupsOf(all []sent) []string {
	groups := []string{}
	for _, one := range all {
		groups = append(groups, fmt.Sprintf("%s: %d", one.message.Group, one.message.Counts[FindingOpened]))
	}
	slices.Sort(groups)
	return groups
}

// A database build that opens 5,000 findings in 300 workloads is one message for each namespace.
func TestDatabaseUpdateIsOneMessagePerGroup(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	var packages []string
	found := findings{}
	for p := range 50 {
		name := fmt.Sprint("package", p)
		packages = append(packages, name)
		for v := range 100 {
			severity := model.SeverityMedium
			if v == 0 {
				severity = model.SeverityCritical
			}
			found[name] = append(found[name], finding(fmt.Sprintf("CVE-2026-%d", 1000*p+v), severity))
		}
	}
	found["package7"][3] = exploited("CVE-2026-KEV")
	for i := range 3 {
		var workloads []store.Workload
		for w := range 100 {
			workloads = append(workloads, workload(fmt.Sprint("team-", w%4), fmt.Sprintf("shop-%d-%d", i, w), "red"))
		}
		f.run(t, image(strings.Repeat("x", i+1)), packages, workloads...)
	}
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "all", When: `change.kind == "FindingOpened"`}), rule(t, Definition{Namespace: "team-1", Name: "own", When: `change.kind == "FindingOpened"`}))
	f.update(t, found)
	g.Eventually(func() []string { return groupsOf(r.all()) }, patience, tick).Should(
		gomega.Equal([]string{"team-0: 5000", "team-1: 5000", "team-1: 5000", "team-2: 5000", "team-3: 5000"}))
	for _, one := range r.all() {
		m := &one.message
		if len(m.Workloads) != 75 || len(m.Worst) != 10 || m.Worst[0].VulnerabilityID != "CVE-2026-KEV" || m.Worst[1].Severity != model.SeverityCritical ||
			m.Worst[0].Images != 3 || m.Severities[FindingOpened].Critical != 50 || m.Link == "" {
			t.Errorf("%s: %d workloads, severities %+v, worst %+v", m.Group, len(m.Workloads), m.Severities, m.Worst)
		}
		for _, w := range m.Workloads {
			if !strings.HasPrefix(w, m.Group+"/") {
				t.Errorf("%s has the workload %s", m.Group, w)
			}
		}
	}
}

// A rule of a namespace learns nothing of others, and a rule that cannot be evaluated stops no other one.
func TestRulesSelect(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p", "q"}, workload("one", "web", "red"), workload("two", "web", "blue"))
	f.run(t, image("bb"), []string{"r"}, workload("two", "job", "red"))
	const list = `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]`
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e,
		rule(t, Definition{Name: "everything", By: ByRule}),
		rule(t, Definition{Name: "owner", By: ByOwner, When: `change.kind == "FindingOpened" && workload.owner == "red"`}),
		rule(t, Definition{Name: "severity", By: ByWorkload, MinSeverity: "High", When: `image.repository.endsWith("/a")`}),
		rule(t, Definition{Namespace: "one", Name: "own", By: ByRule}),
		rule(t, Definition{Namespace: "three", Name: "nothing", By: ByRule}),
		rule(t, Definition{Name: "hostile", When: list + `.all(a, ` + list + `.all(b, ` + list + `.all(c, ` + list + `.all(d, a + b + c + d > 0 || finding.kev))))`}),
	)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityHigh)}, "q": {finding("CVE-2", model.SeverityLow)}, "r": {finding("CVE-3", model.SeverityHigh)}})
	said := func() []string {
		all := []string{}
		for _, one := range r.all() {
			m := &one.message
			all = append(all, fmt.Sprintf("%s [%s] %d opened, %d updates, %s", m.Rule, m.Group, m.Counts[FindingOpened], m.Counts[DatabaseUpdated], strings.Join(m.Workloads, " ")))
		}
		slices.Sort(all)
		return all
	}
	g.Eventually(said, patience, tick).Should(gomega.Equal([]string{
		"everything [] 3 opened, 1 updates, one/Deployment/web two/Deployment/job two/Deployment/web",
		"one/own [] 2 opened, 0 updates, one/Deployment/web",
		"owner [red] 3 opened, 0 updates, one/Deployment/web two/Deployment/job",
		"severity [one/web] 1 opened, 0 updates, one/Deployment/web",
		"severity [two/web] 1 opened, 0 updates, two/Deployment/web",
	}))
	if failure := e.States()["uid-hostile"].Failure; !strings.Contains(failure, "cost limit") {
		t.Errorf("the status of the hostile rule has %q", failure)
	}
}

// What a decision suppresses is not reported.
func TestSuppressedFindingsAreNotReported(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "e"}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionNotAffected, Comment: "why",
	}})
	must(t, err)
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() []string { return groupsOf(r.all()) }, patience, tick).Should(gomega.Equal([]string{"one: 1"}))
	if worst := r.all()[0].message.Worst[0].VulnerabilityID; worst != "CVE-2" {
		t.Errorf("%s is reported", worst)
	}
}

// Changes of a group are collected, and those beyond the messages of an hour are combined.
func TestWindowAndLimit(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	// Early in an hour, so that the test does not reach the next one.
	f.clock.move(time.Until(time.Now().Truncate(time.Hour).Add(61 * time.Minute)))
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""), workload("three", "web", ""))
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Window: 10 * time.Minute, MessagesPerHour: 2}))
	pending := func() int { return e.States()["uid-r"].Queues["sink"].Pending }
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(pending, patience, tick).Should(gomega.Equal(3))
	position := func() int64 {
		cursors, err := f.NotificationCursors(t.Context())
		must(t, err)
		return cursors[0].Sequence
	}
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	last, err := f.LastSequence(t.Context())
	must(t, err)
	g.Eventually(position, patience, tick).Should(gomega.Equal(last))
	if got := r.all(); len(got) > 0 {
		t.Fatalf("%d messages are sent before the window ends", len(got))
	}
	f.clock.move(11 * time.Minute)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(2))
	for _, one := range r.all() {
		if one.message.Counts[FindingOpened] != 2 || one.message.Combined {
			t.Errorf("%+v", one.message)
		}
	}
	f.clock.move(50 * time.Minute)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(3))
	rest := r.all()[2].message
	if !rest.Combined || rest.Group != "" || rest.Counts[FindingOpened] != 2 {
		t.Errorf("the rest is %+v", rest)
	}
}

// A sink that does not accept messages delays no other one, gets each message again with the same key and in order, and loses them after a day.
func TestRetries(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{fail: func(sink *Sink, _ string) error {
		if sink.Name == "broken" {
			return errUnreachable
		}
		return nil
	}}
	e, o := f.engine(t, f.Store, r)
	sinks := []Sink{{Name: "broken", Type: Webhook, URL: "https://broken.example/"}, {Name: "sink", Type: Webhook, URL: "https://receiver.example/"}}
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Sinks: sinks}))
	keys := func(sink string) []string {
		var all []string
		for _, one := range r.all() {
			if one.sink == sink {
				all = append(all, one.key)
			}
		}
		return all
	}
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() int { return len(keys("sink")) }, patience, tick).Should(gomega.Equal(1))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() int { return len(keys("sink")) }, patience, tick).Should(gomega.Equal(2))
	g.Eventually(func() string { return e.States()["uid-r"].Problems["broken"] }, patience, tick).Should(gomega.Equal("unreachable"))
	f.clock.move(time.Hour)
	g.Eventually(func() int { return len(keys("broken")) }, patience, tick).Should(gomega.BeNumerically(">=", 2))
	first := keys("sink")[0]
	for _, key := range keys("broken") {
		if key != first {
			t.Errorf("key %s is sent before %s was accepted", key, first)
		}
	}
	f.clock.move(25 * time.Hour)
	g.Eventually(func() int64 { return e.States()["uid-r"].Queues["broken"].Dropped }, patience, tick).Should(gomega.Equal(int64(2)))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.results["webhook "+Dropped] != 2 || o.results["webhook "+Delivered] != 2 {
		t.Errorf("observed %v", o.results)
	}
}

// A message that its receiver refuses does not keep the next ones waiting.
func TestRefusedMessagesAreDropped(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	refuse := true
	r := &recorder{fail: func(*Sink, string) error {
		if refuse {
			refuse = false
			return fmt.Errorf("%w with status 400", ErrRefused)
		}
		return nil
	}}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, rule(t, Definition{Name: "r", By: ByWorkload, When: `change.kind == "FindingOpened"`}))
	queue := func() store.NotificationQueue { return e.States()["uid-r"].Queues["sink"] }
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() int64 { return queue().Dropped }, patience, tick).Should(gomega.Equal(int64(1)))
	f.update(t, nil)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() int64 { return queue().Delivered }, patience, tick).Should(gomega.Equal(int64(1)))
}

// Events that are removed before rules have read them are counted, and the rules go on behind them.
func TestRemovedEventsAreSkipped(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`})
	r := &recorder{}
	e, o := f.engine(t, f.Store, r)
	f.rules(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	must(t, f.CompactEvents(t.Context(), time.Now().Add(time.Hour)))
	f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() []string { return groupsOf(r.all()) }, patience, tick).Should(gomega.Equal([]string{"one: 1"}))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.skipped == 0 {
		t.Error("no event is counted as skipped")
	}
}
