package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// connect opens a plain connection.
func (f *fixture) connect() net.Conn {
	f.t.Helper()
	connection, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", f.server.Addr())
	f.must(err)
	f.t.Cleanup(func() { _ = connection.Close() })
	f.must(connection.SetDeadline(time.Now().Add(patience)))
	return connection
}

// send writes raw bytes.
func (f *fixture) send(connection net.Conn, text string) {
	f.t.Helper()
	_, err := io.WriteString(connection, text)
	f.must(err)
}

// Requests without and with authentication.
const (
	anyPage    = "/api/v1/session"
	anyRequest = "/api/v1/overview"
)

// request sends a request with a token, or without one for "", and returns the status; 0 when the connection is closed.
func (f *fixture) request(connection net.Conn, target, token string) int {
	f.t.Helper()
	text := "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n"
	if token != "" {
		text += bearer(token) + "\r\n"
	}
	if _, err := io.WriteString(connection, text+"\r\n"); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, response.Body)
	f.must(errors.Join(err, response.Body.Close()))
	return response.StatusCode
}

func shortLimits(c *server.Config) {
	c.Limits.HeaderTimeout, c.Limits.ReadTimeout, c.Limits.UploadTimeout = 100*time.Millisecond, 150*time.Millisecond, 200*time.Millisecond
}

// Connections that send their headers or bodies drop by drop are cut.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *server.Config) {
		shortLimits(c)
		c.Limits.WriteTimeout = 200 * time.Millisecond
	})
	for name, text := range map[string]string{
		"nothing":     "",
		"headers":     "GET /scan-results HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"report body": "PUT /scan-results HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"SBOM body":   "PUT /api/v1/images/a/sbom HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"login body":  "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"no route":    "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"body of GET": "GET /api/v1/overview HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			connection := f.connect()
			f.send(connection, text)
			start := time.Now()
			if _, err := io.Copy(io.Discard, connection); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("cut after %s only", took)
			}
		})
	}
}

func TestSlowBodyIsTold(t *testing.T) {
	f := newFixture(t, shortLimits)
	connection := f.connect()
	f.send(connection, "PUT /scan-results HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	f.must(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%d", response.StatusCode)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	connection := f.connect()
	f.send(connection, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	f.must(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", response.StatusCode)
	}
}

// More connections than allowed wait while the others are authenticated; they are served when others end.
func TestConnectionsAreBounded(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.Connections = 2 })
	first, second := f.connect(), f.connect()
	for _, c := range []net.Conn{first, second} {
		if got := f.request(c, anyRequest, ""); got != http.StatusOK {
			t.Fatal(got)
		}
	}
	third := f.connect()
	f.send(third, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	f.must(third.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("the third connection was served")
	}
	f.must(first.Close())
	f.must(third.SetReadDeadline(time.Now().Add(patience)))
	response, err := http.ReadResponse(bufio.NewReader(third), nil)
	f.must(err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Errorf("%d", response.StatusCode)
	}
}

// panicking is a store with a bug: nothing is behind its interface.
type panicking struct{ store.Store }

func TestPanicIsAnswered(t *testing.T) {
	var (
		mu     sync.Mutex
		logged strings.Builder
	)
	f := newFixture(t, func(c *server.Config) {
		c.Store = panicking{}
		c.Log = funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			logged.WriteString(args)
		}, funcr.Options{})
	})
	f.do(http.MethodGet, "/api/v1/databases", "", "Authorization: Bearer secret-token").problem(t, 500, "see the operator's log")
	if a := f.do(http.MethodGet, "/", ""); a.status != http.StatusOK {
		t.Errorf("afterwards: %d", a.status)
	}
	f.stop()
	f.must(f.wait())
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(logged.String(), "panic") || strings.Contains(logged.String(), "secret-token") {
		t.Errorf("log: %s", logged.String())
	}
}

// A request that is under way when the server stops is answered.
func TestShutdownIsGraceful(t *testing.T) {
	slow := &slowIngester{entered: make(chan struct{}), leave: make(chan struct{})}
	f := newFixture(t, func(c *server.Config) { c.Ingest = slow })
	answers := make(chan answer, 1)
	go func() { answers <- f.do(http.MethodPut, "/api/v1/images/a/sbom", "x") }()
	<-slow.entered
	f.stop()
	close(slow.leave)
	if a := <-answers; a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	f.must(f.wait())
}

// A request that does not end is cut off when the time for it is over.
func TestShutdownIsBounded(t *testing.T) {
	slow := &slowIngester{entered: make(chan struct{}), leave: make(chan struct{})}
	f := newFixture(t, func(c *server.Config) {
		c.Ingest = slow
		c.Limits.ShutdownTimeout = 50 * time.Millisecond
	})
	connection := f.connect()
	f.send(connection, "PUT /api/v1/images/a/sbom HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
	<-slow.entered
	f.stop()
	f.must(f.wait())
	close(slow.leave)
}

// Without a feed there is nothing to subscribe to.
func TestHandlerWithoutStart(t *testing.T) {
	s, err := server.New(server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.None, Store: &idStore{}, Ingest: &ingester{},
		Feed: newHandFeed().subscribe,
	})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/subscribe", nil)
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	s.Handler().ServeHTTP(recorder, request)
	if recorder.Code != http.StatusServiceUnavailable || s.Addr() != "" || s.NeedLeaderElection() {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}
