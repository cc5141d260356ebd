package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// closeGrace bounds saying goodbye to a subscriber.
const closeGrace = time.Second

// resubscribeDelay is the pause before the hub asks the feed again after the feed gave it up.
const resubscribeDelay = time.Second

// hub gives the events of one feed subscription to all subscribers. Each subscriber has a bounded queue and two goroutines:
// the one of its request, which reads, and one that writes. The hub never waits for any of them: a subscriber whose queue is
// full is disconnected, and fetches everything anew when it comes back.
type hub struct {
	limits  Limits
	log     logr.Logger
	metrics metrics

	mu          sync.Mutex
	open        bool
	subscribers map[*subscriber]struct{}
	// serving counts the requests of subscribers.
	serving sync.WaitGroup
}

func newHub(limits Limits, log logr.Logger, m metrics) *hub {
	return &hub{limits: limits, log: log, metrics: m, subscribers: map[*subscriber]struct{}{}}
}

// start subscribes to the feed and opens the hub. The function that it returns closes it: it disconnects all subscribers and
// waits for them until its context ends.
func (h *hub) start(ctx context.Context, subscribe func(context.Context) Subscription) (stop func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	first := subscribe(ctx)
	h.mu.Lock()
	h.open = true
	h.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.run(ctx, first, subscribe)
	}()
	return func(bounded context.Context) {
		cancel()
		h.mu.Lock()
		h.open = false
		h.mu.Unlock()
		h.disconnectAll(websocket.CloseGoingAway, "the server stops")
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

// run gives on what the feed says until ctx ends.
func (h *hub) run(ctx context.Context, subscription Subscription, subscribe func(context.Context) Subscription) {
	for {
		for event := range subscription.C() {
			h.publish(event)
		}
		if ctx.Err() != nil {
			return
		}
		h.log.Info("The event feed ended; subscribing again", "error", errorText(subscription.Err()))
		pause := time.NewTimer(resubscribeDelay)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		subscription = subscribe(ctx)
		// What was said in between is lost to subscribers: when they come back they fetch everything anew.
		h.disconnectAll(websocket.CloseServiceRestart, "events may have been missed; connect again")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// publish queues a new result for every subscriber, as a JSON string with the image ID.
func (h *hub) publish(event store.Event) {
	if (event.Kind != store.EventImageMatched && event.Kind != store.EventImageReported) || event.ImageID == "" {
		return
	}
	data, err := json.Marshal(event.ImageID)
	if err != nil {
		h.log.Error(err, "Event cannot be told", "imageID", event.ImageID)
		return
	}
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, data)
	if err != nil {
		h.log.Error(err, "Event cannot be told", "imageID", event.ImageID)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		select {
		case s.queue <- message:
		default:
			s.stop(websocket.CloseTryAgainLater, "too slow; connect again")
			delete(h.subscribers, s)
			h.metrics.evicted.Inc()
		}
	}
}

func (h *hub) disconnectAll(code int, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subscribers {
		s.stop(code, reason)
		delete(h.subscribers, s)
	}
}

// add makes a subscriber, which gets what is published from now on.
func (h *hub) add() (*subscriber, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return nil, unavailable(nil, "the server does not take subscriptions at the moment")
	case len(h.subscribers) >= h.limits.Subscribers:
		return nil, unavailable(nil, "there are too many subscribers already")
	}
	s := &subscriber{limits: h.limits, queue: make(chan *websocket.PreparedMessage, h.limits.SubscriberQueue), done: make(chan struct{})}
	h.subscribers[s] = struct{}{}
	h.serving.Add(1)
	h.metrics.subscribers.Inc()
	return s, nil
}

// remove forgets a subscriber, once.
func (h *hub) remove(s *subscriber) {
	h.mu.Lock()
	delete(h.subscribers, s)
	h.mu.Unlock()
	h.metrics.subscribers.Dec()
	h.serving.Done()
}

// serve upgrades a request and returns when the subscriber is gone.
func (h *hub) serve(w http.ResponseWriter, r *http.Request, upgrader *websocket.Upgrader, upgraded func()) error {
	s, err := h.add()
	if err != nil {
		return err
	}
	defer h.remove(s)
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		// The upgrader has answered.
		return nil //nolint:nilerr // as said
	}
	upgraded()
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(connection)
	}()
	s.read(connection)
	s.stop(websocket.CloseNormalClosure, "")
	<-written
	return nil
}
