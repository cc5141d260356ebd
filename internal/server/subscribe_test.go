package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dial opens a WebSocket; the answer is that of the handshake.
func (f *fixture) dial(headers ...string) (*websocket.Conn, answer) {
	f.t.Helper()
	return f.dialPath("/subscribe", headers...)
}

// dialPath opens a WebSocket at a path.
func (f *fixture) dialPath(path string, headers ...string) (*websocket.Conn, answer) {
	f.t.Helper()
	h := http.Header{}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		h.Set(name, value)
	}
	dialer := &websocket.Dialer{HandshakeTimeout: patience}
	connection, response, err := dialer.DialContext(f.t.Context(), "ws"+strings.TrimPrefix(f.base, "http")+path, h)
	if response == nil {
		f.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header}
	if err != nil {
		content, readErr := io.ReadAll(response.Body)
		f.must(readErr)
		a.body = string(content)
		return nil, a
	}
	f.t.Cleanup(func() { _ = connection.Close() })
	f.must(connection.SetReadDeadline(time.Now().Add(patience)))
	return connection, a
}

// next reads the image ID of one message.
func next(t *testing.T, connection *websocket.Conn) string {
	t.Helper()
	kind, data, err := connection.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		t.Fatalf("kind %d: %v", kind, err)
	}
	var id string
	if err := json.Unmarshal(data, &id); err != nil {
		t.Fatal(err)
	}
	return id
}

// closed reads until the other side closes, and returns the code.
func closed(t *testing.T, connection *websocket.Conn) int {
	t.Helper()
	for {
		if _, _, err := connection.ReadMessage(); err != nil {
			if ended, ok := errors.AsType[*websocket.CloseError](err); ok {
				return ended.Code
			}
			t.Fatal(err)
		}
	}
}

func TestSubscribe(t *testing.T) {
	f := newFixture(t, nil)
	early, _ := f.dial()
	f.do(http.MethodPut, "/scan-results", uploadOf("before"))
	// Once one subscriber has it, it is past, and those who come now do not get it.
	if got := next(t, early); got != "before" {
		t.Errorf("got %q, want %q", got, "before")
	}
	first, _ := f.dial()
	second, _ := f.dial("Origin: " + f.base)
	f.do(http.MethodPut, "/scan-results", uploadOf("after/<&>"))
	f.seed() // tells of discoveries and failures, too, which are no results
	for _, connection := range []*websocket.Conn{first, second} {
		for _, want := range []string{"after/<&>", scannedID} {
			if got := next(t, connection); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}
	// What a subscriber says is not looked at; its end is noticed.
	f.must(first.WriteMessage(websocket.TextMessage, []byte("hello")))
	f.must(first.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(patience)))
	if code := closed(t, first); code != websocket.CloseNormalClosure {
		t.Errorf("closed with %d", code)
	}
	f.must(second.WriteMessage(websocket.TextMessage, make([]byte, 2000)))
	if code := closed(t, second); code != websocket.CloseMessageTooBig {
		t.Errorf("closed with %d", code)
	}
}

func TestSubscribeIsGuarded(t *testing.T) {
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Limits.Subscribers = 1 })
	for _, test := range []struct {
		headers []string
		status  int
	}{
		{nil, 401},
		{[]string{bearer("nobody")}, 403},
		{[]string{bearer("admin"), "Origin: https://evil.example"}, 403},
		{[]string{bearer("admin"), "Origin: null"}, 403},
		{[]string{bearer("admin"), "Origin: http://localhost.evil.example:8000"}, 403},
	} {
		_, a := f.dial(test.headers...)
		a.problem(t, test.status, "")
	}
	f.do(http.MethodGet, "/subscribe", "", bearer("admin"), "Connection: upgrade", "Upgrade: websocket").problem(t, 400, "")
	if connection, _ := f.dial("Cookie: scanner-operator-session=admin", "Origin: "+f.base); connection == nil {
		t.Fatal("a session was refused")
	}
	_, a := f.dial(bearer("admin"))
	a.problem(t, 503, "maximum number of WebSocket connections")
}

func TestSubscribersAreNotifiedOfTheEnd(t *testing.T) {
	f := newFixture(t, nil)
	connection, _ := f.dial()
	f.stop()
	if code := closed(t, connection); code != websocket.CloseGoingAway {
		t.Errorf("closed with %d", code)
	}
	f.must(f.wait())
}

