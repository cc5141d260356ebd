package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

// TestDecisions writes an image of which one finding of two is suppressed.
func TestDecisions(t *testing.T) {
	openssl, zlib := packageOf("openssl", "3.0.1-1"), packageOf("zlib1g", "1.2.13")
	suppressed, open := findingOf(openssl, "CVE-2024-0001", model.SeverityHigh), findingOf(zlib, "CVE-2024-0002", model.SeverityLow)
	suppressed.Suppressed = true
	suppressed.Decisions = []model.Decision{
		{
			Kind: "ClusterVulnerabilityException", Name: "a", Status: model.DecisionNotAffected, Justification: "vulnerable_code_not_in_execute_path",
			Comment: "=not\x00 reachable", Author: "jane", ExpiresAt: time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC), Suppresses: true,
		},
		{Kind: "ClusterVulnerabilityException", Name: "b", Status: model.DecisionUnderInvestigation},
	}
	open.Decisions = suppressed.Decisions[1:]
	in := inputOf([]model.HeldPackage{{Package: openssl}, {Package: zlib}}, []model.Finding{suppressed, open})
	in.Decisions = true

	lines := strings.Split(string(writeAs(t, report.FormatCSV, in)), "\r\n")
	for i, want := range []string{
		",suppressed,decision,decision_expires_at,decision_reason,decision_author",
		",yes,NotAffected (ClusterVulnerabilityException a),2027-01-02T00:00:00Z,vulnerable_code_not_in_execute_path; =not reachable,jane",
		",,UnderInvestigation (ClusterVulnerabilityException b),,,",
	} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d of the CSV is %s, want it to end with %s", i, lines[i], want)
		}
	}

	var run struct {
		Runs []struct {
			Results []struct {
				RuleID       string
				Suppressions []struct{ Kind, Status, Justification string }
			}
		}
	}
	if err := json.Unmarshal(writeAs(t, report.FormatSARIF, in), &run); err != nil {
		t.Fatal(err)
	}
	for _, result := range run.Runs[0].Results {
		if is := len(result.Suppressions) == 1; is != (result.RuleID == "CVE-2024-0001") {
			t.Errorf("%s has the suppressions %v", result.RuleID, result.Suppressions)
		}
	}
	const because = "NotAffected; vulnerable_code_not_in_execute_path; =not reachable; ClusterVulnerabilityException a; until 2027-01-02T00:00:00Z"
	if got := strings.ReplaceAll(run.Runs[0].Results[0].Suppressions[0].Justification, "\ufffd", ""); got != because {
		t.Errorf("the justification is %q, want %q", got, because)
	}

	analyses := map[string]string{}
	for _, v := range *decode(t, write(t, in)).Vulnerabilities {
		if v.Analysis != nil {
			analyses[v.ID] = string(v.Analysis.State) + " " + string(v.Analysis.Justification)
		}
	}
	if diff := cmp.Diff(map[string]string{"CVE-2024-0001": "not_affected code_not_reachable"}, analyses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, format := range formats {
		if format == report.FormatCycloneDX {
			valid(t, string(format), schema(t), writeAs(t, format, in))
		}
	}
}

// TestDecisionsAboutPackages: each package has the analysis of its own decision, and one that says nothing of the image elsewhere is no analysis.
func TestDecisionsAboutPackages(t *testing.T) {
	decided := func(name string, decisions ...model.Decision) model.Finding {
		f := findingOf(packageOf(name, "1"), "CVE-2024-0001", model.SeverityHigh)
		f.Suppressed, f.Decisions = len(decisions) > 0, decisions
		return f
	}
	notAffected := model.Decision{Kind: "ClusterVulnerabilityException", Name: "a", Status: model.DecisionNotAffected, Suppresses: true}
	accepted := model.Decision{Kind: "ClusterVulnerabilityException", Name: "b", Status: model.DecisionAcceptedRisk, Suppresses: true}
	fixed := model.Decision{Kind: "ClusterVulnerabilityException", Name: "c", Status: model.DecisionFixed, Suppresses: true}
	placed := model.Decision{Kind: "VulnerabilityException", Namespace: "n", Name: "d", Status: model.DecisionNotAffected, Suppresses: true, Placed: true}
	for name, c := range map[string]struct {
		findings []model.Finding
		want     map[string]string
	}{
		"all equal":      {[]model.Finding{decided("openssl", notAffected), decided("libfoo", notAffected)}, map[string]string{"not_affected": "libfoo openssl"}},
		"two decisions":  {[]model.Finding{decided("openssl", notAffected), decided("libfoo", accepted)}, map[string]string{"not_affected": "openssl", "exploitable": "libfoo"}},
		"one is open":    {[]model.Finding{decided("openssl", notAffected), decided("libfoo")}, map[string]string{"not_affected": "openssl", "": "libfoo"}},
		"four of them":   {[]model.Finding{decided("openssl", notAffected), decided("libfoo", accepted), decided("zlib", fixed), decided("bash")}, map[string]string{"not_affected": "openssl", "exploitable": "libfoo", "resolved": "zlib", "": "bash"}},
		"in a namespace": {[]model.Finding{decided("openssl", placed), decided("libfoo", accepted, placed)}, map[string]string{"": "openssl", "exploitable": "libfoo"}},
	} {
		var held []model.HeldPackage
		for _, f := range c.findings {
			held = append(held, model.HeldPackage{Package: f.Package})
		}
		in := inputOf(held, c.findings)
		in.Decisions = true
		got, refs := map[string]string{}, map[string]bool{}
		bom := decode(t, write(t, in))
		for _, v := range *bom.Vulnerabilities {
			if refs[v.BOMRef] || v.ID != "CVE-2024-0001" {
				t.Errorf("%s: %s is twice, of %s", name, v.BOMRef, v.ID)
			}
			refs[v.BOMRef] = true
			var names []string
			for _, component := range *bom.Components {
				for _, affects := range *v.Affects {
					if affects.Ref == component.BOMRef {
						names = append(names, component.Name)
					}
				}
			}
			slices.Sort(names)
			state := ""
			if v.Analysis != nil {
				state = string(v.Analysis.State)
			}
			got[state] = strings.Join(names, " ")
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		valid(t, name, schema(t), writeAs(t, report.FormatCycloneDX, in))
	}
}
