package report_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

func suppressed() report.Input {
	in := plain()
	zlib := packageOf("zlib1g", "1.2.13")
	low, high := findingOf(zlib, "CVE-2024-0008", model.SeverityLow), findingOf(zlib, "CVE-2024-0009", model.SeverityHigh)
	high.Vulnerability.Risk = 50
	in.Suppressed = []model.SuppressedFinding{
		{Finding: low, Suppression: model.Suppression{Status: "fixed", Author: "a\x1b[1m", Source: "b.json", Position: "statements[0]"}},
		{Finding: high, Suppression: model.Suppression{
			Status: "not_affected", Justification: "component_not_present", Author: "a", Source: "a.json", Position: "statements[1]",
		}},
	}
	return in
}

func TestSuppressedInTables(t *testing.T) {
	in := suppressed()
	before := string(writeAs(t, report.FormatTable, plain()))
	if got := string(writeAs(t, report.FormatTable, in)); got != before {
		t.Errorf("suppressed findings are shown although nobody asked:\n%s", got)
	}
	in.ShowSuppressed = true
	want := before + `
VULNERABILITY  SEVERITY  PACKAGE  VERSION  STATUS        JUSTIFICATION          AUTHOR  SOURCE
CVE-2024-0009  High      zlib1g   1.2.13   not_affected  component_not_present  a       a.json statements[1]
CVE-2024-0008  Low       zlib1g   1.2.13   fixed                                a[1m    b.json statements[0]
`
	if got := string(writeAs(t, report.FormatTable, in)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	in.Suppressed = nil
	if got := string(writeAs(t, report.FormatTable, in)); got != before+"\nNo vulnerabilities are suppressed.\n" {
		t.Errorf("without any: %s", got)
	}
}

// Only JSON has a place for them; all other formats are as if they were not there.
func TestSuppressedInOtherFormats(t *testing.T) {
	for _, format := range formats {
		with, without := string(writeAs(t, format, suppressed())), string(writeAs(t, format, plain()))
		if format != report.FormatJSON {
			if with != without {
				t.Errorf("%s contains suppressed findings", format)
			}
			continue
		}
		var got struct {
			Total      int
			Suppressed []struct {
				Vulnerability struct{ ID string }
				Suppression   map[string]string
			}
		}
		if err := json.Unmarshal([]byte(with), &got); err != nil {
			t.Fatal(err)
		}
		if got.Total != 3 || len(got.Suppressed) != 2 || got.Suppressed[0].Vulnerability.ID != "CVE-2024-0009" || got.Suppressed[1].Suppression["status"] != "fixed" {
			t.Errorf("%+v", got)
		}
		if strings.Contains(without, "suppressed") || strings.Contains(with, "0001-01-01") {
			t.Errorf("a field without value is written:\n%s", with)
		}
		none := plain()
		none.Suppressed = []model.SuppressedFinding{}
		if !strings.Contains(string(writeAs(t, format, none)), `"suppressed": []`) {
			t.Error("an empty list is missing")
		}
	}
}

// With ShowSuppressed, what VEX documents suppress is written as what exceptions suppress.
func TestSuppressedAsDecisions(t *testing.T) {
	in := suppressed()
	in.ShowSuppressed = true
	decided := plain()
	decided.Decisions = true
	open := decided.Findings
	decided.Findings = func(yield func(model.Finding) error) error {
		if err := open(yield); err != nil {
			return err
		}
		for i, f := range in.Suppressed {
			f.Finding.Suppressed = true
			f.Finding.Decisions = []model.Decision{{
				Kind: "VEX document", Name: []string{"b.json statements[0]", "a.json statements[1]"}[i], Suppresses: true, Author: f.Suppression.Author,
				Status: []model.DecisionStatus{model.DecisionFixed, model.DecisionNotAffected}[i], Justification: f.Suppression.Justification,
			}}
			if err := yield(f.Finding); err != nil {
				return err
			}
		}
		return nil
	}
	for _, format := range []report.Format{report.FormatSARIF, report.FormatCycloneDX, report.FormatCSV} {
		with, want := string(writeAs(t, format, in)), string(writeAs(t, format, decided))
		if with != want {
			t.Errorf("%s differs:\n%s\nwant:\n%s", format, with, want)
		}
		if !strings.Contains(with, "CVE-2024-0009") || !strings.Contains(with, "a.json statements[1]") {
			t.Errorf("%s: a suppressed finding is missing:\n%s", format, with)
		}
	}
	if report.ShowsSuppressed(report.FormatSPDX) {
		t.Error("SPDX has no place for suppressed findings")
	}
}
