package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// decide makes these the decisions that apply.
func (f *fixture) decide(decisions ...store.Decision) {
	f.t.Helper()
	problems, err := f.store.SyncDecisions(f.t.Context(), store.DecisionSourceKubernetes, decisions)
	if err != nil || len(problems) > 0 {
		f.t.Fatalf("%v %v", problems, err)
	}
}

// decisionOf is a decision about a vulnerability.
func decisionOf(vulnerability string, status model.DecisionStatus) store.Decision {
	return store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: strings.ToLower(vulnerability)}, Vulnerabilities: []string{vulnerability},
		Status: status, Comment: "Because of " + vulnerability + ".", Author: "some-admin",
	}
}

// statements reads a VEX document, and returns what it says: the status of each vulnerability, with the number of packages.
func statements(t *testing.T, body string) map[string]string {
	t.Helper()
	document, err := vex.Read("body", strings.NewReader(body), vex.Limits{})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	said := map[string]string{}
	for i := range document.Statements {
		s := &document.Statements[i]
		d, known := s.Decision()
		if !known {
			t.Fatalf("no decision: %+v", s)
		}
		for _, product := range s.Products {
			said[s.Vulnerability] += fmt.Sprintf("%s %s %d, ", s.Status, d.Status, len(product.Subcomponents))
		}
	}
	return said
}

// TestVEXExports reads the decisions of an image, of some of its findings and of all images in both formats.
func TestVEXExports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *server.Config) { c.Cluster = "prod-1" })
	f.seed()
	image := "/api/v1/images/" + escape(scannedID)
	targets := []string{image + "?", image + "/findings?", image + "/findings?suppressed=true&severity=Critical", "/api/v1/images?", image + "/findings?text=zlib", "/api/v1/images?text=nothing"}
	formats := map[string][2]string{
		"openvex":       {"application/vnd.openvex+json", `decisions.openvex.json"`},
		"cyclonedx-vex": {"application/vnd.cyclonedx+json", `decisions.vex.cdx.json"`},
	}
	for format := range formats {
		for _, target := range targets {
			f.do(http.MethodGet, target+"&format="+format, "").problem(t, http.StatusNotFound, "no decision that a VEX document can express")
		}
	}
	dry := decisionOf("CVE-2024-0001", model.DecisionNotAffected)
	dry.DryRun = true
	f.decide(dry)
	f.do(http.MethodGet, image+"?format=openvex", "").problem(t, http.StatusNotFound, "")

	f.decide(decisionOf("CVE-2024-0000", model.DecisionFalsePositive), decisionOf("CVE-2024-0001", model.DecisionAcceptedRisk))
	all := map[string]string{"CVE-2024-0000": "not_affected FalsePositive 1, ", "CVE-2024-0001": "affected AcceptedRisk 1, "}
	for format, media := range formats {
		for i, want := range []map[string]string{all, all, {"CVE-2024-0000": all["CVE-2024-0000"]}, all, {"CVE-2024-0001": all["CVE-2024-0001"]}, nil} {
			target := targets[i] + "&format=" + format
			a := f.do(http.MethodGet, target, "")
			if want == nil {
				a.problem(t, http.StatusNotFound, "no decision")
				continue
			}
			if a.status != http.StatusOK || a.header.Get("Content-Type") != media[0] || !strings.HasSuffix(a.header.Get("Content-Disposition"), media[1]) {
				t.Fatalf("%s: %d %v %s", target, a.status, a.header, a.body)
			}
			a.secure(t)
			if got := statements(t, a.body); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", target, got, want)
			}
			for _, part := range []string{"scanner-operator of the cluster prod-1", "Because of CVE-2024-", "pkg:apk/alpine/", "1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"} {
				if !strings.Contains(a.body, part) {
					t.Errorf("%s lacks %s: %s", target, part, a.body)
				}
			}
			if strings.Contains(a.body, "some-admin") || strings.Contains(a.body, "ClusterVulnerabilityException") {
				t.Errorf("%s says who decided: %s", target, a.body)
			}
			if again := f.do(http.MethodGet, target, ""); again.body != a.body {
				t.Errorf("%s: the same state gives another document:\n%s\n%s", target, a.body, again.body)
			}
			if head := f.do(http.MethodHead, target, ""); head.status != http.StatusOK || head.body != "" {
				t.Errorf("HEAD %s: %d", target, head.status)
			}
		}
	}
	if a := f.do(http.MethodGet, image, "", "Accept: application/vnd.openvex+json"); a.header.Get("Content-Type") != "application/vnd.openvex+json" {
		t.Errorf("accepting OpenVEX: %v", a.header)
	}
	f.do(http.MethodGet, image+"/findings?closed=true&format=openvex", "").problem(t, http.StatusBadRequest, "does not support closed findings")
	f.do(http.MethodGet, "/api/v1/images/"+escape(pendingID)+"?format=openvex", "").problem(t, http.StatusNotFound, "does not have the requested data")
	f.do(http.MethodGet, "/api/v1/images?state=Failed&format=openvex", "").problem(t, http.StatusBadRequest, "in the state Scanned")
}

