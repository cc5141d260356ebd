package sinks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func expectState(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A project follows its image: it is created, updated with the SBOM alone, made inactive when nothing runs the image, and active again.
func TestDependencyTrack(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	web, cart := image("web"), image("cart")
	f.catalog(t, web, "1", "openssl", "zlib")
	f.catalog(t, cart, "1", "zlib")
	f.run(t, web, workload("shop", "web", "team-a"), workload("bank", "web", "team,b"))
	f.run(t, cart, workload("shop", "cart", "team-a"))
	e, results := f.engine(t, f.Store)
	s := f.sink(t, Definition{DependencyTrack: &DependencyTrack{
		Credential: "c", ProjectName: "{repository}", ProjectVersion: "{digest}", Tags: []string{"{cluster}", "{owner}"},
	}})
	use(t, e, s)
	f.settle(t, e)
	webProject, cartProject := "registry.example/web "+digest("web"), "registry.example/cart "+digest("cart")
	expectState(t, "first", server.state(), cartProject+" active [prod team-a] [zlib]", webProject+" active [prod team_b team-a] [openssl zlib]")
	results.expect(t, "dependencyTrack delivered 2")

	// Findings are no reason to upload a BOM.
	f.update(t, map[string][]model.PackageFinding{"zlib": {finding("CVE-1", model.SeverityHigh)}})
	f.settle(t, e)
	results.expect(t)
	f.catalog(t, web, "2", "openssl", "zlib", "curl")
	f.settle(t, e)
	results.expect(t, "dependencyTrack delivered 1")
	server.mu.Lock()
	server.projects[webProject].IsLatest = true
	server.mu.Unlock()
	f.run(t, web)
	f.settle(t, e)
	expectState(t, "stopped", server.state(), cartProject+" active [prod team-a] [zlib]", webProject+" inactive [prod team_b team-a] [curl openssl zlib]")
	if !server.projects[webProject].IsLatest {
		t.Error("an inactive project is not the latest version any more")
	}
	results.expect(t, "dependencyTrack removed 1")
	f.run(t, web, workload("shop", "web", "team-a"))
	f.settle(t, e)
	expectState(t, "again", server.state(), cartProject+" active [prod team-a] [zlib]", webProject+" active [prod team-a] [curl openssl zlib]")
	results.expect(t, "dependencyTrack delivered 1")
	if items := len(e.lanes["uid-"].items); items != 2 {
		t.Errorf("%d items, want 2", items)
	}
	// Someone deletes a project: a resync creates it again.
	server.mu.Lock()
	delete(server.projects, cartProject)
	server.mu.Unlock()
	f.clock.move(DefaultResync)
	f.settle(t, e)
	results.expect(t, "dependencyTrack delivered 2")
	if len(server.state()) != 2 {
		t.Errorf("after a resync: %v", server.state())
	}
	state := e.States()["uid-"]
	if state.Items != 2 || state.Pending != 0 || state.Failed != 0 || state.DeliveredAt.IsZero() || state.Problem != "" {
		t.Errorf("state %+v", state)
	}
}

// Images whose templates have the same result are in one project. Namespaces and images are selected.
func TestTargets(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	web, proxy := image("web"), image("proxy")
	f.catalog(t, web, "1", "openssl", "zlib")
	f.catalog(t, proxy, "1", "envoy")
	f.run(t, web, workload("shop", "web", "a"), workload("bank", "web", "b"))
	f.run(t, proxy, workload("shop", "web", "a"), workload("test", "web", "c"))
	e, _ := f.engine(t, f.Store)
	track := &DependencyTrack{Credential: "c", ProjectName: "{namespace}/{kind}/{workload}"}
	use(t, e, f.sink(t, Definition{Namespaces: store.OnlyNamespaces("shop", "bank"), DependencyTrack: track}))
	f.settle(t, e)
	expectState(t, "by workload", server.state(), "bank/Deployment/web  active [] [openssl zlib]", "shop/Deployment/web  active [] [envoy openssl zlib]")
	// Another selection, with the same sink.
	use(t, e, f.sink(t, Definition{Images: []string{"registry.example/proxy"}, DependencyTrack: track}))
	f.settle(t, e)
	expectState(t, "by image", server.state(),
		"bank/Deployment/web  inactive [] [openssl zlib]", "shop/Deployment/web  active [] [envoy]", "test/Deployment/web  active [] [envoy]")
	// Nothing of a sink that is gone is touched.
	use(t, e)
	f.settle(t, e)
	if got := server.state(); len(got) != 3 || strings.Contains(got[1], "inactive") {
		t.Errorf("without the sink: %v", got)
	}
}

// A test has the open findings: those that end or are suppressed are closed, and all of them when nothing runs the image.
func TestDefectDojo(t *testing.T) {
	server := newDojoServer(t)
	f := newFixture(t, server.files())
	web := image("web")
	f.catalog(t, web, "1", "openssl", "zlib")
	f.run(t, web, workload("shop", "web", ""))
	f.update(t, map[string][]model.PackageFinding{
		"openssl": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityNegligible)}, "zlib": {finding("CVE-3", model.SeverityHigh)},
	})
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DefectDojo: &DefectDojo{
		Credential: "c", ProductType: "Kubernetes", Product: "{namespace}", Engagement: "{kind} {workload}", Test: "{repository}",
	}}))
	f.settle(t, e)
	const test = "shop | Deployment web | registry.example/web: "
	expectState(t, "first", server.state(), test+"CVE-1 in openssl 1.0 (Critical), CVE-2 in openssl 1.0 (Info), CVE-3 in zlib 1.0 (High)")
	for _, finding := range server.tests["shop | Deployment web | registry.example/web"] {
		if finding["vuln_id_from_tool"] == "CVE-1" && (finding["cwe"] != 79.0 || finding["mitigation"] != "Upgrade openssl to version 2.0." ||
			!strings.HasPrefix(fmt.Sprint(finding["cvssv3"]), "CVSS:3.1/") || !strings.Contains(fmt.Sprint(finding["description"]), "text") ||
			finding["references"] != "https://example.com/CVE-1") {
			t.Errorf("finding %v", finding)
		}
	}
	f.decide(t, "CVE-1")
	f.settle(t, e)
	expectState(t, "suppressed", server.state(), test+"CVE-2 in openssl 1.0 (Info), CVE-3 in zlib 1.0 (High)")
	f.update(t, map[string][]model.PackageFinding{"zlib": {finding("CVE-3", model.SeverityHigh)}})
	f.settle(t, e)
	expectState(t, "closed", server.state(), test+"CVE-3 in zlib 1.0 (High)")
	results.expect(t, "defectDojo delivered 3")
	// A decision that changes nothing here sends nothing.
	deliveredAt := e.States()["uid-"].DeliveredAt
	f.decide(t, "CVE-9")
	f.settle(t, e)
	results.expect(t, "defectDojo unchanged 1")
	cursors, err := f.ReportCursors(t.Context())
	must(t, err)
	if got := e.States()["uid-"].DeliveredAt; !got.Equal(deliveredAt) || !cursors[0].DeliveredAt.Equal(deliveredAt.Truncate(time.Microsecond)) {
		t.Errorf("delivered at %s, stored is %s, want %s", got, cursors[0].DeliveredAt, deliveredAt)
	}
	f.run(t, web)
	f.settle(t, e)
	expectState(t, "stopped", server.state(), test)
}

