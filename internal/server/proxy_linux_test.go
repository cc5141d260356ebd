package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/cert"

	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/test/dexserver"
)

const (
	basePath = "/scanner/"
	// below is where browsers find the operator, without the slash at the end.
	below = external + "/scanner"
)

// proxy is a way to pass requests below /scanner/ on.
type proxy struct {
	// scheme is that of the operator.
	scheme string
	// removes says that the operator is not sent the base path.
	removes bool
	headers []string
}

var (
	forwarded = []string{"proxy_set_header Host $host;", "proxy_set_header X-Forwarded-Proto $scheme;"}
	proxies   = map[string]proxy{
		"that keeps the path":             {"https", false, forwarded},
		"that removes the base path":      {"https", true, forwarded},
		"that changes the host":           {"https", false, nil},
		"that removes path and host":      {"https", true, nil},
		"that uses plain HTTP":            {"http", false, forwarded},
		"that reports nothing, over HTTP": {"http", true, nil},
	}
)

// generated is the certificate of proxy and operator, and its key, in PEM.
var generated = sync.OnceValues(func() (pair [2][]byte, err error) {
	pair[0], pair[1], err = cert.GenerateSelfSignedCertKey(externalHost, nil, nil)
	return pair, err
})

func servingCertificate(t *testing.T) (certificate, key []byte) {
	t.Helper()
	pair, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	return pair[0], pair[1]
}

// proxied is an operator behind nginx. Its client is a browser's: it keeps cookies by the rules and finds the proxy.
type proxied struct {
	*signInFixture
	// direct requests from the operator itself, as clients in the cluster do.
	direct *http.Client
	inside string
	dialer *websocket.Dialer
}

// behind starts an operator behind a proxy.
func behind(t *testing.T, p proxy, provider oidc.Config, dex *dexserver.Server, change func(*server.Config)) *proxied {
	t.Helper()
	certificate, key := servingCertificate(t)
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	provider.RedirectURL, provider.PostLogoutURL = below+callbackPath, below+"/"
	f := &proxied{signInFixture: newSignInFixture(t, provider, nil, func(c *server.Config) {
		c.BasePath, c.Origin = basePath, external
		if p.scheme == "https" {
			c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
		}
		c.Limits.PingInterval = 20 * time.Millisecond
		c.Assets = fstest.MapFS{
			"index.html":         {Data: []byte(`<meta name="base-path" content="./"><script type="module" src="./assets/app-1a2b.js"></script>`)},
			"assets/app-1a2b.js": {Data: []byte("export {}")},
		}
		change(c)
	})}
	f.rbac.verbs["admin"] = []string{auth.VerbGet, auth.VerbList, auth.VerbUpdate, auth.VerbDelete}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	if dex != nil {
		roots.AppendCertsFromPEM([]byte(dex.CA))
	}
	f.inside = p.scheme + "://" + f.server.Addr()
	inside := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: externalHost, MinVersion: tls.VersionTLS13}, DisableCompression: true}
	f.direct = &http.Client{Transport: inside, Timeout: patience}

	n := startNginx(t, f.server.Addr(), p)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && host == externalHost {
			address = n.address
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	jar, err := cookiejar.New(nil)
	f.must(err)
	client := tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	outside := &http.Transport{DialContext: dial, TLSClientConfig: client.Clone(), DisableCompression: true}
	f.base, f.client = below, &http.Client{Transport: outside, Jar: jar, Timeout: patience}
	f.dialer = &websocket.Dialer{NetDialContext: dial, TLSClientConfig: client.Clone(), Jar: jar, HandshakeTimeout: patience}
	t.Cleanup(func() {
		inside.CloseIdleConnections()
		outside.CloseIdleConnections()
	})
	return f
}

// cookies names the cookies that a browser sends to an address.
func (f *proxied) cookies(address string) (names []string) {
	u, err := url.Parse(address)
	f.must(err)
	for _, cookie := range f.client.Jar.Cookies(u) {
		names = append(names, cookie.Name)
	}
	return names
}

