package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/ring"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
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

// Subscription is a running subscription of the event feed. Its channel is closed when the context of the subscription ends
// or when the feed gives it up; Err then says why. Since is the sequence number after which it delivers every event, if that is
// known already.
type Subscription interface {
	C() <-chan store.Event
	Since() (sequence int64, known bool)
	Err() error
}

// SubscriberLimits bound what WebSockets may take.
type SubscriberLimits struct {
	// Subscribers bounds the open WebSockets (5,000).
	Subscribers int
	// SubscriberQueue is how many events a subscriber may be behind (4,096); one more and it is disconnected. They are kept once for
	// all.
	SubscriberQueue int
	// Replays bounds the pages of the log that are read at a time for subscribers that catch up (32), ReplayPatience the wait for a store that is
	// away meanwhile (30 s).
	Replays        int
	ReplayPatience time.Duration
	// PingInterval is how often a subscriber is pinged (5 s), PongTimeout how long it may be silent (10 s), and
	// MessageTimeout how long one message may take to be written to it (10 s).
	PingInterval   time.Duration
	PongTimeout    time.Duration
	MessageTimeout time.Duration
	// ReadmitTimeout is how long a WebSocket stays open while nobody can be asked whether its caller may have it (25 s). With the age of remembered
	// permissions, it is a minute.
	ReadmitTimeout time.Duration
}

// Metrics count subscribers.
type Metrics struct {
	// Subscribers are those that are connected, Evicted those that were disconnected because they did not keep up.
	Subscribers prometheus.Gauge
	Evicted     prometheus.Counter
}

// Config configures a hub. All fields but Origin are required.
type Config struct {
	// Events is the event log.
	Events feed.Reader
	// Encode makes the message that tells an event.
	Encode func(store.Event) ([]byte, error)
	// Refuse answers a request that does not become a WebSocket.
	Refuse  func(http.ResponseWriter, *http.Request, error)
	Limits  SubscriberLimits
	Metrics Metrics
	Log     logr.Logger
	// Origin is the one of pages of our own, beside that of the host that they ask; "" if it is not known.
	Origin string
}

// Hub gives the events of one feed subscription to all subscribers. It keeps the newest events, each of them once, and every
// subscriber follows at its own pace: in two goroutines, the one of its request, which reads, and one that writes; a third one asks
// whether a caller that has proved who it is may stay. The hub never waits for any of them: a subscriber that is further behind than
// what is kept is disconnected.
type Hub struct {
	limits  SubscriberLimits
	log     logr.Logger
	metrics Metrics
	events  feed.Reader
	encode  func(store.Event) ([]byte, error)
	refuse  func(http.ResponseWriter, *http.Request, error)
	origin  string
	// replays are slots for pages of the log that are being read for subscribers.
	replays *semaphore.Weighted

	mu   sync.RWMutex
	open bool
	// subscription is the one that is being followed.
	subscription Subscription
	subscribers  map[*subscriber]struct{}
	// places counts the subscribers of each caller that is known.
	places map[string]int
	// recent holds the newest items.
	recent *ring.Buffer[*item]
	// grown is closed when there is another item.
	grown chan struct{}
	// position is up to where everything was published, if that is known.
	position feed.Position
	known    bool
	// serving counts the requests of subscribers.
	serving sync.WaitGroup
}

// NewHub makes a hub that takes no subscribers before Start.
func NewHub(config Config) *Hub {
	return &Hub{
		limits: config.Limits, log: config.Log, metrics: config.Metrics, events: config.Events, encode: config.Encode, refuse: config.Refuse, origin: config.Origin,
		replays:     semaphore.NewWeighted(int64(config.Limits.Replays)),
		subscribers: map[*subscriber]struct{}{}, places: map[string]int{}, recent: ring.New[*item](config.Limits.SubscriberQueue), grown: make(chan struct{}),
	}
}

// Start subscribes to the feed and opens the hub. The function that it returns closes it: it disconnects all subscribers and
// waits for them until its context ends.
func (h *Hub) Start(ctx context.Context, subscribe func(context.Context) Subscription) (stop func(context.Context)) {
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
		h.disconnect(func(*subscriber) bool { return true }, websocket.CloseGoingAway, "server shutting down")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			h.serving.Wait()
			<-done
		}()
		select {
		case <-gone:
		case <-bounded.Done():
			h.log.Info("Some WebSocket connections did not close before the timeout")
		}
	}
}

