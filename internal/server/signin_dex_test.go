package server_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

// A user signs in at dex, reads what RBAC permits, and signs out.
func TestSignInWithDex(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers", "team")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, nil)
	f.rbac.verbs["oidc:readers"] = reading
	b := newBrowser(t, dex.CA)
	before := b.session(f)
	if before.Authenticated || before.Provider == nil || !before.Provider.Available || before.Provider.Name == "" {
		t.Errorf("before: %+v", before)
	}
	b.expect(f, http.StatusUnauthorized)

	a := b.do(f, http.MethodGet, sessionPath+"/sign-in?returnTo="+url.QueryEscape("/images/x?q=a&state=b#c"))
	a.secure(t)
	if got := cookieOf(a, signInCookie); !strings.HasSuffix(got, "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("the cookie of the sign-in: %s", got)
	}
	asked, err := url.Parse(a.header.Get("Location"))
	f.must(err)
	for parameter, want := range map[string]string{
		"response_type": "code", "client_id": strings.ToLower(t.Name()), "redirect_uri": external + callbackPath, "code_challenge_method": "S256",
		"scope": "openid profile email groups offline_access",
	} {
		if got := asked.Query().Get(parameter); got != want {
			t.Errorf("%s is %q, want %q", parameter, got, want)
		}
	}
	for _, parameter := range []string{"state", "nonce", "code_challenge"} {
		if len(asked.Query().Get(parameter)) < 43 {
			t.Errorf("%s is %q", parameter, asked.Query().Get(parameter))
		}
	}

	// Providers may add parameters.
	a = b.do(f, http.MethodGet, b.atDex(asked.String(), user)+"&session_state=a&scope=b")
	a.secure(t)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/images/x?q=a&state=b#c" {
		t.Errorf("returned with %d to %q", a.status, a.header.Get("Location"))
	}
	if got := cookieOf(a, sessionCookie); !strings.HasSuffix(got, "; Path=/; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("the cookie of the session: %s", got)
	}
	if b.cookies[signInCookie] != "" {
		t.Error("the cookie of the sign-in is still there")
	}
	b.expect(f, http.StatusOK)
	name, groups := f.rbac.identity()
	if want := []string{"oidc:readers", "oidc:team", "system:authenticated"}; name != user || !slices.Equal(groups, want) {
		t.Errorf("RBAC was asked about %q with the groups %q, want %q with %q", name, groups, user, want)
	}
	if s := b.session(f); !s.Authenticated || s.User != user || s.DisplayName != "ALICE" || s.Method != auth.MethodProvider || s.CanDelete {
		t.Errorf("signed in: %+v", s)
	}
	if a := b.do(f, http.MethodDelete, "/scan-results/"+escape(scannedID)); a.status != http.StatusForbidden {
		t.Errorf("deleting: %d", a.status)
	}

	secret := b.cookies[sessionCookie]
	out := b.do(f, http.MethodDelete, sessionPath)
	validate(t, success(http.MethodDelete, sessionPath), out.body)
	if out.status != http.StatusOK || !strings.Contains(out.body, dex.Issuer+"/logout?") || b.cookies[sessionCookie] != "" {
		t.Errorf("signing out: %d %s", out.status, out.body)
	}
	b.cookies[sessionCookie] = secret
	b.expect(f, http.StatusUnauthorized)
	for _, hidden := range []string{secret, clientSecret, "eyJ"} {
		if strings.Contains(f.log.String(), hidden) {
			t.Errorf("%q is in the log:\n%s", hidden, f.log)
		}
	}
}

