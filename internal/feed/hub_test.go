package feed

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventLog is an event log in memory that can fail.
type eventLog struct {
	mu      sync.Mutex
	events  []store.Event
	changed chan struct{}
	failing bool
	floor   int64
	reads   int
}

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

// add writes events as another process does when quiet, else as this one.
func (l *eventLog) add(quiet bool, events ...store.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range events {
		event.Sequence = int64(len(l.events) + 1)
		l.events = append(l.events, event)
	}
	if !quiet {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

func (l *eventLog) fail(failing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing, l.reads = failing, 0
}

func (l *eventLog) readsSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

func (l *eventLog) EventsSince(_ context.Context, _ store.Namespaces, since int64, limit int) ([]store.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.failing {
		return nil, store.ErrUnavailable
	}
	since = min(max(since, l.floor), int64(len(l.events)))
	end := min(since+int64(limit), int64(len(l.events)))
	return append([]store.Event(nil), l.events[since:end]...), nil
}

func (l *eventLog) EventLog(context.Context) (store.EventLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.failing {
		return store.EventLog{}, store.ErrUnavailable
	}
	log := store.EventLog{Floor: l.floor, Last: int64(len(l.events))}
	if log.Floor > 0 {
		log.FloorID = l.events[log.Floor-1].LogID
	}
	if log.Last > 0 {
		log.LastID = l.events[log.Last-1].LogID
	}
	return log, nil
}

func (l *eventLog) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// inBubble runs a hub and the test of it in a bubble with its own time.
func inBubble(t *testing.T, prepare func(*eventLog), test func(t *testing.T, log *eventLog, hub *Hub, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := newEventLog()
		if prepare != nil {
			prepare(log)
		}
		ctx, cancel := context.WithCancel(t.Context())
		hub := New(log, Config{})
		ended := make(chan error)
		go func() { ended <- hub.Run(ctx) }()
		stopped := false
		stop := func() {
			if stopped {
				return
			}
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}
		defer stop()
		synctest.Wait()
		test(t, log, hub, stop)
	})
}

func sequences(s *Subscription) []int64 {
	var got []int64
	for {
		select {
		case event, open := <-s.C():
			if !open {
				return got
			}
			got = append(got, event.Sequence)
		default:
			return got
		}
	}
}

func expect(t *testing.T, s *Subscription, first, last int64) {
	t.Helper()
	got := sequences(s)
	if int64(len(got)) != last-first+1 {
		t.Fatalf("got %d events %v, want %d to %d", len(got), got, first, last)
	}
	for i, sequence := range got {
		if sequence != first+int64(i) {
			t.Fatalf("got %v, want %d to %d", got, first, last)
		}
	}
}

func some(count int) []store.Event { return make([]store.Event, count) }

func TestDeliversFromTheEndOfTheLog(t *testing.T) {
	inBubble(t, func(log *eventLog) { log.add(false, some(3)...) }, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		s := hub.Subscribe(t.Context(), Filter{})
		if since, known := s.Since(); since != 3 || !known {
			t.Errorf("Since: got %d, %v, want 3", since, known)
		}
		log.add(false, some(2)...)
		synctest.Wait()
		expect(t, s, 4, 5)
	})
}

func TestPollsForEventsOfOtherProcesses(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		s := hub.Subscribe(t.Context(), Filter{})
		log.add(true, some(1)...)
		synctest.Wait()
		if got := sequences(s); len(got) != 0 {
			t.Fatalf("got %v before the interval was over", got)
		}
		time.Sleep(defaultPollInterval)
		synctest.Wait()
		expect(t, s, 1, 1)
	})
}

