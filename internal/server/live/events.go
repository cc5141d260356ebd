package live

import (
	"context"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// replayPage is how many events are read at a time for a client that catches up.
	replayPage = 200
	// replayRetryDelay is the pause before the store is asked again.
	replayRetryDelay = time.Second
)

// ReadEvents reads events behind a sequence number, and then which of them there are: one that was removed before it was read is
// noticed.
func ReadEvents(ctx context.Context, events store.Events, position int64, limit int) ([]store.Event, store.EventLog, error) {
	page, err := events.EventsSince(ctx, position, limit)
	if err != nil {
		return nil, store.EventLog{}, err
	}
	log, err := events.EventLog(ctx)
	return page, log, err
}

// Continues reports whether a client that has seen everything up to a sequence number can be told what came after.
func Continues(position int64, log store.EventLog) bool {
	return log.Floor <= position && position <= log.Last
}

// Events is the stream of the events that a filter keeps: first those in the log behind position, then those that the hub publishes.
// log is what the log was when the client came.
func (h *Hub) Events(filter feed.Filter, position int64, log store.EventLog) Stream {
	e := &eventStream{hub: h, filter: filter, position: position, log: log}
	return Stream{encode: e.encode, open: e.open}
}

// eventStream tells one client events. One goroutine uses it.
type eventStream struct {
	hub    *Hub
	filter feed.Filter
	// position is the sequence number up to which the client was told everything that the filter keeps.
	position int64
	// log is what the log was when the client came.
	log store.EventLog
}

// encode shows the events that the filter keeps and that the replay has not told.
func (e *eventStream) encode(i *item) (*websocket.PreparedMessage, error) {
	if i.Sequence <= e.position || !e.filter.Matches(i.Event) {
		return nil, nil //nolint:nilnil // no error: the stream leaves it out
	}
	return i.event.get(func() ([]byte, error) { return e.hub.encode(i.Event) })
}

// open greets the client and replays the log. It joins the hub at the end of the log and reads on once more: what was written
// before is read, what is written afterwards is published.
func (e *eventStream) open(ctx context.Context, s *subscriber, connection *websocket.Conn) error {
	if err := s.note(connection, api.Hello, e.log.Last); err != nil {
		return err
	}
	s.told, s.passed = e.position, e.position
	for joined := false; ; {
		more, err := e.replay(ctx, s, connection)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if joined {
			return nil
		}
		e.hub.join(s)
		joined = true
	}
}

// replay tells a page of the log and reports whether there may be more.
func (e *eventStream) replay(ctx context.Context, s *subscriber, connection *websocket.Conn) (bool, error) {
	events, log, err := e.read(ctx, s)
	if err != nil {
		return false, err
	}
	if !Continues(e.position, log) {
		e.position = log.Last
		s.passed = e.position
		return false, s.note(connection, api.Reset, e.position)
	}
	for _, event := range events {
		if err := s.deliver(connection, &item{Event: event}); err != nil {
			return false, err
		}
		e.position = event.Sequence
	}
	if e.position > s.told && len(events) > 0 {
		if err := s.note(connection, api.Position, e.position); err != nil {
			return false, err
		}
	}
	return len(events) == replayPage, nil
}

// read reads a page of the log. A store that is away for a short time is waited for. The number of those who read at a time is bounded;
// clients that take slowly what was read hold up nobody.
func (e *eventStream) read(ctx context.Context, s *subscriber) ([]store.Event, store.EventLog, error) {
	if err := e.hub.replays.Acquire(ctx, 1); err != nil {
		return nil, store.EventLog{}, err
	}
	defer e.hub.replays.Release(1)
	deadline := time.Now().Add(e.hub.limits.ReplayPatience)
	for {
		events, log, err := ReadEvents(ctx, e.hub.events, e.position, replayPage)
		if err == nil || ctx.Err() != nil {
			return events, log, err
		}
		if time.Now().After(deadline) {
			e.hub.log.Info("Cannot replay events", "error", err.Error())
			s.stop(websocket.CloseTryAgainLater, "the SQL database is unavailable")
			return nil, log, err
		}
		select {
		case <-ctx.Done():
			return nil, log, ctx.Err()
		case <-time.After(replayRetryDelay):
		}
	}
}
