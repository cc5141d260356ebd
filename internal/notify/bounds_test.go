package notify

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// fill queues messages for a sink of a rule.
func (f *fixture) fill(t *testing.T, uid, sink string, messages int, ready time.Time) {
	t.Helper()
	cursors, err := f.NotificationCursors(t.Context())
	must(t, err)
	at := slices.IndexFunc(cursors, func(c store.NotificationCursor) bool { return c.Rule == uid })
	var all []store.NotificationMessage
	for i := range messages {
		content, err := (&Message{}).encode()
		must(t, err)
		name := fmt.Sprint("waiting ", i)
		all = append(all, store.NotificationMessage{Rule: uid, Sink: sink, Group: name, Key: name, ReadyAt: ready, Content: content})
	}
	done, err := f.QueueNotifications(t.Context(), cursors[at], cursors[at], all)
	must(t, err)
	if !done {
		t.Fatal("the messages are not queued")
	}
}

// Messages are combined for a sink with too many messages, and not for the others of the rule.
func TestFullSinkDelaysNoOther(t *testing.T) {
	f := newFixture(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	e, _ := f.engine(t, f.Store, &recorder{})
	sinks := []Sink{{Name: "broken", Type: Webhook, URL: "https://broken.example/"}, {Name: "sink", Type: Webhook, URL: "https://receiver.example/"}}
	f.rules(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Sinks: sinks, Window: time.Second}))
	now := f.clock.Now()
	f.fill(t, "uid-r", "broken", maxPending, now.Add(-time.Minute))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	for more := true; more; {
		var err error
		more, err = e.collect(t.Context())
		must(t, err)
	}
	messages, err := f.CollectingNotifications(t.Context(), "uid-r", now)
	must(t, err)
	if len(messages) != 2 {
		t.Fatalf("%d messages are collected, want 2", len(messages))
	}
	for _, m := range messages {
		content, err := decode(m.Content)
		must(t, err)
		if full := m.Sink == "broken"; content.Combined != full || (m.Group == digest(combined)) != full || content.Counts[FindingOpened] != 1 ||
			!full && m.ReadyAt.After(f.clock.Now().Add(time.Second)) {
			t.Errorf("%s gets %+v, ready at %s", m.Sink, content, m.ReadyAt)
		}
	}
	cursors, err := f.NotificationCursors(t.Context())
	must(t, err)
	if cursors[0].Begun != 1 {
		t.Errorf("%d messages of the hour are counted, want 1", cursors[0].Begun)
	}
}

