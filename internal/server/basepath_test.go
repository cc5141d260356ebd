package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
)

func TestBasePath(t *testing.T) {
	f := newFixture(t, func(c *server.Config) {
		c.BasePath = "/scanner/"
		c.Assets = fstest.MapFS{"index.html": {Data: []byte(`<link href="./favicon.svg">`)}, "favicon.svg": {Data: []byte("<svg/>")}}
	})
	f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for request, want := range map[string]struct {
		status         int
		body, location string
	}{
		"GET /scanner/":                      {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner/images/a%2Fb":          {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner/index.html":            {200, `href="/scanner/favicon.svg"`, ""},
		"GET /":                              {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner/favicon.svg":           {200, "<svg/>", ""},
		"GET /favicon.svg":                   {200, "<svg/>", ""},
		"GET /scanner/api/v1/session":        {200, "authenticated", ""},
		"GET /api/v1/session":                {200, "authenticated", ""},
		"GET /scanner":                       {307, "", "/scanner/"},
		"HEAD /scanner?a=b&c=//evil.example": {307, "", "/scanner/?a=b&c=//evil.example"},
		"POST /scanner":                      {404, "", ""},
		"PUT /scanner/api/v1/session":        {405, "", ""},
		"GET /scanner/scanner/":              {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner/scanner/api/v1/session": {
			200, `href="/scanner/favicon.svg"`, "",
		},
		"GET /SCANNER/api/v1/session":                           {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanne%72/api/v1/session":                         {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner%2Fapi/v1/session":                         {200, `href="/scanner/favicon.svg"`, ""},
		"GET /scanner/api/v1%2Fsession":                         {404, "", ""},
		"GET /scanner/api/..%2Fv1/session":                      {404, "", ""},
		"GET /scanner/scan-results/..%2F..%2Fapi%2Fv1":          {404, "", ""},
		"GET //scanner/":                                        {400, "empty segment", ""},
		"GET //evil.example/scanner/":                           {400, "empty segment", ""},
		"GET /scanner//":                                        {400, "empty segment", ""},
		"GET /scanner//evil.example/":                           {400, "empty segment", ""},
		"GET /scanner//api/v1/session":                          {400, "empty segment", ""},
		"GET /scanner/./api/v1/session":                         {400, "dots", ""},
		"GET /scanner/../api/v1/session":                        {400, "dots", ""},
		"GET /other/../scanner/api/v1/session":                  {400, "dots", ""},
		"GET /scanner/%2e%2E/api/v1/session":                    {400, "dots", ""},
		"GET /scanner/.%2e":                                     {400, "dots", ""},
		"GET /scanner/%2E":                                      {400, "dots", ""},
		"GET /..":                                               {400, "dots", ""},
		"GET /api//v1/session":                                  {400, "empty segment", ""},
		"DELETE /scanner/scan-results/../scan-results/a%2Fb":    {400, "dots", ""},
		"DELETE /scanner//scan-results/" + escape(scannedID):    {400, "empty segment", ""},
		"DELETE /scanner/scan-results/" + escape(unknownID):     {404, "", ""},
		"DELETE /scanner%2Fscan-results/" + escape(scannedID):   {404, "", ""},
		"DELETE /scanner/scanner/scan-results/" + escape("a/b"): {404, "", ""},
	} {
		method, path, _ := strings.Cut(request, " ")
		a := f.do(method, path, "", html)
		if a.status != want.status || !strings.Contains(a.body, want.body) || a.header.Get("Location") != want.location {
			t.Errorf("%s: %d %v %s", request, a.status, a.header, a.body)
		}
		a.secure(t)
	}
}

func TestBasePathIsValidated(t *testing.T) {
	for path, valid := range map[string]bool{
		"/": true, "/scanner/": true, "/a/b-c_d.e~f/": true, "/apis/": true, "/.../": true,
		"": false, "scanner/": false, "/scanner": false, "//": false, "/a//b/": false, "/./": false, "/a/../": false, "/a b/": false, "/%2e/": false, "/ü/": false,
		"/a?b/": false, "/<script>/": false, `/"/`: false, "/a\\b/": false, "https://a/": false, "/" + strings.Repeat("a", 255) + "/": false,
		"/api/": false, "/api/v1/": false, "/assets/": false, "/scan-results/": false, "/subscribe/": false,
	} {
		if err := server.ValidateBasePath(path); (err == nil) != valid {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := server.New(server.Config{BindAddress: "127.0.0.1:0", Auth: auth.None, BasePath: "/api/"}); err == nil || !strings.Contains(err.Error(), "use another one") {
		t.Errorf("a server with it: %v", err)
	}
}

// An origin has no path: browsers send none, and it would never be trusted.
func TestOriginIsValidated(t *testing.T) {
	f := newFixture(t, nil)
	config := server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.None, Store: f.store, Ingest: f.ingest, Registerer: prometheus.NewRegistry(),
		Feed: func(context.Context) live.Subscription { return nil }, Origin: "https://scanner.example",
	}
	if _, err := server.New(config); err != nil {
		t.Error(err)
	}
	config.Origin, config.Registerer = "https://scanner.example/path", prometheus.NewRegistry()
	if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), "invalid origin") {
		t.Errorf("with a path: %v", err)
	}
}

// Cookies are Secure when the browser speaks TLS, also to a proxy that reports nothing; but not on this machine.
func TestSecureCookies(t *testing.T) {
	known := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Origin = external })
	unknown := newGuardedFixture(t, newCluster(), nil)
	for _, test := range []struct {
		f       *fixture
		headers []string
		want    bool
	}{
		{unknown, nil, false},
		{unknown, []string{"Host: scanner.example"}, false},
		{unknown, []string{"Host: scanner.example", "X-Forwarded-Proto: https"}, true},
		{known, []string{"Host: scanner.example"}, true},
		{known, []string{"Host: scanner-api.scanner-system.svc:8000"}, true},
		{known, []string{"Host: localhost:8000"}, false},
		{known, []string{"Host: [::1]:8000"}, false},
		{known, []string{"Host: localhost:8000", "X-Forwarded-Proto: https"}, true},
	} {
		a := test.f.do(http.MethodPost, sessionPath, `{"token":"admin"}`, append(test.headers, "Content-Type: application/json")...)
		const plain, prefixed = "scanner-operator-session", "__Host-scanner-operator-session"
		name, other := plain, prefixed
		if test.want {
			name, other = prefixed, plain
		}
		if cookie := cookieOf(a, name); cookie == "" || strings.Contains(cookie, "; Secure") != test.want || cookieOf(a, other) != "" {
			t.Errorf("%q: %d with the cookie %q", test.headers, a.status, cookie)
		}
		// Any host of the domain can set a cookie without the prefix: with TLS, it does not count.
		for cookie, want := range map[string]int{name: http.StatusOK, other: http.StatusUnauthorized} {
			if a := test.f.do(http.MethodGet, overviewPath, "", append(test.headers, "Cookie: "+cookie+"=admin")...); a.status != want {
				t.Errorf("%q with the cookie %s: %d, want %d", test.headers, cookie, a.status, want)
			}
		}
	}
}
