package notify

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What became of a message is told once, with its problem, also if that could not be written when it was known.
func TestResultOfAMessageThatEndsLate(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		// until is how long the sink fails before the answer is the last one.
		until   time.Duration
		results map[string]int
		problem string
	}{
		"accepted":                   {results: map[string]int{"webhook delivered": 1}},
		"not accepted for everybody": {answer: &PartialError{"one is gone"}, results: map[string]int{"webhook delivered": 1}, problem: "one is gone"},
		"refused":                    {answer: ErrRefused, results: map[string]int{"webhook dropped": 1}, problem: ErrRefused.Error()},
		"given up":                   {answer: errUnreachable, until: giveUp, results: map[string]int{"webhook failed": 1, "webhook dropped": 1}, problem: errUnreachable.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFixture(t), gomega.NewWithT(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
			var full atomic.Bool
			full.Store(true)
			r := &recorder{fail: func(*Sink, string) error { return c.answer }}
			e, o := f.engine(t, &brokenStore{Store: f.Store, end: func() error {
				if full.Load() {
					return errors.New("disk full")
				}
				return nil
			}}, r)
			problem := func() string { return e.States()["uid-r"].Problems["sink"] }
			results := func() map[string]int {
				o.mu.Lock()
				defer o.mu.Unlock()
				return maps.Clone(o.results)
			}
			f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}))
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
			attempts := 1
			if c.until > 0 {
				g.Eventually(problem, patience, tick).Should(gomega.Equal(c.problem))
				f.clock.move(c.until)
				attempts++
			}
			g.Eventually(problem, patience, tick).Should(gomega.ContainSubstring("database"))
			if before := results(); before["webhook delivered"]+before["webhook dropped"] > 0 {
				t.Errorf("before the end is written: %v", before)
			}
			full.Store(false)
			f.clock.move(retryMost)
			g.Eventually(results, patience, tick).Should(gomega.Equal(c.results))
			if got := problem(); got != c.problem {
				t.Errorf("the problem of the sink is %q, want %q", got, c.problem)
			}
			if got := r.all(); len(got) != attempts {
				t.Errorf("%d attempts, want %d", len(got), attempts)
			}
		})
	}
}

// laneNames are the sinks of which an engine knows more than their queue, as "RULE SINK".
func (e *Engine) laneNames() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := map[string]bool{}
	for name := range e.lanes {
		names[name.rule+" "+name.sink] = true
	}
	return names
}

// A sink that is removed leaves nothing behind, whether its rule stays or is deleted: one that gets its name later is not delayed by what failed before.
func TestRemovedSinksLeaveNothing(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	var fixed atomic.Bool
	r := &recorder{fail: func(sink *Sink, _ string) error {
		if fixed.Load() || sink.Name == "works" {
			return nil
		}
		return errUnreachable
	}}
	e, _ := f.engine(t, f.Store, r)
	with := func(name string, sinks ...string) *Rule {
		d := Definition{Name: name, When: `change.kind == "FindingOpened"`}
		for _, sink := range sinks {
			d.Sinks = append(d.Sinks, Sink{Name: sink, Type: Webhook, URL: "https://receiver.example/"})
		}
		return rule(t, d)
	}
	f.start(t, e, with("stays", "works", "broken"), with("goes", "broken"))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	problems := func() string {
		states := e.States()
		return states["uid-stays"].Problems["broken"] + " " + states["uid-goes"].Problems["broken"]
	}
	g.Eventually(problems, patience, tick).Should(gomega.Equal("unreachable unreachable"))
	g.Eventually(func() int64 { return e.States()["uid-stays"].Queues["works"].Delivered }, patience, tick).Should(gomega.Equal(int64(1)))
	idle := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.occupied() == 0
	}
	// The next pauses are of ten minutes. Each begins when the attempt before it has ended.
	for failures := 2; failures <= 9; failures++ {
		g.Eventually(idle, patience, tick).Should(gomega.BeTrue())
		f.clock.move(retryMost)
		e.nudge()
		g.Eventually(func() int { return countOf(r.all(), "broken") }, patience, tick).Should(gomega.BeNumerically(">=", 2*failures))
	}
	g.Eventually(idle, patience, tick).Should(gomega.BeTrue())
	f.rules(t, e, with("stays", "works"))
	if diff := cmp.Diff(map[string]bool{"uid-stays works": true}, e.laneNames()); diff != "" {
		t.Errorf("what is known of sinks (-want +got):\n%s", diff)
	}
	if got := strings.TrimSpace(problems()); got != "" {
		t.Errorf("removed sinks have the problem %q", got)
	}
	queues, err := f.NotificationQueues(t.Context())
	must(t, err)
	if len(queues) != 1 || queues[0].Sink != "works" {
		t.Errorf("the queues are %+v", queues)
	}
	fixed.Store(true)
	f.rules(t, e, with("stays", "works", "broken"))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() int64 { return e.States()["uid-stays"].Queues["broken"].Delivered }, patience, tick).Should(gomega.Equal(int64(1)))
}

