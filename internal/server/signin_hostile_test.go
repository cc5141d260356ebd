package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

// hostileProvider is a provider that says whatever a test wants.
type hostileProvider struct {
	*httptest.Server
	t   *testing.T
	key *ecdsa.PrivateKey

	mu sync.Mutex
	// discovery, token and claims change what it says: its configuration, the answer of the token endpoint, and ID tokens.
	discovery, token, claims func(map[string]any)
	// sign makes a token; redirect is where the token endpoint redirects to.
	sign     func(claims map[string]any) string
	redirect string
	// down makes it fail, requests counts the requests to the token endpoint, used lists the refresh tokens in them.
	down     bool
	requests int
	used     []string
	// entered is told of each request to the token endpoint, which then waits for leave, if they are set.
	entered, leave chan struct{}
}

func newHostileProvider(t *testing.T) *hostileProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &hostileProvider{t: t, key: key}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

// set changes the provider under its lock.
func (p *hostileProvider) set(change func(*hostileProvider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *hostileProvider) config() oidc.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return oidc.Config{
		Issuer: p.URL, ClientID: "client", ClientSecretFile: file(p.t, "secret", clientSecret), CAFile: file(p.t, "ca.crt", string(ca)), GroupsClaim: "groups",
	}
}

func (p *hostileProvider) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" && p.entered != nil {
		p.entered <- struct{}{}
		<-p.leave
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	answer := map[string]any{}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		}
		if p.discovery != nil {
			p.discovery(answer)
		}
	case "/keys":
		point, err := p.key.PublicKey.Bytes()
		if err != nil {
			p.t.Error(err)
		}
		answer["keys"] = []any{map[string]any{
			"kty": "EC", "crv": "P-256", "use": "sig", "kid": "1", "x": encoded(point[1:33]), "y": encoded(point[33:]),
		}}
	case "/token":
		p.requests++
		if token := r.FormValue("refresh_token"); token != "" {
			p.used = append(p.used, token)
		}
		if p.redirect != "" {
			http.Redirect(w, r, p.redirect, http.StatusTemporaryRedirect)
			return
		}
		// The tests use the nonce as the code.
		claims := p.standard()
		claims["nonce"] = r.FormValue("code")
		if p.claims != nil {
			p.claims(claims)
		}
		answer = map[string]any{"access_token": "access", "token_type": "Bearer", "refresh_token": "refresh", "id_token": p.signed(claims)}
		if p.token != nil {
			p.token(answer)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// standard are the claims of a token that is accepted.
func (p *hostileProvider) standard() map[string]any {
	return map[string]any{
		"iss": p.URL, "aud": "client", "sub": "alice", "name": "alice", "iat": time.Now().Unix(), "exp": time.Now().Add(48 * time.Hour).Unix(), "groups": []string{"readers"},
	}
}

func (p *hostileProvider) signed(claims map[string]any) string {
	if p.sign != nil {
		return p.sign(claims)
	}
	return p.signES256(claims, p.key)
}

func (p *hostileProvider) signES256(claims map[string]any, key *ecdsa.PrivateKey) string {
	input := part(map[string]any{"alg": "ES256", "kid": "1"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		p.t.Error(err)
		return ""
	}
	return input + "." + encoded(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func encoded(content []byte) string { return base64.RawURLEncoding.EncodeToString(content) }

func part(value map[string]any) string {
	text, _ := json.Marshal(value)
	return encoded(text)
}

// finish begins a sign-in and returns with the nonce as the code.
func (b *browser) finish(f *signInFixture) answer {
	b.t.Helper()
	asked, err := url.Parse(b.start(f, "/page"))
	f.must(err)
	query := url.Values{"state": {asked.Query().Get("state")}, "code": {asked.Query().Get("nonce")}}
	return b.do(f, http.MethodGet, callbackPath+"?"+query.Encode())
}

// What a provider says that is wrong, too large, or not for this program lets nobody in.
func TestHostileProvider(t *testing.T) {
	claim := func(name string, value any) func(*hostileProvider) {
		return func(p *hostileProvider) { p.claims = func(c map[string]any) { c[name] = value } }
	}
	many := make([]string, 501)
	for i := range many {
		many[i] = fmt.Sprint("group", i)
	}
	for name, test := range map[string]struct {
		change func(*hostileProvider)
		// reason is the one of the page, log a part of the log.
		reason, log string
	}{
		"nothing":                   {func(*hostileProvider) {}, "", "Signed in"},
		"groups as a string":        {claim("groups", "readers"), "", "Signed in"},
		"as many groups as may be":  {claim("groups", append([]string{"readers"}, many[:499]...)), "", "Signed in"},
		"another nonce":             {claim("nonce", "x"), "rejected", "nonce"},
		"no nonce":                  {func(p *hostileProvider) { p.claims = func(c map[string]any) { delete(c, "nonce") } }, "rejected", "nonce"},
		"another audience":          {claim("aud", "other"), "rejected", "expected audience"},
		"issued to another client":  {claim("azp", "other"), "rejected", "issued to the client"},
		"another issuer":            {claim("iss", "https://evil.example"), "rejected", "issued by a different provider"},
		"expired":                   {claim("exp", time.Now().Add(-2*time.Minute).Unix()), "rejected", "token is expired"},
		"not valid yet":             {claim("nbf", time.Now().Add(time.Hour).Unix()), "rejected", "nbf"},
		"issued in the future":      {claim("iat", time.Now().Add(time.Hour).Unix()), "rejected", "in the future"},
		"no subject":                {claim("sub", ""), "rejected", ""},
		"a subject of another type": {claim("sub", 7), "rejected", ""},
		"too many groups":           {claim("groups", many), "rejected", "501 groups, which exceeds the maximum of 500"},
		"a group that is too long":  {claim("groups", []string{strings.Repeat("g", 600)}), "rejected", "a group has 600 bytes"},
		"groups of another type":    {claim("groups", map[string]any{"a": 1}), "rejected", "neither a string nor a list"},
		"groups in another place": {func(p *hostileProvider) {
			p.claims = func(c map[string]any) {
				delete(c, "groups")
				c["_claim_names"], c["_claim_sources"] = map[string]any{"groups": "a"}, map[string]any{"a": map[string]any{"endpoint": p.URL + "/groups"}}
			}
		}, "rejected", "too many"},
		"a group of Kubernetes":    {claim("groups", []string{"system:masters"}), "rejected", "system:"},
		"a group with a line feed": {claim("groups", []string{"a\nb"}), "rejected", "not text"},
		"a huge claim":             {claim("other", strings.Repeat("x", 100_000)), "rejected", "exceeds the maximum of 65536"},
		"a huge response":          {claim("other", strings.Repeat("x", 2<<20)), "unavailable", "exceeds the maximum of 524288 bytes"},
		"no ID token":              {func(p *hostileProvider) { p.token = func(a map[string]any) { delete(a, "id_token") } }, "rejected", "no ID token"},
		"no token at all":          {func(p *hostileProvider) { p.token = func(a map[string]any) { clear(a) } }, "unavailable", ""},
		"a huge refresh token": {func(p *hostileProvider) {
			p.token = func(a map[string]any) { a["refresh_token"] = strings.Repeat("x", 40_000) }
		}, "rejected", "refresh token has 40000 bytes"},
		"a token that is none": {func(p *hostileProvider) { p.sign = func(map[string]any) string { return "x.y.z" } }, "rejected", ""},
		"the algorithm none": {func(p *hostileProvider) {
			p.sign = func(c map[string]any) string { return part(map[string]any{"alg": "none"}) + "." + part(c) + "." }
		}, "rejected", ""},
		"a symmetric algorithm": {func(p *hostileProvider) {
			p.sign = func(c map[string]any) string {
				input := part(map[string]any{"alg": "HS256", "kid": "1"}) + "." + part(c)
				mac := hmac.New(sha256.New, []byte(clientSecret))
				mac.Write([]byte(input))
				return input + "." + encoded(mac.Sum(nil))
			}
		}, "rejected", ""},
		"another key": {func(p *hostileProvider) {
			other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Error(err)
			}
			p.sign = func(c map[string]any) string { return p.signES256(c, other) }
		}, "rejected", "signature"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			f := newSignInFixture(t, p.config(), nil, nil)
			f.rbac.verbs["readers"] = reading
			p.set(test.change)
			b := newBrowser(t, "")
			a := b.finish(f)
			if test.reason == "" {
				b.expect(f, http.StatusOK)
				if user, _ := f.rbac.identity(); user != p.URL+"#alice" {
					t.Errorf("RBAC was asked about %q", user)
				}
			} else {
				b.failed(a, "/page?signInError="+test.reason)
			}
			if log := f.log.String(); !strings.Contains(log, test.log) || strings.Contains(log, clientSecret) || strings.Contains(log, "eyJ") {
				t.Errorf("the log lacks %q or has a secret: %s", test.log, log)
			}
		})
	}
}

// The configuration that a provider publishes cannot make the operator speak to others in plain text, nor for another issuer, and a
// redirect does not take the client secret elsewhere.
func TestHostileDiscovery(t *testing.T) {
	stolen := make(chan string, 10)
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen <- r.URL.Path }))
	defer thief.Close()
	for name, change := range map[string]func(map[string]any){
		"another issuer":              func(d map[string]any) { d["issuer"] = "https://evil.example" },
		"a token endpoint in HTTP":    func(d map[string]any) { d["token_endpoint"] = thief.URL + "/token" },
		"keys in HTTP":                func(d map[string]any) { d["jwks_uri"] = thief.URL + "/keys" },
		"a sign-in page in a script":  func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" },
		"a sign-out page in a script": func(d map[string]any) { d["end_session_endpoint"] = "javascript:alert(1)" },
		"no token endpoint":           func(d map[string]any) { delete(d, "token_endpoint") },
		"a huge document":             func(d map[string]any) { d["x"] = strings.Repeat("x", 2<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			p.set(func(p *hostileProvider) { p.discovery = change })
			f := newSignInFixture(t, p.config(), nil, nil)
			b := newBrowser(t, "")
			b.failed(b.do(f, http.MethodGet, sessionPath+"/sign-in?returnTo=/page"), "/page?signInError=unavailable")
			if s := b.session(f); s.Provider == nil || s.Provider.Available {
				t.Errorf("%+v", s)
			}
		})
	}
	p := newHostileProvider(t)
	p.set(func(p *hostileProvider) { p.redirect = thief.URL + "/token" })
	f := newSignInFixture(t, p.config(), nil, nil)
	b := newBrowser(t, "")
	b.failed(b.finish(f), "/page?signInError=unavailable")
	select {
	case path := <-stolen:
		t.Errorf("the thief was asked for %s", path)
	default:
	}
}

