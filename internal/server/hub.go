package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// closeGrace bounds saying goodbye to a subscriber.
	closeGrace = time.Second
	// resubscribeDelay is the pause before the hub asks the feed again after the feed gave it up.
	resubscribeDelay = time.Second
	// catchUpPage is how many events are read at a time when the hub reads those that the feed did not deliver.
	catchUpPage = 500
	// minPlaces is how many subscribers each caller may have at least; placesWait is when one that has as many as it may should ask
	// again.
	minPlaces  = 50
	placesWait = 10 * time.Second
)

// hub gives the events of one feed subscription to all subscribers. It keeps the newest events, each of them once, and every
// subscriber follows at its own pace: in two goroutines, the one of its request, which reads, and one that writes; a third one asks
// whether a caller that has proved who it is may stay. The hub never waits for any of them: a subscriber that is further behind than
// what is kept is disconnected.
type hub struct {
	limits  Limits
	log     logr.Logger
	metrics metrics
	events  store.Events

	mu   sync.RWMutex
	open bool
	// subscription is the one that is being followed.
	subscription Subscription
	subscribers  map[*subscriber]struct{}
	// places counts the subscribers of each caller that is known.
	places map[string]int
	// recent is a ring: the item number n is at n modulo its length. head is the number of the next one.
	recent []*item
	head   int64
	// grown is closed when there is another item.
	grown chan struct{}
	// position is the sequence number up to which everything was published, if that is known.
	position int64
	known    bool
	// serving counts the requests of subscribers.
	serving sync.WaitGroup
}

func newHub(events store.Events, limits Limits, log logr.Logger, m metrics) *hub {
	return &hub{
		limits: limits, log: log, metrics: m, events: events,
		subscribers: map[*subscriber]struct{}{}, places: map[string]int{}, recent: make([]*item, limits.SubscriberQueue), grown: make(chan struct{}),
	}
}

// start subscribes to the feed and opens the hub. The function that it returns closes it: it disconnects all subscribers and
// waits for them until its context ends.
func (h *hub) start(ctx context.Context, subscribe func(context.Context) Subscription) (stop func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	h.subscription = subscribe(ctx)
	h.open = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.run(ctx, subscribe)
	}()
	return func(bounded context.Context) {
		cancel()
		h.mu.Lock()
		h.open = false
		h.mu.Unlock()
		h.disconnect(func(*subscriber) bool { return true }, websocket.CloseGoingAway, "the server stops")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			h.serving.Wait()
			<-done
		}()
		select {
		case <-gone:
		case <-bounded.Done():
			h.log.Info("Some WebSockets did not close in time")
		}
	}
}

// run gives on what the feed says until ctx ends. When the feed gives the hub up, it reads what it missed.
func (h *hub) run(ctx context.Context, subscribe func(context.Context) Subscription) {
	for {
		ended := h.follow()
		if ctx.Err() != nil {
			return
		}
		h.log.Info("The event feed ended; subscribing again", "error", errorText(ended))
		pause := time.NewTimer(resubscribeDelay)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		next := subscribe(ctx)
		if errors.Is(ended, feed.ErrReset) || h.catchUp(ctx, next) != nil {
			h.restart(next)
			continue
		}
		h.mu.Lock()
		h.subscription = next
		h.mu.Unlock()
	}
}

// follow publishes what the feed delivers, and returns why it ended.
func (h *hub) follow() error {
	h.mu.RLock()
	subscription := h.subscription
	h.mu.RUnlock()
	for event := range subscription.C() {
		h.publish(event)
	}
	return subscription.Err()
}

