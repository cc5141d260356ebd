package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// collected is whether the rules of an engine are at the end of the event log.
func (f *fixture) collected(t *testing.T) bool {
	t.Helper()
	last, err := f.LastSequence(t.Context())
	must(t, err)
	cursors, err := f.NotificationCursors(t.Context())
	must(t, err)
	return !slices.ContainsFunc(cursors, func(c store.NotificationCursor) bool { return c.Sequence != last })
}

// After a database was restored, other events have the numbers of events that were sent before. Their messages are not taken for those.
func TestKeysAfterARestore(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`})
	f.rules(t, e, only)
	before, err := f.NotificationCursors(t.Context())
	must(t, err)
	stop := f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(1))
	g.Eventually(func() bool { return f.collected(t) }, patience, tick).Should(gomega.BeTrue())
	stop()
	now, err := f.NotificationCursors(t.Context())
	must(t, err)
	must(t, f.SkipNotifications(t.Context(), []string{only.UID}, now[0].Sequence, before[0].Sequence))
	e, _ = f.engine(t, f.Store, r)
	f.start(t, e, only)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(2))
	if all := r.all(); all[0].key == all[1].key {
		t.Errorf("two messages have the key %s", all[0].key)
	}
}

// A message that began under another schedule, or while the clock was ahead, waits no longer than the rule says now. What is added to it does not wait either.
func TestMessagesThatBeganWithALaterTime(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Definition
		ahead         time.Duration
		add           bool
	}{
		"a digest that was removed":     {before: Definition{Schedule: "0 0 1 1 *"}},
		"more is added":                 {before: Definition{Schedule: "0 0 1 1 *"}, add: true},
		"a digest that comes earlier":   {before: Definition{Schedule: "0 0 1 1 *"}, after: Definition{Schedule: "* * * * *"}},
		"a window that became shorter":  {before: Definition{Window: time.Hour}},
		"a clock that was a year ahead": {before: Definition{Window: time.Minute}, after: Definition{Window: time.Minute}, ahead: 365 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := newFixture(t), gomega.NewWithT(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
			r := &recorder{}
			e, _ := f.engine(t, f.Store, r)
			c.before.Name, c.before.When = "r", `change.kind == "FindingOpened"`
			c.after.Name, c.after.When = c.before.Name, c.before.When
			f.clock.move(c.ahead)
			stop := f.start(t, e, rule(t, c.before))
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
			g.Eventually(func() bool { return f.collected(t) && e.States()["uid-r"].Queues["sink"].Pending == 1 }, patience, tick).Should(gomega.BeTrue())
			f.clock.move(-c.ahead)
			want := 1
			if c.add {
				// Without the look at all messages.
				stop()
				e, _ = f.engine(t, f.Store, r)
				f.rules(t, e, rule(t, c.after))
				f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
				for more := true; more || !f.collected(t); {
					var err error
					more, err = e.collect(t.Context())
					must(t, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				must(t, e.dispatch(ctx))
				e.running.Wait()
				want = 2
			} else {
				f.rules(t, e, rule(t, c.after))
				// The look at all messages is repeated, for clocks.
				g.Eventually(func() bool {
					queues, err := f.NotificationQueues(t.Context())
					must(t, err)
					if len(queues) == 1 && queues[0].Pending == 1 && queues[0].NextReady.Sub(f.clock.Now()) > 2*time.Minute {
						return false
					}
					return true
				}, patience, tick).Should(gomega.BeTrue())
				f.clock.move(2 * time.Minute)
			}
			g.Eventually(func() []string { return groupsOf(r.all()) }, patience, tick).Should(gomega.Equal([]string{fmt.Sprint("one: ", want)}))
		})
	}
}

// brokenStore fails as its functions say.
type brokenStore struct {
	Store
	end    func() error
	events func([]store.Event)
	skip   func(rules []string) error
	queue  func(rule string) error
}

func (b *brokenStore) SkipNotifications(ctx context.Context, rules []string, from, to int64) error {
	if b.skip != nil {
		if err := b.skip(rules); err != nil {
			return err
		}
	}
	return b.Store.SkipNotifications(ctx, rules, from, to)
}

func (b *brokenStore) QueueNotifications(ctx context.Context, from, to store.NotificationCursor, messages []store.NotificationMessage) (bool, error) {
	if b.queue != nil {
		if err := b.queue(from.Rule); err != nil {
			return false, err
		}
	}
	return b.Store.QueueNotifications(ctx, from, to, messages)
}

func (b *brokenStore) EndNotification(ctx context.Context, message *store.NotificationMessage, delivered time.Time) error {
	if b.end != nil {
		if err := b.end(); err != nil {
			return err
		}
	}
	return b.Store.EndNotification(ctx, message, delivered)
}

func (b *brokenStore) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	events, err := b.Store.EventsSince(ctx, in, since, limit)
	if b.events != nil {
		b.events(events)
	}
	return events, err
}

// A message is not sent again because the store cannot be written; when it can be, the next one follows.
func TestAcceptedMessageThatCannotBeEnded(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	var failing atomic.Bool
	var tries atomic.Int32
	failing.Store(true)
	r := &recorder{}
	e, _ := f.engine(t, &brokenStore{Store: f.Store, end: func() error {
		if tries.Add(1); failing.Load() {
			return errors.New("disk full")
		}
		return nil
	}}, r)
	f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() string { return e.States()["uid-r"].Problems["sink"] }, patience, tick).Should(gomega.ContainSubstring("database"))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	for try := range int32(4) {
		f.clock.move(time.Hour)
		g.Eventually(tries.Load, patience, tick).Should(gomega.BeNumerically(">=", try+2))
	}
	if got := r.all(); len(got) != 1 {
		t.Fatalf("%d messages were sent while the end of the first one could not be written", len(got))
	}
	failing.Store(false)
	f.clock.move(time.Hour)
	g.Eventually(func() int64 { return e.States()["uid-r"].Queues["sink"].Delivered }, patience, tick).Should(gomega.Equal(int64(2)))
	if got := r.all(); len(got) != 2 || got[0].key == got[1].key {
		t.Errorf("sent are %d messages", len(got))
	}
	g.Eventually(func() string { return e.States()["uid-r"].Problems["sink"] }, patience, tick).Should(gomega.BeEmpty())
}

// A message that waited for long before its first attempt is tried again for a day, too.
func TestLateFirstAttempt(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{}
	r.fail = func(*Sink, string) error {
		if len(r.got) == 1 {
			return errUnreachable
		}
		return nil
	}
	only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Window: time.Minute})
	e, _ := f.engine(t, f.Store, r)
	stop := f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(func() int { return e.States()["uid-r"].Queues["sink"].Pending }, patience, tick).Should(gomega.Equal(1))
	stop()
	f.clock.move(30 * time.Hour)
	e, _ = f.engine(t, f.Store, r)
	f.start(t, e, only)
	g.Eventually(func() string { return e.States()["uid-r"].Problems["sink"] }, patience, tick).Should(gomega.Equal("unreachable"))
	f.clock.move(time.Hour)
	g.Eventually(func() int64 { return e.States()["uid-r"].Queues["sink"].Delivered }, patience, tick).Should(gomega.Equal(int64(1)))
}

// An event that cannot be read is left out and counted.
func TestUnreadableEvents(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{}
	var first int64
	e, o := f.engine(t, &brokenStore{Store: f.Store, events: func(events []store.Event) {
		for i := range events {
			if events[i].Kind == store.EventDatabaseUpdated && (first == 0 || first == events[i].Sequence) {
				first, events[i].Data = events[i].Sequence, []byte(`{"id":[`)
			}
		}
	}}, r)
	only := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`})
	f.rules(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
	f.start(t, e, only)
	g.Eventually(func() []string { return groupsOf(r.all()) }, patience, tick).Should(gomega.Equal([]string{"one: 1"}))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.skipped != 1 {
		t.Errorf("%d events are counted as skipped", o.skipped)
	}
}

// A rule that cannot go on, because the labels of namespaces cannot be read, stops no other one, is seen to be delayed, and misses nothing.
func TestRuleThatCannotGoOn(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{}
	e, o := f.engine(t, f.Store, r)
	var readable atomic.Bool
	e.Labels = func(context.Context) (map[string]map[string]string, error) {
		if !readable.Load() {
			return nil, errors.New("no connection")
		}
		return map[string]map[string]string{"one": {"tier": "gold"}}, nil
	}
	f.start(t, e,
		rule(t, Definition{Name: "labels", When: `change.kind == "FindingOpened" && workload.namespaceLabels["tier"] == "gold"`}),
		rule(t, Definition{Name: "other", When: `change.kind == "FindingOpened"`}),
	)
	rules := func() string {
		var all []string
		for _, one := range r.all() {
			all = append(all, one.message.Rule)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	since := func() time.Time {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.since
	}
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(rules, patience, tick).Should(gomega.Equal("other"))
	g.Eventually(since, patience, tick).Should(gomega.BeTemporally("~", f.clock.Now(), patience))
	readable.Store(true)
	g.Eventually(rules, patience, tick).Should(gomega.Equal("labels other"))
	g.Eventually(since, patience, tick).Should(gomega.BeZero())
}

// A delay is over when the rule that is behind does not exist any more.
func TestDelayEndsWithItsRule(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	e, o := f.engine(t, f.Store, &recorder{})
	e.Labels = func(context.Context) (map[string]map[string]string, error) { return nil, errors.New("no connection") }
	f.start(t, e, rule(t, Definition{Name: "labels", When: `workload.namespaceLabels["tier"] == "gold"`}))
	since := func() time.Time {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.since
	}
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(since, patience, tick).ShouldNot(gomega.BeZero())
	f.rules(t, e)
	g.Eventually(since, patience, tick).Should(gomega.BeZero())
}

// Sinks of tenants that accept messages late do not take all places: the next one that is free is for a namespace that has none.
func TestSlowSinksOfNamespaces(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	var rules []*Rule
	namespaces := maxSending / maxSendingPerNamespace
	for n := range namespaces {
		var workloads []store.Workload
		for w := range 3 * maxSendingPerNamespace {
			workloads = append(workloads, workload(fmt.Sprint("slow-", n), fmt.Sprint("web-", w), ""))
		}
		f.run(t, image(strings.Repeat("x", n+1)), []string{"p"}, workloads...)
		var sinks []Sink
		for s := range 2 * maxSendingPerNamespace {
			sinks = append(sinks, Sink{Name: fmt.Sprint("slow-", s), Type: Webhook, URL: "https://slow.example/"})
		}
		rules = append(rules, rule(t, Definition{Namespace: fmt.Sprint("slow-", n), Name: "r", By: ByWorkload, When: `change.kind == "FindingOpened"`, Sinks: sinks}))
	}
	release, entered := make(chan struct{}), make(chan string, 10_000)
	r := senderFunc(func(ctx context.Context, sink *Sink) error {
		entered <- sink.Name
		if sink.Name == "sink" {
			return nil
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e, append(rules, rule(t, Definition{Name: "cluster", By: ByRule, When: `change.kind == "FindingOpened"`, Window: time.Minute}))...)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	for range maxSending {
		if name := <-entered; name == "sink" {
			t.Fatal("the message of the cluster was sent before its time")
		}
	}
	g.Eventually(func() int { return e.States()["uid-cluster"].Queues["sink"].Pending }, patience, tick).Should(gomega.Equal(1))
	f.clock.move(2 * time.Minute)
	release <- struct{}{}
	if name := <-entered; name != "sink" {
		t.Errorf("the next message is sent to %s", name)
	}
	close(release)
}

// senderFunc is a Sender.
type senderFunc func(ctx context.Context, sink *Sink) error

func (s senderFunc) Send(ctx context.Context, sink *Sink, _ string, _ *Message) error {
	return s(ctx, sink)
}

// What a build changes concerns the places that knew an image before, and other events all places that run it now, whichever is read first.
func TestPlacesOfEventsBesideABuild(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	r := &recorder{}
	e, _ := f.engine(t, &brokenStore{Store: f.Store, events: func(events []store.Event) {
		for i := range events {
			if events[i].Kind != store.EventDatabaseUpdated {
				events[i].Kind, events[i].Data, events[i].ImageID, events[i].Platform = store.EventImageFailed, []byte(`{"reason":"OutOfMemory"}`), image("a").ImageID, "linux/amd64"
			}
		}
	}}, r)
	only := rule(t, Definition{Name: "r", When: `change.kind in ["FindingOpened", "ScanFailed"]`})
	f.rules(t, e, only)
	// Events before the build and after it.
	_, err := f.WantImages(t.Context(), []model.ImageKey{image("zz")})
	must(t, err)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	f.clock.move(time.Second)
	must(t, f.RecordUses(t.Context(), "another scope", []store.Use{{Image: image("a"), Workload: workload("two", "web", ""), Container: "c"}}))
	_, err = f.WantImages(t.Context(), []model.ImageKey{image("yyy")})
	must(t, err)
	f.start(t, e, only)
	said := func() []string {
		all := []string{}
		for _, one := range r.all() {
			m := &one.message
			all = append(all, fmt.Sprintf("%s: opened %d, failed %t", m.Group, m.Counts[FindingOpened], m.Counts[ScanFailed] > 0))
		}
		slices.Sort(all)
		return all
	}
	g.Eventually(said, patience, tick).Should(gomega.Equal([]string{"one: opened 1, failed true", "two: opened 0, failed true"}))
}
