package server_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// handFeed is a feed that the test speaks through.
type handFeed struct {
	subscriptions chan *handSubscription
	// since is what the next subscription says, last the number of the last event that was made.
	since, last atomic.Int64
}

type handSubscription struct {
	events chan store.Event
	once   sync.Once
	since  int64
	err    error
}

func (s *handSubscription) C() <-chan store.Event { return s.events }
func (s *handSubscription) Since() (int64, bool)  { return s.since, true }
func (s *handSubscription) Err() error            { return s.err }
func (s *handSubscription) end()                  { s.once.Do(func() { close(s.events) }) }

func (f *handFeed) subscribe(ctx context.Context) live.Subscription {
	s := &handSubscription{events: make(chan store.Event), since: f.since.Load(), err: feed.ErrSlow}
	f.subscriptions <- s
	context.AfterFunc(ctx, s.end)
	return s
}

func newHandFeed() *handFeed { return &handFeed{subscriptions: make(chan *handSubscription, 10)} }

// matched makes an event with the next number.
func (f *handFeed) matched(id string) store.Event {
	return store.Event{Sequence: f.last.Add(1), Kind: store.EventImageMatched, ImageID: id, Data: []byte("{}")}
}

// When the feed gives the server up, the server reads what it missed: subscribers do not notice.
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	hand := newHandFeed()
	f := newFixture(t, func(c *server.Config) { c.Feed = hand.subscribe })
	first := <-hand.subscriptions
	connection, _ := f.dial()
	for _, id := range []string{"one", "two", "three"} {
		f.report(id)
	}
	events, err := f.store.EventsSince(t.Context(), store.AllNamespaces(), 0, 10)
	f.must(err)
	first.events <- events[0]
	hand.since.Store(events[1].Sequence)
	first.end()
	second := <-hand.subscriptions
	// The feed told of the second one before it noticed that the server had subscribed again.
	second.events <- events[1]
	second.events <- events[2]
	for _, want := range []string{"one", "two", "three"} {
		if got := next(t, connection); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// When it cannot be known what was missed, subscribers are asked to come back.
func TestFeedEndsForGood(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*handFeed, *handSubscription, *brokenLog){
		"another log":           func(_ *handFeed, s *handSubscription, _ *brokenLog) { s.err = feed.ErrReset },
		"the store is away too": func(f *handFeed, _ *handSubscription, l *brokenLog) { f.since.Store(5); l.broken.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hand, log := newHandFeed(), &brokenLog{}
			f := newFixture(t, func(c *server.Config) {
				log.Store, c.Store, c.Feed = c.Store, log, hand.subscribe
			})
			first := <-hand.subscriptions
			connection, _ := f.dial()
			first.events <- hand.matched("one")
			if got := next(t, connection); got != "one" {
				t.Error(got)
			}
			change(hand, first, log)
			first.end()
			if code := closed(t, connection); code != websocket.CloseServiceRestart {
				t.Errorf("closed with %d", code)
			}
			second := <-hand.subscriptions
			connection, _ = f.dial()
			hand.last.Store(10)
			second.events <- hand.matched("two")
			if got := next(t, connection); got != "two" {
				t.Error(got)
			}
		})
	}
}

// brokenLog is a store whose event log cannot be read while it is broken.
type brokenLog struct {
	store.Store
	broken atomic.Bool
}

func (l *brokenLog) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	if l.broken.Load() {
		return nil, store.ErrUnavailable
	}
	return l.Store.EventsSince(ctx, in, since, limit)
}