// Replicas share sessions: one begins a sign-in and another ends it; a session that one ends is over at the other.
func TestSessionsOfReplicas(t *testing.T) {
	dex := dexServer(t)
	alice, bob := dexUser(t, dex, "alice", "readers"), dexUser(t, dex, "bob", "readers")
	config := dexConfig(t, dex, "")
	one := newSignInFixture(t, config, nil, nil)
	two := newSignInFixture(t, config, one, nil)
	one.rbac.verbs["oidc:readers"] = reading

	laptop, phone, other := newBrowser(t, dex.CA), newBrowser(t, dex.CA), newBrowser(t, dex.CA)
	if a := laptop.do(two, http.MethodGet, laptop.atDex(laptop.start(one, "/"), alice)); a.status != http.StatusSeeOther || laptop.cookies[sessionCookie] == "" {
		t.Fatalf("%d %v\n%s", a.status, a.header, one.log)
	}
	phone.signIn(one, alice)
	other.signIn(two, bob)
	for _, b := range []*browser{laptop, phone, other} {
		b.expect(one, http.StatusOK)
		b.expect(two, http.StatusOK)
	}
	stolen := laptop.cookies[sessionCookie]
	if a := laptop.do(one, http.MethodDelete, sessionPath+"?everywhere=true"); a.status != http.StatusOK {
		t.Errorf("signing out everywhere: %d %s", a.status, a.body)
	}
	laptop.cookies[sessionCookie] = stolen
	laptop.expect(two, http.StatusUnauthorized)
	phone.expect(two, http.StatusUnauthorized)
	phone.expect(one, http.StatusUnauthorized)
	other.expect(one, http.StatusOK)
	if a := phone.do(one, http.MethodDelete, sessionPath+"?everywhere=true"); a.status != http.StatusUnauthorized {
		t.Errorf("signing out everywhere without a session: %d", a.status)
	}
}

// The operator asks dex again who the user is: groups follow, tokens that are valid once are used once, and users who are gone are out.
func TestSessionIsRefreshed(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers")
	config := dexConfig(t, dex, "")
	one := newSignInFixture(t, config, nil, nil)
	two := newSignInFixture(t, config, one, nil)
	one.rbac.verbs["oidc:readers"], one.rbac.verbs["oidc:others"] = reading, reading
	b := newBrowser(t, dex.CA)
	b.signIn(one, user)
	dexUser(t, dex, "alice", "others")
	for range 2 {
		// Dex would revoke a refresh token that is used twice.
		one.clock.step(16 * time.Minute)
		var requests sync.WaitGroup
		for i := range 8 {
			replica := []*signInFixture{one, two}[i%2]
			requests.Go(func() {
				if a := replica.do(http.MethodGet, overviewPath, "", "Cookie: "+sessionCookie+"="+b.cookies[sessionCookie]); a.status != http.StatusOK {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
		requests.Wait()
		b.expect(two, http.StatusOK)
		if s := b.session(two); !slices.Equal(s.Groups, []string{"oidc:others", "system:authenticated"}) {
			t.Errorf("the groups are %q", s.Groups)
		}
	}
	if err := dex.RevokeAll(); err != nil {
		t.Fatal(err)
	}
	b.expect(one, http.StatusOK)
	one.clock.step(16 * time.Minute)
	b.expect(one, http.StatusUnauthorized)
	b.expect(two, http.StatusUnauthorized)
}

// A session ends without requests, and in any case after a day.
func TestSessionExpires(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, nil)
	f.rbac.verbs["oidc:readers"] = reading
	idle, busy := newBrowser(t, dex.CA), newBrowser(t, dex.CA)
	idle.signIn(f, user)
	busy.signIn(f, user)
	for range 2 {
		f.clock.step(4*time.Hour + time.Minute)
		busy.expect(f, http.StatusOK)
	}
	idle.expect(f, http.StatusUnauthorized)
	for range 3 {
		f.clock.step(5 * time.Hour)
		busy.expect(f, http.StatusOK)
	}
	f.clock.step(time.Hour)
	busy.expect(f, http.StatusUnauthorized)
}

// Dex tells the operator when a user signs out there: all sessions of that session at dex end, and their WebSockets.
func TestProviderEndsSessions(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, func(c *server.Config) {
		// The WebSocket is read at the end only.
		c.Limits.PingInterval, c.Limits.PongTimeout = 10*time.Millisecond, time.Hour
	})
	dexConfig(t, dex, f.base+sessionPath+"/provider-logout")
	f.rbac.verbs["oidc:readers"] = reading
	first, second, elsewhere := newBrowser(t, dex.CA), newBrowser(t, dex.CA), newBrowser(t, dex.CA)
	second.provider = first.provider // Another tab, so to speak: another session here with the same session at dex.
	for _, b := range []*browser{first, second, elsewhere} {
		b.signIn(f, user)
	}
	socket, _ := f.dial("Cookie: " + sessionCookie + "=" + second.cookies[sessionCookie])
	var out struct{ EndSessionURL string }
	decodeJSON(t, first.do(f, http.MethodDelete, sessionPath).body, &out)
	second.expect(f, http.StatusOK)
	response := first.get(out.EndSessionURL)
	if back := response.Header.Get("Location"); !strings.HasPrefix(back, external+"/") {
		t.Errorf("signing out at dex led to %q with %d", back, response.StatusCode)
	}
	if code := closed(t, socket); code != websocket.ClosePolicyViolation {
		t.Errorf("the WebSocket was closed with %d", code)
	}
	second.expect(f, http.StatusUnauthorized)
	elsewhere.expect(f, http.StatusOK)
}

// What is wrong with a return from dex leads to the page that the user wanted, with the reason, and to no session.
func TestForgedReturns(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, nil)
	f.rbac.verbs["oidc:readers"] = reading
	for name, test := range map[string]struct {
		change func(b *browser, query url.Values)
		want   string
	}{
		"no sign-in was begun here": {func(b *browser, _ url.Values) { delete(b.cookies, signInCookie) }, "/?signInError=expired"},
		"another state":             {func(_ *browser, q url.Values) { q.Set("state", strings.Repeat("A", 43)) }, "/page?q=a&signInError=expired#part"},
		"no state":                  {func(_ *browser, q url.Values) { q.Del("state") }, "/page?q=a&signInError=expired#part"},
		"an empty cookie and state": {func(b *browser, q url.Values) { b.cookies[signInCookie] = "..."; q.Del("state") }, "/?signInError=expired"},
		"another code":              {func(_ *browser, q url.Values) { q.Set("code", "x") }, "/page?q=a&signInError=expired#part"},
		"no code":                   {func(_ *browser, q url.Values) { q.Del("code") }, "/page?q=a&signInError=rejected#part"},
		"a huge code":               {func(_ *browser, q url.Values) { q.Set("code", strings.Repeat("x", 9000)) }, "/page?q=a&signInError=rejected#part"},
		"another issuer":            {func(_ *browser, q url.Values) { q.Set("iss", "https://evil.example") }, "/page?q=a&signInError=rejected#part"},
		"an error":                  {func(_ *browser, q url.Values) { q.Set("error", "access_denied") }, "/page?q=a&signInError=denied#part"},
		"another PKCE verifier":     {func(b *browser, _ url.Values) { b.changeSignIn(2, strings.Repeat("A", 43)) }, "/page?q=a&signInError=expired#part"},
		"another nonce":             {func(b *browser, _ url.Values) { b.changeSignIn(1, strings.Repeat("A", 43)) }, "/page?q=a&signInError=rejected#part"},
		"another page, elsewhere":   {func(b *browser, q url.Values) { b.changeSignIn(3, "aHR0cHM6Ly9ldmlsLmV4YW1wbGU"); q.Del("code") }, "/?signInError=rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, dex.CA)
			path, text, _ := strings.Cut(b.atDex(b.start(f, "/page?q=a#part"), user), "?")
			query, err := url.ParseQuery(text)
			f.must(err)
			test.change(b, query)
			b.failed(b.do(f, http.MethodGet, path+"?"+query.Encode()), test.want)
			if b.cookies[signInCookie] != "" {
				t.Error("the cookie of the sign-in is still there")
			}
		})
	}
}

