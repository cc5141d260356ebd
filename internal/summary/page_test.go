package summary

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/test/hostile"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)

func imageOf(name string) model.ImageKey {
	return model.ImageKey{ImageID: "registry.example/" + name + "@sha256:" + strings.Repeat("ab", 32), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

// full is a report with something in each list.
func full() *Report {
	counts := func(critical, high, medium, low int) model.SeverityCounts {
		return model.SeverityCounts{Critical: critical, High: high, Medium: medium, Low: low}
	}
	log4j := store.ReachedVulnerability{
		ID: "CVE-2021-44228", Severity: model.SeverityCritical, KEV: true, Fixable: true, Packages: []string{"log4j-core"}, PackageCount: 1, Images: 2, Workloads: 3,
	}
	openssl := store.ReachedVulnerability{
		ID: "CVE-2026-0001", Severity: model.SeverityHigh, Packages: []string{"libssl3", "openssl"}, PackageCount: 2, Images: 41, Workloads: 1200,
	}
	return &Report{
		Scope: Scope{Cluster, ""}, At: noon, Since: noon.AddDate(0, 0, -7),
		Database: &model.DatabaseBuild{ID: "xxh64:1", Built: noon.Add(-5 * time.Hour)},
		Summary: store.Summary{
			Workloads: 1290, Images: 312, Scanned: 310, KnownSince: noon.AddDate(0, -2, 0),
			Counts: store.Counts{SeverityCounts: counts(12, 340, 1205, 88), KEV: 3, Fixable: 951},
			Opened: store.ChangedVulnerabilities{Counts: counts(1, 11, 0, 0), Worst: []store.ReachedVulnerability{log4j, openssl}},
			Closed: store.ChangedVulnerabilities{Counts: counts(0, 1, 1, 0), Worst: []store.ReachedVulnerability{
				{ID: "GHSA-jfh8-c2jp-5v3q", Severity: model.SeverityHigh, KEV: true}, {ID: "CVE-2025-1111", Severity: model.SeverityMedium},
			}},
			Exploited: store.ChangedVulnerabilities{Counts: counts(1, 0, 0, 0), Worst: []store.ReachedVulnerability{log4j}},
			Overdue: store.DueFindings{Counts: counts(2, 5, 0, 0), First: []store.DueFinding{{
				VulnerabilityID: "CVE-2021-44228", Severity: model.SeverityCritical, Package: "log4j-core", Version: "2.14.1", Fixes: []string{"2.15.0", "2.12.2"},
				DueAt: noon.AddDate(0, 0, -3), Policy: "critical-in-a-week", Images: 2,
			}}},
			DueSoon: store.DueFindings{Counts: counts(0, 9, 0, 0), First: []store.DueFinding{{
				VulnerabilityID: "CVE-2026-0001", Severity: model.SeverityHigh, Package: "openssl", Version: "3.0.1", DueAt: noon.AddDate(0, 0, 4), Policy: "high", Images: 9,
			}}},
			EndOfLife: []store.EndingImage{
				{Image: imageOf("legacy/app"), Distro: "debian:10", EndOfLife: noon.AddDate(-2, 0, 0)}, {Image: imageOf("web"), Distro: "alpine:3.20", EndOfLife: noon.AddDate(0, 0, 24)},
			},
			EndOfLifeTotal: 14,
		},
		Before:   &store.TrendDay{Day: noon.AddDate(0, 0, -7).Truncate(24 * time.Hour), Counts: store.Counts{SeverityCounts: counts(11, 351, 1205, 88)}},
		Coverage: coverage.Summary{Total: 2000, Scanned: 1979, Failed: 2, Pending: 9, Skipped: 10},
		Uncovered: []store.ContainerCoverage{{
			Workload: store.Workload{Namespace: "shop", Kind: "Deployment", Name: "cart"}, Container: "app", Reference: "registry.example/cart:1", State: "Failed", Reason: "ImageNotFound",
		}},
		UncoveredTotal: 11,
		Fixes: []store.Fix{
			{
				Kind: store.FixRebuild, Image: imageOf("legacy/app"), Counts: store.Counts{SeverityCounts: counts(4, 90, 8, 1)}, Overdue: 5, Risk: 1204.25, WorkloadCount: 3,
				Packages: []store.FixPackage{{Package: model.Package{Name: "openssl", Version: "3.0.1"}}}, PackageCount: 14,
			},
			{
				Kind: store.FixUpdate, Image: imageOf("cart"), Counts: store.Counts{SeverityCounts: counts(1, 2, 2, 0), KEV: 1}, Risk: 97.5, WorkloadCount: 1200,
				Packages: []store.FixPackage{{Package: model.Package{Name: "log4j-core", Version: "2.14.1"}, Versions: [][]string{{"2.15.0"}}}}, PackageCount: 1,
			},
		},
		Expiring: []store.DecisionRecord{{
			Object:          store.DecisionObject{Kind: "VulnerabilityException", Namespace: "shop", Name: "cart-until-release"},
			DecisionContent: store.DecisionContent{Status: model.DecisionAcceptedRisk, Vulnerabilities: []string{"CVE-2026-0001"}, ExpiresAt: noon.AddDate(0, 0, 6)}, Matched: 7,
		}},
		ExpiringTotal: 1,
	}
}

// byText compares versions as texts.
type byText struct{}

func (byText) Compare(_, a, b string) (int, error) { return strings.Compare(a, b), nil }

func TestAction(t *testing.T) {
	update := store.Fix{Kind: store.FixUpdate, PackageCount: 1, Packages: []store.FixPackage{{
		Package: model.Package{Name: "log4j-core", Version: "2.14.1"}, Versions: [][]string{{"2.15.0"}, {"2.17.0", "2.16.0"}},
	}}}
	for want, got := range map[string]string{
		"Update log4j-core from 2.14.1 to 2.16.0": Action(&update, FixVersion(&update.Packages[0], byText{})), "Update log4j-core 2.14.1": Action(&update, FixVersion(&update.Packages[0], nil)),
		"Rebuild the image: its distribution has 1 fixed package": Action(&store.Fix{Kind: store.FixRebuild, PackageCount: 1}, ""),
		"Rebuild on the base image debian:12.7 instead of 12.5":   Action(&store.Fix{Kind: store.FixNewerBase, NewerTag: &store.FixTag{Repository: "registry.example/library/debian", From: "12.5", Tag: "12.7"}}, ""),
		"Move from the tag 1.0 to 1.1":                            Action(&store.Fix{Kind: store.FixNewerTag, NewerTag: &store.FixTag{From: "1.0", Tag: "1.1"}}, ""),
		"Wait: there is no fix yet for 3 packages":                Action(&store.Fix{Kind: store.FixWait, PackageCount: 3}, ""),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func pageOf(t *testing.T, r *Report, options PageOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := WritePage(&b, r, options); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	empty := &Report{Scope: Scope{Owner, "team-a"}, At: noon, Since: noon.AddDate(0, 0, -1), Limited: true}
	recent := &Report{Scope: Scope{Namespace, "shop"}, At: noon, Since: noon.AddDate(0, 0, -7), Limited: true, Database: full().Database}
	recent.KnownSince = noon.Add(-time.Hour)
	for name, test := range map[string]struct {
		report  *Report
		options PageOptions
	}{
		"full": {full(), PageOptions{Version: "v1.2.3", URL: "https://scanner.example/base", Versions: byText{}}}, "empty": {empty, PageOptions{Version: "v1.2.3"}}, "recent": {recent, PageOptions{}},
	} {
		got := pageOf(t, test.report, test.options)
		file := "testdata/" + name + ".html"
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s is another page; if that is intended, run this test with -update (-want +got):\n%s", name, diff)
		}
		checkPage(t, got, test.options.URL)
	}
}

// The elements and attributes of pages.
var (
	elements   = words("a bdi body dd div dl dt footer h1 h2 h3 head header html li meta p section span style table tbody td th thead time title tr ul")
	attributes = words("charset class content data-label datetime href http-equiv lang name scope")
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// checkPage fails when a page has something that texts of others could have brought in.
func checkPage(t *testing.T, page, base string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	styles := 0
	for node := range root.Descendants() {
		switch node.Type {
		case html.CommentNode:
			t.Errorf("comment %.80q", node.Data)
		case html.TextNode:
			if strings.ContainsFunc(node.Data, func(r rune) bool { return r == '\u202e' || r == '\u200b' || r < ' ' && r != '\n' }) {
				t.Errorf("text %.80q has what draws nothing", node.Data)
			}
		case html.ElementNode:
			if !elements[node.Data] {
				t.Errorf("element %.80q", node.Data)
			}
			for _, a := range node.Attr {
				if !attributes[a.Key] {
					t.Errorf("attribute %.80q of %q", a.Key, node.Data)
				}
				if a.Key == "href" && (base == "" || a.Val != base && !strings.HasPrefix(a.Val, base+"/vulnerabilities/") && !strings.HasPrefix(a.Val, base+"/images/")) {
					t.Errorf("link to %.80q", a.Val)
				}
				if a.Key == "content" && strings.HasPrefix(a.Val, "default-src") && a.Val != Policy {
					t.Errorf("policy %q, want %q", a.Val, Policy)
				}
			}
			if node.Data == "style" {
				styles++
				sum := sha256.Sum256([]byte(node.FirstChild.Data))
				if !strings.Contains(Policy, base64.StdEncoding.EncodeToString(sum[:])) {
					t.Error("the policy does not allow the style of the page")
				}
			}
		default:
		}
	}
	if styles != 1 {
		t.Errorf("%d styles", styles)
	}
}

// fill puts a text into each text of a value.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem(), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	default:
	}
}

func TestHostileReports(t *testing.T) {
	for name, text := range map[string]string{
		"script":              `<script>alert(1)</script>`,
		"end of the style":    `</style><script>alert(1)</script>`,
		"end of an attribute": `"><img src=x onerror=alert(1)>`,
		"attribute":           `' onmouseover='alert(1)' style='position:fixed`,
		"comment":             `--><!-- x --!> <![CDATA[`,
		"template":            `{{define "page"}}{{end}}{{.}}`,
		"link":                `javascript:alert(1)//../../..//evil.example/?#`,
		"direction":           "gpj.\u202eexe\u2066\u200b\u0000\u001b[31m\r\n",
		"no UTF-8":            "\xff\xfe<b>",
		"entities":            `&lt;script&gt;&#60;b&#62;`,
		"long":                strings.Repeat("<b>", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			r := full()
			fill(reflect.ValueOf(r).Elem(), text)
			for _, kind := range []ScopeKind{Cluster, Namespace, Owner} {
				r.Scope.Kind = kind
				end := hostile.Watch(t, hostile.Bounds{Memory: 512 << 20})
				page := pageOf(t, r, PageOptions{Version: "v1", URL: "https://scanner.example", Versions: byText{}})
				end()
				checkPage(t, page, "https://scanner.example")
				if len(page) > 128<<10 {
					t.Errorf("%d bytes", len(page))
				}
				if file := r.FileName(); len(file) > 160 || strings.ContainsAny(file, "\"'/\\\x00\r\n<> ") {
					t.Errorf("file %q", file)
				}
			}
		})
	}
}

func TestSince(t *testing.T) {
	for text, want := range map[string]string{
		"": "2026-03-01T12:00:00Z", "7d": "2026-03-01T12:00:00Z", "2w": "2026-02-22T12:00:00Z", "36h": "2026-03-07T00:00:00Z", "90m": "2026-03-08T10:30:00Z",
		"2026-03-01": "2026-03-01T00:00:00Z", "2026-03-01T10:00:00+02:00": "2026-03-01T08:00:00Z", "400d": "2025-02-01T12:00:00Z",
		"401d": "not between", "59m": "not between", "-1h": "not between", "2026-03-09": "not between", "99999d": "neither", "9999d": "not between", "1y": "neither",
		"yesterday": "neither", "d": "neither", "-7d": "neither", "1e3h": "neither", "0001-01-01": "not between", "9999999h": "neither",
	} {
		got, err := ParseSince(text, noon)
		shown := got.Format(time.RFC3339)
		if err != nil {
			shown = err.Error()
		}
		if !strings.Contains(shown, want) {
			t.Errorf("%q: %s, want %s", text, shown, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	got := fmt.Sprint(number(0), number(999), number(1000), number(1234567), " ", change(5, 2), change(2, 5), change(1, 1), " ", percent(0.999), percent(1), " ",
		plural(1, "image"), plural(0, "image"), plural(2, "vulnerability", "vulnerabilities"))
	if want := "09991,0001,234,567 +3−3±0 99%100% imageimagesvulnerabilities"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
