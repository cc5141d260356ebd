package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
)

// A client that is no trusted proxy is nobody, whatever headers it sends: a pod of a tenant that reaches the Service, or one with a certificate for
// another purpose. The log has the reason, and RBAC is not asked.
func TestHostileFrontProxies(t *testing.T) {
	other := frontproxytest.New(t, "front proxies")
	now := time.Now()
	for name, test := range map[string]struct {
		certificate func(a *frontproxytest.Authority) tls.Certificate
		log         string
	}{
		"no certificate":       {nil, ""},
		"of another authority": {func(*frontproxytest.Authority) tls.Certificate { return other.Issue(nil) }, "unknown authority"},
		"signed by itself": {func(*frontproxytest.Authority) tls.Certificate {
			return frontproxytest.New(t, frontproxytest.CommonName).Issue(nil)
		}, "unknown authority"},
		"expired": {func(a *frontproxytest.Authority) tls.Certificate {
			return a.Issue(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
		}, "expired"},
		"of a server": {func(a *frontproxytest.Authority) tls.Certificate {
			return a.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
		}, "incompatible key usage"},
		"without a usage": {func(a *frontproxytest.Authority) tls.Certificate {
			return a.Issue(func(c *x509.Certificate) { c.ExtKeyUsage = nil })
		}, "no clientAuth"},
		"with another name": {func(a *frontproxytest.Authority) tls.Certificate {
			return a.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "kubelet" })
		}, "is not an allowed one"},
		"with a name that is long and not text": {func(a *frontproxytest.Authority) tls.Certificate {
			return a.Issue(func(c *x509.Certificate) { c.Subject.CommonName = strings.Repeat("\n\u202e", 20000) })
		}, "the common name"},
		"with too many others": {func(a *frontproxytest.Authority) tls.Certificate {
			certificate := a.Issue(nil)
			for range 10 {
				certificate.Certificate = append(certificate.Certificate, certificate.Certificate[0])
			}
			return certificate
		}, "comes with 10 others"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrontFixture(t, nil)
			f.rbac.verbs["system:masters"] = []string{"get", "list", "update", "delete"}
			var certificate *tls.Certificate
			detail := "the client has no TLS certificate"
			if test.certificate != nil {
				certificate, detail = new(test.certificate(f.authority)), "not that of a trusted front proxy"
			}
			client := f.client(certificate)
			headers := []string{"X-Remote-User: admin", "X-Remote-Group: system:masters"}
			for _, request := range []string{"GET " + overviewPath, "GET /scan-results", "DELETE /scan-results/a", "POST /api/v1/databases/rematch", "GET /subscribe", "GET " + eventsPath} {
				method, path, _ := strings.Cut(request, " ")
				a := client.send(method, path, headers...)
				a.problem(t, http.StatusUnauthorized, detail)
				if a.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: WWW-Authenticate is missing", request)
				}
			}
			if _, status := client.follow(t, "/subscribe", headers...); status != http.StatusUnauthorized {
				t.Errorf("a WebSocket: %d", status)
			}
			if user, _ := client.user(headers...); user != "" {
				t.Errorf("the session is that of %q", user)
			}
			if user, _ := f.rbac.identity(); user != "" {
				t.Errorf("RBAC was asked about %q", user)
			}
			log := f.log.String()
			if refused := strings.Contains(log, "Refused the certificate of a front proxy"); refused != (test.log != "") || !strings.Contains(log, test.log) || len(log) > 64<<10 {
				t.Errorf("the log has %d bytes, want %q:\n%.2000s", len(log), test.log, log)
			}
			// It connects nonetheless, and its token counts.
			if a := client.send(http.MethodGet, overviewPath, append(headers, bearer("admin"))...); a.status != http.StatusOK {
				t.Errorf("with a token: %d %s", a.status, a.body)
			}
		})
	}
}