// catchUp publishes the events between the last one that was published and the first of a new subscription.
func (h *hub) catchUp(ctx context.Context, next Subscription) error {
	until, known := next.Since()
	h.mu.RLock()
	position := h.position
	known = known && h.known
	h.mu.RUnlock()
	if !known {
		return errors.New("it is not known what was missed")
	}
	for position < until {
		events, err := h.events.EventsSince(ctx, position, catchUpPage)
		if err != nil {
			h.log.Info("Events that were missed cannot be read", "error", err.Error())
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for _, event := range events {
			h.publish(event)
		}
		position = events[len(events)-1].Sequence
	}
	return nil
}

// restart goes on with a subscription that does not continue the one before, and has those who follow the hub connect anew.
func (h *hub) restart(next Subscription) {
	h.disconnect(func(s *subscriber) bool { return s.view != nil }, websocket.CloseServiceRestart, "events may have been missed")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscription = next
	h.position, h.known = next.Since()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// publish keeps an event and wakes all subscribers. One that was published before is passed over.
func (h *hub) publish(event store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && event.Sequence <= h.position {
		return
	}
	h.position, h.known = event.Sequence, true
	size := int64(len(h.recent))
	h.recent[h.head%size] = &item{Event: event}
	h.head++
	for s := range h.subscribers {
		if s.next.Load() < h.head-size {
			s.stop(websocket.CloseTryAgainLater, "too slow")
			delete(h.subscribers, s)
			h.metrics.evicted.Inc()
		}
	}
	close(h.grown)
	h.grown = make(chan struct{})
}

// take appends to items what a subscriber has not taken yet, as far as there is room, and returns a channel that is closed when
// there is more.
func (h *hub) take(s *subscriber, items []*item) ([]*item, <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	size := int64(len(h.recent))
	next := s.next.Load()
	if next < h.head-size {
		// It is being disconnected.
		return items, h.grown
	}
	for ; next < h.head && len(items) < cap(items); next++ {
		items = append(items, h.recent[next%size])
	}
	return items, h.grown
}

// disconnect ends the WebSockets of some subscribers.
func (h *hub) disconnect(chosen func(*subscriber) bool, code int, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		if chosen(s) {
			s.stop(code, reason)
			delete(h.subscribers, s)
		}
	}
}

// isLive reports whether everything that is written from now on will be published. It is not before the feed has read the log.
func (h *hub) isLive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known && h.subscription != nil {
		h.position, h.known = h.subscription.Since()
	}
	return h.open && h.known
}

// placesOf is how many subscribers one caller may have at a time.
func placesOf(subscribers int) int { return max(minPlaces, subscribers/10) }

// add makes a subscriber for a caller, "" for one of no bound. It gets what is published from now on, or, when it has to catch up
// first, from when it joins.
func (h *hub) add(v view, opening opening, caller string) (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return nil, unavailable(nil, "the server does not take subscriptions at the moment")
	case len(h.subscribers) >= h.limits.Subscribers:
		return nil, unavailable(nil, "there are too many subscribers already")
	case caller != "" && h.places[caller] >= placesOf(h.limits.Subscribers):
		return nil, tooMany(placesWait, fmt.Sprintf("this user has %d WebSockets open, which is the limit; close some", h.places[caller]))
	}
	s := newSubscriber(h, v, opening, caller)
	if caller != "" {
		h.places[caller]++
	}
	if s.next.Store(h.head); opening != nil {
		s.next.Store(notJoined)
	}
	h.subscribers[s] = struct{}{}
	h.serving.Add(1)
	h.metrics.subscribers.Inc()
	return s, nil
}

// join has a subscriber get what is published from now on.
func (h *hub) join(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.next.Store(h.head)
}

// remove forgets a subscriber, once.
func (h *hub) remove(s *subscriber) {
	h.mu.Lock()
	delete(h.subscribers, s)
	if h.places[s.caller]--; h.places[s.caller] <= 0 {
		delete(h.places, s.caller)
	}
	h.mu.Unlock()
	h.metrics.subscribers.Dec()
	h.serving.Done()
}

// serve upgrades a request and returns when the subscriber is gone.
func (h *hub) serve(w http.ResponseWriter, r *http.Request, s *subscriber, upgrader *websocket.Upgrader, upgraded func()) {
	defer h.remove(s)
	defer s.stop(websocket.CloseNormalClosure, "")
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		// The upgrader has answered.
		return
	}
	upgraded()
	var helpers sync.WaitGroup
	helpers.Go(func() { s.write(connection) })
	watched, cancel := context.WithCancel(context.Background())
	if s.readmit != nil {
		helpers.Go(func() { s.watch(watched) })
	}
	s.read(connection)
	cancel()
	s.stop(websocket.CloseNormalClosure, "")
	helpers.Wait()
}