// A provider that cannot be reached keeps nobody from starting, from using tokens, and from using a session for a while.
func TestProviderUnavailable(t *testing.T) {
	p := newHostileProvider(t)
	p.set(func(p *hostileProvider) { p.down = true })
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"], f.rbac.verbs["reader"] = reading, reading
	b := newBrowser(t, "")
	if s := b.session(f); s.Provider == nil || s.Provider.Available {
		t.Errorf("%+v", s)
	}
	b.failed(b.do(f, http.MethodGet, sessionPath+"/sign-in?returnTo=/page"), "/page?signInError=unavailable")
	if a := f.do(http.MethodGet, overviewPath, "", bearer("reader")); a.status != http.StatusOK {
		t.Errorf("with a token: %d %s", a.status, a.body)
	}
	p.set(func(p *hostileProvider) { p.down = false })
	f.clock.step(11 * time.Second)
	b.finish(f)
	b.expect(f, http.StatusOK)
	if s := b.session(f); !s.Authenticated || !s.Provider.Available {
		t.Errorf("%+v", s)
	}

	p.set(func(p *hostileProvider) { p.down = true })
	f.clock.step(30 * time.Minute)
	b.expect(f, http.StatusOK)
	b.expect(f, http.StatusOK) // It is not asked for each request.
	f.clock.step(31 * time.Minute)
	a := b.do(f, http.MethodGet, overviewPath)
	a.problem(t, http.StatusServiceUnavailable, "identity provider is unavailable")
	b.expect(f, http.StatusServiceUnavailable) // Nor is anybody let in meanwhile.
	p.set(func(p *hostileProvider) { p.down = false })
	f.clock.step(31 * time.Second)
	b.expect(f, http.StatusOK)

	// Whoever has the cookie can sign out, also while nobody can say whose it is.
	p.set(func(p *hostileProvider) { p.down = true })
	f.clock.step(2 * time.Hour)
	cookies := maps.Clone(b.cookies)
	b.expect(f, http.StatusServiceUnavailable)
	if a := b.do(f, http.MethodDelete, sessionPath); a.status != http.StatusNoContent {
		t.Errorf("signing out: %d %s", a.status, a.body)
	}
	b.cookies = cookies
	b.expect(f, http.StatusUnauthorized)
}

