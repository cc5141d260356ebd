package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const eventsPath = "/api/v1/events"

// told is a message of the WebSocket at /api/v1/events.
type told struct {
	Type     string
	Sequence int64
	Kind     string
	ImageID  string
}

// message reads the next message, and checks it against the specification.
func message(t *testing.T, connection *websocket.Conn) told {
	t.Helper()
	// For each message: what comes between them may take long.
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, data, err := connection.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, data)
	if m.Type == "event" {
		validate(t, "/components/schemas/Event", string(data))
	} else {
		validate(t, "/components/schemas/EventNote", string(data))
	}
	return m
}

func decode(tb testing.TB, data []byte) told {
	tb.Helper()
	var m told
	if err := json.Unmarshal(data, &m); err != nil {
		tb.Fatalf("%v: %s", err, data)
	}
	return m
}

func expectMessage(t *testing.T, connection *websocket.Conn, want told) {
	t.Helper()
	if got := message(t, connection); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

// want makes that many images known, each with an event, and returns the number of the last.
func (f *fixture) want(prefix string, count int) int64 {
	f.t.Helper()
	keys := make([]model.ImageKey, count)
	for i := range keys {
		keys[i] = model.ImageKey{ImageID: prefix + strconv.Itoa(i), Platform: linux}
	}
	_, err := f.store.WantImages(f.t.Context(), keys)
	f.must(err)
	return f.last()
}

func (f *fixture) last() int64 {
	f.t.Helper()
	log, err := f.store.EventLog(f.t.Context())
	f.must(err)
	return log.Last
}

// forget removes all events.
func (f *fixture) forget() {
	f.t.Helper()
	f.must(f.store.CompactEvents(f.t.Context(), time.Now().Add(time.Hour)))
}

func TestEventsAreReplayedAndGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	last := f.want("a", 450) // more than two pages
	for _, since := range []int64{0, 1, 199, 200, 201, last - 1, last} {
		connection, _ := f.dialPath(fmt.Sprintf("%s?since=%d", eventsPath, since))
		last = f.last()
		expectMessage(t, connection, told{Type: "hello", Sequence: last})
		f.want("b"+strconv.FormatInt(since, 10)+"-", 3)
		for sequence := since + 1; sequence <= last+3; sequence++ {
			if got := message(t, connection); got.Type != "event" || got.Sequence != sequence || got.Kind != "image.discovered" || got.ImageID == "" {
				t.Fatalf("since %d: got %+v, want event %d", since, got, sequence)
			}
		}
	}
}

func TestEventsFromNow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	last := f.want("a", 3)
	connection, _ := f.dialPath(eventsPath)
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	f.want("b", 1)
	expectMessage(t, connection, told{"event", last + 1, "image.discovered", "b0"})
}

// A client that sees little of the log learns how far it has come, so that it can come back there.
func TestFilteredEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *server.Config) { c.Limits.PingInterval = 20 * time.Millisecond })
	last := f.want("a", 250)
	record := func(namespace string) {
		t.Helper()
		f.must(f.store.RecordChange(t.Context(), store.ObjectChange{
			Kind: store.EventScannerChanged, ObjectEvent: store.ObjectEvent{Object: store.ObjectName{Namespace: namespace, Name: "s"}},
		}))
	}
	// Without a request, which would be an event of its own.
	report := func(id string) {
		t.Helper()
		f.must(f.store.SaveReport(t.Context(), store.AllNamespaces(), id, store.Report{Content: []byte(uploaded)}))
	}
	record("team")   // 251
	record("others") // 252
	report("a7")     // 253
	last += 3
	for query, want := range map[string][]told{
		"kind=image.reported":                       {{"position", 200, "", ""}, {"event", last, "image.reported", "a7"}},
		"kind=image.failed":                         {{"position", 200, "", ""}, {"position", last, "", ""}},
		"kind=image.reported&kind=database.updated": {{"position", 200, "", ""}, {"event", last, "image.reported", "a7"}},
		"imageId=a7":                                {{"event", 8, "image.discovered", "a7"}, {"position", 200, "", ""}, {"event", last, "image.reported", "a7"}},
		"imageId=a7&kind=image.discovered":          {{"event", 8, "image.discovered", "a7"}, {"position", 200, "", ""}, {"position", last, "", ""}},
		"namespace=team":                            {{"position", 200, "", ""}, {"event", last - 2, "scanner.changed", ""}, {"position", last, "", ""}},
	} {
		connection, _ := f.dialPath(eventsPath + "?since=0&" + query)
		expectMessage(t, connection, told{Type: "hello", Sequence: last})
		for _, m := range want {
			expectMessage(t, connection, m)
		}
	}
	// The same while it follows.
	connection, _ := f.dialPath(eventsPath + "?kind=image.reported")
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	f.want("b", 1)
	expectMessage(t, connection, told{Type: "position", Sequence: last + 1})
	report("b")
	expectMessage(t, connection, told{"event", last + 2, "image.reported", "b"})
	f.want("c", 1)
	expectMessage(t, connection, told{Type: "position", Sequence: last + 3})
}

