package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	remoteAlice = "X-Remote-User: alice"
	remoteTeam  = "X-Remote-Group: team"
)

// RBAC decides what users of a front proxy may do, by the user and the groups that the proxy names.
func TestFrontProxy(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	f.seed()
	f.rbac.verbs["team"] = []string{"get", "list", "update"}
	proxy := f.trusted()
	if a := proxy.send(http.MethodGet, overviewPath, remoteAlice, remoteTeam, "X-Remote-Group: staff"); a.status != http.StatusOK {
		t.Errorf("reading: %d %s", a.status, a.body)
	}
	if user, groups := f.rbac.identity(); user != "alice" || !slices.Equal(groups, []string{"team", "staff", "system:authenticated"}) {
		t.Errorf("RBAC was asked about %q with %q", user, groups)
	}
	proxy.send(http.MethodGet, overviewPath, "X-Remote-User: mallory", "X-Remote-Group: staff").problem(t, http.StatusForbidden, `user "mallory" is not allowed to list`)
	if a := proxy.do(http.MethodPut, "/scan-results", uploadOf(reportedID), remoteAlice, remoteTeam); a.status != http.StatusOK {
		t.Errorf("uploading a report: %d %s", a.status, a.body)
	}
	proxy.do(http.MethodDelete, "/scan-results/"+escape(scannedID), "", remoteAlice, remoteTeam).problem(t, http.StatusForbidden, "delete")
	// An SBOM comes from a scan pod, whoever the proxy names.
	proxy.do(http.MethodPut, "/api/v1/images/"+escape(scannedID)+"/sbom", "", remoteAlice, remoteTeam).problem(t, http.StatusUnauthorized, "")

	a := proxy.send(http.MethodGet, sessionPath, remoteAlice, remoteTeam)
	validate(t, success(http.MethodGet, sessionPath), a.body)
	var session struct {
		Authenticated, CanUpdate, CanDelete bool
		User, Method                        string
		Groups                              []string
	}
	decodeJSON(t, a.body, &session)
	if !session.Authenticated || session.User != "alice" || session.Method != "frontProxy" || !session.CanUpdate || session.CanDelete ||
		!slices.Equal(session.Groups, []string{"team", "system:authenticated"}) {
		t.Errorf("the session: %s", a.body)
	}
	// The proxy ends its session.
	if out := proxy.do(http.MethodDelete, sessionPath, "", remoteAlice); out.status != http.StatusNoContent || strings.Contains(f.log.String(), "Signed out") {
		t.Errorf("signing out: %d %s\n%s", out.status, out.body, f.log)
	}
	if user, _ := proxy.user(remoteAlice); user != "alice" {
		t.Errorf("after signing out: %q", user)
	}
	if !strings.Contains(f.log.String(), `"user"="alice" "verb"="update" "resource"="scanresults"`) {
		t.Errorf("the upload was not audited:\n%s", f.log)
	}
}

// What a trusted proxy says counts before everything else. Headers of others count for nothing, whatever comes with them.
func TestFrontProxyPrecedence(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	b := newBrowser(t, "")
	b.finish(f.signInFixture)
	direct := f.client(nil)
	session := "Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie]
	stranger := newFrontFixture(t, nil).authority.Issue(nil)
	const token, cookie, alice = "Authorization: Bearer admin", "Cookie: " + tokenCookie + "=admin", "alice by frontProxy"
	proxied := auth.ProxiedHeader + ": Bearer admin"
	provided := f.provider.Issuer() + "#alice by provider"
	for name, test := range map[string]struct {
		client  *frontClient
		headers []string
		// proxy says that no other credential counts.
		proxy bool
	}{
		"a trusted proxy":                  {f.trusted(), []string{remoteAlice}, true},
		"a trusted proxy without a user":   {f.trusted(), []string{remoteTeam}, false},
		"a trusted proxy with anonymous":   {f.trusted(), []string{"X-Remote-User: system:anonymous"}, false},
		"a client without a certificate":   {direct, []string{remoteAlice, remoteTeam}, false},
		"a client with another one":        {f.client(&stranger), []string{remoteAlice, remoteTeam}, false},
		"a client with no headers":         {direct, nil, false},
		"another certificate, no headers":  {f.client(&stranger), nil, false},
		"a trusted proxy with other names": {f.trusted(), []string{"X-Forwarded-User: alice", "Impersonate-User: alice", "X_Remote_User: alice"}, false},
	} {
		for _, other := range []struct{ header, want string }{
			{"Accept: */*", ""}, {token, "admin by token"}, {proxied, "admin by token"}, {cookie, "admin by token"}, {session, provided},
			{"Authorization: Basic YTpi", ""}, {"Authorization: Bearer unknown", ""},
		} {
			want := other.want
			if test.proxy {
				want = alice
			}
			user, method := test.client.user(append(slices.Clone(test.headers), other.header)...)
			if got := user + " by " + method; got != want && (want != "" || user != "") {
				t.Errorf("%s with %.30s: %q, want %q", name, other.header, got, want)
			}
		}
	}
}

