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

// Numbering shows positions in the log to a caller that does not see all namespaces, and tells it events.
type Numbering struct {
	// Count is how many visible events the caller was told before.
	Count int64
	// Seal makes the log ID of a position, with the number of visible events that the caller was told up to it.
	Seal func(at feed.Position, count int64) string
	// Event is an event as it is told.
	Event func(event store.Event) store.Event
}

// numbers counts the events of one caller.
type numbers struct {
	Numbering
	count int64
}

// shown is a position as the caller sees it.
func (n *numbers) shown(at feed.Position) feed.Position {
	return feed.Position{Sequence: n.count, LogID: n.Seal(at, n.count)}
}

// Events is the stream of the visible events that a filter keeps: first those in the log behind position, then those that the hub publishes.
// log is what the log was when the client came. numbering is nil for a caller that sees all namespaces.
func (h *Hub) Events(in store.Namespaces, filter feed.Filter, position feed.Position, log store.EventLog, numbering *Numbering) Stream {
	e := &eventStream{hub: h, in: in, filter: filter, position: position, log: log}
	if numbering != nil {
		e.numbers = &numbers{*numbering, numbering.Count}
	}
	return Stream{encode: e.encode, open: e.open}
}

// eventStream tells one client events. One goroutine uses it.
type eventStream struct {
	hub *Hub
	in  store.Namespaces
	// numbers are those of a caller that does not see all namespaces, nil of others.
	numbers *numbers
	filter  feed.Filter
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
	if i.Sequence <= e.position.Sequence || !i.VisibleIn(e.in) {
		return nil, nil //nolint:nilnil // no error: the stream leaves it out
	}
	if e.numbers != nil {
		return e.encodeNumbered(i)
	}
	if !e.filter.Matches(i.Event) {
		return nil, nil //nolint:nilnil // as above
	}
	return i.event.get(func() ([]byte, error) { return e.hub.encode(i.Event) })
}

// encodeNumbered counts an event that is visible, and shows it if the filter keeps it.
func (e *eventStream) encodeNumbered(i *item) (*websocket.PreparedMessage, error) {
	e.numbers.count++
	if !e.filter.Matches(i.Event) {
		return nil, nil //nolint:nilnil // no error: the stream leaves it out
	}
	at := e.numbers.shown(feed.Of(i.Event))
	event := e.numbers.Event(i.Limited(e.in))
	event.Sequence, event.LogID = at.Sequence, at.LogID
	data, err := e.hub.encode(event)
	if err != nil {
		return nil, err
	}
	return websocket.NewPreparedMessage(websocket.TextMessage, data)
}

// open greets the client and replays the log. It joins the hub at the end of the log and reads on once more: what was written
// before is read, what is written afterwards is published.
func (e *eventStream) open(ctx context.Context, s *subscriber, connection *websocket.Conn) error {
	s.numbers = e.numbers
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
	// How many pages there are follows from what is not visible, too.
	if e.numbers == nil && e.position.Sequence > s.told && len(page.Events) > 0 {
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