// countOf is the number of attempts at a sink.
func countOf(all []sent, sink string) (n int) {
	for _, one := range all {
		if one.sink == sink {
			n++
		}
	}
	return n
}

// A rule that is not in effect for a while, because a change made it invalid, keeps what is known of its sinks: a message that was accepted is not sent again.
func TestAcceptedMessageOfARuleThatIsNotInEffect(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	var full atomic.Bool
	full.Store(true)
	r := &recorder{}
	e, o := f.engine(t, &brokenStore{Store: f.Store, end: func() error {
		if full.Load() {
			return errors.New("disk full")
		}
		return nil
	}}, r)
	only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`})
	f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() string { return e.States()["uid-r"].Problems["sink"] }, patience, tick).Should(gomega.ContainSubstring("database"))
	known := []store.NotificationRule{{UID: only.UID, Sinks: only.sinkNames()}}
	must(t, e.SetRules(t.Context(), nil, known))
	full.Store(false)
	f.clock.move(retryMost)
	must(t, e.SetRules(t.Context(), []*Rule{only}, known))
	g.Eventually(func() int64 { return e.States()["uid-r"].Queues["sink"].Delivered }, patience, tick).Should(gomega.Equal(int64(1)))
	if got := r.all(); len(got) != 1 {
		t.Errorf("the message was sent %d times", len(got))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.results["webhook delivered"] != 1 {
		t.Errorf("told is %v", o.results)
	}
}

// A sink that is removed while a message is sent to it takes its place until the attempt ends: a sink with its name gets no second one beside it.
func TestSinkThatIsRemovedWhileItIsBusy(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	var sending, most atomic.Int32
	entered, release := make(chan struct{}, 10), make(chan struct{})
	e, _ := f.engine(t, f.Store, senderFunc(func(ctx context.Context, _ *Sink) error {
		if n := sending.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer sending.Add(-1)
		entered <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return errUnreachable
	}))
	d := Definition{Namespace: "one", Name: "r", When: `change.kind == "FindingOpened"`, Sinks: []Sink{
		{Name: "slow", Type: Webhook, URL: "https://receiver.example/"}, {Name: "other", Type: Webhook, URL: "https://receiver.example/"},
	}}
	both := rule(t, d)
	d.Sinks = d.Sinks[1:]
	without := rule(t, d)
	f.start(t, e, both)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	<-entered
	<-entered
	f.rules(t, e, without)
	f.rules(t, e, both)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() bool { return f.collected(t) && e.States()["uid-oner"].Queues["slow"].Pending == 1 }, patience, tick).Should(gomega.BeTrue())
	must(t, e.dispatch(t.Context()))
	if n := most.Load(); n != 2 {
		t.Errorf("%d messages were sent at the same time, want one to each sink", n)
	}
	f.rules(t, e, without)
	close(release)
	share := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.sending["one"]
	}
	g.Eventually(share, patience, tick).Should(gomega.BeZero())
}