// Permissions are remembered for a user with its groups: as soon as the proxy names others, the user sees something else.
func TestNamespacesFollowFrontProxy(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	var uses []store.Use
	for _, namespace := range []string{"shop", "bank"} {
		image := model.ImageKey{ImageID: "registry.example/" + namespace, Platform: linux}
		_, err := f.store.WantImages(t.Context(), []model.ImageKey{image})
		f.must(err)
		uses = append(uses, store.Use{Image: image, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: "app"})
	}
	f.must(f.store.RecordUses(t.Context(), "scanner", uses))
	f.rbac.verbs = map[string][]string{"shop-team": reading, "bank-team": reading}
	f.rbac.only = map[string]string{"shop-team": "shop", "bank-team": "bank"}
	proxy := f.trusted()
	for range 2 {
		for _, namespace := range []string{"shop", "bank"} {
			a := proxy.send(http.MethodGet, "/api/v1/images", remoteAlice, "X-Remote-Group: "+namespace+"-team")
			var page struct{ Items []struct{ ImageID string } }
			f.must(json.Unmarshal([]byte(a.body), &page))
			if len(page.Items) != 1 || page.Items[0].ImageID != "registry.example/"+namespace {
				t.Errorf("%s: %s", namespace, a.body)
			}
		}
	}
	proxy.send(http.MethodGet, "/api/v1/images", remoteAlice).problem(t, http.StatusForbidden, "")
	if user, _ := proxy.user(remoteAlice, "X-Remote-Group: extra", "X-Remote-Group: k", "X-Remote-Group: v"); user != "alice" {
		t.Errorf("with other groups: %q", user)
	}
}

// Pages of other sites change and follow nothing in the name of a user who is signed in at the proxy: its cookie comes with their requests.
func TestOtherSitesBehindFrontProxy(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	f.rbac.verbs["alice"] = []string{"get", "list", "update", "delete"}
	proxy := f.trusted()
	for _, request := range []string{"PUT /scan-results", "DELETE /scan-results/a", "DELETE /api/v1/session", "POST /api/v1/session", "POST /api/v1/databases/rematch"} {
		method, path, _ := strings.Cut(request, " ")
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Origin: null"} {
			proxy.do(method, path, uploadOf("a"), remoteAlice, header).problem(t, http.StatusForbidden, "cross-origin request refused")
		}
	}
	if a := proxy.do(http.MethodPut, "/scan-results", uploadOf("a"), remoteAlice, "Sec-Fetch-Site: same-origin"); a.status != http.StatusOK {
		t.Errorf("our own page: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/subscribe", eventsPath} {
		if _, status := proxy.follow(t, path, remoteAlice, "Origin: https://evil.example"); status != http.StatusForbidden {
			t.Errorf("%s: %d", path, status)
		}
	}
	if socket, status := proxy.follow(t, "/subscribe", remoteAlice, "Origin: "+proxy.base); socket == nil {
		t.Errorf("our own page: %d", status)
	}
}