// follow opens a WebSocket as a page of an origin does.
func (f *proxied) follow(t *testing.T, path, origin string) (*websocket.Conn, int) {
	t.Helper()
	connection, response, err := f.dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(f.base, "https")+path, http.Header{"Origin": {origin}})
	if response == nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, response.StatusCode
	}
	t.Cleanup(func() { _ = connection.Close() })
	f.must(connection.SetReadDeadline(time.Now().Add(patience)))
	return connection, response.StatusCode
}

// behindEach runs a test behind each proxy.
func behindEach(t *testing.T, test func(t *testing.T, p proxy)) {
	t.Helper()
	for name, p := range proxies {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

// Behind a proxy that terminates TLS, all below one path works as it does without one, and nothing reaches other programs of the host.
func TestBehindProxy(t *testing.T) {
	behindEach(t, func(t *testing.T, p proxy) {
		deployments, informer := deploymentFeed(t, prometheus.NewRegistry(), 0)
		synced(t, deployments, informer)
		informer.Add(deployment("shop", "web"))
		f := behind(t, p, newHostileProvider(t).config(), nil, func(c *server.Config) { c.Deployments = deployments })
		f.seed()
		f.proxiedPage(t)
		f.proxiedToken(t)
		f.proxiedReads(t)
		f.proxiedStreams(t, deployments)
		if a := f.do(http.MethodDelete, sessionPath, "", "Origin: "+external); a.status != http.StatusNoContent || len(f.cookies(below+"/")) > 0 {
			t.Errorf("signing out: %d %s, and the cookies %q", a.status, a.body, f.cookies(below+"/"))
		}
	})
}

// proxiedPage reads the page of the UI, and the file that it names.
func (f *proxied) proxiedPage(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/", "/images/" + escape(scannedID), "/vulnerabilities?q=x"} {
		a := f.do(http.MethodGet, path, "", html)
		a.secure(t)
		if want := `content="/scanner/"><script type="module" src="/scanner/assets/app-1a2b.js">`; a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := f.do(http.MethodGet, "/assets/app-1a2b.js", ""); a.body != "export {}" || !strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Errorf("the file of the page: %d %v %s", a.status, a.header, a.body)
	}
	f.do(http.MethodGet, overviewPath, "").problem(t, http.StatusUnauthorized, "")
}

// proxiedToken signs in with a token: from pages of our own only, and with a cookie for them only.
func (f *proxied) proxiedToken(t *testing.T) {
	t.Helper()
	const token = `{"token":"admin"}`
	post := func(headers ...string) answer {
		return f.do(http.MethodPost, sessionPath, token, append(headers, "Content-Type: application/json")...)
	}
	post("Origin: https://evil.example").problem(t, http.StatusForbidden, "cross-origin")
	post("Origin: https://evil.example", "Sec-Fetch-Site: cross-site").problem(t, http.StatusForbidden, "cross-origin")
	post("Origin: https://scanner.example.evil.example").problem(t, http.StatusForbidden, "cross-origin")
	post("Sec-Fetch-Site: same-site").problem(t, http.StatusForbidden, "cross-origin")
	if names := f.cookies(below + "/"); len(names) > 0 {
		t.Errorf("cookies before signing in: %q", names)
	}
	a := post("Origin: "+external, "Sec-Fetch-Site: same-origin")
	if got := cookieOf(a, "__Secure-scanner-operator-session"); a.status != http.StatusOK || !strings.HasSuffix(got, "; Path=/scanner/; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("signing in: %d %s, with the cookie %s", a.status, a.body, got)
	}
	if a.header.Get("Strict-Transport-Security") == "" {
		t.Error("the browser is not told to use TLS")
	}
	// Old browsers send no Sec-Fetch-Site.
	if a := post("Origin: " + external); a.status != http.StatusOK {
		t.Errorf("signing in with an old browser: %d %s", a.status, a.body)
	}
	if names := f.cookies(external + "/other/"); len(names) > 0 {
		t.Errorf("other programs get the cookies %q", names)
	}
	f.do(http.MethodDelete, "/scan-results/"+escape(scannedID), "", "Origin: https://evil.example").problem(t, http.StatusForbidden, "cross-origin")
}

// proxiedReads compares answers behind the proxy with those inside the cluster.
func (f *proxied) proxiedReads(t *testing.T) {
	t.Helper()
	image := "/api/v1/images/" + escape(scannedID)
	inside := *f.fixture
	inside.base, inside.client = f.inside, f.direct
	for _, target := range []string{"/api/v1/images", image, image + "/findings", "/api/v1/images?format=csv", image + "?format=sarif", "/scan-results/" + escape(scannedID), "/scan-results"} {
		got, want := f.do(http.MethodGet, target, ""), inside.do(http.MethodGet, target, "", bearer("admin"))
		if got.status != http.StatusOK || got.body != want.body || got.body == "" || got.header.Get("Content-Type") != want.header.Get("Content-Type") {
			t.Errorf("%s: %d %.300s, and inside the cluster %d %.300s", target, got.status, got.body, want.status, want.body)
		}
		tag := got.header.Get("ETag")
		if tag != want.header.Get("ETag") {
			t.Errorf("%s: the tag %s, and inside the cluster %s", target, tag, want.header.Get("ETag"))
		}
		if tag == "" {
			continue
		}
		if a := f.do(http.MethodGet, target, "", "If-None-Match: "+tag); a.status != http.StatusNotModified || a.body != "" {
			t.Errorf("%s, which has not changed: %d %s", target, a.status, a.body)
		}
	}
}

// proxiedStreams follows all that there is to follow. Pings keep connections open for as long as nothing happens.
func (f *proxied) proxiedStreams(t *testing.T, deployments *deploymentfeed.Feed) {
	t.Helper()
	for _, path := range []string{"/subscribe", "/api/v1/events", deploymentsPath} {
		for _, origin := range []string{"https://evil.example", "https://scanner.example.evil.example", "null", "http://scanner.example:8080"} {
			if _, status := f.follow(t, path, origin); status != http.StatusForbidden {
				t.Errorf("%s from a page of %s: %d", path, origin, status)
			}
		}
	}
	events, _ := f.follow(t, "/api/v1/events", external)
	if events == nil {
		t.Fatal("events were refused")
	}
	var hello struct{ Type string }
	if err := events.ReadJSON(&hello); err != nil || hello.Type != "hello" {
		t.Errorf("events begin with %q, %v", hello.Type, err)
	}
	feed, _ := f.follow(t, deploymentsPath+"?namespace=shop", external)
	if feed == nil {
		t.Fatalf("the feed was refused; synced: %t", deployments.Synced())
	}
	expectTexts(t, feed, "Successfully processed deployment: web")
	results, _ := f.follow(t, "/subscribe", external)
	if results == nil {
		t.Fatal("results were refused")
	}
	pings := 0
	results.SetPingHandler(func(data string) error {
		if pings++; pings == 5 {
			f.report(reportedID)
		}
		return results.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(patience))
	})
	if got := next(t, results); got != reportedID {
		t.Errorf("told of %q", got)
	}
}