// changeSignIn changes a part of the cookie of a sign-in.
func (b *browser) changeSignIn(part int, text string) {
	parts := strings.Split(b.cookies[signInCookie], ".")
	parts[part] = text
	b.cookies[signInCookie] = strings.Join(parts, ".")
}

// A return works once, in the browser that began it, and makes a session that nobody knew before.
func TestReturnsAreBoundToOneBrowser(t *testing.T) {
	dex := dexServer(t)
	user, attacker := dexUser(t, dex, "alice", "readers"), dexUser(t, dex, "mallory", "readers")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, nil)
	f.rbac.verbs["oidc:readers"] = reading

	// Login CSRF: a page sends the victim to a return of the attacker.
	evil, victim := newBrowser(t, dex.CA), newBrowser(t, dex.CA)
	trap := evil.atDex(evil.start(f, "/"), attacker)
	victim.failed(victim.do(f, http.MethodGet, trap), "/?signInError=expired")
	victim.start(f, "/")
	victim.failed(victim.do(f, http.MethodGet, trap), "/?signInError=expired")

	// Fixation: the attacker has planted a session that it knows, of its own or made up.
	evil.do(f, http.MethodGet, trap)
	for _, planted := range []string{evil.cookies[sessionCookie], strings.Repeat("A", 43), "x"} {
		b := newBrowser(t, dex.CA)
		b.cookies[sessionCookie] = planted
		b.signIn(f, user)
		if b.cookies[sessionCookie] == planted {
			t.Errorf("the session has the planted secret %q", planted)
		}
		b.cookies[sessionCookie] = planted
		b.expect(f, http.StatusUnauthorized)
	}

	// A return that is repeated, with the cookie that the browser had.
	b := newBrowser(t, dex.CA)
	back := b.atDex(b.start(f, "/"), user)
	begun := b.cookies[signInCookie]
	b.do(f, http.MethodGet, back)
	b.expect(f, http.StatusOK)
	delete(b.cookies, sessionCookie)
	b.cookies[signInCookie] = begun
	b.failed(b.do(f, http.MethodGet, back), "/?signInError=expired")
}

