package feed

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Position is a place in an event log: everything up to a sequence number has been seen.
type Position struct {
	Sequence int64
	// LogID is the store.Event.LogID of the event with that number, "" when it is not known.
	LogID string
}

// End is the position of who has seen the whole log.
func End(log store.EventLog) Position { return Position{log.Last, log.LastID} }

// Beginning is the position of who has seen nothing of what the log still holds.
func Beginning(log store.EventLog) Position { return Position{log.Floor, log.FloorID} }

// Of is the position of who has seen everything up to an event.
func Of(event store.Event) Position { return Position{event.Sequence, event.LogID} }

// Contradicts reports whether an event has the number of the position and is of another log.
func (p Position) Contradicts(event store.Event) bool {
	return event.Sequence == p.Sequence && !same(p.LogID, event.LogID)
}

// Reader reads an event log, as store.Events does.
type Reader interface {
	EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error)
	EventLog(ctx context.Context) (store.EventLog, error)
}

// Page is what there is of a log behind a position.
type Page struct {
	Events []store.Event
	// Log is what the log was after the events were read.
	Log store.EventLog
	// Continues says that the events are those that come next behind the position. They are not when some were removed, or when the log
	// is another one: the database has lost events and used their numbers again, or has fewer.
	Continues bool
}

// ReadPage reads up to limit events behind a position, at most store.MaxKeys - 1. The event at the position is read with them, so that no event is removed, and no
// number used again, in between.
func ReadPage(ctx context.Context, log Reader, from Position, limit int) (Page, error) {
	events, err := log.EventsSince(ctx, store.AllNamespaces(), max(from.Sequence-1, 0), limit+1)
	if err != nil {
		return Page{}, err
	}
	page := Page{Events: events}
	if page.Log, err = log.EventLog(ctx); err != nil {
		return Page{}, err
	}
	switch {
	case len(events) > 0 && events[0].Sequence == from.Sequence:
		page.Events, page.Continues = events[1:], same(from.LogID, events[0].LogID)
	case from.Sequence == page.Log.Floor:
		page.Events, page.Continues = events[:min(limit, len(events))], same(from.LogID, page.Log.FloorID)
	}
	return page, nil
}

// same compares IDs of logs. One that is not known may be any.
func same(a, b string) bool { return a == b || a == "" || b == "" }