// Signing in with a provider returns below the base path, with cookies for it only.
func TestSignInBehindProxy(t *testing.T) {
	dex := dexServer(t)
	behindEach(t, func(t *testing.T, p proxy) {
		f := behind(t, p, dexConfigAt(t, dex, below, ""), dex, func(*server.Config) {})
		f.rbac.verbs["oidc:readers"] = reading
		user := dexUser(t, dex, "alice", "readers")
		response := f.open(t, http.MethodGet, below+sessionPath+"/sign-in?returnTo="+url.QueryEscape("/images/x?q=a"), "")
		if response.Request.URL.Host == externalHost || response.StatusCode != http.StatusOK {
			t.Fatalf("not at dex but at %s: %d", response.Request.URL, response.StatusCode)
		}
		form := url.Values{"login": {user}, "password": {password}}
		response = f.open(t, http.MethodPost, response.Request.URL.String(), form.Encode())
		if got := response.Request.URL.String(); got != below+"/images/x?q=a" || response.StatusCode != http.StatusOK {
			t.Fatalf("returned to %s: %d\n%s", got, response.StatusCode, f.log)
		}
		if names := f.cookies(below + "/"); len(names) != 1 || names[0] != "__Secure-scanner-operator-user" {
			t.Errorf("the cookies are %q", names)
		}
		if names := f.cookies(external + "/other/"); len(names) > 0 {
			t.Errorf("other programs get the cookies %q", names)
		}
		if a := f.do(http.MethodGet, overviewPath, ""); a.status != http.StatusOK {
			t.Errorf("reading: %d %s", a.status, a.body)
		}
		// A failure returns below the base path as well, and so does a sign-in that nobody has begun.
		response = f.open(t, http.MethodGet, below+callbackPath+"?code=a&state=b", "")
		if got := response.Request.URL.String(); got != below+"/?signInError=expired" {
			t.Errorf("a failed sign-in returns to %s", got)
		}
		out := f.do(http.MethodDelete, sessionPath, "", "Origin: "+external, "Sec-Fetch-Site: same-origin")
		if out.status != http.StatusOK || !strings.Contains(out.body, url.QueryEscape(below+"/")) || len(f.cookies(below+"/")) > 0 {
			t.Errorf("signing out: %d %s, and the cookies %q", out.status, out.body, f.cookies(below+"/"))
		}
	})
}