// run gives on what the feed says until ctx ends. When the feed gives the hub up, it reads what it missed.
func (h *Hub) run(ctx context.Context, subscribe func(context.Context) Subscription) {
	for {
		ended := h.follow()
		if ctx.Err() != nil {
			return
		}
		h.log.Info("The subscription to the event feed ended, subscribing again", "error", errorText(ended))
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
func (h *Hub) follow() error {
	h.mu.RLock()
	subscription := h.subscription
	h.mu.RUnlock()
	for event := range subscription.C() {
		h.publish(event)
	}
	return subscription.Err()
}

// catchUp publishes the events between the last one that was published and the first of a new subscription.
func (h *Hub) catchUp(ctx context.Context, next Subscription) error {
	until, known := next.Since()
	h.mu.RLock()
	position := h.position
	known = known && h.known
	h.mu.RUnlock()
	if !known {
		return errors.New("the last published event is unknown")
	}
	for position.Sequence < until {
		page, err := feed.ReadPage(ctx, h.events, position, catchUpPage)
		if err != nil {
			h.log.Info("Cannot read missed events", "error", err.Error())
			return err
		}
		if !page.Continues {
			return feed.ErrReset
		}
		if len(page.Events) == 0 {
			return nil
		}
		for _, event := range page.Events {
			h.publish(event)
		}
		position = feed.Of(page.Events[len(page.Events)-1])
	}
	return nil
}

// restart goes on with a subscription that does not continue the one before, and has those who follow the hub connect anew.
func (h *Hub) restart(next Subscription) {
	h.disconnect(func(s *subscriber) bool { return s.stream.encode != nil }, websocket.CloseServiceRestart, eventsMissing)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subscription = next
	h.beginAt(next)
}

// beginAt takes the position from where a subscription delivers events, if that is known; h.mu is held.
func (h *Hub) beginAt(subscription Subscription) {
	var sequence int64
	sequence, h.known = subscription.Since()
	h.position = feed.Position{Sequence: sequence}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// publish keeps an event and wakes all subscribers. One that was published before is passed over.
func (h *Hub) publish(event store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known && event.Sequence <= h.position.Sequence {
		return
	}
	h.position, h.known = feed.Of(event), true
	h.recent.Add(&item{Event: event})
	for s := range h.subscribers {
		if s.next.Load() < h.recent.First() {
			s.stop(websocket.CloseTryAgainLater, "client too slow")
			delete(h.subscribers, s)
			h.metrics.Evicted.Inc()
		}
	}
	close(h.grown)
	h.grown = make(chan struct{})
}

// take appends to items what a subscriber has not taken yet, as far as there is room, and returns a channel that is closed when
// there is more.
func (h *Hub) take(s *subscriber, items []*item) ([]*item, <-chan struct{}) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	// Nothing is appended for one that is too far behind: it is being disconnected.
	items, _ = h.recent.Append(items, s.next.Load())
	return items, h.grown
}

// disconnect ends the WebSockets of some subscribers.
func (h *Hub) disconnect(chosen func(*subscriber) bool, code int, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		if chosen(s) {
			s.stop(code, reason)
			delete(h.subscribers, s)
		}
	}
}

// Ready reports whether everything that is written from now on will be published. It is not before the feed has read the log.
func (h *Hub) Ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known && h.subscription != nil {
		h.beginAt(h.subscription)
	}
	return h.open && h.known
}

// placesOf is how many subscribers one caller may have at a time.
func placesOf(subscribers int) int { return max(minPlaces, subscribers/10) }

// add makes a subscriber for a caller, "" for one of no bound. It gets what is published from now on, or, when it has to catch up
// first, from when it joins.
func (h *Hub) add(stream Stream, caller string) (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return nil, problem.Unavailable(nil, "the server is not accepting WebSocket connections; try again")
	case len(h.subscribers) >= h.limits.Subscribers:
		return nil, problem.Unavailable(nil, "the maximum number of WebSocket connections is reached; try again")
	case caller != "" && h.places[caller] >= placesOf(h.limits.Subscribers):
		return nil, problem.TooManyRequests(placesWait, fmt.Sprintf("the limit of %d WebSocket connections per user is reached", h.places[caller]))
	}
	s := newSubscriber(h, stream, caller)
	if caller != "" {
		h.places[caller]++
	}
	if s.next.Store(h.recent.Next()); stream.open != nil {
		s.next.Store(notJoined)
	}
	h.subscribers[s] = struct{}{}
	h.serving.Add(1)
	h.metrics.Subscribers.Inc()
	return s, nil
}

// join has a subscriber get what is published from now on.
func (h *Hub) join(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.next.Store(h.recent.Next())
}

// remove forgets a subscriber, once.
func (h *Hub) remove(s *subscriber) {
	h.mu.Lock()
	delete(h.subscribers, s)
	if h.places[s.caller]--; h.places[s.caller] <= 0 {
		delete(h.places, s.caller)
	}
	h.mu.Unlock()
	h.metrics.Subscribers.Dec()
	h.serving.Done()
}

// ErrNamespacesChanged says that a caller sees other namespaces than when it opened its WebSocket: it has to connect anew.
var ErrNamespacesChanged = errors.New("the namespaces that the caller sees have changed")

// ErrIdentityAged says that it was too long ago that somebody confirmed who the caller is: it has to connect anew.
var ErrIdentityAged = errors.New("the caller has to be authenticated again")

// Client is who opens a WebSocket.
type Client struct {
	// Caller is whose WebSocket it is, "" when anybody may have any number.
	Caller string
	// Readmit fails when the caller may not have it any more, with ErrNamespacesChanged or ErrIdentityAged when it has to connect anew. It is nil
	// when nobody is asked.
	Readmit func(ctx context.Context) error
}

// Serve upgrades a request and sends the stream until the WebSocket ends; it calls upgraded in between.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, stream Stream, client Client, upgraded func()) error {
	s, err := h.add(stream, client.Caller)
	if err != nil {
		return err
	}
	defer h.remove(s)
	defer s.stop(websocket.CloseNormalClosure, "")
	connection, err := h.upgrader().Upgrade(w, r, nil)
	if err != nil {
		return nil //nolint:nilerr // the upgrader has answered
	}
	upgraded()
	var helpers sync.WaitGroup
	helpers.Go(func() { s.write(connection) })
	watched, cancel := context.WithCancel(context.Background())
	if client.Readmit != nil {
		helpers.Go(func() { s.watch(watched, client.Readmit) })
	}
	s.read(connection)
	cancel()
	s.stop(websocket.CloseNormalClosure, "")
	helpers.Wait()
	return nil
}
