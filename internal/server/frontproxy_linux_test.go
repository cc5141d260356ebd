package server_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
)

// signedInAtNginx has nginx authenticate users by a cookie of its own, and name them as a front proxy does.
const signedInAtNginx = `
set $proxy_user "";
if ($cookie_proxy = "session-of-alice") { set $proxy_user alice; }
if ($cookie_proxy = "session-of-bob") { set $proxy_user bob; }
proxy_set_header X-Remote-User $proxy_user;
proxy_set_header X-Remote-Group "";`

// withCertificate has nginx use a client certificate.
func withCertificate(t *testing.T, certificate tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	var chain bytes.Buffer
	for _, der := range certificate.Certificate {
		if err := pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for name, content := range map[string][]byte{"client.crt": chain.Bytes(), "client.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "proxy_ssl_certificate " + filepath.Join(dir, "client.crt") + "; proxy_ssl_certificate_key " + filepath.Join(dir, "client.key") + ";"
}

// userAt is who the operator says uses a browser.
func (f *proxied) userAt(headers ...string) string {
	f.t.Helper()
	a := f.do(http.MethodGet, sessionPath, "", headers...)
	var session struct{ User, Method string }
	if err := json.Unmarshal([]byte(a.body), &session); err != nil || session.User != "" && session.Method != "frontProxy" {
		f.t.Errorf("the session: %d %s, %v", a.status, a.body, err)
	}
	return session.User
}

// signInAtNginx gives the browser the cookie of nginx for a user, which is not one of the operator.
func (f *proxied) signInAtNginx(user string) {
	f.t.Helper()
	u, err := url.Parse(below + "/")
	f.must(err)
	f.client.Jar.SetCookies(u, []*http.Cookie{{Name: "proxy", Value: "session-of-" + user, Path: "/", Secure: true}})
}

// Users sign in at nginx, which proves itself with a certificate of an intermediate authority. What they send themselves does not make them others.
func TestNginxAsFrontProxy(t *testing.T) {
	for name, host := range map[string][]string{"that passes the host on": forwarded, "that changes the host": nil} {
		t.Run(name, func(t *testing.T) {
			authority := frontproxytest.New(t, "front proxies")
			certificate := withCertificate(t, authority.Intermediate("nginx").Issue(nil))
			p := proxy{scheme: "https", headers: append([]string{certificate, signedInAtNginx}, host...)}
			f := behind(t, p, newHostileProvider(t).config(), nil, func(c *server.Config) { c.FrontProxy = frontProxy(t, authority, nil) })
			f.seed()
			f.rbac.verbs["alice"], f.rbac.verbs["bob"] = []string{"get", "list", "update", "delete"}, reading
			forged := []string{"X-Remote-User: root", "X-Remote-Group: system:masters", "X_Remote_User: root"}
			if user := f.userAt(forged...); user != "" {
				t.Errorf("before signing in: %q", user)
			}
			f.do(http.MethodGet, overviewPath, "", forged...).problem(t, http.StatusUnauthorized, "")
			// A password for nginx is none for the operator.
			forged = append(forged, "Authorization: Basic YTpi")
			for _, user := range []string{"bob", "alice"} {
				f.signInAtNginx(user)
				if got := f.userAt(forged...); got != user {
					t.Errorf("%s is %q", user, got)
				}
				if a := f.do(http.MethodGet, overviewPath, "", forged...); a.status != http.StatusOK {
					t.Errorf("%s reads: %d %s", user, a.status, a.body)
				}
				if asked, groups := f.rbac.identity(); asked != user || len(groups) != 1 || groups[0] != "system:authenticated" {
					t.Errorf("RBAC was asked about %q with %q", asked, groups)
				}
			}
			f.nginxProtects(t)
			// Past nginx, in the cluster, the same headers are nobody's.
			inside := *f.fixture
			inside.base, inside.client = f.inside, f.direct
			inside.do(http.MethodGet, overviewPath, "", "X-Remote-User: alice").problem(t, http.StatusUnauthorized, "has no TLS certificate")
		})
	}
}

// nginxProtects holds that pages of other sites do nothing in the name of a user whose cookie nginx gets.
func (f *proxied) nginxProtects(t *testing.T) {
	t.Helper()
	image := "/scan-results/" + escape(scannedID)
	f.do(http.MethodDelete, image, "", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").problem(t, http.StatusForbidden, "cross-origin")
	f.do(http.MethodDelete, image, "", "Origin: https://evil.example").problem(t, http.StatusForbidden, "cross-origin")
	if _, status := f.follow(t, "/api/v1/events", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a WebSocket of another site: %d", status)
	}
	socket, status := f.follow(t, "/api/v1/events", external)
	if socket == nil {
		t.Fatalf("a WebSocket of our own page: %d", status)
	}
	var hello struct{ Type string }
	if err := socket.ReadJSON(&hello); err != nil || hello.Type != "hello" {
		t.Errorf("events begin with %q, %v", hello.Type, err)
	}
	if a := f.do(http.MethodDelete, image, "", "Origin: "+external, "Sec-Fetch-Site: same-origin"); a.status != http.StatusNoContent {
		t.Errorf("our own page: %d %s", a.status, a.body)
	}
	if names := f.cookies(below + "/"); len(names) != 1 || !strings.Contains(f.log.String(), `"user"="alice" "verb"="delete"`) {
		t.Errorf("the cookies are %q, and the log\n%s", names, f.log)
	}
}

// An nginx that does not prove itself, or as something else, names nobody, and users sign in as without it.
func TestHostileNginx(t *testing.T) {
	authority := frontproxytest.New(t, "front proxies")
	for name, test := range map[string]struct{ certificate, detail string }{
		"without a certificate": {"", "has no TLS certificate"},
		"of another authority":  {withCertificate(t, frontproxytest.New(t, "others").Issue(nil)), "not that of a trusted front proxy"},
		"with another name":     {withCertificate(t, authority.Issue(func(c *x509.Certificate) { c.Subject.CommonName = "other" })), "not that of a trusted front proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := proxy{scheme: "https", headers: append([]string{test.certificate, signedInAtNginx}, forwarded...)}
			f := behind(t, p, newHostileProvider(t).config(), nil, func(c *server.Config) { c.FrontProxy = frontProxy(t, authority, nil) })
			f.rbac.verbs["alice"] = reading
			f.signInAtNginx("alice")
			f.do(http.MethodGet, overviewPath, "").problem(t, http.StatusUnauthorized, test.detail)
			if a := f.do(http.MethodGet, overviewPath, "", bearer("admin")); a.status != http.StatusOK {
				t.Errorf("with a token: %d %s", a.status, a.body)
			}
		})
	}
}