// report uploads a report about an image.
func (f *fixture) report(id string) {
	f.t.Helper()
	if a := f.do(http.MethodPut, "/scan-results", uploadOf(id)); a.status != http.StatusOK {
		f.t.Fatalf("%d %s", a.status, a.body)
	}
}

// A subscriber that does not read is disconnected; the others get everything, and the feed is never held up.
func TestSlowSubscriberIsEvicted(t *testing.T) {
	hand := newHandFeed()
	registry := prometheus.NewRegistry()
	f := newFixture(t, func(c *server.Config) {
		c.Feed, c.Registerer = hand.subscribe, registry
		c.Limits.SubscriberQueue = 8
		c.Limits.PingInterval, c.Limits.PongTimeout = time.Hour, time.Hour
	})
	subscription := <-hand.subscriptions
	slow, _ := f.dial()
	if tcp, ok := slow.NetConn().(*net.TCPConn); ok {
		f.must(tcp.SetReadBuffer(1 << 10))
	}
	quick, _ := f.dial()
	big := strings.Repeat("x", 60<<10)
	evicted := func() bool { return count(t, registry, "scanner_operator_websocket_evictions_total") > 0 }
	for sent := 0; !evicted(); sent++ {
		if sent > 5000 {
			t.Fatal("the slow subscriber is still there")
		}
		start := time.Now()
		subscription.events <- hand.matched(big)
		if held := time.Since(start); held > time.Second {
			t.Fatalf("the feed was held up for %s", held)
		}
		if next(t, quick) != big {
			t.Fatal("the quick subscriber missed something")
		}
	}
	subscription.events <- hand.matched("last")
	if got := next(t, quick); got != "last" {
		t.Error(got)
	}
}

func count(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// A subscriber that answers no ping is disconnected.
func TestSilentSubscriberIsDropped(t *testing.T) {
	hand := newHandFeed()
	f := newFixture(t, func(c *server.Config) {
		c.Feed = hand.subscribe
		c.Limits.PingInterval, c.Limits.PongTimeout = 20*time.Millisecond, 100*time.Millisecond
	})
	silent, _ := f.dial()
	silent.SetPingHandler(func(string) error { return nil })
	lively, _ := f.dial()
	heard := make(chan string, 1)
	go func() {
		_, data, _ := lively.ReadMessage()
		heard <- string(data)
	}()
	if _, _, err := silent.ReadMessage(); err == nil {
		t.Error("a message from nowhere")
	}
	(<-hand.subscriptions).events <- hand.matched("x")
	if got := <-heard; got != `"x"` {
		t.Errorf("the lively one heard %q", got)
	}
}

// Connecting and leaving while events are sent made the first server with a WebSocket crash.
func TestSubscribersComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first, _ := f.dial()
	f.seed()
	// What the seed tells of is past for those who come now.
	if got := next(t, first); got != scannedID {
		t.Fatalf("got %q, want %q", got, scannedID)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := f.store.SaveReport(ctx, store.AllNamespaces(), reportedID, store.Report{Content: []byte(uploaded)}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 25 {
				connection, _, err := websocket.DefaultDialer.DialContext(ctx, "ws"+strings.TrimPrefix(f.base, "http")+"/subscribe", nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
					t.Error(err)
				}
				if _, data, err := connection.ReadMessage(); err != nil || string(data) != `"`+reportedID+`"` {
					t.Errorf("%s %v", data, err)
				}
				_ = connection.Close()
			}
		})
	}
	clients.Wait()
	cancel()
	running.Wait()
	if _, err := f.store.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: reportedID}); err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newFixture(t, func(c *server.Config) { c.Registerer = registry })
	f.do(http.MethodGet, "/scan-results/"+escape(unknownID), "")
	f.do("BREW", "/nowhere", "")
	f.do(http.MethodGet, "/"+strings.Repeat("x", 100), "")
	f.dial()
	wanted := []string{"404 GET /scan-results/{imageId}", "404 other other", "404 GET ui", "101 GET /subscribe"}
	var labels []string
	missing := func(want string) bool { return !slices.Contains(labels, want) }
	// A WebSocket is counted when it stands, which its client may know a moment earlier.
	for deadline := time.Now().Add(patience); ; {
		if labels = requestLabels(t, registry); !slices.ContainsFunc(wanted, missing) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all of %q are among %q", wanted, labels)
		}
	}
}

