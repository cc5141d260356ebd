package report_test

import (
	"encoding/json"
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
