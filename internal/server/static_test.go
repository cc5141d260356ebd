package server_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/scanner-operator/scanner-operator/internal/server"
)

const html = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"

func TestUI(t *testing.T) {
	f := newFixture(t, func(c *server.Config) {
		c.Assets = fstest.MapFS{
			"index.html":          {Data: []byte("<!doctype html><title>UI</title>")},
			"favicon.svg":         {Data: []byte("<svg/>")},
			"assets/app-1a2b.js":  {Data: []byte("export {}")},
			"assets/app-1a2b.css": {Data: []byte("a{}")},
		}
	})
	const page, cached = "no-cache", "public, max-age=31536000, immutable"
	for _, test := range []struct {
		method, path, accept, contentType, cache, body string
		status                                         int
	}{
		{"GET", "/", "", "text/html; charset=utf-8", page, "<title>UI", 200},
		{"HEAD", "/", "", "text/html; charset=utf-8", page, "", 200},
		{"GET", "/index.html", "", "text/html; charset=utf-8", page, "<title>UI", 200},
		{"GET", "/images/" + escape(scannedID), html, "text/html; charset=utf-8", page, "<title>UI", 200},
		{"GET", "/images/registry.k8s.io%2Fpause.js", html, "text/html; charset=utf-8", page, "<title>UI", 200},
		{"GET", "/favicon.svg", html, "image/svg+xml", page, "<svg/>", 200},
		{"GET", "/assets/app-1a2b.js", "", "text/javascript; charset=utf-8", cached, "export", 200},
		{"GET", "/assets/app-1a2b.css", "", "text/css; charset=utf-8", cached, "a{}", 200},
		{"GET", "/assets/old.js", html, "", "", "", 404},
		{"GET", "/assets", html, "text/html; charset=utf-8", page, "<title>UI", 200},
		{"GET", "/assets/..%2findex.html", html, "text/html; charset=utf-8", page, "<title>UI", 200},
		{"GET", "/missing.js", "Accept: */*", "", "", "", 404},
		{"GET", "/..%2f..%2fetc%2fpasswd", "", "", "", "", 404},
		{"GET", "/api/v2/x", html, "", "", "", 404},
		{"POST", "/", html, "", "", "", 404},
	} {
		var headers []string
		if test.accept != "" {
			headers = append(headers, test.accept)
		}
		a := f.do(test.method, test.path, "", headers...)
		if test.status == http.StatusNotFound {
			a.problem(t, 404, "")
			continue
		}
		if a.status != test.status || a.header.Get("Content-Type") != test.contentType || a.header.Get("Cache-Control") != test.cache || !strings.Contains(a.body, test.body) {
			t.Errorf("%s %s: %d %v %s", test.method, test.path, a.status, a.header, a.body)
		}
		a.secure(t)
	}
}

func TestUINotBuilt(t *testing.T) {
	f := newFixture(t, nil)
	a := f.do(http.MethodGet, "/", "", html)
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") || !strings.Contains(a.body, "make ui") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	a.secure(t)
	f.do(http.MethodGet, "/images", "", html).problem(t, 404, "not part of this build")
}
