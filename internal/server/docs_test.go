package server_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// fence matches the blocks of a page that are for a shell. Those marked "fails" show an error.
var fence = regexp.MustCompile("(?ms)^```sh( fails)?\n(.*?)^```$")

// Every example of the page about the API does what it says.
func TestExamplesOfTheDocumentation(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	page, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newIngestFixture(t)
	f.seedAll()
	_, err = f.store.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "examined"}, Vulnerabilities: []string{"CVE-2024-0000"},
		Status: model.DecisionUnderInvestigation,
	}})
	f.must(err)
	// What fails with a status fails the example; and one port stands for another.
	script := []string{"set -euo pipefail", `curl() { command curl --fail-with-body -S --max-time 20 "$@"; }`}
	examples := 0
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		examples++
		body := strings.ReplaceAll(block[2], "http://localhost:8000", f.base)
		command := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(append(script, body), "\n"))
		command.Dir = t.TempDir()
		output, err := command.Output()
		if fails := block[1] != ""; fails != (err != nil) {
			t.Errorf("%s\n%v\n%s", block[2], err, output)
		}
		if block[1] != "" && !strings.Contains(string(page), string(output)) {
			t.Errorf("the page does not show the answer %s", output)
		}
		checkJSON(t, block[2], string(output))
		if !strings.Contains(body, "curl") {
			script = append(script, body) // variables for what follows
		}
	}
	if examples < 15 {
		t.Errorf("only %d examples were found", examples)
	}
}

// checkJSON holds that answers that begin like JSON are JSON to their end.
func checkJSON(t *testing.T, example, output string) {
	t.Helper()
	if !strings.HasPrefix(output, "{") {
		return
	}
	for decoder := json.NewDecoder(strings.NewReader(output)); decoder.More(); {
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Errorf("%s\nno JSON: %v: %s", example, err, output)
			return
		}
	}
}