// Pasted tokens work beside the provider, and one way of signing in replaces the other.
func TestTokensBesideTheProvider(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice", "readers")
	f := newSignInFixture(t, dexConfig(t, dex, ""), nil, nil)
	f.rbac.verbs["oidc:readers"], f.rbac.verbs["reader"] = reading, reading
	b := newBrowser(t, dex.CA)
	b.signIn(f, user)
	old := b.cookies[sessionCookie]
	a := f.do(http.MethodPost, sessionPath, `{"token":"reader"}`, "X-Forwarded-Proto: https", "Cookie: "+sessionCookie+"="+old)
	if !strings.Contains(a.body, `"method":"token"`) || !strings.Contains(cookieOf(a, sessionCookie), "Max-Age=0") || cookieOf(a, tokenCookie) == "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	b.expect(f, http.StatusUnauthorized)
	b.cookies = map[string]string{tokenCookie: "reader"}
	b.expect(f, http.StatusOK)
	b.signIn(f, user)
	if b.cookies[tokenCookie] != "" || b.session(f).User != user {
		t.Errorf("%v %+v", b.cookies, b.session(f))
	}
	// A header counts before cookies.
	if a := b.do(f, http.MethodGet, overviewPath, bearer("unknown")); a.status != http.StatusUnauthorized {
		t.Errorf("%d", a.status)
	}
	for _, request := range []string{"DELETE " + sessionPath, "POST /api/v1/databases/rematch"} {
		method, path, _ := strings.Cut(request, " ")
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example"} {
			if a := b.do(f, method, path, header); a.status != http.StatusForbidden {
				t.Errorf("%s with %s: %d", request, header, a.status)
			}
		}
	}
	if _, a := f.dial("Origin: https://evil.example", "Cookie: "+sessionCookie+"="+b.cookies[sessionCookie]); a.status != http.StatusForbidden {
		t.Errorf("a WebSocket of another site: %d", a.status)
	}
}

// A confidential client with a wrong secret is told that the provider does not work; the log says why, without the secret.
func TestWrongClientSecret(t *testing.T) {
	dex := dexServer(t)
	user := dexUser(t, dex, "alice")
	config := dexConfig(t, dex, "")
	config.ClientSecretFile = file(t, "wrong", "wrong "+clientSecret)
	f := newSignInFixture(t, config, nil, nil)
	b := newBrowser(t, dex.CA)
	b.failed(b.do(f, http.MethodGet, b.atDex(b.start(f, "/"), user)), "/?signInError=unavailable")
	if log := f.log.String(); !strings.Contains(log, "invalid_client") || strings.Contains(log, clientSecret) {
		t.Error(log)
	}
}

func TestProviderConfiguration(t *testing.T) {
	valid := oidc.Config{Issuer: "https://dex.example/dex", ClientID: "a"}
	for _, test := range []struct {
		change func(*oidc.Config)
		want   string
	}{
		{func(*oidc.Config) {}, ""},
		{func(c *oidc.Config) { c.Issuer = "http://dex.example" }, "https"},
		{func(c *oidc.Config) { c.Issuer = "https://u:p@dex.example" }, "user"},
		{func(c *oidc.Config) { c.ClientID = "" }, "client ID"},
		{func(c *oidc.Config) { c.Scopes = []string{"a b"} }, "scope"},
		{func(c *oidc.Config) { c.Scopes = slices.Repeat([]string{"a"}, 40) }, "at most 32"},
		{func(c *oidc.Config) { c.GroupsPrefix = "a\nb" }, "control characters"},
		{func(c *oidc.Config) { c.CAFile = "/does/not/exist" }, "certificate authorities"},
		{func(c *oidc.Config) { c.CAFile = file(t, "empty", "") }, "no certificate"},
	} {
		config := valid
		test.change(&config)
		_, err := oidc.New(config)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", config, err, test.want)
		}
	}
}
