package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// notified makes these the rules, each with the sinks.
func (f *fixture) notified(t *testing.T, sinks []string, rules ...string) {
	t.Helper()
	var all []store.NotificationRule
	for _, rule := range rules {
		all = append(all, store.NotificationRule{UID: rule, Sinks: sinks})
	}
	must(t, f.SyncNotificationRules(t.Context(), all))
}

// cursors lists "rule sequence begun".
func (f *fixture) cursors(t *testing.T) []string {
	t.Helper()
	cursors, err := f.NotificationCursors(t.Context())
	must(t, err)
	all := []string{}
	for _, c := range cursors {
		all = append(all, fmt.Sprintf("%s %d %d", c.Rule, c.Sequence, c.Begun))
	}
	return all
}

// queuesOf lists "rule sink: pending, delivered, dropped".
func (f *fixture) queuesOf(t *testing.T) []string {
	t.Helper()
	queues, err := f.NotificationQueues(t.Context())
	must(t, err)
	all := []string{}
	for _, q := range queues {
		all = append(all, fmt.Sprintf("%s %s: %d, %d, %d", q.Rule, q.Sink, q.Pending, q.Delivered, q.Dropped))
	}
	return all
}

// update is when a build became current.
type update struct {
	build string
	at    time.Time
}

// updated returns the last update of the database.
func (f *fixture) updated(t *testing.T) update {
	t.Helper()
	var last update
	for _, e := range f.events(t, 0) {
		if e.Kind == store.EventDatabaseUpdated {
			var data store.DatabaseEvent
			must(t, json.Unmarshal(e.Data, &data))
			last = update{data.ID, e.At}
		}
	}
	return last
}

// placed lists "kind vulnerability: image in namespace of owner" of the changes of an update.
func (f *fixture) placed(t *testing.T, u update) []string {
	t.Helper()
	all := []string{}
	for token := ""; ; {
		page, err := f.PlacedChanges(t.Context(), u.build, u.at, store.Page{Token: token, Size: 1})
		must(t, err)
		for _, c := range page.Changes {
			for _, running := range c.Running {
				for _, w := range running.Workloads {
					all = append(all, fmt.Sprintf("%s %s: %s in %s of %s", c.Kind, c.VulnerabilityID, running.ImageID[len("registry.example/"):len("registry.example/")+3], w.Namespace, w.Owner))
				}
			}
		}
		if token = page.NextToken; token == "" {
			return all
		}
	}
}

// asItIs revises nothing.
func asItIs(content []byte) ([]byte, error) { return content, nil }

// next seals the next message of the sink a of the rule r at an hour.
func (f *fixture) next(t *testing.T, hours int) *store.NotificationMessage {
	t.Helper()
	message, err := f.SealNotification(t.Context(), "r", "a", day.Add(time.Duration(hours)*time.Hour), asItIs)
	must(t, err)
	return message
}

// queued moves a rule with messages, and expects whether that was done.
func (f *fixture) queued(t *testing.T, rule string, from, to int64, want bool, messages ...store.NotificationMessage) {
	t.Helper()
	done, err := f.QueueNotifications(t.Context(), store.NotificationCursor{Rule: rule, Sequence: from},
		store.NotificationCursor{Rule: rule, Sequence: to, Hour: day, Begun: len(messages)}, messages)
	must(t, err)
	if done != want {
		t.Errorf("from %d to %d: done %t, want %t", from, to, done, want)
	}
}

// messageOf is a new message that is ready at an hour.
func messageOf(rule, sink, content string, hours int) store.NotificationMessage {
	return store.NotificationMessage{
		Rule: rule, Sink: sink, Group: "group", Key: "key-" + content, ReadyAt: day.Add(time.Duration(hours) * time.Hour), Content: []byte(content),
	}
}

