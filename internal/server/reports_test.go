package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
)

func TestReportPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *server.Config) { c.Origin, c.BasePath = "https://scanner.example", "/" })
	f.seedAll()
	hostile := model.ImageKey{ImageID: `registry.example/a"><script>alert(1)</script>`, Platform: linux}
	_, err := f.store.WantImages(t.Context(), []model.ImageKey{hostile})
	f.must(err)
	evil := store.Workload{Namespace: "evil", Kind: "Deployment", Name: "web", Owner: `"><img src=x onerror=alert(1)>`}
	f.must(f.store.RecordUses(t.Context(), "evil/scanner", []store.Use{{Image: hostile, Workload: evil, Container: "app"}}))
	f.scan(hostile, packageOf("openssl", `<script>alert(1)</script>`))
	for _, test := range []struct{ path, accept, file, want string }{
		{"cluster?format=html", "*/*", "report-cluster-", "<h1><bdi>Cluster</bdi></h1>"},
		{"namespaces/shop", "text/html,application/xhtml+xml", "report-namespace-shop-", "<h1><bdi>Namespace shop</bdi></h1>"},
		{"namespaces/evil?format=html&since=24h", "application/json", "report-namespace-evil-", "&lt;script&gt;alert(1)"},
		{"owners/Team%20Shop?format=html", "*/*", "report-owner-Team-Shop-", `<a href="https://scanner.example/vulnerabilities/CVE-2024-0000">`},
		{"owners/" + escape(evil.Owner) + "?format=html", "*/*", "report-owner---", "&#34;&gt;&lt;img src=x onerror=alert(1)&gt;</bdi></h1>"},
	} {
		a := f.do(http.MethodGet, "/api/v1/reports/"+test.path, "", "Accept: "+test.accept)
		h := a.header
		if a.status != http.StatusOK || h.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(h.Get("Content-Disposition"), `inline; filename="`+test.file) {
			t.Errorf("%s: %d %v %.200s", test.path, a.status, h, a.body)
		}
		if policy := h.Get("Content-Security-Policy"); policy != summary.Policy+"; frame-ancestors 'none'; sandbox allow-popups" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", test.path, h)
		}
		if !strings.Contains(a.body, test.want) || strings.Contains(a.body, "<script") || strings.Contains(a.body, "<img") {
			t.Errorf("%s: %q is absent, or there is a script:\n%s", test.path, test.want, a.body)
		}
	}
	for _, test := range []struct {
		path   string
		status int
		detail string
	}{
		{"cluster?since=yesterday", 400, `since "yesterday" is neither a duration such as 7d`},
		{"cluster?since=401d", 400, "not between one hour and 400 days ago"},
		{"cluster?since=" + strings.Repeat("1", 100), 400, "limit of 40 bytes"},
		{"cluster?format=pdf", 400, "format"},
		{"cluster?owner=a", 400, "owner"},
		{"namespaces/absent", 404, "nothing is known of this namespace, or you may not see it"},
		{"namespaces/" + strings.Repeat("a", 300), 400, "limit of 253 bytes"},
		{"owners/nobody", 404, "nothing is known of this owner, or you may not see it"},
		{"owners/a%00b", 400, "control character"},
	} {
		f.do(http.MethodGet, "/api/v1/reports/"+test.path, "").problem(t, test.status, test.detail)
	}
}