func TestSinksAreChecked(t *testing.T) {
	f := newFixture(t, nil)
	track := func(name string) *DependencyTrack { return &DependencyTrack{Credential: "c", ProjectName: name} }
	for name, c := range map[string]struct {
		d    Definition
		want string
	}{
		"valid":                    {Definition{DependencyTrack: track("{repository}")}, ""},
		"no type":                  {Definition{}, "no type"},
		"an unknown credential":    {Definition{DependencyTrack: &DependencyTrack{Credential: "../c"}}, "no entry"},
		"an unknown placeholder":   {Definition{DependencyTrack: track("{secret}")}, "unknown placeholder"},
		"an open brace":            {Definition{DependencyTrack: track("{digest")}, "unknown placeholder"},
		"a brace that closes":      {Definition{DependencyTrack: track("digest}")}, "without {"},
		"a long template":          {Definition{DependencyTrack: track(strings.Repeat("x", maxTemplate+1))}, "the maximum is"},
		"a tag":                    {Definition{Images: []string{"registry.example/a:1"}, DependencyTrack: track("x")}, "images: "},
		"a pace":                   {Definition{PerMinute: MaxPerMinute + 1, DependencyTrack: track("x")}, "deliveriesPerMinute"},
		"a short resync":           {Definition{Resync: time.Minute, DependencyTrack: track("x")}, "resyncInterval"},
		"a placeholder in a label": {Definition{DependencyTrack: &DependencyTrack{Credential: "c", Tags: []string{"{x}"}}}, "tags"},
	} {
		_, err := f.factory.NewSink(c.d)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestConfigs(t *testing.T) {
	for text, want := range map[string]string{
		"": "", `{"credentials":["a","b"]}`: "", `{credentials: [../a]}`: "not a DNS label", `{credentials: [a, a]}`: "two entries", `{secret: x}`: "decode",
		strings.Repeat("#", maxConfigBytes+1): "maximum",
	} {
		_, err := ParseConfig(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// Texts of tenants, such as owners, make no names that are not valid, and no keys of other folders.
func TestHostileTexts(t *testing.T) {
	template, err := parseTemplate("{owner}")
	must(t, err)
	long := strings.Repeat("ä", 1000)
	rendered := map[string]bool{}
	const spaced = " a "
	for owner, want := range map[string]string{
		"team": "team", "a\x00b\nc\u2028d": "a_b_c_d", spaced: "a", "\xff": "_", long + "1": "", long + "2": "",
	} {
		w := workload("n", "w", owner)
		got := template.render(&place{"", image("i"), &w}, 255)
		if want != "" && got != want || len(got) > 255 || rendered[got] {
			t.Errorf("%.20q becomes %q", owner, got)
		}
		rendered[got] = true
	}
	for text, want := range map[string]string{
		"a/b": "a/b", "../../a": "__/__/a", "/a//b/": "a/b", "a/./b": "a/_/b", "a..b": "a..b", "": "", "..": "__",
	} {
		if got := (&bucket{}).clean(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
