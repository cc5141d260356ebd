//go:build e2e

package e2e

import (
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
)

// TestSignIn uses the API as a browser does: the page is open, the data are not, and a cookie stands for the token.
func TestSignIn(t *testing.T) {
	a := newAPI(t)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: httpClient.Transport}
	status := func(method, path, body string) (int, http.Header) {
		req, err := http.NewRequestWithContext(t.Context(), method, a.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/html,application/json")
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header
	}

	code, header := status(http.MethodGet, "/", "")
	if code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Errorf("the UI was answered with %d %s", code, header.Get("Content-Type"))
	}
	if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy of the UI: %q", policy)
	}
	for _, path := range []string{"/scan-results", "/api/v1/overview", "/subscribe"} {
		if code, _ := status(http.MethodGet, path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without a token was answered with %d, want 401", path, code)
		}
	}
	if code, _ := status(http.MethodPost, "/api/v1/session", `{"token":"nonsense"}`); code != http.StatusUnauthorized {
		t.Errorf("a wrong token was answered with %d, want 401", code)
	}
	code, header = status(http.MethodPost, "/api/v1/session", `{"token":"`+a.token+`"}`)
	if cookie := header.Get("Set-Cookie"); code != http.StatusOK || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "Secure") {
		t.Fatalf("sign-in was answered with %d and the cookie %.60q", code, cookie)
	}
	if code, _ := status(http.MethodGet, "/api/v1/overview", ""); code != http.StatusOK {
		t.Errorf("the overview was answered with %d after sign-in", code)
	}
	if code, _ := status(http.MethodDelete, "/api/v1/session", ""); code != http.StatusNoContent {
		t.Errorf("sign-out was answered with %d", code)
	}
	if code, _ := status(http.MethodGet, "/api/v1/overview", ""); code != http.StatusUnauthorized {
		t.Errorf("the overview was answered with %d after sign-out, want 401", code)
	}
}
