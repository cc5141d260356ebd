package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
)

// limitedFixture is a server whose callers have small allowances, and a clock that the test turns.
func limitedFixture(t *testing.T, c *cluster) (f *fixture, turn func(time.Duration)) {
	t.Helper()
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	f = newGuardedFixture(t, c, func(config *server.Config) {
		config.Clock = func() time.Time { return time.Unix(0, now.Load()) }
		config.Uploads = auth.NewUploadAuthorizer(tokenReviews{c}, nil, nil)
		config.Limits.RequestRate, config.Limits.RequestBurst = 1, 30
		config.Limits.FailureRate, config.Limits.FailureBurst = 0.1, 3
	})
	return f, func(d time.Duration) { now.Add(int64(d)) }
}

func TestEachCallerHasAnAllowance(t *testing.T) {
	f, turn := limitedFixture(t, newCluster())
	get := func(path, token string) answer {
		t.Helper()
		return f.do(http.MethodGet, path, "", bearer(token))
	}
	for range 30 {
		if a := get("/api/v1/overview", "admin"); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	a := get("/api/v1/overview", "admin")
	a.problem(t, http.StatusTooManyRequests, "rate limit exceeded")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	// Nobody else is held up, and neither are pages and health.
	for _, path := range []string{"/api/v1/overview", "/"} {
		if a := get(path, "reader"); a.status != http.StatusOK {
			t.Errorf("%s as another: %d", path, a.status)
		}
	}
	turn(time.Second)
	if a := get("/api/v1/overview", "admin"); a.status != http.StatusOK {
		t.Errorf("a second later: %d", a.status)
	}
	// What is expensive counts more.
	turn(time.Minute)
	if a := get("/scan-results", "admin"); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := get("/scan-results", "admin"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "10" {
		t.Errorf("%d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	if a := get("/api/v1/overview", "admin"); a.status != http.StatusOK {
		t.Errorf("a refused request took something: %d", a.status)
	}
}

// WebSockets are refused before they are opened, with all headers.
func TestLimitedWebSocket(t *testing.T) {
	f, _ := limitedFixture(t, newCluster())
	for range 30 {
		f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin"))
	}
	_, a := f.dialPath(eventsPath, bearer("admin"))
	a.problem(t, http.StatusTooManyRequests, "")
}

// Without a token it is the address that counts.
func TestAddressesHaveAnAllowance(t *testing.T) {
	f, _ := limitedFixture(t, newCluster())
	for range 30 {
		f.do(http.MethodGet, "/api/v1/overview", "").problem(t, http.StatusUnauthorized, "")
	}
	f.do(http.MethodGet, "/api/v1/overview", "").problem(t, http.StatusTooManyRequests, "")
	f.do(http.MethodGet, "/api/v1/session", "").problem(t, http.StatusTooManyRequests, "")
}

// Guessing tokens is slow, however one presents them; who is known already does not notice.
func TestRefusedTokensAreLimited(t *testing.T) {
	for name, try := range map[string]func(f *fixture, token string) answer{
		"bearer": func(f *fixture, token string) answer {
			return f.do(http.MethodGet, "/api/v1/overview", "", bearer(token))
		},
		"cookie": func(f *fixture, token string) answer {
			return f.do(http.MethodGet, "/api/v1/overview", "", "Cookie: scanner-operator-session="+token)
		},
		"sign-in": func(f *fixture, token string) answer {
			return f.do(http.MethodPost, "/api/v1/session", fmt.Sprintf(`{"token":%q}`, token))
		},
		"upload": func(f *fixture, token string) answer {
			return f.do(http.MethodPut, "/api/v1/images/"+escape(scannedID)+"/sbom", "", bearer(token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			f, turn := limitedFixture(t, c)
			if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin")); a.status != http.StatusOK {
				t.Fatal(a.body)
			}
			for n := range 3 {
				try(f, "guess"+strconv.Itoa(n)).problem(t, http.StatusUnauthorized, "")
			}
			before, _ := c.calls()
			a := try(f, "guess3")
			a.problem(t, http.StatusTooManyRequests, "too many invalid tokens")
			if a.header.Get("Retry-After") != "10" {
				t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
			}
			if after, _ := c.calls(); after != before {
				t.Error("the API server was asked all the same")
			}
			if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin")); a.status != http.StatusOK {
				t.Errorf("who is known: %d %s", a.status, a.body)
			}
			turn(10 * time.Second)
			try(f, "guess3").problem(t, http.StatusUnauthorized, "")
			try(f, "guess4").problem(t, http.StatusTooManyRequests, "")
		})
	}
}

// A page with a session that has ended asks again and again, and its user can sign in.
func TestEndedSessionsDoNotLockOut(t *testing.T) {
	f, _ := limitedFixture(t, newCluster())
	for range 20 {
		f.do(http.MethodGet, "/api/v1/overview", "", "Cookie: scanner-operator-session=ended").problem(t, http.StatusUnauthorized, "")
	}
	if a := f.do(http.MethodPost, "/api/v1/session", `{"token":"admin"}`); a.status != http.StatusOK {
		t.Errorf("signing in: %d %s", a.status, a.body)
	}
}

// A client may choose any address of its network.
func TestCallersByAddress(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Limits.RequestRate, c.Limits.RequestBurst = 1e-6, 1 })
	status := func(address string) int {
		request := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/overview", strings.NewReader(""))
		request.RemoteAddr = address
		recorder := httptest.NewRecorder()
		f.server.Handler().ServeHTTP(recorder, request)
		return recorder.Code
	}
	for _, step := range []struct {
		address string
		want    int
	}{
		{"192.0.2.1:1", 200}, {"192.0.2.1:2", 429}, {"[::ffff:192.0.2.1]:3", 429}, {"192.0.2.2:1", 200},
		{"[2001:db8::1]:1", 200}, {"[2001:db8::2]:1", 429}, {"[2001:db8::3%eth0]:1", 429}, {"[2001:db8:0:1::1]:1", 200}, {"odd", 200}, {"odd", 429},
	} {
		if got := status(step.address); got != step.want {
			t.Errorf("%s: %d, want %d", step.address, got, step.want)
		}
	}
}