// A session ends when the provider says something else about its user than before.
func TestRefreshIsVerified(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*hostileProvider)
		status int
	}{
		"the same":          {func(*hostileProvider) {}, http.StatusOK},
		"no ID token":       {func(p *hostileProvider) { p.token = func(a map[string]any) { delete(a, "id_token") } }, http.StatusOK},
		"another subject":   {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["sub"] = "root" } }, http.StatusUnauthorized},
		"another user name": {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["name"] = "root" } }, http.StatusUnauthorized},
		"another nonce":     {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["nonce"] = "x" } }, http.StatusUnauthorized},
		"other groups":      {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["groups"] = []string{"x"} } }, http.StatusForbidden},
		"too many groups":   {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["groups"] = make([]string, 501) } }, http.StatusUnauthorized},
		"another audience":  {func(p *hostileProvider) { p.claims = func(c map[string]any) { c["aud"] = "x" } }, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			p := newHostileProvider(t)
			p.set(func(p *hostileProvider) {
				p.claims = func(c map[string]any) {
					if c["nonce"] == "" {
						delete(c, "nonce")
					}
				}
			})
			config := p.config()
			config.UsernameClaim = "name"
			f := newSignInFixture(t, config, nil, nil)
			f.rbac.verbs["readers"] = reading
			b := newBrowser(t, "")
			b.finish(f)
			b.expect(f, http.StatusOK)
			p.set(func(p *hostileProvider) {
				standard := p.claims
				test.change(p)
				changed := p.claims
				p.claims = func(c map[string]any) { standard(c); changed(c) }
			})
			f.clock.step(16 * time.Minute)
			b.expect(f, test.status)
		})
	}
}