// Messages are combined for all sinks of a namespace for which too many messages wait together, and not for those of others.
func TestFullNamespaceFillsNoDisk(t *testing.T) {
	f := newFixture(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
	e, _ := f.engine(t, f.Store, &recorder{})
	const when = `change.kind == "FindingOpened"`
	var sinks []Sink
	for i := range 8 {
		sinks = append(sinks, Sink{Name: fmt.Sprint("sink-", i), Type: Webhook, URL: "https://broken.example/"})
	}
	full := []*Rule{rule(t, Definition{Namespace: "one", Name: "a", When: `false`, Sinks: sinks}), rule(t, Definition{Namespace: "one", Name: "b", When: `false`, Sinks: sinks})}
	f.rules(t, e, append(full, rule(t, Definition{Namespace: "one", Name: "c", When: when}), rule(t, Definition{Namespace: "two", Name: "d", When: when}), rule(t, Definition{Name: "e", When: when}))...)
	for _, r := range full {
		for _, sink := range sinks {
			f.fill(t, r.UID, sink.Name, maxPendingInNamespace/16+1, f.clock.Now().Add(-time.Minute))
		}
	}
	now := f.clock.Now()
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	for more := true; more; {
		var err error
		more, err = e.collect(t.Context())
		must(t, err)
	}
	for uid, want := range map[string]string{"uid-onec": "[true]", "uid-twod": "[false]", "uid-e": "[false false]"} {
		messages, err := f.CollectingNotifications(t.Context(), uid, now.Add(-time.Second))
		must(t, err)
		var got []bool
		for _, m := range messages {
			content, err := decode(m.Content)
			must(t, err)
			got = append(got, content.Combined)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("the messages of %s are combined: %v, want %s", uid, got, want)
		}
	}
}

// An exception of a namespace is told with its namespace.
func TestExpiredExceptionHasItsNamespace(t *testing.T) {
	e := NewEngine(EngineConfig{})
	for data, want := range map[string]string{
		`{"object": {"kind": "VulnerabilityException", "namespace": "shop", "name": "e"}, "findings": 2}`: "VulnerabilityException shop/e expired: 2 findings count again",
		`{"object": {"kind": "ClusterVulnerabilityException", "name": "e"}, "findings": 2}`:               "ClusterVulnerabilityException e expired: 2 findings count again",
	} {
		b := newBatch(rule(t, Definition{Name: "r", By: ByRule}), nil)
		must(t, e.addEvent(t.Context(), []*batch{b}, &store.Event{Kind: store.EventDecisionExpired, Data: []byte(data), At: noon}))
		if got := b.groups[""].message.Others; len(got) != 1 || got[0].Text != want {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}

// Nothing is kept of a rule that was deleted, not even if its events were being read meanwhile.
func TestFailuresOfDeletedRulesAreForgotten(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(t, f.Store, &recorder{})
	kept, deleted := rule(t, Definition{Name: "kept"}), rule(t, Definition{Name: "deleted"})
	f.rules(t, e, kept, deleted)
	note := func() {
		for _, r := range []*Rule{kept, deleted} {
			b := newBatch(r, nil)
			b.note(errUnreachable)
			e.noteFailures(b)
		}
	}
	note()
	f.rules(t, e, kept)
	if len(e.failures) != 1 || e.failures[kept.UID] == "" {
		t.Errorf("after the deletion: %v", e.failures)
	}
	note()
	if len(e.failures) != 1 {
		t.Errorf("after reading: %v", e.failures)
	}
}

// A rule of a namespace keeps nothing about the images of others.
func TestRulesKeepOnlyImagesTheySee(t *testing.T) {
	here := &store.RunningImage{ImageKey: image("a"), Workloads: []store.Workload{workload("one", "web", ""), workload("two", "web", "")}}
	elsewhere := &store.RunningImage{ImageKey: image("bb"), Workloads: []store.Workload{workload("two", "job", "")}}
	side := &store.ChangeSide{Severity: model.SeverityHigh}
	changes := []store.PlacedChange{{Change: store.Change{Kind: store.ChangeOpened, After: side, At: noon}, Running: []*store.RunningImage{here, elsewhere}}}
	for namespace, want := range map[string]int{"": 2, "one": 1, "two": 2, "three": 0} {
		b := newBatch(rule(t, Definition{Namespace: namespace, Name: "r", By: ByRule}), nil)
		addChanges(map[string][]*batch{namespace: {b}}, changes)
		b.addRunning(ScanFailed, noon, nil, elsewhere, "text")
		if len(b.placed) != want {
			t.Errorf("a rule of %q keeps %d images, want %d", namespace, len(b.placed), want)
		}
		if want == 0 {
			if len(b.groups) > 0 {
				t.Errorf("a rule of %q has groups", namespace)
			}
		} else if worst := b.groups[""].message.Worst; len(worst) != 1 || worst[0].Images != want {
			t.Errorf("a rule of %q tells %+v, want %d images", namespace, worst, want)
		}
	}
}

// A place is examined once for all changes of a page that the same decisions suppress in the same places, and a batch keeps nothing of these pages.
func TestPlacesAreExaminedOnce(t *testing.T) {
	whole := &store.RunningImage{ImageKey: image("a"), Workloads: []store.Workload{workload("one", "web", ""), workload("two", "web", "")}}
	left := &store.RunningImage{ImageKey: image("a"), Workloads: whole.Workloads[1:], Partial: true}
	const pages = 3
	b := newBatch(rule(t, Definition{Name: "r", When: `workload.namespaceLabels["stage"] == "none" || workload.name == "web"`}), nil)
	for range pages {
		var changes []store.PlacedChange
		for i := range int64(10) {
			changes = append(changes, store.PlacedChange{
				Change:  store.Change{ID: i + 1, Kind: store.ChangeOpened, After: &store.ChangeSide{Severity: model.SeverityHigh}, At: noon},
				Running: []*store.RunningImage{[]*store.RunningImage{whole, left}[i%2]},
			})
		}
		addChanges(map[string][]*batch{"": {b}}, changes)
	}
	one, two := &b.groups["one"].message, &b.groups["two"].message
	if one.Counts[FindingOpened] != 5*pages || two.Counts[FindingOpened] != 10*pages || len(one.Workloads)+len(two.Workloads) != 2 || len(b.partly) != 0 || len(b.placed) != 1 {
		t.Errorf("got %+v and %+v, kept are %d and %d", one, two, len(b.placed), len(b.partly))
	}
	failing := newBatch(rule(t, Definition{Name: "r", When: `workload.namespaceLabels["stage"] == "none"`}), nil)
	for range pages {
		addChanges(map[string][]*batch{"": {failing}}, []store.PlacedChange{
			{Change: store.Change{Kind: store.ChangeOpened, After: &store.ChangeSide{}}, Running: []*store.RunningImage{left}},
			{Change: store.Change{Kind: store.ChangeOpened, After: &store.ChangeSide{}}, Running: []*store.RunningImage{left}},
		})
	}
	if failing.failures != pages {
		t.Errorf("the expression was evaluated %d times for a workload in %d pages", failing.failures, pages)
	}
}

// Errors of a receiver tell neither what it sent nor which names its certificate has.
func TestErrorsTellNothingOfReceivers(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close() //nolint:errcheck // The test has ended.
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-s3cret\r\n"))
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	server, _ := receiver(t, 200)
	const prefix = "the receiver cannot be reached: "
	for name, c := range map[string]struct {
		url, ca, want string
	}{
		"another protocol":     {"http://" + listener.Addr().String(), "", "it gives no valid answer"},
		"no TLS":               {"https://" + listener.Addr().String(), "", "TLS failed"},
		"nothing":              {"https://" + closed.Addr().String(), "", "connection refused"},
		"an unknown authority": {server.URL, "", "TLS failed: the certificate of the receiver is not accepted"},
		"another name":         {strings.Replace(server.URL, "127.0.0.1", "localhost", 1), caOf(server), "TLS failed: the certificate of the receiver is not accepted"},
		"an unknown name":      {"https://receiver.invalid", "", "the name of the receiver cannot be resolved"},
		"metadata":             {"http://169.254.169.254", "", "the address of the receiver is not permitted"},
	} {
		err := receivers(t, map[string]string{"url": c.url, "ca.crt": c.ca}).Send(t.Context(), &Sink{Type: Slack, Credential: "c"}, "k", example())
		if err == nil || err.Error() != prefix+c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, host := range []string{listener.Addr().String(), closed.Addr().String()} {
		err := receivers(t, map[string]string{"host": host, "from": "scanner@example.com"}).Send(t.Context(), &Sink{Type: Email, Credential: "c"}, "k", example())
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "SSH") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("mail: %v", err)
		}
	}
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := receivers(t, map[string]string{"url": server.URL}).Send(expired, &Sink{Type: Slack, Credential: "c"}, "k", example()); err == nil || err.Error() != prefix+"timeout" {
		t.Errorf("a timeout: %v", err)
	}
}

// blocked is a Sender whose receivers never answer.
type blocked struct{}

func (blocked) Send(ctx context.Context, _ *Sink, _ string, _ *Message) error {
	<-ctx.Done()
	return ctx.Err()
}

// Sinks whose last attempt failed do not take the places of others, however long their messages wait.
func TestFailedSinksAreSentToLast(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(t, f.Store, blocked{})
	var rules []*Rule
	for i := range maxSending / maxSendingPerNamespace {
		var sinks []Sink
		for s := range maxSendingPerNamespace {
			sinks = append(sinks, Sink{Name: fmt.Sprint("sink", s), Type: Webhook, URL: "https://receiver.example/"})
		}
		rules = append(rules, rule(t, Definition{Namespace: fmt.Sprint("team-", i), Name: "r", Sinks: sinks}))
	}
	healthy := rule(t, Definition{Namespace: "healthy", Name: "r"})
	f.rules(t, e, append(rules, healthy)...)
	now := f.clock.Now()
	for _, r := range rules {
		for _, sink := range r.sinkNames() {
			f.fill(t, r.UID, sink, 1, now.Add(-time.Hour))
			e.lanes[laneName{r.UID, sink}] = &lane{failures: 1, problem: "timeout"}
		}
	}
	f.fill(t, healthy.UID, "sink", 1, now.Add(-time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	must(t, e.dispatch(ctx))
	e.mu.Lock()
	if e.sending["healthy"] != 1 || e.occupied() != maxSending {
		t.Errorf("%v is being sent", e.sending)
	}
	e.mu.Unlock()
	cancel()
	e.running.Wait()
}
