package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vexFile writes an OpenVEX document whose statements say that a status holds for packages.
func vexFile(t *testing.T, name string, statements ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	content := fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/%s", "author": "Example", "timestamp": "2026-01-01T00:00:00Z",
		"version": 1, "statements": [%s]}`, name, strings.Join(statements, ","))
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func vexStatement(vulnerability, status, product string) string {
	return fmt.Sprintf(`{"vulnerability": {"name": %q}, "status": %q, %s "impact_statement": "No\u001b[31mne", "action_statement": "x",
		"products": [{"@id": %q}]}`, vulnerability, status, map[string]string{"not_affected": `"justification": "vulnerable_code_not_in_execute_path",`}[status], product)
}

const log4jPURL = "pkg:maven/org.apache.logging.log4j/log4j-core"

func TestScanVEX(t *testing.T) {
	dir, sbom := t.TempDir(), sbomFile(t, log4j)
	type item struct {
		Vulnerability struct{ ID, Severity string }
		Suppression   map[string]any
	}
	var before struct{ Items, Suppressed []item }
	out, _, err := runScan(t, dir, sbom, "--sample-database", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &before); err != nil || len(before.Items) < 2 || before.Suppressed != nil || strings.Contains(out, `"suppressed"`) {
		t.Fatalf("%v: %s", err, out)
	}
	// The CVE is an alias of the finding.
	file := vexFile(t, "ours.json", vexStatement("CVE-2021-44228", "not_affected", log4jPURL), vexStatement("CVE-2021-44228", "fixed", log4jPURL+"@9"),
		vexStatement("CVE-1999-1", "affected", log4jPURL), vexStatement("CVE-1999-2", "fixed", "https://example.com"))

	out, stderr, err := runScan(t, dir, sbom, "--sample-database", "-o", "json", "--vex", file)
	if err != nil {
		t.Fatal(err)
	}
	var after struct{ Items, Suppressed []item }
	if err := json.Unmarshal([]byte(out), &after); err != nil {
		t.Fatal(err)
	}
	if len(after.Suppressed) != 1 || len(after.Items) != len(before.Items)-1 || after.Suppressed[0].Vulnerability.ID != "GHSA-jfh8-c2jp-5v3q" {
		t.Fatalf("%d findings and %d suppressed, of %d: %s", len(after.Items), len(after.Suppressed), len(before.Items), out)
	}
	for field, want := range map[string]string{
		"status": "not_affected", "justification": "vulnerable_code_not_in_execute_path", "author": "Example", "source": file, "document": "https://example.com/ours.json",
		"position": "statements[0]", "timestamp": "2026-01-01T00:00:00Z",
	} {
		if got := after.Suppressed[0].Suppression[field]; got != want {
			t.Errorf("%s is %v, want %s", field, got, want)
		}
	}
	for _, want := range []string{
		"suppressed by VEX documents: 1\n", "match no vulnerability of the image: 3\n", `statements[1] ("CVE-2021-44228", fixed)`, `statements[2] ("CVE-1999-1", affected)`,
		`statements[3] ("CVE-1999-2", fixed)`,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is missing: %s", want, stderr)
		}
	}

	table, _, err := runScan(t, dir, sbom, "--sample-database", "--vex", file)
	if err != nil || strings.Contains(table, "GHSA-jfh8-c2jp-5v3q") || !strings.Contains(table, "log4j-core") {
		t.Errorf("%v: %s", err, table)
	}
	shown, _, err := runScan(t, dir, sbom, "--sample-database", "--vex", file, "--suppressed")
	suppressed, found := strings.CutPrefix(shown, table)
	if err != nil || !found || !strings.Contains(suppressed, "GHSA-jfh8-c2jp-5v3q") || !strings.Contains(suppressed, "not_affected") ||
		!strings.Contains(suppressed, "Example") || strings.Contains(suppressed, "\x1b") {
		t.Errorf("%v: %q", err, suppressed)
	}
	for _, format := range []string{"csv", "sarif", "cyclonedx-json"} {
		if out, _, err := runScan(t, dir, sbom, "--sample-database", "--vex", file, "-o", format); err != nil || strings.Contains(out, "GHSA-jfh8-c2jp-5v3q") {
			t.Errorf("%s: %v contains a suppressed finding", format, err)
		}
	}
}

// TestScanVEXFailOn shows that suppressed findings do not count for the exit code, and that others do.
func TestScanVEXFailOn(t *testing.T) {
	dir, sbom := t.TempDir(), sbomFile(t, log4j)
	out, _, err := runScan(t, dir, sbom, "--sample-database", "-o", "csv")
	if err != nil {
		t.Fatal(err)
	}
	var fixed, affected []string
	for line := range strings.Lines(out) {
		if id, _, _ := strings.Cut(line, ","); id != "vulnerability" {
			fixed = append(fixed, vexStatement(id, "fixed", log4jPURL+"@2.14.1"))
			affected = append(affected, vexStatement(id, "affected", log4jPURL+"@2.14.1"))
		}
	}
	args := []string{sbom, "--sample-database", "--fail-on", "unknown", "--vex"}
	if out, _, err := runScan(t, dir, append(args, vexFile(t, "all.json", fixed...))...); err != nil || out != "No vulnerabilities found.\n" {
		t.Errorf("everything is fixed: %v, %q", err, out)
	}
	var exit exitError
	if _, _, err := runScan(t, dir, append(args, vexFile(t, "some.json", fixed[1:]...))...); !errors.As(err, &exit) || exit != 2 {
		t.Errorf("all but one are fixed: %v", err)
	}
	if _, _, err := runScan(t, dir, append(args, vexFile(t, "all.json", fixed...), "--vex", vexFile(t, "one.json", affected[0]))...); !errors.As(err, &exit) || exit != 2 {
		t.Errorf("one is affected according to another document: %v", err)
	}
}

// TestScanExportedDecisions: accepted risks of a document and the ends of its decisions apply if the document is named as one with exported decisions, and the
// documents beside it are like any other.
func TestScanExportedDecisions(t *testing.T) {
	dir, sbom := t.TempDir(), sbomFile(t, log4j)
	decided := func(status, notes string) string {
		return vexFile(t, "decisions.json", strings.Replace(vexStatement("CVE-2021-44228", status, log4jPURL), `"products"`, `"status_notes": `+fmt.Sprintf("%q", notes)+`, "products"`, 1))
	}
	accepted := decided("affected", "Decision: AcceptedRisk until 2999-03-31T00:00:00Z.")
	ended := decided("not_affected", "Decision: NotAffected until 2020-03-31T00:00:00Z.")
	vendor := vexFile(t, "vendor.json", vexStatement("CVE-2021-44228", "affected", log4jPURL))
	for name, c := range map[string]struct {
		args       []string
		suppressed int
		stderr     string
	}{
		"accepted":                 {[]string{"--decisions", accepted}, 1, ""},
		"accepted, vendor":         {[]string{"--decisions", accepted, "--vex", vendor}, 1, ""},
		"accepted, like any other": {[]string{"--vex", accepted}, 0, ""},
		"ended":                    {[]string{"--decisions", ended}, 0, "the decision ended at 2020-03-31T00:00:00Z"},
		"ended, like any other":    {[]string{"--vex", ended}, 1, ""},
		"of the vendor":            {[]string{"--decisions", vendor}, 0, ""},
	} {
		out, stderr, err := runScan(t, dir, append([]string{sbom, "--sample-database", "-o", "json"}, c.args...)...)
		var got struct {
			Suppressed []struct {
				Suppression struct{ Status, Decision, ExpiresAt, Comment string }
			}
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || len(got.Suppressed) != c.suppressed || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: %v, %d suppressed: %s\n%s", name, err, len(got.Suppressed), out, stderr)
			continue
		}
		if s := got.Suppressed; strings.HasPrefix(name, "accepted") && len(s) == 1 && (s[0].Suppression.Status != "affected" || s[0].Suppression.Decision != "AcceptedRisk" ||
			s[0].Suppression.ExpiresAt != "2999-03-31T00:00:00Z" || s[0].Suppression.Comment == "") {
			t.Errorf("%s: %+v", name, s[0].Suppression)
		}
	}
	for format, want := range map[string]string{"table": "AcceptedRisk", "csv": "AcceptedRisk (VEX document", "sarif": "until 2999-03-31T00:00:00Z", "cyclonedx-json": "will_not_fix"} {
		out, _, err := runScan(t, dir, sbom, "--sample-database", "-o", format, "--suppressed", "--decisions", accepted)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v lacks %q: %s", format, err, want, out)
		}
	}
}

func TestScanVEXErrors(t *testing.T) {
	dir, sbom, good := t.TempDir(), sbomFile(t, log4j), vexFile(t, "good.json", vexStatement("CVE-1", "fixed", "pkg:npm/a"))
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"missing file":              {[]string{"--vex", "nowhere.json"}, "--vex: open nowhere.json"},
		"empty object":              {[]string{"--vex", good, "--vex", empty}, "empty.json: the VEX document cannot be read: its format is unknown"},
		"too many":                  {strings.Fields(strings.Repeat("--vex "+good+" ", 101)), "101 documents are more than the limit of 100"},
		"show without VEX":          {[]string{"--suppressed"}, "requires --vex"},
		"missing decisions":         {[]string{"--decisions", "nowhere.json"}, "--decisions: open nowhere.json"},
		"too many of both":          {strings.Fields(strings.Repeat("--vex "+good+" --decisions "+good+" ", 51)), "102 documents are more than the limit of 100"},
		"show in SPDX":              {[]string{"--suppressed", "--vex", good, "-o", "spdx-json"}, "does not support the output format spdx-json"},
		"a directory":               {[]string{"--vex", t.TempDir()}, "is a directory"},
		"an error before databases": {[]string{"--vex", empty, "--data-dir", "/nonexistent/x"}, "its format is unknown"},
	} {
		out, _, err := runScan(t, dir, append([]string{sbom, "--sample-database"}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}