// A WebSocket ends when the permission, the certificate of the proxy, or what the proxy said has expired.
func TestWebSocketsOfFrontProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(f *frontFixture)
		want   int
	}{
		"the permission": {func(f *frontFixture) {
			f.rbac.mu.Lock()
			delete(f.rbac.verbs, "alice")
			f.rbac.mu.Unlock()
			f.clock.step(time.Minute)
		}, websocket.ClosePolicyViolation},
		"the certificate": {func(f *frontFixture) { f.now.Step(25 * time.Hour) }, websocket.ClosePolicyViolation},
		"the identity":    {func(f *frontFixture) { f.clock.step(15 * time.Minute) }, websocket.CloseServiceRestart},
	} {
		f := newFrontFixture(t, nil)
		f.rbac.verbs["alice"] = reading
		proxy := f.trusted()
		var sockets []*websocket.Conn
		for _, path := range []string{"/subscribe", eventsPath} {
			socket, status := proxy.follow(t, path, remoteAlice)
			if socket == nil {
				t.Fatalf("%s: %d", path, status)
			}
			sockets = append(sockets, socket)
		}
		test.change(f)
		for _, socket := range sockets {
			if code := closed(t, socket); code != test.want {
				t.Errorf("without %s, a WebSocket is closed with %d, want %d", name, code, test.want)
			}
		}
	}
}

// Requests of several users come over one connection, also with HTTP/2, which other servers may use.
func TestFrontProxyOverHTTP2(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	config := servingTLS(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	other := httptest.NewUnstartedServer(f.server.Handler())
	other.EnableHTTP2, other.TLS = true, f.proxy.TLSConfig(config)
	other.StartTLS()
	t.Cleanup(other.Close)
	certificate := f.authority.Issue(nil)
	for _, test := range []struct {
		client   *frontClient
		base     string
		protocol string
		trusted  bool
	}{
		{f.client(&certificate), other.URL, "HTTP/2.0", true}, {f.client(nil), other.URL, "HTTP/2.0", false},
		{f.client(&certificate), "https://" + f.server.Addr(), "HTTP/1.1", true}, {f.client(nil), "https://" + f.server.Addr(), "HTTP/1.1", false},
	} {
		transport, ok := test.client.fixture.client.Transport.(*http.Transport)
		if !ok {
			t.Fatal("another transport")
		}
		transport.ForceAttemptHTTP2 = true
		test.client.base = test.base
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.base+"/", http.NoBody)
		f.must(err)
		response, err := test.client.fixture.client.Do(request)
		f.must(err)
		f.must(response.Body.Close())
		if response.Proto != test.protocol {
			t.Errorf("the protocol is %s, want %s", response.Proto, test.protocol)
		}
		for _, name := range []string{"alice", "bob", ""} {
			want := name
			if !test.trusted {
				want = ""
			}
			if got, _ := test.client.user("x-remote-user: "+name, "x-remote-group: team"); got != want {
				t.Errorf("%s: the user %q is %q, want %q", test.protocol, name, got, want)
			}
		}
	}
}

func TestFrontProxyNeedsTLS(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, nil)
	config := server.Config{
		Auth: auth.Kubernetes, BindAddress: "127.0.0.1:0", Store: f.store, Ingest: &ingester{}, FrontProxy: f.proxy, Uploads: uploads{"pod"},
		Reviews: auth.Reviews{Tokens: tokenReviews{newCluster()}, Access: f.rbac}, Log: logr.Discard(),
	}
	if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), "a front proxy requires TLS") {
		t.Errorf("without TLS: %v", err)
	}
	config.Auth, config.TLS = auth.None, servingTLS(t)
	if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), "front proxy") {
		t.Errorf("without authentication: %v", err)
	}
}

// Users of a front proxy have its address in common, and allowances of their own.
func TestUsersOfFrontProxyHaveAllowances(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, func(c *server.Config) { c.Limits.RequestRate, c.Limits.RequestBurst = 1e-6, 3 })
	f.rbac.verbs["alice"], f.rbac.verbs["bob"] = reading, reading
	proxy := f.trusted()
	for _, path := range []string{overviewPath, sessionPath, overviewPath} {
		if a := proxy.send(http.MethodGet, path, remoteAlice); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{overviewPath, sessionPath} {
		proxy.send(http.MethodGet, path, remoteAlice).problem(t, http.StatusTooManyRequests, "rate limit exceeded")
		if a := proxy.send(http.MethodGet, path, "X-Remote-User: bob"); a.status != http.StatusOK {
			t.Errorf("%s of another: %d %s", path, a.status, a.body)
		}
	}
}
