package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Only addresses on this host are returned to.
func TestReturnPath(t *testing.T) {
	for text, want := range map[string]string{
		"/": "/", "/images/a%2Fb@sha256:0?q=x&sort=-risk": "/images/a%2Fb@sha256:0?q=x&sort=-risk", "/scanner/": "/scanner/", "/a//b": "/a//b",
		"": "/", "images": "/", "//evil.example": "/", "///evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "/\t/evil.example": "/",
		"/\n/evil.example": "/", "https://evil.example": "/", "javascript:alert(1)": "/", "/%2F/evil.example": "/%2F/evil.example", "/a\x00": "/",
		"/ü": "/", "/../other": "/", "/a/%2e%2E/%2e%2e/other": "/", "/./x": "/", "/a..b/...": "/a..b/...", "/api/v1/session": "/", "/api/../x": "/", "/" + strings.Repeat("x", 1024): "/", "/%zz": "/", "http:/a": "/", "/;@evil.example": "/;@evil.example",
	} {
		if got := auth.ReturnPath(text); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
}

// Reading without a token asks RBAC about system:anonymous; writing requires a token whatever RBAC says.
func TestAnonymousRead(t *testing.T) {
	p := newHostileProvider(t)
	all := []string{auth.VerbGet, auth.VerbList, auth.VerbUpdate, auth.VerbDelete}
	anonymous := func(c *server.Config) {
		c.AnonymousRead, c.Limits.PingInterval, c.Limits.PongTimeout = true, 10*time.Millisecond, time.Hour
	}
	f := newSignInFixture(t, p.config(), nil, anonymous)
	var uses []store.Use
	for _, namespace := range []string{"shop", "bank", "dark"} {
		image := model.ImageKey{ImageID: "registry.example/" + namespace, Platform: linux}
		_, err := f.store.WantImages(t.Context(), []model.ImageKey{image})
		f.must(err)
		uses = append(uses, store.Use{Image: image, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: "app"})
	}
	f.must(f.store.RecordUses(t.Context(), "scanner", uses))
	f.rbac.verbs["system:anonymous"] = all
	b := newBrowser(t, "")
	b.expect(f, http.StatusOK)
	if user, groups := f.rbac.identity(); user != "system:anonymous" || len(groups) != 1 || groups[0] != "system:unauthenticated" {
		t.Errorf("RBAC was asked about %q with %q", user, groups)
	}
	if s := b.session(f); s.Authenticated || !s.AnonymousRead {
		t.Errorf("%+v", s)
	}
	for _, request := range []string{"PUT /scan-results", "DELETE /scan-results/" + escape(scannedID), "POST /api/v1/databases/rematch", "PUT /api/v1/images/a/sbom"} {
		method, path, _ := strings.Cut(request, " ")
		f.do(method, path, uploadOf("a")).problem(t, http.StatusUnauthorized, "")
	}
	// What browsers still send is as good as nothing; a token that is sent on purpose is not.
	for header, status := range map[string]int{
		"Cookie: " + sessionCookie + "=" + strings.Repeat("A", 43): 200, "Cookie: scanner-operator-session=unknown": 200, bearer("unknown"): 401, "Authorization: Basic YTpi": 401,
		auth.ProxiedHeader + ": Bearer unknown": 401,
	} {
		if a := f.do(http.MethodGet, overviewPath, "", header); a.status != status {
			t.Errorf("%s: %d, want %d", header, a.status, status)
		}
	}
	// Who signs in is not anonymous, but sees what everybody sees, also in single namespaces, and beside the own ones. The right to change something
	// is never taken from there.
	b.finish(f)
	b.expect(f, http.StatusOK)
	if s := b.session(f); !s.Authenticated || s.CanDelete {
		t.Errorf("%+v", s)
	}
	if a := b.do(f, http.MethodDelete, "/scan-results/"+escape(scannedID), "Sec-Fetch-Site: same-origin"); a.status != http.StatusForbidden {
		t.Errorf("deleting: %d %s", a.status, a.body)
	}
	f.rbac.mu.Lock()
	f.rbac.only = map[string]string{"system:anonymous": "shop", "readers": "bank"}
	f.rbac.mu.Unlock()
	f.clock.step(2 * time.Minute)
	sees := func(want ...string) {
		t.Helper()
		got := f.sessionNamespaces("Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie])
		if got == nil || !slices.Equal(got.Names, want) {
			t.Errorf("the session sees %+v, want %q", got, want)
		}
		b.expect(f, http.StatusOK)
	}
	sees("shop")
	f.rbac.mu.Lock()
	f.rbac.verbs["readers"] = reading
	f.rbac.mu.Unlock()
	f.clock.step(2 * time.Minute)
	sees("bank", "shop")
	f.rbac.mu.Lock()
	delete(f.rbac.verbs, "readers")
	f.rbac.only = nil
	f.rbac.mu.Unlock()
	f.clock.step(2 * time.Minute)

	socket, _ := f.dial()
	f.rbac.mu.Lock()
	delete(f.rbac.verbs, "system:anonymous")
	f.rbac.mu.Unlock()
	f.clock.step(2 * time.Minute)
	if code := closed(t, socket); code != websocket.ClosePolicyViolation {
		t.Errorf("the WebSocket was closed with %d", code)
	}
	newBrowser(t, "").expect(f, http.StatusForbidden)
	off := newSignInFixture(t, p.config(), nil, nil)
	off.rbac.verbs["system:anonymous"] = all
	newBrowser(t, "").expect(off, http.StatusUnauthorized)
}
