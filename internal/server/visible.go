package server

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/server/seal"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// visible returns the namespaces that a request may see.
func visible(ctx context.Context) store.Namespaces { return auth.Visible(ctx) }

// stillVisible fails when the caller of a request that takes long would not see the same any more.
func (s *Server) stillVisible(ctx context.Context) error {
	admitted, found := auth.AdmissionOf(ctx)
	if !found {
		return nil
	}
	err := s.guard.Readmit(ctx, admitted)
	if errors.Is(err, auth.ErrNamespacesChanged) {
		return problem.New(http.StatusForbidden, "the namespaces that you may see have changed; try again")
	}
	return err
}

// mayChange returns the namespaces of an image in which the caller may use a verb. Of an image that the caller does not see, there are none that reviews ask about: that
// they take time or fail would tell that the image runs somewhere.
func (s *Server) mayChange(ctx context.Context, verb, imageID string) (store.Namespaces, error) {
	if visible(ctx).All() && s.config.Auth == auth.None {
		return store.AllNamespaces(), nil
	}
	names, err := s.store.ImageNamespaces(ctx, imageID)
	if err != nil {
		return store.Namespaces{}, err
	}
	if !visible(ctx).ContainsAny(names) {
		names = nil
	}
	return s.guard.May(ctx, verb, names)
}

// otherNamespaces says that a change needs the permission in namespaces in which the caller lacks it. It does not say which: of an image that the caller
// does not see, there may be none.
func otherNamespaces(err error, verb string) error {
	if errors.Is(err, store.ErrOtherNamespaces) {
		return problem.New(http.StatusForbidden,
			"the permission to %s scanresults is required in every namespace in which the image runs or is kept, and the permission to list them in one of these; of an image that runs nowhere, in the whole cluster", verb)
	}
	return err
}

// eventNumbers numbers the events of a caller that does not see all namespaces, from 1 and without gaps. The log ID beside a number has the position in
// the log.
type eventNumbers struct {
	in     store.Namespaces
	sealer *seal.Sealer
}

func (s *Server) numbersOf(ctx context.Context, in store.Namespaces) (eventNumbers, error) {
	sealer, err := s.store.seals(ctx)
	return eventNumbers{in, sealer}, err
}

// numberSize is the size of a number in a log ID in bytes.
const numberSize = 8

// seal makes the log ID of a position up to which the caller was told so many events. Its length is the same for all positions.
func (n eventNumbers) seal(at feed.Position, count int64) string {
	content := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(at.Sequence)), uint64(count)) //nolint:gosec // both are read as they are written
	return n.sealer.Fresh(purposeOf(sealEvents, n.in), append(content, at.LogID...))
}

// open returns the position and the number of events in a log ID.
func (n eventNumbers) open(logID string) (at feed.Position, told int64, ok bool) {
	content, ok := n.sealer.Open(purposeOf(sealEvents, n.in), logID)
	if !ok || len(content) < 2*numberSize {
		return feed.Position{}, 0, false
	}
	sequence, count := binary.BigEndian.Uint64(content), binary.BigEndian.Uint64(content[numberSize:])
	return feed.Position{Sequence: int64(sequence), LogID: string(content[2*numberSize:])}, int64(count), true //nolint:gosec // as they were written
}

// start is the position behind which a client is told events, and how many it was told before; known is false when it has to begin anew.
func (n eventNumbers) start(since feed.Position, log store.EventLog) (at feed.Position, count int64, known bool) {
	switch {
	case since.Sequence == fromNow:
		return feed.End(log), 0, true
	case since.LogID != "":
		at, count, known = n.open(since.LogID)
		return at, count, known && count == since.Sequence
	case since.Sequence == 0:
		return feed.Beginning(log), 0, true
	default:
		return feed.Position{}, 0, false
	}
}

// event is an event as it is told.
func (n eventNumbers) event(event store.Event) store.Event { return sealEvent(n.sealer, event) }

// visibleEvents answers a page of visible events. log is the log before they are read: what is written meanwhile is for the next page.
func (s *Server) visibleEvents(ctx context.Context, in store.Namespaces, filter feed.Filter, since feed.Position, limit int, log store.EventLog) (
	api.ListEventsResponseObject, error,
) {
	numbers, err := s.numbersOf(ctx, in)
	if err != nil {
		return nil, err
	}
	position, count, known := numbers.start(since, log)
	var events []store.Event
	if known {
		if events, err = s.store.EventsSince(ctx, in, position.Sequence, limit); err != nil {
			return nil, err
		}
	}
	if known {
		// Whether the log continued at the position, also while the events were read.
		read, err := feed.ReadPage(ctx, s.store, position, 1)
		if err != nil {
			return nil, err
		}
		known = read.Continues
	}
	if !known {
		detail := "the position is not known, was made for other namespaces, or is older than the events that are retained; reload the current state and continue with this logId"
		return eventsGone{api.EventReset{
			Type: "about:blank", Title: http.StatusText(http.StatusGone), Status: http.StatusGone, Detail: &detail, LogId: numbers.seal(feed.End(log), 0),
		}}, nil
	}
	page := api.ListEvents200JSONResponse{Items: []api.Event{}}
	for _, event := range events {
		count++
		position = feed.Of(event)
		if filter.Matches(event) {
			event = numbers.event(event)
			event.Sequence, event.LogID = count, numbers.seal(position, count)
			page.Items = append(page.Items, toEvent(event))
		}
	}
	if page.Last = count + 1; len(events) < limit {
		if page.Last = count; log.Last > position.Sequence {
			position = feed.End(log)
		}
	}
	page.Sequence, page.LogId = count, numbers.seal(position, count)
	return page, nil
}
