package notify

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// An event that cannot be read is counted once: when a rule is moved behind it, however often that fails before, and not again for the rules that follow later.
func TestUnreadableEventIsCountedOnce(t *testing.T) {
	const opened, nothing, labels = `change.kind == "FindingOpened"`, `false`, `change.kind == "FindingOpened" && workload.namespaceLabels["tier"] == "gold"`
	for name, c := range map[string]struct {
		// when has the expressions of rules a, b and so on.
		when []string
		// skipping, queueing and reading fail at first: of rules that select nothing, of rule a, and of the labels of namespaces.
		skipping, queueing, reading bool
		// before is how many events are counted while something fails.
		before int64
	}{
		"nothing fails": {when: []string{opened, nothing}},
		"rules that select nothing cannot be moved": {when: []string{nothing, nothing}, skipping: true},
		"a rule cannot be moved":                    {when: []string{opened}, queueing: true},
		"another rule is moved":                     {when: []string{opened, opened}, queueing: true, before: 1},
		"a rule that selects nothing is moved":      {when: []string{opened, nothing}, queueing: true, before: 1},
		"rules that select nothing stay":            {when: []string{opened, nothing}, skipping: true, before: 1},
		"a rule cannot be read":                     {when: []string{labels}, reading: true},
		"another rule is read":                      {when: []string{labels, opened}, reading: true, before: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
			failing := true
			fails := func(does bool) error {
				if does && failing {
					return errors.New("disk full")
				}
				return nil
			}
			var first int64
			e, o := f.engine(t, &brokenStore{
				Store: f.Store, events: func(events []store.Event) {
					for i := range events {
						if events[i].Kind == store.EventDatabaseUpdated && (first == 0 || first == events[i].Sequence) {
							first, events[i].Data = events[i].Sequence, []byte(`{"id":[`)
						}
					}
				},
				skip: func(rules []string) error { return fails(c.skipping && len(rules) > 0) }, queue: func(rule string) error { return fails(c.queueing && rule == "uid-a") },
			}, &recorder{})
			e.Labels = func(context.Context) (map[string]map[string]string, error) {
				return map[string]map[string]string{"one": {"tier": "gold"}}, fails(c.reading)
			}
			var rules []*Rule
			for i, when := range c.when {
				rules = append(rules, rule(t, Definition{Name: string(rune('a' + i)), When: when}))
			}
			f.rules(t, e, rules...)
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
			for range 3 {
				_, err := e.collect(t.Context())
				if broken := c.skipping || c.queueing || c.reading; broken != (err != nil) {
					t.Fatalf("got %v", err)
				}
			}
			if broken := c.skipping || c.queueing || c.reading; broken && o.skipped != c.before {
				t.Errorf("%d events are counted while rules cannot be moved, want %d", o.skipped, c.before)
			}
			failing = false
			for range 3 {
				_, err := e.collect(t.Context())
				must(t, err)
			}
			if !f.collected(t) || o.skipped != 1 {
				t.Errorf("at the end of the log: %t, %d events are counted, want 1", f.collected(t), o.skipped)
			}
			if len(e.unreadable) > 0 {
				t.Errorf("%d events are remembered after all rules have passed them", len(e.unreadable))
			}
		})
	}
}

// The process that continues counts an event that cannot be read if no rule was moved behind it before, and only then.
func TestUnreadableEventAfterARestart(t *testing.T) {
	for name, want := range map[string]int64{"moved before": 0, "not moved before": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFixture(t), gomega.NewWithT(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
			var full atomic.Bool
			full.Store(want > 0)
			broken := &brokenStore{
				Store: f.Store, events: func(events []store.Event) {
					for i := range events {
						if events[i].Kind == store.EventDatabaseUpdated {
							events[i].Data = []byte(`{"id":[`)
						}
					}
				},
				skip: func([]string) error {
					if full.Load() {
						return errors.New("disk full")
					}
					return nil
				},
			}
			only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`})
			e, before := f.engine(t, broken, &recorder{})
			stop := f.start(t, e, only)
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
			if want > 0 {
				since := func() time.Time {
					before.mu.Lock()
					defer before.mu.Unlock()
					return before.since
				}
				g.Eventually(since, patience, tick).ShouldNot(gomega.BeZero())
			} else {
				g.Eventually(func() bool { return f.collected(t) }, patience, tick).Should(gomega.BeTrue())
			}
			stop()
			full.Store(false)
			e, after := f.engine(t, broken, &recorder{})
			stop = f.start(t, e, only)
			f.update(t, nil)
			g.Eventually(func() bool { return f.collected(t) }, patience, tick).Should(gomega.BeTrue())
			stop()
			if before.skipped != 1-want || after.skipped != 1+want {
				t.Errorf("%d events are counted before the restart and %d after it, want %d and %d", before.skipped, after.skipped, 1-want, 1+want)
			}
		})
	}
}

// Events that were removed are counted when the rules are moved behind them, once.
func TestRemovedEventsAreCountedOnce(t *testing.T) {
	f := newFixture(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	failing := true
	e, o := f.engine(t, &brokenStore{Store: f.Store, skip: func([]string) error {
		if failing {
			return errors.New("disk full")
		}
		return nil
	}}, &recorder{})
	f.rules(t, e, rule(t, Definition{Name: "r", When: `false`}))
	begun, err := f.LastSequence(t.Context())
	must(t, err)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	f.clock.move(time.Hour)
	must(t, f.CompactEvents(t.Context(), f.clock.Now()))
	log, err := f.EventLog(t.Context())
	must(t, err)
	for range 3 {
		if _, err := e.collect(t.Context()); err == nil || o.skipped > 0 {
			t.Fatalf("%d events are counted, %v", o.skipped, err)
		}
	}
	failing = false
	for range 3 {
		_, err := e.collect(t.Context())
		must(t, err)
	}
	if want := log.Floor - begun; want == 0 || o.skipped != want {
		t.Errorf("%d events are counted, want %d", o.skipped, want)
	}
}
