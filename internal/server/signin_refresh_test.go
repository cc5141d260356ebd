package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// meetingStore lets requests read a session only when a number of them have come to read it, and counts those that lost the race to refresh it.
type meetingStore struct {
	store.Store
	mu    sync.Mutex
	comes int
	met   chan struct{}
	lost  chan struct{}
}

// Session implements store.Sessions.
func (s *meetingStore) Session(ctx context.Context, id string) (store.Session, error) {
	session, err := s.Store.Session(ctx, id)
	s.mu.Lock()
	met := s.met
	if s.comes > 0 {
		if s.comes--; s.comes == 0 {
			close(met)
		}
	}
	s.mu.Unlock()
	<-met
	return session, err
}

// UpdateSession implements store.Sessions.
func (s *meetingStore) UpdateSession(ctx context.Context, session store.Session) (bool, error) {
	updated, err := s.Store.UpdateSession(ctx, session)
	if err == nil && !updated {
		s.lost <- struct{}{}
	}
	return updated, err
}

// A page that is used again after a long time sends several requests at once, perhaps to several replicas. One of them refreshes the session; the others
// wait for the answer, whatever it is.
func TestParallelRequestsAfterLongIdling(t *testing.T) {
	const parallel = 6
	for name, test := range map[string]struct {
		change func(*hostileProvider)
		want   int
	}{
		"confirmed":   {func(*hostileProvider) {}, http.StatusOK},
		"refused":     {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["sub"] = "root" } }, http.StatusUnauthorized},
		"unavailable": {func(p *hostileProvider) { p.down = true }, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			meeting := &meetingStore{met: make(chan struct{}), lost: make(chan struct{}, parallel)}
			close(meeting.met)
			shared := func(c *server.Config) {
				if meeting.Store == nil {
					meeting.Store = c.Store
				}
				c.Store = meeting
			}
			first := newSignInFixture(t, p.config(), nil, shared)
			second := newSignInFixture(t, p.config(), first, shared)
			first.rbac.verbs["readers"] = reading
			b := newBrowser(t, "")
			b.finish(first)
			b.expect(first, http.StatusOK)
			b.expect(second, http.StatusOK)
			first.must(second.provider.Available(t.Context())) // Both replicas know the configuration of the provider.

			first.clock.step(2 * time.Hour)
			p.set(test.change)
			p.entered, p.leave = make(chan struct{}), make(chan struct{})
			meeting.mu.Lock()
			meeting.comes, meeting.met = parallel, make(chan struct{})
			meeting.mu.Unlock()
			answers := make(chan int, parallel+1)
			header := "Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie]
			for n := range parallel {
				f := []*signInFixture{first, second}[n%2]
				go func() { answers <- f.do(http.MethodGet, overviewPath, "", header).status }()
			}
			select {
			case <-p.entered:
			case <-time.After(patience):
				t.Fatalf("nobody asked the provider: %s", first.log)
			}
			for range parallel - 1 {
				<-meeting.lost
			}
			// This one comes while the provider is asked.
			go func() { answers <- second.do(http.MethodGet, overviewPath, "", header).status }()
			p.leave <- struct{}{}
			for range parallel + 1 {
				if status := <-answers; status != test.want {
					t.Errorf("%d, want %d", status, test.want)
				}
			}
		})
	}
}

// A provider that does not answer does not delay the end of a WebSocket whose caller may have lost the permission.
func TestWebSocketsOfAProviderThatHangs(t *testing.T) {
	for _, path := range []string{"/subscribe", eventsPath} {
		t.Run(path, func(t *testing.T) {
			p := newHostileProvider(t)
			f := newSignInFixture(t, p.config(), nil, func(c *server.Config) {
				c.Limits.PingInterval, c.Limits.PongTimeout, c.Limits.ReadmitTimeout = 5*time.Millisecond, time.Hour, 200*time.Millisecond
			})
			f.rbac.verbs["readers"] = reading
			b := newBrowser(t, "")
			b.finish(f)
			p.entered, p.leave = make(chan struct{}, 1), make(chan struct{})
			connection, a := f.dialPath(path, "Cookie: "+sessionCookie+"="+b.cookies[sessionCookie])
			if connection == nil {
				t.Fatalf("%+v", a)
			}
			f.clock.step(16 * time.Minute)
			select {
			case <-p.entered:
			case <-time.After(patience):
				t.Fatalf("nobody asked the provider: %s", f.log)
			}
			f.must(connection.SetReadDeadline(time.Now().Add(patience)))
			var err error
			for err == nil {
				_, _, err = connection.ReadMessage()
			}
			ended, ok := errors.AsType[*websocket.CloseError](err)
			if !ok || ended.Code != websocket.CloseTryAgainLater || !strings.HasPrefix(ended.Text, "your permissions cannot be checked") {
				t.Error(err)
			}
			if strings.Contains(f.log.String(), "Cannot refresh a session") {
				t.Error("it stayed open until nobody waited for the provider any more")
			}
			p.leave <- struct{}{}
		})
	}
}

// Without a refresh token the provider cannot be asked again: the session ends with the ID token, and no earlier.
func TestSessionWithoutRefreshToken(t *testing.T) {
	p := newHostileProvider(t)
	p.token = func(a map[string]any) { delete(a, "refresh_token") }
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	b := newBrowser(t, "")
	b.finish(f)
	b.expect(f, http.StatusOK)
	f.clock.step(2 * time.Hour)
	b.expect(f, http.StatusOK)
}