// Behind a proxy all clients have one address: one that tries tokens does not lock the others out.
func TestGuessingLocksNobodyOut(t *testing.T) {
	c := newCluster()
	f, turn := limitedFixture(t, c)
	overview := func(token string) answer {
		t.Helper()
		return f.do(http.MethodGet, "/api/v1/overview", "", bearer(token))
	}
	signIn := func(token string) answer {
		t.Helper()
		return f.do(http.MethodPost, "/api/v1/session", fmt.Sprintf(`{"token":%q}`, token))
	}
	if a := overview("admin"); a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	guesses := 0
	guess := func() {
		guesses++
		overview(fmt.Sprintf("guess%d", guesses))
	}
	// It uses up both what the address may fail and what it may ask.
	for range 60 {
		guess()
	}
	overview("guess").problem(t, http.StatusTooManyRequests, "")
	// Its identity is forgotten, that it was good is not.
	for range 3 {
		turn(2 * time.Minute)
		for range 60 {
			guess()
		}
		if a := overview("admin"); a.status != http.StatusOK {
			t.Errorf("who was known: %d %s", a.status, a.body)
		}
		if a := f.do(http.MethodGet, "/api/v1/session", "", bearer("admin")); a.status != http.StatusOK || !strings.Contains(a.body, `"authenticated":true`) {
			t.Errorf("who was known: %d %s", a.status, a.body)
		}
	}
	turn(5 * time.Second)
	guess() // one that got through
	signIn("reader").problem(t, http.StatusTooManyRequests, "too many invalid tokens")
	before, _ := c.calls()
	tries := 1
	for ; signIn("reader").status != http.StatusOK; tries++ {
		if tries > 20 {
			t.Fatal("nobody can sign in any more")
		}
	}
	if after, _ := c.calls(); after-before != 1 {
		t.Errorf("signed in after %d tries with %d questions", tries, after-before)
	}
	// The reserve is bounded.
	before, _ = c.calls()
	for range 1000 {
		guess()
	}
	if after, _ := c.calls(); after-before > 2*3 {
		t.Errorf("the API server was asked %d times about guesses", after-before)
	}
	// After half a day a token that was not used is one like others.
	turn(13 * time.Hour)
	for range 4 {
		guess()
	}
	overview("admin").problem(t, http.StatusTooManyRequests, "too many invalid tokens")
}
