package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

func runDB(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newDBCommand()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--data-dir", dir, "--vulnerability-database-url", "none"))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestDBCommands(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := runDB(t, dir, "status"); err == nil || !strings.Contains(err.Error(), "db import SOURCE") {
		t.Errorf("status without a database: %v", err)
	}
	if _, _, err := runDB(t, dir, "update"); err == nil || !strings.Contains(err.Error(), "--sample-database") {
		t.Errorf("update without a source: %v", err)
	}
	if out, _, err := runDB(t, dir, "update", "--sample-database"); err != nil || !strings.Contains(out, "Installed: sample database") {
		t.Errorf("update with the sample: %q, %v", out, err)
	}
	if out, _, err := runDB(t, dir, "update", "--sample-database"); err != nil || !strings.Contains(out, "Up to date") {
		t.Errorf("update again: %q, %v", out, err)
	}
	out, _, err := runDB(t, dir, "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Current bool   `json:"current"`
		Source  string `json:"source"`
		ID      string `json:"id"`
		Path    string `json:"path"`
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatal(err)
	}
	if !status.Current || status.Source != "sample" || status.ID == "" {
		t.Errorf("status is %+v", status)
	}
	if out, _, err := runDB(t, dir, "status"); err != nil || !strings.Contains(out, "Source:  sample") {
		t.Errorf("status: %q, %v", out, err)
	}
	if out, _, err := runDB(t, dir, "import", status.Path); err != nil || !strings.Contains(out, "Installed: imported database") {
		t.Errorf("import: %q, %v", out, err)
	}
	if out, _, err := runDB(t, dir, "import", status.Path); err != nil || !strings.Contains(out, "Up to date") {
		t.Errorf("import of the same: %q, %v", out, err)
	}
	if out, _, err := runDB(t, dir, "list"); err != nil || strings.Count(out, "\n") != 3 || !strings.Contains(out, "*") {
		t.Errorf("list: %q, %v", out, err)
	}
	if _, _, err := runDB(t, dir, "import", dir+"/nowhere"); err == nil {
		t.Error("a missing file is imported")
	}
	if _, _, err := runDB(t, dir, "list", "-o", "xml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}

func TestDBImportOlder(t *testing.T) {
	dir := t.TempDir()
	older := dbtest.Sample(t)
	newer := dbtest.Mutate(t, older, 1) // a day later
	if _, _, err := runDB(t, dir, "import", newer.Dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := runDB(t, dir, "import", older.Dir); err == nil || !strings.Contains(err.Error(), "--allow-older") {
		t.Errorf("an older one: %v", err)
	}
	if out, _, err := runDB(t, dir, "import", older.Dir, "--allow-older"); err != nil || !strings.Contains(out, "Installed") {
		t.Errorf("an older one that is allowed: %q, %v", out, err)
	}
}

func TestDBRematch(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := runDB(t, dir, "rematch"); err == nil || !strings.Contains(err.Error(), "not a directory of vulnerability databases") {
		t.Errorf("without databases: %v", err)
	}
	if _, _, err := runDB(t, dir, "list"); err != nil {
		t.Fatal(err)
	}
	library, err := vulndb.New(vulndb.Config{Dir: filepath.Join(dir, "db"), UpdateURL: vulndb.UpdateURLNone})
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range []bool{false, true} {
		arguments, says := []string{"rematch"}, "packages whose matching failed"
		if full {
			arguments, says = append(arguments, "--full"), "all packages"
		}
		out, _, err := runDB(t, dir, arguments...)
		if err != nil || !strings.Contains(out, says) || !strings.Contains(out, "/api/v1/databases") {
			t.Errorf("%v: %q, %v", arguments, out, err)
		}
		if got, pending := library.RematchRequest(); got != full || !pending {
			t.Errorf("%v: the request is full %t, pending %t", arguments, got, pending)
		}
	}
	out, _, err := runDB(t, dir, "rematch", "--full", "-o", "json")
	var answer map[string]any
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil || answer["requested"] != true || answer["full"] != true {
		t.Errorf("as JSON: %q, %v", out, err)
	}
	if _, _, err := runDB(t, dir, "rematch", "-o", "xml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}
