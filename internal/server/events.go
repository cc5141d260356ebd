package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	defaultEventPage = 100
	maxEventPage     = 1000
	// replayPage is how many events are read at a time for a client that catches up.
	replayPage = 200
	// replayRetryDelay is the pause before the store is asked again.
	replayRetryDelay = time.Second
	// fromNow stands for the position of a client that wants no events from before.
	fromNow = -1
)

// ListEvents answers a page of events, or opens a WebSocket that replays them and goes on.
func (o operations) ListEvents(ctx context.Context, request api.ListEventsRequestObject) (api.ListEventsResponseObject, error) {
	filter, since, limit, err := eventQuery(request.Params)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	if !websocket.IsWebSocketUpgrade(r) {
		return o.s.eventPage(ctx, filter, since, limit)
	}
	if err := checkOrigin(r); err != nil {
		return nil, err
	}
	log, err := o.s.config.Store.EventLog(ctx)
	if err != nil {
		return nil, err
	}
	if !o.s.hub.isLive() {
		return nil, unavailable(nil, "the event feed has not started yet")
	}
	stream := &eventStream{s: o.s, filter: filter, position: startOf(since, log), log: log}
	return upgrade{o.s, r, stream.view, stream.open}, nil
}

// eventQuery reads the parameters. since is fromNow when it is not given.
func eventQuery(params api.ListEventsParams) (filter feed.Filter, since int64, limit int, err error) {
	since, limit = fromNow, defaultEventPage
	if params.Since != nil {
		if since = *params.Since; since < 0 {
			return filter, 0, 0, badRequest("since: %d is no sequence number; 0 is the beginning", since)
		}
	}
	if params.Limit != nil {
		if limit = *params.Limit; limit < 1 || limit > maxEventPage {
			return filter, 0, 0, badRequest("limit: %d is not between 1 and %d", limit, maxEventPage)
		}
	}
	kinds := value(params.Kind)
	if len(kinds) > len(store.EventKinds()) {
		return filter, 0, 0, badRequest("kind: %d are more than there are", len(kinds))
	}
	for _, kind := range kinds {
		if !slices.Contains(store.EventKinds(), store.EventKind(kind)) {
			return filter, 0, 0, badRequest("kind: there are no events of the kind %q", kind)
		}
		filter.Kinds = append(filter.Kinds, store.EventKind(kind))
	}
	filter.ImageID, filter.Namespace = value(params.ImageId), value(params.Namespace)
	return filter, since, limit, nil
}

// startOf is the sequence number behind which a client is told events.
func startOf(since int64, log store.EventLog) int64 {
	switch since {
	case fromNow:
		return log.Last
	case 0:
		return log.Floor
	default:
		return since
	}
}

// continues reports whether a client that has seen everything up to a sequence number can be told what came after.
func continues(position int64, log store.EventLog) bool {
	return log.Floor <= position && position <= log.Last
}

func (s *Server) eventPage(ctx context.Context, filter feed.Filter, since int64, limit int) (api.ListEventsResponseObject, error) {
	log, err := s.config.Store.EventLog(ctx)
	if err != nil {
		return nil, err
	}
	position := startOf(since, log)
	events, log, err := s.eventsBehind(ctx, position, limit)
	if err != nil {
		return nil, err
	}
	if !continues(position, log) {
		return eventsGone{s.resetProblem(position, log)}, nil
	}
	page := api.ListEvents200JSONResponse{Sequence: position, Last: log.Last, Items: []api.Event{}}
	for _, event := range events {
		page.Sequence = event.Sequence
		if filter.Matches(event) {
			page.Items = append(page.Items, toEvent(event))
		}
	}
	// What was written between the two reads is for the next page.
	page.Last = max(page.Last, page.Sequence)
	return page, nil
}

// eventsBehind reads events, and then which of them there are: one that was removed before it was read is noticed.
func (s *Server) eventsBehind(ctx context.Context, position int64, limit int) ([]store.Event, store.EventLog, error) {
	events, err := s.config.Store.EventsSince(ctx, position, limit)
	if err != nil {
		return nil, store.EventLog{}, err
	}
	log, err := s.config.Store.EventLog(ctx)
	return events, log, err
}

func (s *Server) resetProblem(position int64, log store.EventLog) api.EventReset {
	detail := fmt.Sprintf("events up to %d are not kept any more; fetch everything anew and go on with since=%d", log.Floor, log.Last)
	if position > log.Last {
		detail = fmt.Sprintf("the newest event is %d, not %d: this is another log than before; fetch everything anew and go on with since=%d",
			log.Last, position, log.Last)
	}
	return api.EventReset{Type: "about:blank", Title: http.StatusText(http.StatusGone), Status: http.StatusGone, Detail: &detail, Sequence: log.Last}
}

// eventsGone is the answer to who asks for events that are not there any more.
type eventsGone struct{ reset api.EventReset }

// VisitListEventsResponse writes the answer.
func (a eventsGone) VisitListEventsResponse(w http.ResponseWriter) error {
	return api.ListEvents410ApplicationProblemPlusJSONResponse(a.reset).VisitListEventsResponse(w)
}

func toEvent(e store.Event) api.Event {
	return api.Event{
		Type: api.EventTypeEvent, Sequence: e.Sequence, At: e.At.UTC(), Kind: api.EventKind(e.Kind),
		ImageId: optional(e.ImageID), Platform: optional(e.Platform), Data: e.Data,
	}
}

// eventStream tells one client events: first those in the log behind position, then those that the hub publishes. One goroutine
// uses it.
type eventStream struct {
	s      *Server
	filter feed.Filter
	// position is the sequence number up to which the client was told everything that the filter keeps.
	position int64
	// log is what the log was when the client came.
	log store.EventLog
}

// view shows the events that the filter keeps and that the replay has not told.
func (e *eventStream) view(i *item) (*websocket.PreparedMessage, error) {
	if i.Sequence <= e.position || !e.filter.Matches(i.Event) {
		return nil, nil //nolint:nilnil // no error: the view leaves it out
	}
	return i.event.get(func() ([]byte, error) { return json.Marshal(toEvent(i.Event)) })
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
		e.s.hub.join(s)
		joined = true
	}
}

// replay tells a page of the log and reports whether there may be more.
func (e *eventStream) replay(ctx context.Context, s *subscriber, connection *websocket.Conn) (bool, error) {
	events, log, err := e.read(ctx, s)
	if err != nil {
		return false, err
	}
	if !continues(e.position, log) {
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
	if err := e.s.replays.acquire(ctx); err != nil {
		return nil, store.EventLog{}, err
	}
	defer e.s.replays.release()
	deadline := time.Now().Add(e.s.limits.ReplayPatience)
	for {
		events, log, err := e.s.eventsBehind(ctx, e.position, replayPage)
		if err == nil || ctx.Err() != nil {
			return events, log, err
		}
		if time.Now().After(deadline) {
			e.s.log.Info("Events cannot be replayed", "error", err.Error())
			s.stop(websocket.CloseTryAgainLater, "the database cannot be reached")
			return nil, log, err
		}
		select {
		case <-ctx.Done():
			return nil, log, ctx.Err()
		case <-time.After(replayRetryDelay):
		}
	}
}