var notificationTests = map[string]func(*testing.T, *fixture){
	"Rules begin at the end of the event log": func(t *testing.T, f *fixture) {
		f.at(0)
		f.notified(t, []string{"a"}, "r1")
		expectTexts(t, "empty log", f.cursors(t), "r1 0 0")
		f.want(t, image("i", amd64), image("j", amd64))
		f.notified(t, []string{"a", "b"}, "r1", "r2")
		expectTexts(t, "later", f.cursors(t), "r1 0 0", "r2 2 0")
		expectTexts(t, "sinks", f.queuesOf(t), "r1 a: 0, 0, 0", "r1 b: 0, 0, 0", "r2 a: 0, 0, 0", "r2 b: 0, 0, 0")
		must(t, f.SkipNotifications(t.Context(), []string{"r1", "r2"}, 0, 2))
		expectTexts(t, "skipped", f.cursors(t), "r1 2 0", "r2 2 0")
		f.queued(t, "r1", 2, 3, true, messageOf("r1", "a", "x", 0), messageOf("r1", "b", "x", 0))
		f.notified(t, []string{"b"}, "r1")
		expectTexts(t, "fewer", f.queuesOf(t), "r1 b: 1, 0, 0")
		f.notified(t, nil)
		expectTexts(t, "none", f.cursors(t))
		f.notified(t, []string{"a"}, "r1")
		expectTexts(t, "again", f.queuesOf(t), "r1 a: 0, 0, 0")
	},
	"A position moves with its messages": func(t *testing.T, f *fixture) {
		f.at(0)
		f.notified(t, []string{"a"}, "r")
		f.queued(t, "r", 0, 5, true, messageOf("r", "a", "x", 1), messageOf("r", "gone", "y", 1))
		expectTexts(t, "moved", f.cursors(t), "r 5 2")
		// Another process was first.
		f.queued(t, "r", 0, 5, false, messageOf("r", "a", "twice", 1))
		f.queued(t, "unknown", 0, 5, false, messageOf("unknown", "a", "x", 1))
		expectTexts(t, "once", f.queuesOf(t), "r a: 1, 0, 0")
		collecting, err := f.CollectingNotifications(t.Context(), "r", day)
		must(t, err)
		if len(collecting) != 1 || string(collecting[0].Content) != "x" || collecting[0].Key != "key-x" {
			t.Fatalf("collecting %+v", collecting)
		}
		more := collecting[0]
		more.Content = []byte("xx")
		f.queued(t, "r", 5, 6, true, more)
		if m := f.next(t, 0); m != nil {
			t.Errorf("%s is sent before it is ready", m.Content)
		}
		if m := f.next(t, 1); m == nil || string(m.Content) != "xx" || m.Key != "key-x" || !m.ReadyAt.Equal(day.Add(time.Hour)) {
			t.Fatalf("next is %+v", m)
		}
		// It is being sent: nothing is added to it any more, and nothing of the rest of the transaction is kept.
		f.queued(t, "r", 6, 7, false, more, messageOf("r", "a", "lost", 1))
		expectTexts(t, "sealed", f.cursors(t), "r 6 1")
		expectTexts(t, "sealed", f.queuesOf(t), "r a: 1, 0, 0")
	},
	"Messages are revised before they are sealed": func(t *testing.T, f *fixture) {
		f.at(0)
		f.notified(t, []string{"a"}, "r")
		f.queued(t, "r", 0, 1, true, messageOf("r", "a", "nothing", 1), messageOf("r", "a", "first", 2), messageOf("r", "a", "second", 3))
		more, err := f.CollectingNotifications(t.Context(), "r", day.Add(time.Hour))
		must(t, err)
		more[0].Content = []byte("first and more")
		var seen []string
		revise := func(content []byte) ([]byte, error) {
			seen = append(seen, string(content))
			switch string(content) {
			case "nothing":
				return nil, nil
			case "first":
				// More is added meanwhile.
				f.queued(t, "r", 1, 2, true, more[0])
			}
			return append([]byte("revised: "), content...), nil
		}
		for range 2 { // It is revised once.
			message, err := f.SealNotification(t.Context(), "r", "a", day.Add(2*time.Hour), revise)
			must(t, err)
			if string(message.Content) != "revised: first and more" {
				t.Errorf("the message is %q", message.Content)
			}
		}
		expectTexts(t, "revised", seen, "nothing", "first", "first and more")
		expectTexts(t, "left", f.queuesOf(t), "r a: 2, 0, 0")
		must(t, f.EndNotification(t.Context(), f.next(t, 2), day))
		if _, err := f.SealNotification(t.Context(), "r", "a", day.Add(3*time.Hour), func([]byte) ([]byte, error) { return nil, errors.New("no") }); err == nil {
			t.Error("a message that cannot be revised is sealed")
		}
	},
	"Changes that are suppressed": func(t *testing.T, f *fixture) {
		f.at(0)
		one, two := image("one", amd64), image("longer", amd64)
		f.running(t, one, "n1", "n2")
		f.running(t, two, "n2")
		f.rematchAt(t, 5, answers{"a": {finding("CVE-7", model.SeverityCritical)}})
		page, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{})
		must(t, err)
		ids := map[string]int64{}
		var all []int64
		for _, c := range page.Changes {
			ids[fmt.Sprintf("%s %s %s", c.Kind, c.VulnerabilityID, c.Package.Name)] = c.ID
			all = append(all, c.ID)
		}
		opened := ids["opened CVE-7 a"]
		suppressed := func(namespaces ...string) bool {
			found, err := f.SuppressedChanges(t.Context(), all, func(w *store.Workload) bool { return slices.Contains(namespaces, w.Namespace) })
			must(t, err)
			if len(found) > 1 || len(found) == 1 && found[0] != opened {
				t.Errorf("%v of %v are suppressed", found, ids)
			}
			return len(found) == 1
		}
		in := func(images []string, namespaces ...string) store.Decision {
			d := only(exception("d", model.DecisionAcceptedRisk, []string{"CVE-7", "CVE-1"}, nil), images...)
			if len(namespaces) > 0 {
				d.Places = &store.DecisionPlaces{Selector: strings.Join(namespaces, " "), Namespaces: namespaces}
			}
			return d
		}
		for name, c := range map[string]struct {
			decision                store.Decision
			n1, n2, both, elsewhere bool
		}{
			"everywhere":           {in(nil), true, true, true, true},
			"in a namespace":       {in(nil, "n1"), true, false, false, false},
			"in another namespace": {in(nil, "n2"), false, true, false, false},
			"in an image":          {in([]string{"registry.example/one*"}), true, false, false, false},
			"in all images":        {in([]string{"registry.example/*"}), true, true, true, true},
		} {
			f.decide(t, c.decision)
			got := []bool{suppressed("n1"), suppressed("n2"), suppressed("n1", "n2"), suppressed("n3")}
			if want := []bool{c.n1, c.n2, c.both, c.elsewhere}; !slices.Equal(got, want) {
				t.Errorf("%s: suppressed in n1, n2, both and elsewhere: %v, want %v", name, got, want)
			}
		}
		// Once a build has closed it, a decision says nothing of it.
		f.decide(t, in(nil))
		f.rematchAt(t, 8, answers{})
		if suppressed("n1") {
			t.Error("a finding that was closed later is suppressed")
		}
	},
	"Messages leave in order": func(t *testing.T, f *fixture) {
		f.at(0)
		f.notified(t, []string{"a"}, "r")
		f.queued(t, "r", 0, 1, true, messageOf("r", "a", "third", 3), messageOf("r", "a", "first", 1), messageOf("r", "a", "second", 1))
		first := f.next(t, 5)
		if again := f.next(t, 5); string(first.Content) != "first" || again.ID != first.ID || again.Key != first.Key {
			t.Errorf("first %s, then %s", first.Content, again.Content)
		}
		must(t, f.EndNotification(t.Context(), first, day))
		must(t, f.EndNotification(t.Context(), first, day)) // It is gone.
		second := f.next(t, 5)
		must(t, f.EndNotification(t.Context(), second, time.Time{}))
		if third := f.next(t, 5); string(second.Content) != "second" || string(third.Content) != "third" {
			t.Errorf("second %s, third %s", second.Content, third.Content)
		}
		expectTexts(t, "counted", f.queuesOf(t), "r a: 1, 1, 1")
		queues, err := f.NotificationQueues(t.Context())
		must(t, err)
		if !queues[0].DeliveredAt.Equal(day) || !queues[0].NextReady.Equal(day.Add(3*time.Hour)) {
			t.Errorf("%+v", queues[0])
		}
	},
	"Closed findings were suppressed in some places": func(t *testing.T, f *fixture) {
		f.at(0)
		key := image("one", amd64)
		f.running(t, key, "n1", "n2", "n3")
		in := func(name, vulnerability, namespace string) store.Decision {
			d := exception(name, model.DecisionAcceptedRisk, []string{vulnerability}, nil)
			d.Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
			return d
		}
		f.decide(t, in("d", "CVE-1", "n1"), in("e", "CVE-2", "n1"), in("f", "CVE-2", "n2"))
		f.rematchAt(t, 5, answers{"b": decided["b"]})
		closed := f.updated(t)
		want := []string{"closed CVE-1: one in n2 of owner-n2", "closed CVE-1: one in n3 of owner-n3", "closed CVE-2: one in n3 of owner-n3"}
		expectTexts(t, "closed", f.placed(t, closed), want...)
		// Exceptions that end when their findings are fixed are gone when the changes are read.
		f.decide(t)
		expectTexts(t, "closed, and the exceptions ended", f.placed(t, closed), want...)
		page, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{})
		must(t, err)
		var ids []int64
		for _, c := range page.Changes {
			ids = append(ids, c.ID)
		}
		for namespace, want := range map[string]int{"n1": 2, "n2": 1, "n3": 0} {
			suppressed, err := f.SuppressedChanges(t.Context(), ids, func(w *store.Workload) bool { return w.Namespace == namespace })
			must(t, err)
			if len(suppressed) != want {
				t.Errorf("%d closed findings of %d were suppressed in %s, want %d", len(suppressed), len(ids), namespace, want)
			}
		}
		// It is forgotten after a day.
		f.at(28)
		must(t, f.Prune(t.Context(), day))
		expectTexts(t, "within a day", f.placed(t, closed), want...)
		f.at(30)
		must(t, f.Prune(t.Context(), day))
		if left := f.placed(t, closed); len(left) != 6 {
			t.Errorf("after a day: %v", left)
		}
	},
	"Changes are placed": func(t *testing.T, f *fixture) {
		f.at(0)
		one, two := image("one", amd64), image("longer", amd64)
		f.running(t, one, "n1", "n2")
		f.running(t, two, "n2")
		inOne := exception("e", model.DecisionNotAffected, []string{"CVE-1", "CVE-6", "CVE-8"}, nil)
		inOne.Places = &store.DecisionPlaces{Selector: "n1", Namespaces: []string{"n1"}}
		f.decide(t, exception("d", model.DecisionNotAffected, []string{"CVE-9"}, nil), inOne)
		f.rematchAt(t, 5, answers{"a": {finding("CVE-6", model.SeverityLow), finding("CVE-7", model.SeverityCritical), finding("CVE-8", model.SeverityLow), finding("CVE-9", model.SeverityCritical)}, "b": decided["b"]})
		// What begins to run later was not there when the build opened findings.
		f.at(6)
		must(t, f.RecordUses(t.Context(), "later", []store.Use{ownedUse(one, "n3", "web", "o")}))
		updated := f.updated(t)
		got := f.placed(t, updated)
		want := []string{}
		for _, change := range []string{"closed CVE-1", "closed CVE-2", "opened CVE-6", "opened CVE-7", "opened CVE-8"} {
			for _, place := range []string{"one in n1 of owner-n1", "one in n2 of owner-n2", "lon in n2 of owner-n2"} {
				if !strings.Contains(place, "n1 ") || !slices.Contains([]string{"closed CVE-1", "opened CVE-6", "opened CVE-8"}, change) {
					want = append(want, change+": "+place)
				}
			}
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// What the same decision suppresses shares what is left.
		page, err := f.PlacedChanges(t.Context(), updated.build, updated.at, store.Page{Size: store.MaxPageSize})
		must(t, err)
		left := map[*store.RunningImage]bool{}
		for _, c := range page.Changes {
			for _, running := range c.Running {
				if running.Partial {
					left[running] = true
				}
			}
		}
		if len(left) != 1 {
			t.Errorf("%d lists of workloads are left by a decision about two findings of an image", len(left))
		}
		running, err := f.RunningImage(t.Context(), store.AllNamespaces(), one)
		must(t, err)
		if len(running.Workloads) != 3 {
			t.Errorf("%+v runs the image", running.Workloads)
		}
		if running, err = f.RunningImage(t.Context(), store.AllNamespaces(), image("unknown", amd64)); err != nil || running != nil {
			t.Errorf("an unknown image: %+v, %v", running, err)
		}
	},
}
