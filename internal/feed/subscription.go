package feed

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Subscription delivers the events of the log, in order and without gaps, from the moment of Subscribe on.
type Subscription struct {
	hub     *Hub
	filter  Filter
	channel chan store.Event
	// since is guarded by hub.mu.
	since   int64
	release func() bool
	// err is written before the channel is closed, under hub.mu.
	err error
}

// Subscribe starts a subscription, which ends with Close, with the context, with the hub, or when it is too slow.
func (h *Hub) Subscribe(ctx context.Context, filter Filter) *Subscription {
	s := &Subscription{hub: h, filter: filter, channel: make(chan store.Event, BufferSize)}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.since = h.position.Sequence
	h.subscriptions[s] = struct{}{}
	if h.stopped {
		h.end(s, ErrStopped)
		return s
	}
	// The function runs in its own goroutine, and only when the context ends first.
	s.release = context.AfterFunc(ctx, func() { s.finish(ctx.Err()) })
	return s
}

// C delivers the events. It is closed at the end of the subscription, after the events that are in the buffer.
func (s *Subscription) C() <-chan store.Event { return s.channel }

// Since is the sequence number after which every event that the filter matches is delivered. It is not known before the hub has
// started.
func (s *Subscription) Since() (sequence int64, known bool) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.since, s.hub.isStarted()
}

// Err tells why C was closed: ErrSlow, ErrReset, ErrStopped, the error of the context, or nil after Close and before the end.
func (s *Subscription) Err() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.err
}

// Close ends the subscription. Calling it again, or after the end, does nothing.
func (s *Subscription) Close() { s.finish(nil) }

func (s *Subscription) finish(reason error) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.end(s, reason)
	if s.release != nil {
		s.release()
	}
}