// TestVEXExportOfPlaces leaves out a decision of a namespace, also for users of this namespace only, in which it suppresses all findings.
func TestVEXExportOfPlaces(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.audiences["jane"] = []string{"scanner-operator"}
	rights.grants["jane"] = map[string][]string{"shop": {"get", "list"}}
	f := newGuardedFixture(t, rights, nil)
	f.seed()
	image := model.ImageKey{ImageID: scannedID, Platform: linux}
	f.must(f.store.RecordUses(t.Context(), "shop/scanner", []store.Use{{Image: image, Workload: store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}, Container: "app"}}))
	placed := decisionOf("CVE-2024-0000", model.DecisionNotAffected)
	placed.Object.Kind, placed.Object.Namespace = "VulnerabilityException", "shop"
	placed.Places = &store.DecisionPlaces{Selector: "shop", Namespaces: []string{"shop"}}
	everywhere := decisionOf("CVE-2024-0001", model.DecisionFixed)
	target := "/api/v1/images/" + escape(scannedID)
	for _, as := range []string{"jane", "admin"} {
		f.decide(placed)
		if a := f.do(http.MethodGet, target+"/findings?suppressed=true", "", bearer(as)); strings.Count(a.body, `"suppressed":true`) != 1 {
			t.Errorf("%s does not see the decision: %d %s", as, a.status, a.body)
		}
		for _, format := range []string{"openvex", "cyclonedx-vex"} {
			f.do(http.MethodGet, target+"?format="+format, "", bearer(as)).problem(t, http.StatusNotFound, "no decision")
		}
		f.decide(placed, everywhere)
		if got := statements(t, f.do(http.MethodGet, target+"?format=openvex", "", bearer(as)).body); fmt.Sprint(got) != "map[CVE-2024-0001:fixed Fixed 1, ]" {
			t.Errorf("%s: %v", as, got)
		}
	}
}

// TestVEXExportExpires leaves out a decision whose time is over.
func TestVEXExportExpires(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.seed()
	d := decisionOf("CVE-2024-0000", model.DecisionNotAffected)
	d.ExpiresAt = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	f.decide(d)
	target := "/api/v1/images/" + escape(scannedID) + "?format=openvex"
	if a := f.do(http.MethodGet, target, ""); !strings.Contains(a.body, "Decision: NotAffected until 2100-01-01T00:00:00Z.") {
		t.Errorf("%d %s", a.status, a.body)
	}
	f.decide()
	f.do(http.MethodGet, target, "").problem(t, http.StatusNotFound, "no decision")
}

// decidedStore has as many findings as it is told, each with a decision.
type decidedStore struct {
	store.Store
	findings int
}

func (s *decidedStore) Findings(_ context.Context, _ store.Namespaces, query store.FindingQuery) (store.FindingPage, error) {
	start := 0
	_, _ = fmt.Sscan(query.Token, &start)
	page := store.FindingPage{Total: s.findings}
	for i := start; i < min(start+query.Limit(), s.findings); i++ {
		f := model.Finding{PackageFinding: findingOf(fmt.Sprintf("CVE-%d", i), model.SeverityLow, 1), Package: packageOf("zlib", "1"), Suppressed: true}
		f.Decisions = []model.Decision{{Status: model.DecisionFixed, Suppresses: true}}
		page.Findings = append(page.Findings, f)
	}
	if start+query.Limit() < s.findings {
		page.NextToken = fmt.Sprint(start + query.Limit())
	}
	return page, nil
}

// A document that nobody could read is refused before anything is sent.
func TestVEXExportsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *server.Config) { c.Store = &decidedStore{c.Store, 20_001} })
	f.seed()
	for _, target := range []string{"/api/v1/images/" + escape(scannedID) + "?format=openvex", "/api/v1/images?format=cyclonedx-vex"} {
		f.do(http.MethodGet, target, "").problem(t, http.StatusBadRequest, "more than 20000 statements; select fewer images or findings")
	}
}