// Who asks for what is not there is told so, and goes on from the end.
func TestEventsReset(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	results, _ := f.dial()
	f.want("a", 4)
	f.must(f.store.SaveReport(t.Context(), store.AllNamespaces(), "a4", store.Report{Content: []byte(uploaded)}))
	// The feed has delivered what is removed next.
	if got := next(t, results); got != "a4" {
		t.Fatalf("got %q", got)
	}
	f.forget()
	last := f.want("b", 2)
	for _, since := range []int64{1, 4, 10, 1 << 40} {
		path := fmt.Sprintf("%s?since=%d", eventsPath, since)
		connection, _ := f.dialPath(path)
		expectMessage(t, connection, told{Type: "hello", Sequence: last})
		expectMessage(t, connection, told{Type: "reset", Sequence: last})
		a := f.do(http.MethodGet, path, "")
		a.problem(t, http.StatusGone, "reload the current state")
		if got := decode(t, []byte(a.body)); got.Sequence != last {
			t.Errorf("since %d: go on from %d, want %d", since, got.Sequence, last)
		}
		last = f.want("c"+strconv.FormatInt(since, 10), 1)
		expectMessage(t, connection, told{"event", last, "image.discovered", "c" + strconv.FormatInt(since, 10) + "0"})
	}
	for since, first := range map[int64]int64{0: 6, 5: 6, 6: 7} {
		connection, _ := f.dialPath(fmt.Sprintf("%s?since=%d", eventsPath, since))
		expectMessage(t, connection, told{Type: "hello", Sequence: last})
		if got := message(t, connection); got.Type != "event" || got.Sequence != first {
			t.Errorf("since %d: got %+v, want event %d", since, got, first)
		}
	}
}

// forgetfulLog removes events between the moment when they are asked for and the moment when they are read.
type forgetfulLog struct {
	store.Store
	forget func()
}

func (l *forgetfulLog) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	l.forget()
	return l.Store.EventsSince(ctx, in, since, limit)
}

func TestEventsRemovedUnderTheReader(t *testing.T) {
	log := &forgetfulLog{}
	f := newFixture(t, func(c *server.Config) { log.Store, c.Store = c.Store, log })
	last := f.want("a", 5)
	var once sync.Once
	log.forget = func() { once.Do(f.forget) }
	connection, _ := f.dialPath(eventsPath + "?since=2")
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	expectMessage(t, connection, told{Type: "reset", Sequence: last})
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	last := f.want("a", 25)
	type page struct {
		Sequence, Last int64
		Items          []told
	}
	get := func(query string) page {
		t.Helper()
		a := f.do(http.MethodGet, eventsPath+query, "")
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		a.secure(t)
		validate(t, success(http.MethodGet, eventsPath), a.body)
		var p page
		f.must(json.Unmarshal([]byte(a.body), &p))
		return p
	}
	if p := get(""); p.Sequence != last || p.Last != last || len(p.Items) != 0 {
		t.Errorf("from now: %+v", p)
	}
	var since, seen int64
	for since < last {
		p := get(fmt.Sprintf("?since=%d&limit=10", since))
		for _, event := range p.Items {
			if seen++; event.Sequence != seen || event.Type != "event" {
				t.Fatalf("got %+v, want event %d", event, seen)
			}
		}
		since = p.Sequence
	}
	if p := get(fmt.Sprintf("?since=%d", since)); seen != last || p.Sequence != last || len(p.Items) != 0 {
		t.Errorf("the walk saw %d events and ends with %+v", seen, p)
	}
	if p := get("?since=0&limit=10&imageId=a20"); len(p.Items) != 0 || p.Sequence != 10 {
		t.Errorf("filtered: %+v", p)
	}
	if p := get("?since=10&limit=1000&imageId=a20"); len(p.Items) != 1 || p.Sequence != last {
		t.Errorf("filtered: %+v", p)
	}
	for _, query := range []string{
		"?since=-1", "?since=x", "?since=99999999999999999999", "?limit=0", "?limit=1001", "?limit=x", "?kind=image.seen", "?kind=", "?since=%zz",
		"?" + strings.Repeat("kind=image.failed&", 40),
	} {
		f.do(http.MethodGet, eventsPath+query, "").problem(t, http.StatusBadRequest, "")
	}
}

func TestEventsAreGuarded(t *testing.T) {
	f := newGuardedFixture(t, newCluster(), nil)
	for _, test := range []struct {
		headers []string
		status  int
	}{
		{nil, 401},
		{[]string{bearer("nobody")}, 403},
		{[]string{bearer("admin"), "Origin: https://evil.example"}, 403},
		{[]string{bearer("admin"), "Origin: null"}, 403},
	} {
		_, a := f.dialPath(eventsPath, test.headers...)
		a.problem(t, test.status, "")
	}
	if connection, _ := f.dialPath(eventsPath, "Cookie: scanner-operator-session=admin", "Origin: "+f.base); connection == nil {
		t.Fatal("a session was refused")
	}
}

