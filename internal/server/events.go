package server

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	defaultEventPage = 100
	maxEventPage     = 1000
	// maxLogID bounds the ID of a log, in bytes.
	maxLogID = 128
	// fromNow stands for the sequence number of a client that wants no events from before.
	fromNow = -1
)

// ListEvents answers a page of events, or opens a WebSocket that replays them and goes on.
func (o operations) ListEvents(ctx context.Context, request api.ListEventsRequestObject) (api.ListEventsResponseObject, error) {
	filter, since, limit, err := eventQuery(request.Params)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	if !live.IsUpgrade(r) {
		return o.s.eventPage(ctx, filter, since, limit)
	}
	if err := o.s.hub.CheckOrigin(r); err != nil {
		return nil, err
	}
	log, err := o.s.store.EventLog(ctx)
	if err != nil {
		return nil, err
	}
	if !o.s.hub.Ready() {
		return nil, problem.Unavailable(nil, "the event feed has not started yet; try again")
	}
	in := visible(ctx)
	if in.All() {
		return upgrade{o.s, r, o.s.hub.Events(in, filter, startOf(since, log), log, nil)}, nil
	}
	numbers, err := o.s.numbersOf(ctx, in)
	if err != nil {
		return nil, err
	}
	position, count, known := numbers.start(since, log)
	if !known {
		position = feed.Position{Sequence: math.MaxInt64 / 2} // Where no log continues: the client is told to begin anew.
	}
	return upgrade{o.s, r, o.s.hub.Events(in, filter, position, log, &live.Numbering{Count: count, Seal: numbers.seal, Event: numbers.event})}, nil
}

// eventQuery reads the parameters. The sequence number of since is fromNow when it is not given.
func eventQuery(params api.ListEventsParams) (filter feed.Filter, since feed.Position, limit int, err error) {
	since, limit = feed.Position{Sequence: fromNow, LogID: value(params.LogId)}, defaultEventPage
	if params.Since != nil {
		if since.Sequence = *params.Since; since.Sequence < 0 {
			return filter, since, 0, problem.BadRequest("since: %d is not a sequence number; use 0 for the beginning of the event log", since.Sequence)
		}
	}
	if since.LogID != "" && since.Sequence == fromNow {
		return filter, since, 0, problem.BadRequest("logId: requires since, the sequence number that came with it")
	}
	if len(since.LogID) > maxLogID {
		return filter, since, 0, problem.BadRequest("logId: %d bytes exceed the maximum of %d", len(since.LogID), maxLogID)
	}
	if params.Limit != nil {
		if limit = *params.Limit; limit < 1 || limit > maxEventPage {
			return filter, since, 0, problem.BadRequest("limit: %d is not in the range 1 to %d", limit, maxEventPage)
		}
	}
	kinds := value(params.Kind)
	if len(kinds) > len(store.EventKinds()) {
		return filter, since, 0, problem.BadRequest("kind: %d values exceed the number of event kinds", len(kinds))
	}
	for _, kind := range kinds {
		if !slices.Contains(store.EventKinds(), store.EventKind(kind)) {
			return filter, since, 0, problem.BadRequest("kind: %q is not an event kind", kind)
		}
		filter.Kinds = append(filter.Kinds, store.EventKind(kind))
	}
	filter.ImageID, filter.Namespace = value(params.ImageId), value(params.Namespace)
	return filter, since, limit, nil
}

// startOf is the position behind which a client is told events.
func startOf(since feed.Position, log store.EventLog) feed.Position {
	switch since.Sequence {
	case fromNow:
		return feed.End(log)
	case 0:
		return feed.Beginning(log)
	default:
		return since
	}
}

func (s *Server) eventPage(ctx context.Context, filter feed.Filter, since feed.Position, limit int) (api.ListEventsResponseObject, error) {
	log, err := s.store.EventLog(ctx)
	if err != nil {
		return nil, err
	}
	if in := visible(ctx); !in.All() {
		return s.visibleEvents(ctx, in, filter, since, limit, log)
	}
	position := startOf(since, log)
	read, err := feed.ReadPage(ctx, s.store, position, limit)
	if err != nil {
		return nil, err
	}
	if !read.Continues {
		return eventsGone{s.resetProblem(position.Sequence, read.Log)}, nil
	}
	page := api.ListEvents200JSONResponse{Last: read.Log.Last, Items: []api.Event{}}
	for _, event := range read.Events {
		position = feed.Of(event)
		if filter.Matches(event) {
			page.Items = append(page.Items, toEvent(event))
		}
	}
	page.Sequence, page.LogId = position.Sequence, position.LogID
	// What was written between the two reads is for the next page.
	page.Last = max(page.Last, page.Sequence)
	return page, nil
}

func (s *Server) resetProblem(position int64, log store.EventLog) api.EventReset {
	var cause string
	switch {
	case position > log.Last:
		cause = fmt.Sprintf("the newest event is %d, not %d: the event log was replaced", log.Last, position)
	case position < log.Floor:
		cause = fmt.Sprintf("events up to %d have been removed", log.Floor)
	default:
		cause = fmt.Sprintf("the SQL database lost events up to %d and used their sequence numbers again", position)
	}
	detail := fmt.Sprintf("%s; reload the current state and continue with since=%d and logId=%s", cause, log.Last, log.LastID)
	return api.EventReset{
		Type: "about:blank", Title: http.StatusText(http.StatusGone), Status: http.StatusGone, Detail: &detail, Sequence: log.Last, LogId: log.LastID,
	}
}

// eventsGone is the answer to who asks for events that are not there any more.
type eventsGone struct{ reset api.EventReset }

// VisitListEventsResponse writes the answer.
func (a eventsGone) VisitListEventsResponse(w http.ResponseWriter) error {
	return api.ListEvents410ApplicationProblemPlusJSONResponse(a.reset).VisitListEventsResponse(w)
}

func toEvent(e store.Event) api.Event {
	return api.Event{
		Type: api.EventTypeEvent, Sequence: e.Sequence, LogId: e.LogID, At: e.At.UTC(), Kind: api.EventKind(e.Kind),
		ImageId: optional(e.ImageID), Platform: optional(e.Platform), Data: e.Public().Data,
	}
}