func TestFilter(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		kinds := hub.Subscribe(t.Context(), Filter{Kinds: []store.EventKind{store.EventImageMatched, store.EventImageFailed}})
		image := hub.Subscribe(t.Context(), Filter{ImageID: "a"})
		namespace := hub.Subscribe(t.Context(), Filter{Namespace: "team"})
		both := hub.Subscribe(t.Context(), Filter{Kinds: []store.EventKind{store.EventImageFailed}, ImageID: "a"})
		log.add(false, store.Event{Kind: store.EventImageMatched, ImageID: "b"}, store.Event{Kind: store.EventImageRemoved, ImageID: "a"},
			store.Event{Kind: store.EventImageFailed, ImageID: "a"},
			store.Event{Kind: store.EventScannerChanged, Data: []byte(`{"object":{"namespace":"team","name":"s"}}`)},
			store.Event{Kind: store.EventScannerChanged, Data: []byte(`{"object":{"namespace":"other","name":"s"}}`)},
			store.Event{Kind: store.EventFindingOpened, Data: []byte(`{"namespace":"team"}`)},
			store.Event{Kind: store.EventRolloutChanged, Data: []byte(`{"workload":{"namespace":"team","kind":"Deployment","name":"d"}}`)})
		synctest.Wait()
		for name, c := range map[string]struct {
			s    *Subscription
			want []int64
		}{"kinds": {kinds, []int64{1, 3}}, "image": {image, []int64{2, 3}}, "both": {both, []int64{3}}, "namespace": {namespace, []int64{4, 7}}} {
			got := sequences(c.s)
			if len(got) != len(c.want) || got[0] != c.want[0] || got[len(got)-1] != c.want[len(c.want)-1] {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	})
}

func TestSlowSubscriberIsEvictedAndOthersGoOn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		slow := hub.Subscribe(t.Context(), Filter{})
		fast := hub.Subscribe(t.Context(), Filter{})
		var next int64 = 1
		for range 5 {
			log.add(false, some(100)...)
			synctest.Wait()
			expect(t, fast, next, next+99)
			next += 100
		}
		if !errors.Is(slow.Err(), ErrSlow) {
			t.Errorf("Err: got %v, want ErrSlow", slow.Err())
		}
		if got := sequences(slow); len(got) != BufferSize {
			t.Errorf("the slow subscriber got %d events, want the %d of its buffer", len(got), BufferSize)
		}
		if _, open := <-slow.C(); open {
			t.Error("the channel is open")
		}
		slow.Close()
		if !errors.Is(slow.Err(), ErrSlow) {
			t.Errorf("Err after Close: got %v, want ErrSlow", slow.Err())
		}
		if fast.Err() != nil {
			t.Errorf("the fast one: %v", fast.Err())
		}
	})
}

func TestUnavailableStoreLosesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		s := hub.Subscribe(t.Context(), Filter{})
		log.fail(true)
		log.add(false, some(3)...)
		synctest.Wait()
		for range 100 {
			log.add(false, some(1)...)
			time.Sleep(600 * time.Millisecond)
		}
		synctest.Wait()
		// One minute: after 0, 1, 3, 7, 12, 17 and so on seconds.
		if reads := log.readsSoFar(); reads > 15 {
			t.Errorf("the store was read %d times in a minute", reads)
		}
		log.fail(false)
		time.Sleep(maxBackoff)
		synctest.Wait()
		expect(t, s, 1, 103)
		log.add(false, some(1)...)
		synctest.Wait()
		expect(t, s, 104, 104)
	})
}

// What the hub cannot deliver is not passed over in silence.
func TestAnotherLogAfterTrouble(t *testing.T) {
	for name, change := range map[string]func(*eventLog){
		"a backup was restored": func(l *eventLog) { l.events = l.events[:2] },
		"the log was lost":      func(l *eventLog) { l.events = nil },
		"events were removed":   func(l *eventLog) { l.events, l.floor = identified("", "", "", "", "", "", "", ""), 4 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(log *eventLog) { log.add(false, some(3)...) }, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
				s := hub.Subscribe(t.Context(), Filter{})
				log.fail(true)
				time.Sleep(defaultPollInterval)
				synctest.Wait()
				log.mu.Lock()
				change(log)
				log.mu.Unlock()
				log.fail(false)
				time.Sleep(maxBackoff)
				synctest.Wait()
				if got := sequences(s); len(got) != 0 || !errors.Is(s.Err(), ErrReset) {
					t.Errorf("got %v, %v, want ErrReset", got, s.Err())
				}
				next := hub.Subscribe(t.Context(), Filter{})
				end, _ := next.Since()
				log.add(false, some(1)...)
				synctest.Wait()
				expect(t, next, end+1, end+1)
			})
		})
	}
}

// identified are events with these IDs of their log and consecutive sequence numbers.
func identified(ids ...string) []store.Event {
	events := make([]store.Event, len(ids))
	for i, id := range ids {
		events[i] = store.Event{Sequence: int64(i + 1), LogID: id}
	}
	return events
}