// While one request refreshes a session, others use it as it was, and change nothing: the new refresh token is kept.
func TestRefreshBesideOtherRequests(t *testing.T) {
	p := newHostileProvider(t)
	p.token = func(a map[string]any) { a["refresh_token"] = fmt.Sprint("refresh ", p.requests) }
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	b := newBrowser(t, "")
	b.finish(f)
	p.entered, p.leave = make(chan struct{}), make(chan struct{})
	f.clock.step(16 * time.Minute)
	first := make(chan int)
	header := "Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie]
	go func() { first <- f.do(http.MethodGet, overviewPath, "", header).status }()
	<-p.entered
	b.expect(f, http.StatusOK)
	f.clock.step(time.Second)
	b.expect(f, http.StatusOK)
	p.leave <- struct{}{}
	if status := <-first; status != http.StatusOK {
		t.Errorf("the request that refreshed: %d", status)
	}
	p.entered = nil
	f.clock.step(16 * time.Minute)
	b.expect(f, http.StatusOK)
	p.set(func(p *hostileProvider) {
		if !slices.Equal(p.used, []string{"refresh 1", "refresh 2"}) {
			t.Errorf("the refresh tokens %q were used", p.used)
		}
	})

	// A session that ends while it is refreshed stays ended.
	p.entered = make(chan struct{})
	f.clock.step(16 * time.Minute)
	go func() { first <- f.do(http.MethodGet, overviewPath, "", header).status }()
	<-p.entered
	if a := b.do(f, http.MethodDelete, sessionPath); a.status != http.StatusNoContent {
		t.Errorf("signing out: %d %s", a.status, a.body)
	}
	p.leave <- struct{}{}
	if status := <-first; status != http.StatusUnauthorized {
		t.Errorf("the request that refreshed an ended session: %d", status)
	}
	if a := f.do(http.MethodGet, overviewPath, "", header); a.status != http.StatusUnauthorized {
		t.Errorf("the ended session: %d", a.status)
	}
}