// requestLabels lists the labels of the requests that were counted.
func requestLabels(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, family := range families {
		if family.GetName() != "scanner_operator_http_request_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			labels = append(labels, strings.Join(values, " "))
		}
	}
	return labels
}

// Who loses the token or the right loses the WebSocket; an API server that is away for a short time takes nothing from anybody.
func TestSubscribersAreAskedAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*cluster)
		reason string
	}{
		"token": {func(c *cluster) { delete(c.audiences, "admin") }, "the token, the session or the certificate of the front proxy is no longer valid"},
		"right": {func(c *cluster) { c.verbs["admin"] = []string{"get"} }, "the permission to list scanresults was revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			var now atomic.Int64
			f := newGuardedFixture(t, c, func(config *server.Config) {
				config.Clock = func() time.Time { return time.Unix(0, now.Load()) }
				config.Limits.PingInterval, config.Limits.ReadmitTimeout = 5*time.Millisecond, 2*patience
			})
			var connections []*websocket.Conn
			for _, path := range []string{"/subscribe", eventsPath} {
				connection, a := f.dialPath(path, bearer("admin"))
				if connection == nil {
					t.Fatal(a)
				}
				connections = append(connections, connection)
			}
			c.set(func(c *cluster) { c.err = errors.New("away") })
			now.Add(int64(2 * time.Minute))
			before, _ := c.calls()
			deadline := time.Now().Add(patience)
			for asked := before; asked < before+4; asked, _ = c.calls() {
				if time.Now().After(deadline) {
					t.Fatal("nobody asked again")
				}
				runtime.Gosched()
			}
			c.set(func(c *cluster) { c.err = nil; test.change(c) })
			for _, connection := range connections {
				for {
					_, _, err := connection.ReadMessage()
					if err == nil {
						continue
					}
					if ended, ok := errors.AsType[*websocket.CloseError](err); !ok || ended.Code != websocket.ClosePolicyViolation || ended.Text != test.reason {
						t.Errorf("%v", err)
					}
					break
				}
			}
		})
	}
}

// While the API server cannot be asked, a revoked permission is not noticed: a WebSocket ends before the last answer becomes too old.
func TestSubscribersOfAnUnavailableAPIServer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*cluster){
		"it refuses":         func(c *cluster) { c.err = errors.New("away") },
		"it does not answer": func(c *cluster) { c.block = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			var now atomic.Int64
			f := newGuardedFixture(t, c, func(config *server.Config) {
				config.Clock = func() time.Time { return time.Unix(0, now.Load()) }
				// The WebSockets are read at the end only.
				config.Limits.PingInterval, config.Limits.PongTimeout = 5*time.Millisecond, time.Hour
				config.Limits.ReadmitTimeout = 200 * time.Millisecond
			})
			for _, path := range []string{"/subscribe", eventsPath} {
				connection, a := f.dialPath(path, bearer("admin"))
				if connection == nil {
					t.Fatal(a)
				}
				c.set(away)
				now.Add(int64(2 * time.Minute))
				f.must(connection.SetReadDeadline(time.Now().Add(patience)))
				var err error
				for err == nil {
					_, _, err = connection.ReadMessage()
				}
				ended, ok := errors.AsType[*websocket.CloseError](err)
				if !ok || ended.Code != websocket.CloseTryAgainLater || !strings.HasPrefix(ended.Text, "your permissions cannot be checked at the moment; reconnect") {
					t.Errorf("%s: %v", path, err)
				}
				c.set(func(c *cluster) {
					if c.block != nil {
						close(c.block)
					}
					c.err, c.block = nil, nil
				})
			}
		})
	}
}

// One user cannot take the places of all.
func TestPlacesOfACaller(t *testing.T) {
	t.Parallel()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) {
		c.Limits.Subscribers = 500
		c.Limits.PongTimeout = time.Hour
	})
	var first *websocket.Conn
	for n := range 50 {
		connection, a := f.dial(bearer("admin"))
		if connection == nil {
			t.Fatalf("%d: %+v", n, a)
		}
		first = connection
	}
	_, a := f.dial(bearer("admin"))
	a.problem(t, http.StatusTooManyRequests, "50 WebSocket connections per user")
	if a.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	if connection, _ := f.dial(bearer("reader")); connection == nil {
		t.Error("another user was refused")
	}
	f.must(first.Close())
	for deadline := time.Now().Add(patience); ; {
		if connection, _ := f.dial(bearer("admin")); connection != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of who left is still taken")
		}
	}
}
