package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func runDB(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newDBCommand()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--dir", dir, "--update-url", "none"))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestDBCommands(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := runDB(t, dir, "status"); err == nil || !strings.Contains(err.Error(), "db import FILE") {
		t.Errorf("status without a database: %v", err)
	}
	if _, _, err := runDB(t, dir, "update"); err == nil || !strings.Contains(err.Error(), "--sample") {
		t.Errorf("update without a source: %v", err)
	}
	if out, _, err := runDB(t, dir, "update", "--sample"); err != nil || !strings.Contains(out, "Installed: sample database") {
		t.Errorf("update with the sample: %q, %v", out, err)
	}
	if out, _, err := runDB(t, dir, "update", "--sample"); err != nil || !strings.Contains(out, "Up to date") {
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
