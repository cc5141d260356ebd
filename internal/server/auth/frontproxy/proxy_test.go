package frontproxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
)

// newProxy trusts the authority of a file.
func newProxy(tb testing.TB, file string, change func(*frontproxy.Config)) *frontproxy.Proxy {
	tb.Helper()
	config := frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"x-remote-user", "X-Other-User"}, GroupHeaders: []string{"X-REMOTE-GROUP", "X-Other-Group"}, Log: logr.Discard()}
	if change != nil {
		change(&config)
	}
	p, err := frontproxy.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// parsed are the certificates that a client with this one sends.
func parsed(t *testing.T, certificate tls.Certificate) (chain []*x509.Certificate) {
	t.Helper()
	for _, der := range certificate.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	return chain
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	trusted, other := frontproxytest.New(t, "trusted"), frontproxytest.New(t, "trusted")
	deep := trusted.Intermediate("a").Intermediate("b").Intermediate("c")
	now := time.Now()
	for name, test := range map[string]struct {
		certificate tls.Certificate
		want        string
	}{
		"a client's":           {trusted.Issue(nil), ""},
		"of an intermediate":   {deep.Issue(nil), ""},
		"too long a chain":     {deep.Intermediate("d").Issue(nil), "comes with 4 others: use at most 3"},
		"of another authority": {other.Issue(nil), "unknown authority"},
		"expired":              {trusted.Issue(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), "expired"},
		"not valid yet":        {trusted.Issue(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }), "not yet valid"},
		"a server's":           {trusted.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "incompatible key usage"},
		"of no usage":          {trusted.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = nil }), "no clientAuth"},
		"of any usage":         {trusted.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} }), "no clientAuth"},
		"of another name":      {trusted.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "Front-Proxy" }), `"Front-Proxy" of the certificate is not an allowed one`},
		"of a similar name":    {trusted.Issue(func(c *x509.Certificate) { c.Subject.CommonName = frontproxytest.CommonName + "\x00" }), "not an allowed one"},
		"without a name": {trusted.Issue(func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "", []string{frontproxytest.CommonName}
		}), "not an allowed one"},
	} {
		p := newProxy(t, trusted.File(), func(c *frontproxy.Config) { c.AllowedNames = []string{"another", frontproxytest.CommonName} })
		err := p.Verify(parsed(t, test.certificate))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("a certificate %s: %v, want %q", name, err, test.want)
		}
	}
	anyName := newProxy(t, trusted.File(), nil)
	if err := anyName.Verify(parsed(t, trusted.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "any" }))); err != nil {
		t.Errorf("without allowed names: %v", err)
	}
	if err := anyName.Verify(nil); err == nil {
		t.Error("no certificate is trusted")
	}
	// A chain is that of the certificate whose key the client has, whatever comes with it.
	mixed := append(parsed(t, other.Issue(nil)), parsed(t, trusted.Issue(nil))...)
	if err := anyName.Verify(mixed); err == nil {
		t.Error("a certificate of another authority is trusted beside one of a trusted authority")
	}
}

func TestAuthoritiesAreRefused(t *testing.T) {
	t.Parallel()
	authority := frontproxytest.New(t, "trusted")
	leaf := authority.Issue(nil)
	encoded := func(der []byte) []byte { return encodePEM("CERTIFICATE", der) }
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"nothing":         {nil, "it contains no PEM certificate"},
		"text":            {[]byte("trust everybody"), "it contains no PEM certificate"},
		"a key":           {encodePEM("PRIVATE KEY", leaf.Certificate[0]), "it contains no PEM certificate"},
		"a broken one":    {encoded(leaf.Certificate[0][:100]), "certificate 1: "},
		"not authorities": {append(authority.PEM(), encoded(leaf.Certificate[0])...), "certificate 2, of \"CN=front-proxy\", is not that of a certificate authority"},
		"too many":        {bytes.Repeat(authority.PEM(), 33), "more than 32 certificates"},
		"too large":       {append(authority.PEM(), bytes.Repeat([]byte("# "), 32<<10)...), "larger than 65536 bytes"},
	} {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(file, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := frontproxy.New(frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	_, err := frontproxy.New(frontproxy.Config{ClientCAFile: "/does/not/exist", UsernameHeaders: []string{"X-User"}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A new file of authorities takes effect, and one that cannot be read leaves those from before.
func TestAuthoritiesAreReloaded(t *testing.T) {
	t.Parallel()
	g, before, after := gomega.NewWithT(t), frontproxytest.New(t, "before"), frontproxytest.New(t, "after")
	file, clk := before.File(), clocktesting.NewFakeClock(time.Now())
	p := newProxy(t, file, func(c *frontproxy.Config) { c.Clock, c.Log = clk, testr.New(t) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	old, renewed := parsed(t, before.Issue(nil)), parsed(t, after.Issue(nil))
	// look has the file looked at: when the next look is waited for, the previous one has ended.
	look := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		g.Eventually(clk.HasWaiters, time.Minute).Should(gomega.BeTrue())
		clk.Step(10 * time.Second)
		g.Eventually(clk.HasWaiters, time.Minute).Should(gomega.BeTrue())
	}
	expect := func(step string, oldTrusted, renewedTrusted bool) {
		t.Helper()
		if err := p.Verify(old); (err == nil) != oldTrusted {
			t.Errorf("%s: a certificate of the previous authority: %v", step, err)
		}
		if err := p.Verify(renewed); (err == nil) != renewedTrusted {
			t.Errorf("%s: a certificate of the next authority: %v", step, err)
		}
	}
	expect("at first", true, false)
	look(append(before.PEM(), after.PEM()...))
	expect("both", true, true)
	look(nil)
	expect("an empty file", true, true)
	look(after.PEM())
	expect("the next", false, true)
	if p.NeedLeaderElection() {
		t.Error("only the leader loads authorities")
	}
}

// Clients without a certificate, and those with another one, connect as they do without a front proxy. Authorities are told, so that browsers do
// not ask their users for a certificate.
func TestHandshake(t *testing.T) {
	t.Parallel()
	authority, other := frontproxytest.New(t, "trusted"), frontproxytest.New(t, "other")
	p := newProxy(t, authority.File(), nil)
	certificates := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { certificates <- len(r.TLS.PeerCertificates) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	base := server.TLS.Clone()
	guarded := httptest.NewUnstartedServer(server.Config.Handler)
	guarded.Listener = tls.NewListener(guarded.Listener, p.TLSConfig(base))
	guarded.Start()
	defer guarded.Close()
	trusted, stranger := authority.Issue(nil), other.Issue(nil)
	for name, test := range map[string]struct {
		client *tls.Config
		want   int
	}{
		"no certificate":                            {&tls.Config{}, 0},
		"one of the authority":                      {&tls.Config{Certificates: []tls.Certificate{trusted}}, 1},
		"one of another, which is not meant":        {&tls.Config{Certificates: []tls.Certificate{stranger}}, 0},
		"one of another, which is sent nonetheless": {&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }}, 1},
	} {
		client := test.client.Clone()
		client.RootCAs = x509.NewCertPool()
		client.RootCAs.AddCert(server.Certificate())
		transport := &http.Transport{TLSClientConfig: client}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(guarded.URL, "http://", "https://", 1), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		transport.CloseIdleConnections()
		if got := <-certificates; got != test.want {
			t.Errorf("%s: the server was sent %d certificates, want %d", name, got, test.want)
		}
	}
}