// Clients that come at any moment, while events are written as fast as it goes, see every number once.
func TestNoEventIsLostOrTwice(t *testing.T) {
	t.Parallel()
	const writers, images, clients = 3, 60, 20
	f := newFixture(t, nil)
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			for i := range images {
				key := model.ImageKey{ImageID: fmt.Sprintf("w%d-%d", n, i), Platform: linux}
				if _, err := f.store.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range clients {
		group.Go(func() {
			var since int64
			// Each comes back a few times.
			for part := int64(1); part <= 5; part++ {
				since = f.readTo(since, writers*images*part/5)
			}
		})
	}
	group.Wait()
}

// readTo connects behind since, and reads up to a number.
func (f *fixture) readTo(since, until int64) int64 {
	url := fmt.Sprintf("ws%s%s?since=%d", strings.TrimPrefix(f.base, "http"), eventsPath, since)
	connection, _, err := websocket.DefaultDialer.DialContext(f.t.Context(), url, nil)
	if err != nil {
		f.t.Error(err)
		return until
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		f.t.Error(err)
	}
	for since < until {
		_, data, err := connection.ReadMessage()
		if err != nil {
			f.t.Errorf("behind %d: %v", since, err)
			return until
		}
		switch m := decode(f.t, data); {
		case m.Type == "event" && m.Sequence == since+1:
			since++
		case m.Type != "hello":
			f.t.Errorf("got %+v behind %d", m, since)
			return until
		}
	}
	return since
}

// A client that does not keep up is told where to come back; the others get everything, and the feed is never held up.
func TestSlowEventClientIsEvicted(t *testing.T) {
	hand := newHandFeed()
	registry := prometheus.NewRegistry()
	f := newFixture(t, func(c *server.Config) {
		c.Feed, c.Registerer = hand.subscribe, registry
		c.Limits.SubscriberQueue = 8
		c.Limits.PingInterval, c.Limits.PongTimeout = time.Hour, time.Hour
	})
	subscription := <-hand.subscriptions
	slow, _ := f.dialPath(eventsPath)
	quick, _ := f.dialPath(eventsPath)
	expectMessage(t, quick, told{Type: "hello"})
	// Following means that the log was read to its end.
	position := f.following(subscription, hand, quick)
	big := strings.Repeat("x", 60<<10)
	for sent := 0; count(t, registry, "scanner_operator_websocket_evictions_total") == 0; sent++ {
		if sent > 5000 {
			t.Fatal("the slow client is still there")
		}
		start := time.Now()
		event := hand.matched(big)
		subscription.events <- event
		if held := time.Since(start); held > time.Second {
			t.Fatalf("the feed was held up for %s", held)
		}
		for position < event.Sequence {
			position++
			if got := message(t, quick); got.Sequence != position {
				t.Fatalf("the quick client got %d, want %d", got.Sequence, position)
			}
		}
	}
	var last int64
	for {
		_, data, err := slow.ReadMessage()
		if err != nil {
			ended, ok := errors.AsType[*websocket.CloseError](err)
			if !ok {
				t.Fatal(err)
			}
			// The frame gets through only if the last message did in time.
			if ended.Code == websocket.CloseTryAgainLater && ended.Text != fmt.Sprintf("client too slow; reconnect with since=%d", last) {
				t.Errorf("closed with %q behind %d", ended.Text, last)
			}
			break
		}
		last = decode(t, data).Sequence
	}
}

// following has the feed speak until a client gets something of it, and returns its number.
func (f *fixture) following(subscription *handSubscription, hand *handFeed, connection *websocket.Conn) int64 {
	f.t.Helper()
	got := make(chan int64)
	go func() {
		_, data, err := connection.ReadMessage()
		if err != nil {
			f.t.Error(err)
		}
		got <- decode(f.t, data).Sequence
	}()
	for {
		subscription.events <- hand.matched("x")
		select {
		case sequence := <-got:
			return sequence
		case <-time.After(time.Millisecond):
		}
	}
}

// largeLog is a store whose events are large.
type largeLog struct{ store.Store }

func (l largeLog) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	events, err := l.Store.EventsSince(ctx, in, since, limit)
	for i := range events {
		events[i].ImageID = strings.Repeat("x", 200<<10)
	}
	return events, err
}

// A client that takes slowly what is replayed holds up no other replay.
func TestSlowReplayHoldsUpNobody(t *testing.T) {
	f := newFixture(t, func(c *server.Config) {
		c.Store = largeLog{c.Store}
		c.Limits.Replays = 1
		c.Limits.MessageTimeout, c.Limits.PongTimeout = time.Hour, time.Hour
	})
	last := f.want("a", 200) // 40 MB, more than connections buffer
	slow, _ := f.dialPath(eventsPath + "?since=0")
	expectMessage(t, slow, told{Type: "hello", Sequence: last})
	if got := message(t, slow); got.Sequence != 1 {
		t.Fatalf("got %d", got.Sequence)
	}
	if got := f.readTo(0, last); got != last {
		t.Errorf("read to %d", got)
	}
	f.must(slow.Close())
}