// open goes to an address as a browser does, and follows redirects.
func (f *proxied) open(t *testing.T, method, address, form string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	f.must(err)
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Accept", "text/html")
	response, err := f.client.Do(request)
	f.must(err)
	f.must(response.Body.Close())
	return response
}

// What a proxy and the operator could understand in different ways is refused by one of them, whoever asks.
func TestHostilePathsBehindProxy(t *testing.T) {
	behindEach(t, func(t *testing.T, p proxy) {
		f := behind(t, p, newHostileProvider(t).config(), nil, func(*server.Config) {})
		f.seed()
		f.base = external
		for _, path := range []string{
			"/api/v1/images", "/scan-results", "/scannerapi/v1/images", "/scanner/..", "/scanner/../api/v1/images", "/scanner/%2e%2e/api/v1/images",
			"/scanner//api/v1/images", "/scanner/./api/v1/images", "//scanner/api/v1/images", "/other/../scanner/api/v1/images", "/other/%2E%2e/scanner/api/v1/images",
			"/scanner%2fapi/v1/images", "/scanner/api%2fv1%2fimages", "/scanner/%2fapi/v1/images", "/scanner/%5c../api/v1/images",
			"/SCANNER/api/v1/images", "/scanner/api/v1/images/..%2f..%2fimages", "/scanner/assets/..%2f..%2fapi/v1/images", "/scanner/assets/%2e%2e/index.html",
			"/scanner/scan-results/%2e%2e/api/v1/images", "/scanner//evil.example/%2e%2e", "/scanner/.", "/scanner/api/v1/images/",
		} {
			for _, headers := range [][]string{nil, {bearer("admin")}} {
				a := f.do(http.MethodGet, path, "", headers...)
				// Nobody learns which images there are.
				unknown := headers == nil && strings.HasPrefix(path, "/scanner/api/v1/images/") && a.status == http.StatusUnauthorized
				if a.status != http.StatusNotFound && a.status != http.StatusBadRequest && !unknown {
					t.Errorf("%s with %q: %d %v %.200s", path, headers, a.status, a.header, a.body)
				}
			}
		}
		// The operator removes the base path once.
		again := http.StatusNotFound
		if p.removes {
			again = http.StatusOK
		}
		for path, want := range map[string]int{"/scanner/api/v1/images": http.StatusOK, "/scanner/scanner/api/v1/images": again, "/scanner/scanner/scanner/api/v1/images": http.StatusNotFound} {
			if a := f.do(http.MethodGet, path, "", bearer("admin")); a.status != want {
				t.Errorf("%s: %d %.200s", path, a.status, a.body)
			}
		}
	})
}
