package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// awayStore is a store that can go away and come back. What the feed and WebSockets ask is guarded; the rest is asked by
// requests, which the test makes while it does not change the store.
type awayStore struct {
	mu sync.RWMutex
	store.Store
}

func (s *awayStore) now() store.Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.Store
}

func (s *awayStore) become(other store.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = other
}

func (s *awayStore) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	return s.now().EventsSince(ctx, in, since, limit)
}

func (s *awayStore) EventLog(ctx context.Context) (store.EventLog, error) {
	return s.now().EventLog(ctx)
}

func (s *awayStore) Changed() <-chan struct{} { return s.now().Changed() }

// awayFixture is a server whose store comes from open, which opens the same database each time.
func awayFixture(t *testing.T, open func() store.Store) (*fixture, *awayStore) {
	t.Helper()
	away := &awayStore{Store: open()}
	hub := feed.New(away, feed.Config{PollInterval: 20 * time.Millisecond, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- hub.Run(ctx) }()
	<-hub.Started()
	f := newFixture(t, func(c *server.Config) {
		c.Store, c.Rematcher, c.VEX = away, &rematcher{}, vexdecisions.NewApplier(away, clock.RealClock{}, nil)
		// The clients of these tests answer pings only when they read.
		c.Limits.PongTimeout = time.Hour
		c.Feed = func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) }
	})
	f.store = away
	t.Cleanup(func() {
		f.stop()
		_ = f.wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := away.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, away
}

// here sends a request from this goroutine, without a connection.
func (f *fixture) here(method, target, body string) answer {
	request := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(recorder, request)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// storeless are the routes that answer without the store, and why.
var storeless = map[string]string{
	"GET /subscribe": "follows the feed",
	"PUT /api/v1/images/{imageId}/newer-tags": "without authentication, no pod is one of a lookup",
	"GET /api/wds/logs":                       "follows Deployments",
	"POST /api/v1/databases/rematch":          "asks the library of databases",
	"GET /api/v1/session":                     "asks the API server",
	"POST /api/v1/session":                    "asks the API server",
	"DELETE /api/v1/session":                  "forgets",
	"GET /api/v1/session/sign-in":             "there is no provider",
	"GET /api/v1/session/callback":            "there is no provider",
	"POST /api/v1/session/provider-logout":    "there is no provider",
	"POST /api/v1/exceptions":                 "asks the API server",
	"GET /api/v1/exceptions/{kind}/{name}":    "asks the API server",
	"PUT /api/v1/exceptions/{kind}/{name}":    "asks the API server",
	"DELETE /api/v1/exceptions/{kind}/{name}": "asks the API server",
	"GET /api/v1/notification-rules":          "asks the API server first",
	"POST /api/v1/notification-rules/test":    "asks the API server",
}

// Without its store the server says so on every route that needs it, and goes on by itself when the store is back.
func TestStoreGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	path := newDatabase(t)
	open := func() store.Store {
		s, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: "sqlite", DSN: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f, away := awayFixture(t, open)
	results, _ := f.dial()
	f.seed()
	if got := next(t, results); got != scannedID {
		t.Fatalf("got %q, want %q", got, scannedID)
	}
	last := f.last()
	events, _ := f.dialPath(eventsPath)
	expectMessage(t, events, told{Type: "hello", Sequence: last})
	check := httptest.NewRequest(http.MethodGet, "/", nil)
	if err := f.server.Check(check); err != nil {
		t.Errorf("ready: %v", err)
	}

	f.must(away.Store.Close())
	if err := f.server.Check(check); err == nil {
		t.Error("ready without the store")
	}
	f.ingest.err = store.ErrUnavailable
	for _, route := range specifiedRoutes(t) {
		method, target, _ := strings.Cut(route, " ")
		if storeless[route] != "" {
			continue
		}
		for parameter, value := range map[string]string{"{imageId}": escape(scannedID), "{id}": "CVE-2024-0001", "{build}": escape(build.ID), "{rolloutId}": "1", "{decisionId}": "1", "{name}": "a"} {
			target = strings.ReplaceAll(target, parameter, value)
		}
		body := uploadOf(scannedID)
		switch route {
		case "GET /api/v1/compare":
			target += "?from=" + escape(scannedID) + "&to=" + escape(olderID)
		case "GET /api/v1/fixes/preview":
			target += "?action=rebuild&imageId=" + escape(scannedID)
		case "GET /api/v1/search":
			target += "?text=openssl"
		case "PUT /api/v1/vex/{name}":
			body = vexDocument
		case "POST /api/v1/exceptions/preview":
			body = `{"kind": "ClusterVulnerabilityException", "spec": {"match": {"vulnerabilities": ["CVE-2024-0001"]}, "status": "Fixed"}}`
		}
		a := f.here(method, target, body)
		a.problem(t, http.StatusServiceUnavailable, "")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", route)
		}
		if t.Failed() {
			t.Errorf("that was %s", route)
		}
	}
	_, refused := f.dialPath(eventsPath + "?since=0")
	refused.problem(t, http.StatusServiceUnavailable, "")

	away.become(open())
	f.ingest.err = nil
	if err := f.server.Check(check); err != nil {
		t.Errorf("not ready again: %v", err)
	}
	if a := f.here(http.MethodGet, "/api/v1/overview", ""); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	// Those that were connected have not noticed.
	if a := f.here(http.MethodPut, "/scan-results", uploadOf("back")); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	expectMessage(t, events, told{"event", last + 1, "image.reported", "back"})
	if got := next(t, results); got != "back" {
		t.Errorf("got %q", got)
	}
}

// A client that is being told of the past when the store goes away is told the rest when it is back.
func TestStoreGoesAwayDuringReplay(t *testing.T) {
	t.Parallel()
	log := &brokenLog{}
	f := newFixture(t, func(c *server.Config) { log.Store, c.Store = c.Store, log })
	last := f.want("a", 300)
	log.broken.Store(true)
	connection, _ := f.dialPath(eventsPath + "?since=0")
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	log.broken.Store(false)
	for sequence := int64(1); sequence <= last; sequence++ {
		if got := message(t, connection); got.Sequence != sequence {
			t.Fatalf("got %+v, want event %d", got, sequence)
		}
	}
}

// When that takes too long, the client is sent away with the place where to go on.
func TestStoreStaysAwayDuringReplay(t *testing.T) {
	t.Parallel()
	log := &brokenLog{}
	f := newFixture(t, func(c *server.Config) {
		log.Store, c.Store = c.Store, log
		c.Limits.ReplayPatience = time.Nanosecond
	})
	last := f.want("a", 3)
	log.broken.Store(true)
	connection, _ := f.dialPath(eventsPath + "?since=2")
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	_, _, err := connection.ReadMessage()
	if err == nil || !strings.Contains(err.Error(), "reconnect with since=2") {
		t.Errorf("got %v", err)
	}
}

// specifiedRoutes lists "METHOD /path" of every operation of openapi.yaml.
func specifiedRoutes(t *testing.T) []string {
	t.Helper()
	document, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	root, _ := document.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	var routes []string
	for path, item := range paths {
		operations, _ := item.(map[string]any)
		for method := range operations {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return routes
}