// A trusted proxy that lets its clients add headers is refused, instead of believing them; names that only look alike are no headers of it.
func TestHostileHeadersOfFrontProxies(t *testing.T) {
	f := newFrontFixture(t, func(c *server.Config) { c.AnonymousRead = true })
	for _, reader := range []string{"alice", "system:anonymous"} {
		f.rbac.verbs[reader] = reading
	}
	proxy := f.trusted()
	long := strings.Repeat("x", 513)
	many := []string{remoteAlice}
	for i := range 501 {
		many = append(many, fmt.Sprintf("X-Remote-Group: g%d", i))
	}
	for name, test := range map[string]struct {
		headers []string
		status  int
		detail  string
	}{
		"two users":               {[]string{"X-Remote-User: alice", "X-Remote-User: mallory"}, 401, "X-Remote-User has 2 values"},
		"in upper and lower case": {[]string{"X-Remote-User: alice", "x-REMOTE-user: mallory"}, 401, "X-Remote-User has 2 values"},
		"a long name":             {[]string{"X-Remote-User: " + long}, 401, "exceeds the maximum of 512"},
		"a long group":            {[]string{remoteAlice, "X-Remote-Group: " + long}, 401, "exceeds the maximum of 512"},
		"many groups":             {many, 401, "exceeds the maximum of 500"},
		"a tab":                   {[]string{"X-Remote-User: ali\tce"}, 401, "is not text"},
		"no UTF-8":                {[]string{"X-Remote-User: ali\xff"}, 401, "is not text"},
		"underscores beside it":   {[]string{remoteAlice, "X_Remote_User: mallory", "X-Remote_Group: system:masters"}, 200, ""},
		"underscores alone":       {[]string{"X_Remote_User: mallory"}, 200, ""},
	} {
		a := proxy.send(http.MethodGet, overviewPath, test.headers...)
		if a.status != test.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, test.status)
		}
		if test.status == http.StatusUnauthorized {
			// It is not taken for somebody who has not signed in, nor for the owner of another credential.
			a.problem(t, test.status, test.detail)
			proxy.send(http.MethodGet, overviewPath, append(test.headers, bearer("admin"))...).problem(t, test.status, test.detail)
		}
		if user, groups := f.rbac.identity(); user != "alice" && user != "system:anonymous" || strings.Contains(fmt.Sprint(groups), "masters") {
			if user != "" {
				t.Errorf("%s: RBAC was asked about %q with %q", name, user, groups)
			}
		}
	}
	// Nor is a client with a certificate of no use; one without any is one like others.
	stranger := frontproxytest.New(t, "stranger").Issue(nil)
	f.client(&stranger).send(http.MethodGet, overviewPath, remoteAlice).problem(t, http.StatusUnauthorized, "not that of a trusted front proxy")
	if a := f.client(nil).send(http.MethodGet, overviewPath, remoteAlice); a.status != http.StatusOK {
		t.Errorf("reading without a certificate: %d %s", a.status, a.body)
	}
}

// Certificates that are refused count like tokens that are. Who has another credential, and a proxy that is known, do not notice.
func TestRefusedFrontProxiesAreLimited(t *testing.T) {
	t.Parallel()
	f := newFrontFixture(t, func(c *server.Config) { c.Limits.FailureRate, c.Limits.FailureBurst = 1e-6, 3 })
	f.rbac.verbs["alice"] = reading
	certificate := frontproxytest.New(t, "stranger").Issue(nil)
	stranger, proxy := f.client(&certificate), f.trusted()
	if a := proxy.send(http.MethodGet, overviewPath, remoteAlice); a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	for range 10 {
		if a := stranger.send(http.MethodGet, overviewPath, remoteAlice, bearer("admin")); a.status != http.StatusOK {
			t.Fatalf("with a token: %d %s", a.status, a.body)
		}
		f.client(nil).send(http.MethodGet, overviewPath, remoteAlice).problem(t, http.StatusUnauthorized, "")
	}
	for range 2 {
		stranger.send(http.MethodGet, overviewPath, remoteAlice).problem(t, http.StatusUnauthorized, "")
	}
	// A description of a session counts once, too.
	if user, _ := stranger.user(remoteAlice); user != "" {
		t.Errorf("the session is that of %q", user)
	}
	a := stranger.send(http.MethodGet, overviewPath, remoteAlice)
	a.problem(t, http.StatusTooManyRequests, "too many invalid attempts")
	if a.header.Get("Retry-After") == "" {
		t.Error("Retry-After is missing")
	}
	if a := stranger.send(http.MethodGet, overviewPath, remoteAlice, bearer("admin")); a.status != http.StatusOK {
		t.Errorf("with a token: %d %s", a.status, a.body)
	}
	if a := proxy.send(http.MethodGet, overviewPath, remoteAlice); a.status != http.StatusOK {
		t.Errorf("the proxy: %d %s", a.status, a.body)
	}
	if got := strings.Count(f.log.String(), "Refused the certificate of a front proxy"); got != 3 {
		t.Errorf("%d refusals in the log, want 3", got)
	}
}
