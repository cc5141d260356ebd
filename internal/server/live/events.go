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

// Events is the stream of the events that a filter keeps: first those in the log behind position, then those that the hub publishes.
// log is what the log was when the client came.
func (h *Hub) Events(filter feed.Filter, position feed.Position, log store.EventLog) Stream {
	e := &eventStream{hub: h, filter: filter, position: position, log: log}
	return Stream{encode: e.encode, open: e.open}
}

// eventStream tells one client events. One goroutine uses it.
type eventStream struct {
	hub    *Hub
	filter feed.Filter
	// position is up to where the client was told everything that the filter keeps.
	position feed.Position
	// log is what the log was when the client came.
	log store.EventLog
}

// encode shows the events that the filter keeps and that the replay has not told. It fails with feed.ErrReset when the replay has told
// another event with that number: the hub was behind it when the log lost events.
func (e *eventStream) encode(i *item) (*websocket.PreparedMessage, error) {
	if e.position.Contradicts(i.Event) {
		return nil, feed.ErrReset
	}
	if i.Sequence <= e.position.Sequence || !e.filter.Matches(i.Event) {
		return nil, nil //nolint:nilnil // no error: the stream leaves it out
	}
	return i.event.get(func() ([]byte, error) { return e.hub.encode(i.Event) })
}

// open greets the client and replays the log. It joins the hub at the end of the log and reads on once more: what was written
// before is read, what is written afterwards is published.
func (e *eventStream) open(ctx context.Context, s *subscriber, connection *websocket.Conn) error {
	if err := s.note(connection, api.Hello, feed.End(e.log)); err != nil {
		return err
	}
	s.told, s.passed = e.position.Sequence, e.position
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
	page, err := e.read(ctx, s)
	if err != nil {
		return false, err
	}
	if !page.Continues {
		e.position = feed.End(page.Log)
		s.passed = e.position
		return false, s.note(connection, api.Reset, e.position)
	}
	for _, event := range page.Events {
		if err := s.deliver(connection, &item{Event: event}); err != nil {
			return false, err
		}
		e.position = feed.Of(event)
	}
	if e.position.Sequence > s.told && len(page.Events) > 0 {
		if err := s.note(connection, api.Position, e.position); err != nil {
			return false, err
		}
	}
	return len(page.Events) == replayPage, nil
}

// read reads a page of the log. A store that is away for a short time is waited for. The number of those who read at a time is bounded;
// clients that take slowly what was read hold up nobody.
func (e *eventStream) read(ctx context.Context, s *subscriber) (feed.Page, error) {
	if err := e.hub.replays.Acquire(ctx, 1); err != nil {
		return feed.Page{}, err
	}
	defer e.hub.replays.Release(1)
	deadline := time.Now().Add(e.hub.limits.ReplayPatience)
	for {
		page, err := feed.ReadPage(ctx, e.hub.events, e.position, replayPage)
		if err == nil || ctx.Err() != nil {
			return page, err
		}
		if time.Now().After(deadline) {
			e.hub.log.Info("Cannot replay events", "error", err.Error())
			s.stop(websocket.CloseTryAgainLater, "the SQL database is unavailable")
			return feed.Page{}, err
		}
		select {
		case <-ctx.Done():
			return feed.Page{}, ctx.Err()
		case <-time.After(replayRetryDelay):
		}
	}
}