// A server that lacked the newest events has taken over and has used their numbers again, before the hub saw that they were gone.
func TestNumbersAreUsedAgain(t *testing.T) {
	for name, change := range map[string]func(*eventLog){
		"more of them":    func(l *eventLog) { l.events = identified("a", "b", "x", "y") },
		"as many":         func(l *eventLog) { l.events = identified("a", "b", "x") },
		"and are removed": func(l *eventLog) { l.events, l.floor = identified("a", "b", "x", "y"), 3 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(log *eventLog) { log.add(false, identified("a", "b", "c")...) }, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
				s := hub.Subscribe(t.Context(), Filter{})
				log.mu.Lock()
				change(log)
				log.mu.Unlock()
				time.Sleep(defaultPollInterval)
				synctest.Wait()
				if got := sequences(s); len(got) != 0 || !errors.Is(s.Err(), ErrReset) {
					t.Errorf("got %v, %v, want ErrReset", got, s.Err())
				}
			})
		})
	}
}

// A hub that is at the end of the log goes on there when all events are removed.
func TestLogIsRemovedUpToThePosition(t *testing.T) {
	inBubble(t, func(log *eventLog) { log.add(false, identified("a", "b", "c")...) }, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		s := hub.Subscribe(t.Context(), Filter{})
		log.mu.Lock()
		log.floor = 3
		log.mu.Unlock()
		time.Sleep(defaultPollInterval)
		synctest.Wait()
		log.add(false, store.Event{LogID: "d"})
		synctest.Wait()
		expect(t, s, 4, 4)
	})
}

func TestStoreUnavailableAtStart(t *testing.T) {
	inBubble(t, func(log *eventLog) { log.add(false, some(5)...); log.fail(true) }, func(t *testing.T, log *eventLog, hub *Hub, _ func()) {
		select {
		case <-hub.Started():
			t.Fatal("the hub has started without the store")
		default:
		}
		early := hub.Subscribe(t.Context(), Filter{})
		if _, known := early.Since(); known {
			t.Error("Since is known without the store")
		}
		log.fail(false)
		<-hub.Started()
		s := hub.Subscribe(t.Context(), Filter{})
		log.add(false, some(1)...)
		synctest.Wait()
		for _, subscription := range []*Subscription{early, s} {
			if since, known := subscription.Since(); since != 5 || !known {
				t.Errorf("Since: got %d, %v, want 5", since, known)
			}
			expect(t, subscription, 6, 6)
		}
	})
}

func TestEndOfSubscriptions(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *eventLog, hub *Hub, stop func()) {
		closed := hub.Subscribe(t.Context(), Filter{})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := hub.Subscribe(ctx, Filter{})
		last := hub.Subscribe(t.Context(), Filter{})
		closed.Close()
		closed.Close()
		cancel()
		synctest.Wait()
		stop()
		late := hub.Subscribe(t.Context(), Filter{})
		for name, c := range map[string]struct {
			s    *Subscription
			want error
		}{"closed": {closed, nil}, "cancelled": {cancelled, context.Canceled}, "last": {last, ErrStopped}, "late": {late, ErrStopped}} {
			if _, open := <-c.s.C(); open {
				t.Errorf("%s: the channel is open", name)
			}
			if !errors.Is(c.s.Err(), c.want) {
				t.Errorf("%s: got %v, want %v", name, c.s.Err(), c.want)
			}
		}
		if err := hub.Run(t.Context()); err == nil {
			t.Error("a hub ran twice")
		}
	})
}

// TestConcurrentUse has the race detector as its oracle, and that each reader sees an unbroken row of events.
func TestConcurrentUse(t *testing.T) {
	log := newEventLog()
	hub := New(log, Config{PollInterval: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- hub.Run(ctx) }()
	<-hub.Started()

	const readers, events = 16, 2000
	var ready, readersDone sync.WaitGroup
	for range readers {
		ready.Add(1)
		readersDone.Go(func() {
			s := hub.Subscribe(ctx, Filter{})
			ready.Done()
			since, _ := s.Since()
			next := since + 1
			for event := range s.C() {
				if event.Sequence != next {
					t.Errorf("got event %d, want %d", event.Sequence, next)
				}
				if next++; next > events {
					s.Close()
				}
			}
			if err := s.Err(); err != nil && !errors.Is(err, ErrSlow) {
				t.Errorf("Err: %v", err)
			}
		})
		readersDone.Go(func() {
			for range 50 {
				hub.Subscribe(ctx, Filter{}).Close()
			}
		})
	}
	ready.Wait()
	for range events {
		log.add(false, some(1)...)
	}
	readersDone.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
