package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
)

// frontFixture is a server over TLS that trusts the front proxies of an authority.
type frontFixture struct {
	*signInFixture
	t         *testing.T
	authority *frontproxytest.Authority
	proxy     *frontproxy.Proxy
	// now is the time of certificates.
	now *clocktesting.FakeClock
}

func newFrontFixture(t *testing.T, change func(*server.Config)) *frontFixture {
	t.Helper()
	f := &frontFixture{t: t, authority: frontproxytest.New(t, "front proxies"), now: clocktesting.NewFakeClock(time.Now())}
	f.proxy = frontProxy(t, f.authority, func(c *frontproxy.Config) { c.Clock = f.now })
	f.signInFixture = newSignInFixture(t, newHostileProvider(t).config(), nil, func(c *server.Config) {
		c.FrontProxy, c.TLS = f.proxy, servingTLS(t)
		c.Limits.PingInterval, c.Limits.PongTimeout = 10*time.Millisecond, time.Hour
		if change != nil {
			change(c)
		}
	})
	f.rbac.verbs["admin"] = []string{"get", "list", "update", "delete"}
	direct := f.client(nil)
	f.fixture.base, f.fixture.client = direct.base, direct.fixture.client
	return f
}

// frontProxy trusts certificates of an authority with the common name of its tests.
func frontProxy(t *testing.T, authority *frontproxytest.Authority, change func(*frontproxy.Config)) *frontproxy.Proxy {
	t.Helper()
	config := frontproxy.Config{
		ClientCAFile: authority.File(), AllowedNames: []string{frontproxytest.CommonName}, UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"},
		Log: logr.Discard(),
	}
	if change != nil {
		change(&config)
	}
	p, err := frontproxy.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// servingTLS is that of an operator.
func servingTLS(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(servingCertificate(t))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
}

// trusted is a client with the certificate of a trusted front proxy.
func (f *frontFixture) trusted() *frontClient {
	f.t.Helper()
	certificate := f.authority.Issue(nil)
	return f.client(&certificate)
}

// frontClient is a client that connects to the operator itself.
type frontClient struct {
	*fixture
	tls *tls.Config
}

// client has a certificate, which it sends whatever the server wants, or none.
func (f *frontFixture) client(certificate *tls.Certificate) *frontClient {
	f.t.Helper()
	c := &frontClient{tls: clientTLS(f.t, certificate)}
	copied := *f.fixture
	c.fixture = &copied
	transport := &http.Transport{TLSClientConfig: c.tls.Clone(), DisableCompression: true}
	f.t.Cleanup(transport.CloseIdleConnections)
	c.base, c.fixture.client = "https://"+f.server.Addr(), &http.Client{Transport: transport, Timeout: patience}
	return c
}

// clientTLS trusts the certificate of operators.
func clientTLS(t *testing.T, certificate *tls.Certificate) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	serving, _ := servingCertificate(t)
	roots.AppendCertsFromPEM(serving)
	config := &tls.Config{RootCAs: roots, ServerName: externalHost, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	return config
}

// send sends headers as they are, also several of one name.
func (c *frontClient) send(method, path string, headers ...string) answer {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, http.NoBody)
	c.must(err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header[name] = append(request.Header[name], value)
	}
	response, err := c.fixture.client.Do(request)
	c.must(err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	c.must(err)
	return answer{response.StatusCode, response.Header, string(body)}
}

// user returns who the operator says has sent headers, "" for nobody, and how that is known.
func (c *frontClient) user(headers ...string) (name, method string) {
	c.t.Helper()
	a := c.send(http.MethodGet, sessionPath, headers...)
	var session struct{ User, Method string }
	if err := json.Unmarshal([]byte(a.body), &session); err != nil || a.status != http.StatusOK {
		c.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return session.User, session.Method
}

// follow opens a WebSocket.
func (c *frontClient) follow(t *testing.T, path string, headers ...string) (*websocket.Conn, int) {
	t.Helper()
	h := http.Header{}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		h.Add(name, value)
	}
	dialer := &websocket.Dialer{TLSClientConfig: c.tls.Clone(), HandshakeTimeout: patience}
	connection, response, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(c.base, "https")+path, h)
	if response == nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, response.StatusCode
	}
	t.Cleanup(func() { _ = connection.Close() })
	c.must(connection.SetReadDeadline(time.Now().Add(patience)))
	return connection, response.StatusCode
}