// logoutToken is a token with which the provider ends a session there at a time.
func (p *hostileProvider) logoutToken(session string, at time.Time) string {
	return p.signES256(map[string]any{
		"iss": p.URL, "aud": "client", "iat": at.Unix(), "exp": at.Add(time.Hour).Unix(), "jti": "1", "sid": session,
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}, p.key)
}

func (f *signInFixture) endAtProvider(token string) {
	f.t.Helper()
	a := f.do(http.MethodPost, sessionPath+"/provider-logout", url.Values{"logout_token": {token}}.Encode(), "Content-Type: application/x-www-form-urlencoded")
	if a.status != http.StatusOK {
		f.t.Fatalf("%d %s", a.status, a.body)
	}
}

// A session belongs to the session at the provider that the last refresh named.
func TestProviderEndsRefreshedSession(t *testing.T) {
	p := newHostileProvider(t)
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	p.set(func(p *hostileProvider) { p.claims = func(c map[string]any) { c["sid"] = "first" } })
	b := newBrowser(t, "")
	b.finish(f)
	p.set(func(p *hostileProvider) {
		p.claims = func(c map[string]any) { c["sid"] = "second"; delete(c, "nonce") }
	})
	f.clock.step(16 * time.Minute)
	b.expect(f, http.StatusOK)
	f.endAtProvider(p.logoutToken("first", f.clock.now()))
	b.expect(f, http.StatusOK)
	f.endAtProvider(p.logoutToken("second", f.clock.now()))
	b.expect(f, http.StatusUnauthorized)
}

// A logout token that is sent again ends no session that began after it.
func TestLogoutTokensAreNotReplayed(t *testing.T) {
	p := newHostileProvider(t)
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	p.set(func(p *hostileProvider) {
		p.claims = func(c map[string]any) { c["sid"], c["iat"] = "at the provider", f.clock.now().Unix() }
	})
	b := newBrowser(t, "")
	b.finish(f)
	token := p.logoutToken("at the provider", f.clock.now())
	f.endAtProvider(token)
	b.expect(f, http.StatusUnauthorized)
	f.clock.step(2 * time.Minute)
	b = newBrowser(t, "")
	b.finish(f)
	f.endAtProvider(token)
	b.expect(f, http.StatusOK)
}

// The provider says when sessions ended by its own clock, which may differ from that of the operator.
func TestProviderEndsSessionsByItsClock(t *testing.T) {
	for name, differs := range map[string]time.Duration{"slow": -8 * time.Minute, "fast": 50 * time.Second, "right": 0} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			f := newSignInFixture(t, p.config(), nil, nil)
			f.rbac.verbs["readers"] = reading
			now := func() time.Time { return f.clock.now().Add(differs) }
			p.set(func(p *hostileProvider) {
				p.claims = func(c map[string]any) { c["sid"], c["iat"] = "at the provider", now().Unix() }
			})
			b := newBrowser(t, "")
			b.finish(f)
			b.expect(f, http.StatusOK)
			f.clock.step(2 * time.Second)
			token := p.logoutToken("at the provider", now())
			f.endAtProvider(token)
			b.expect(f, http.StatusUnauthorized)
			// The provider may repeat it: that ends no later session.
			f.clock.step(90 * time.Second)
			b = newBrowser(t, "")
			b.finish(f)
			f.endAtProvider(token)
			b.expect(f, http.StatusOK)
		})
	}
}

// A provider that says that it issued tokens long ago does not make sessions shorter.
func TestSessionOfOldIDToken(t *testing.T) {
	p := newHostileProvider(t)
	p.claims = func(c map[string]any) { c["iat"] = 1 }
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	b := newBrowser(t, "")
	b.finish(f)
	b.expect(f, http.StatusOK)
}

// A provider that sends no ID token when it is asked again confirms the identity for as long as the access token lasts. It is not asked each minute because
// the ID token of the sign-in has expired.
func TestRefreshWithoutIDToken(t *testing.T) {
	for name, test := range map[string]struct {
		lifetime any
		// asks is how often the provider is asked in 30 minutes, with a request each minute.
		asks int
	}{
		"an access token of five minutes": {300, 6}, "of a day": {86400, 2}, "of a time that is not stated": {nil, 2}, "of too long a time": {int64(1 << 60), 2}, "of no time": {-5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			p.claims = func(c map[string]any) { c["exp"] = time.Now().Add(5 * time.Minute).Unix() }
			f := newSignInFixture(t, p.config(), nil, nil)
			f.rbac.verbs["readers"] = reading
			b := newBrowser(t, "")
			b.finish(f)
			p.set(func(p *hostileProvider) {
				p.token = func(a map[string]any) {
					delete(a, "id_token")
					if a["expires_in"] = test.lifetime; test.lifetime == nil {
						delete(a, "expires_in")
					}
				}
			})
			f.clock.step(6 * time.Minute)
			b.expect(f, http.StatusOK)
			p.set(func(p *hostileProvider) { p.requests = 0 })
			for range 30 {
				f.clock.step(time.Minute)
				b.expect(f, http.StatusOK)
			}
			p.set(func(p *hostileProvider) {
				if p.requests != test.asks {
					t.Errorf("the provider was asked %d times, want %d", p.requests, test.asks)
				}
			})
		})
	}
}