// Whoever sends many wrong returns or logout tokens has to wait; the provider is asked no more.
func TestHostileAttemptsAreBounded(t *testing.T) {
	p := newHostileProvider(t)
	f := newSignInFixture(t, p.config(), nil, func(c *server.Config) { c.Limits.FailureRate, c.Limits.FailureBurst = 0.001, 5 })
	p.set(func(p *hostileProvider) { p.claims = func(c map[string]any) { c["aud"] = "x" } })
	var limited int
	for range 8 {
		b := newBrowser(t, "")
		if b.finish(f).status == http.StatusTooManyRequests {
			limited++
		}
	}
	// Returns that belong to no sign-in do not count: they could keep others at the address of a proxy from signing in.
	if a := newBrowser(t, "").do(f, http.MethodGet, sessionPath+"/callback?state=x&code=y"); a.status != http.StatusFound && a.status != http.StatusSeeOther {
		t.Errorf("a return without a sign-in: %d %s", a.status, a.body)
	}
	var requests int
	p.set(func(p *hostileProvider) { requests = p.requests })
	if limited != 3 || requests != 5 {
		t.Errorf("%d of 8 returns had to wait, and the provider was asked %d times; want 3 and 5", limited, requests)
	}
}

// Logout tokens must be for this client, signed by the provider, and for logging out.
func TestHostileLogoutTokens(t *testing.T) {
	p := newHostileProvider(t)
	f := newSignInFixture(t, p.config(), nil, nil)
	f.rbac.verbs["readers"] = reading
	p.set(func(p *hostileProvider) { p.claims = func(c map[string]any) { c["sid"] = "at the provider" } })
	b := newBrowser(t, "")
	b.finish(f)
	const path = sessionPath + "/provider-logout"
	send := func(token string) answer {
		return f.do(http.MethodPost, path, url.Values{"logout_token": {token}}.Encode(), "Content-Type: application/x-www-form-urlencoded")
	}
	valid := map[string]any{
		"iss": p.URL, "aud": "client", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "jti": "1", "sid": "at the provider",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	with := func(name string, value any) string {
		claims := maps.Clone(valid)
		claims[name] = value
		return p.signES256(claims, p.key)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.must(err)
	for name, token := range map[string]string{
		"another audience": with("aud", "other"), "another issuer": with("iss", "https://evil.example"), "no event": with("events", map[string]any{}),
		"an ID token": with("nonce", "x"), "expired": with("exp", time.Now().Add(-time.Hour).Unix()), "issued in the future": with("iat", time.Now().Add(time.Hour).Unix()),
		"issued long ago": with("iat", time.Now().Add(-12*time.Minute).Unix()), "issued at no time": with("iat", nil),
		"another key": p.signES256(valid, other), "not signed": part(map[string]any{"alg": "none"}) + "." + part(valid) + ".", "no token": "x",
		"too large": with("x", strings.Repeat("x", 40_000)),
	} {
		a := send(token)
		a.problem(t, http.StatusBadRequest, "logout token")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	send("").problem(t, http.StatusBadRequest, "required")
	if a := send(with("sid", "another session")); a.status != http.StatusOK {
		t.Errorf("another session: %d %s", a.status, a.body)
	}
	if a := send(with("sub", "bob")); a.status != http.StatusOK {
		t.Errorf("the session of another: %d %s", a.status, a.body)
	}
	b.expect(f, http.StatusOK)
	if a := send(with("sub", "alice")); a.status != http.StatusOK {
		t.Errorf("the session: %d %s", a.status, a.body)
	}
	b.expect(f, http.StatusUnauthorized)
}
