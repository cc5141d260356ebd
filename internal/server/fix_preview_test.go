package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const previewPath = "/api/v1/fixes/preview"

// previews says that packages have one vulnerability in other versions, which names the version.
type previews struct{ err error }

// MatchVersions implements server.Previewer.
func (p previews) MatchVersions(_ context.Context, packages []model.Package, versions []string) ([]model.PackageAnswer, model.DatabaseBuild, error) {
	answers := make([]model.PackageAnswer, len(packages))
	for i := range packages {
		if versions[i] == "unknown" {
			answers[i].Failure = "the version is unknown"
			continue
		}
		answers[i].Findings = []model.PackageFinding{findingOf("CVE-2030-"+versions[i], model.SeverityHigh, 1)}
	}
	return answers, build, p.err
}

// previewed is what a preview answers.
type previewed struct {
	Packages []struct{ ID, Name, Version, FixVersion, Failure string }
	Count    int `json:"packageCount"`

	Closed, Remaining, Opened         struct{ High, Critical int }
	OpenedFindings, RemainingFindings []struct{ VulnerabilityID, Package string }
}

func (f *fixture) previewFix(query string) (p previewed) {
	f.t.Helper()
	a := f.do(http.MethodGet, previewPath+"?"+query, "")
	if a.status != http.StatusOK {
		f.t.Errorf("%s: %d %s", query, a.status, a.body)
		return p
	}
	f.must(json.Unmarshal([]byte(a.body), &p))
	return p
}

// A preview matches packages in the version that closes what can be closed, or in the one that was asked for, and compares what it finds with what the image has.
func TestPreviewFix(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Versions = match.Versions{} })
	f.seed()
	image := "imageId=" + escape(scannedID)
	update := image + "&action=update&packageType=apk&packageName=openssl&packageVersion=3.0.1"
	rebuild := image + "&action=rebuild"

	all := f.previewFix(rebuild)
	if all.Count != 2 || fmt.Sprint(all.Packages) != fmt.Sprintf("[{%s openssl 3.0.1 9.9 } {%s zlib 1.2.13 9.9 }]", packageOf("openssl", "3.0.1").Fingerprint, packageOf("zlib", "1.2.13").Fingerprint) || fmt.Sprint(all.OpenedFindings) != "[{CVE-2030-9.9 openssl} {CVE-2030-9.9 zlib}]" {
		t.Errorf("a rebuild: %+v", all)
	}
	one := f.previewFix(update)
	if one.Count != 1 || one.Packages[0].FixVersion != "9.9" || one.Opened.High != 1 || one.Closed.High+one.Closed.Critical != 1 || len(one.RemainingFindings) != 0 {
		t.Errorf("an update: %+v", one)
	}
	if asked := f.previewFix(update + "&fixVersion=4"); asked.Packages[0].FixVersion != "4" || asked.OpenedFindings[0].VulnerabilityID != "CVE-2030-4" {
		t.Errorf("an update to a version: %+v", asked)
	}
	// What cannot be matched is said, and nothing is closed.
	if failed := f.previewFix(update + "&fixVersion=unknown"); failed.Packages[0].Failure != "the version is unknown" || failed.Closed.High+failed.Closed.Critical+failed.Opened.High != 0 {
		t.Errorf("an update that fails: %+v", failed)
	}
	f.do(http.MethodGet, previewPath+"?"+strings.Replace(update, "=3.0.1", "=3.0.2", 1), "").problem(t, http.StatusNotFound, "no such package")
	f.do(http.MethodGet, previewPath+"?imageId=absent&action=rebuild", "").problem(t, http.StatusNotFound, "")
	f.do(http.MethodGet, previewPath+"?imageId="+escape(pendingID)+"&action=rebuild", "").problem(t, http.StatusConflict, "no findings yet")

	// Decisions: what is suppressed is neither closed nor opened.
	_, err := f.store.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "a"}, Vulnerabilities: []string{"CVE-2024-0000"}, Status: model.DecisionFixed,
	}})
	f.must(err)
	if left := f.previewFix(rebuild); left.Count != 1 || left.Closed.High+left.Closed.Critical != 1 {
		t.Errorf("with a decision: %+v", left)
	}
	if left := f.previewFix(update + "&fixVersion=9.9"); left.Closed.High+left.Closed.Critical != 0 || left.Opened.High != 1 {
		t.Errorf("with a decision: %+v", left)
	}
	if left := f.previewFix(update); !strings.Contains(left.Packages[0].Failure, "no version is known") {
		t.Errorf("with nothing to close: %+v", left)
	}
}

// Without a version, a package has a reason; many packages are bounded; without a database or the means to match, a preview is refused.
func TestPreviewFixIsRefused(t *testing.T) {
	f := newFixture(t, nil) // Cannot compare versions.
	f.seed()
	rebuild := "imageId=" + escape(scannedID) + "&action=rebuild"
	if p := f.previewFix(rebuild); p.Count != 2 || !strings.Contains(p.Packages[0].Failure, "no version is known") || p.Closed.High+p.Closed.Critical+p.Opened.High != 0 {
		t.Errorf("without versions: %+v", p)
	}
	var packages []model.Package
	for n := range 250 {
		packages = append(packages, packageOf(fmt.Sprintf("many-%03d", n), "1"))
	}
	f.scan(model.ImageKey{ImageID: scannedID, Platform: linux}, packages...)
	if p := f.previewFix(rebuild); p.Count != 250 || len(p.Packages) != 200 {
		t.Errorf("%d packages of %d", len(p.Packages), p.Count)
	}

	for want, previewer := range map[int]server.Previewer{
		http.StatusNotImplemented: nil, http.StatusServiceUnavailable: previews{err: problem.Unavailable(errors.New("away"), "not installed")}, http.StatusInternalServerError: previews{err: errors.New("away")},
	} {
		f := newFixture(t, func(c *server.Config) { c.Previews = previewer })
		f.seed()
		f.do(http.MethodGet, previewPath+"?"+rebuild, "").problem(t, want, "")
	}
}
