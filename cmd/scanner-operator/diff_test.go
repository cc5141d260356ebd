package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// runOffline runs a command with the sample database, and without network for databases.
func runOffline(t *testing.T, command *cobra.Command, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	command.SetIn(strings.NewReader(input))
	command.SetOut(&out)
	command.SetErr(&errs)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(append(args, "--data-dir", t.TempDir(), "--vulnerability-database-url", "none", "--sample-database"))
	err = command.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

const snakeyaml = "org.yaml:snakeyaml:1.29"

func TestDiff(t *testing.T) {
	before, after := sbomFile(t, log4j, "org.example:nothing:1.0"), sbomFile(t, snakeyaml, "org.example:nothing:1.1")
	out, _, err := runOffline(t, newDiffCommand(), "", before, after)
	if err != nil || !strings.HasPrefix(out, "Opened: ") || !strings.Contains(out, "opened  ") || !strings.Contains(out, "snakeyaml") || !strings.Contains(out, "closed  ") ||
		strings.Contains(out, "nothing") {
		t.Fatalf("%v\n%s", err, out)
	}
	out, _, err = runOffline(t, newDiffCommand(), "", before, after, "-o", "json")
	var got struct {
		From, To       struct{ Findings struct{ Critical int } }
		Opened, Closed struct{ Critical, High int }
		Closing        []struct {
			VulnerabilityID, Package, Severity string
			Kev                                bool
		} `json:"closedVulnerabilities"`
		Database struct{ Source string }
	}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.From.Findings.Critical == 0 || got.Closed.Critical != got.From.Findings.Critical || got.Opened.High == 0 || got.Database.Source != "sample" ||
		got.Closing[0].Package != "log4j-core" || got.Closing[0].Severity != "Critical" || !got.Closing[0].Kev {
		t.Errorf("%+v", got)
	}
	var exit exitError
	if _, stderr, err := runOffline(t, newDiffCommand(), "", before, after, "--fail-on", "high"); !errors.As(err, &exit) || exit != 2 || !strings.Contains(stderr, "Opened vulnerabilities of severity High or higher: ") {
		t.Errorf("--fail-on: %v, %s", err, stderr)
	}
	if _, _, err := runOffline(t, newDiffCommand(), "", after, sbomFile(t), "--fail-on", "unknown"); err != nil {
		t.Errorf("--fail-on counts what is closed: %v", err)
	}
	if out, _, err := runOffline(t, newDiffCommand(), "", before, before); err != nil || out != "Opened: 0\nClosed: 0\n" {
		t.Errorf("an image compared with itself: %v, %s", err, out)
	}
}

func TestDiffErrors(t *testing.T) {
	good := sbomFile(t, log4j)
	for want, args := range map[string][]string{
		`--output "sarif" is not one of table, json`: {good, good, "-o", "sarif"},
		"--fail-on":    {good, good, "--fail-on", "bad"},
		"--platform":   {good, good, "--platform", "x"},
		"nowhere.json": {good, "nowhere.json"},
		"arg":          {good},
	} {
		if out, _, err := runOffline(t, newDiffCommand(), "", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v, %q", want, err, out)
		}
	}
}
