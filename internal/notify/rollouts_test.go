package notify

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What decisions suppress after a rollout was evaluated is left out of a message that is not sent yet, and a rollout that a rule does not select any more.
func TestSuppressedInRollouts(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	from, to := image("a"), image("bb")
	f.run(t, from, []string{"p"})
	f.run(t, to, []string{"q"})
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	const evaluated = `change.kind == "RolloutEvaluated"`
	f.start(t, e, rule(t, Definition{Name: "all", When: evaluated, Window: time.Hour}), rule(t, Definition{Name: "severe", When: evaluated, MinSeverity: "High", Window: time.Hour}),
		rule(t, Definition{Name: "critical", When: evaluated + ` && change.severity == "Critical"`, Window: time.Hour}))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh), finding("CVE-3", model.SeverityCritical)}})
	for _, key := range []model.ImageKey{from, to} {
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: workload("one", "web", ""), Container: "c"}}))
	}
	if taken, err := f.EvaluateRollouts(t.Context(), time.Time{}, store.MaxEvaluated); err != nil || taken != 1 {
		t.Fatalf("%d rollouts were evaluated: %v", taken, err)
	}
	pending := func() int {
		n := 0
		for _, name := range []string{"all", "severe", "critical"} {
			n += e.States()["uid-"+name].Queues["sink"].Pending
		}
		return n
	}
	g.Eventually(pending, patience, tick).Should(gomega.Equal(3))
	// A later build changes a severity, and finds another vulnerability.
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityMedium), finding("CVE-3", model.SeverityCritical), finding("CVE-4", model.SeverityHigh)}})
	f.suppress(t, map[string][]string{"one": {"CVE-3", "CVE-1"}})
	f.clock.move(time.Hour)
	g.Eventually(pending, patience, tick).Should(gomega.Equal(0))
	got := map[string]Message{}
	for _, one := range r.all() {
		got[one.message.Rule] = one.message
	}
	if len(got) != 2 {
		t.Errorf("sent are %+v", got)
	}
	for _, name := range []string{"all", "severe"} {
		m := got[name]
		const text = "rollout of Deployment one/web, container c: opens 2 findings (0 Critical, 1 High), closes 0"
		if len(m.Others) != 1 || m.Others[0].Text != text || m.Others[0].Rollout != nil || m.Severities[RolloutEvaluated] != (model.SeverityCounts{High: 1, Medium: 1}) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
