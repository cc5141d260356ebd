package plugin

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var asked string
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + "?" + r.URL.RawQuery
		if r.URL.Query().Get("format") == "html" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!DOCTYPE html>")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{\"at\":\"\u202e\"}")
	})
	for _, test := range []struct{ arguments, asked, out string }{
		{"report", "/api/v1/reports/namespaces/shop?format=html&since=7d", "<!DOCTYPE html>"},
		{"report -n bank --since 36h", "/api/v1/reports/namespaces/bank?format=html&since=36h", "<!DOCTYPE html>"},
		{"report -A", "/api/v1/reports/cluster?format=html&since=7d", "<!DOCTYPE html>"},
		{"report --owner a/b -o json", "/api/v1/reports/owners/a%2Fb?format=json&since=7d", "{\n    \"at\": \"\\u202e\"\n}\n"},
		{"report --owner team -o yaml", "/api/v1/reports/owners/team?format=json&since=7d", "at: \ufffd\n"},
	} {
		out, _, err := c.run(strings.Fields(test.arguments)...)
		if err != nil || out != test.out || asked != test.asked {
			t.Errorf("%s: %q after a request for %s, %v", test.arguments, out, asked, err)
		}
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if out, errOut, err := c.run("report", "--file", file); err != nil || out != "" || errOut != "Report written to "+file+".\n" {
		t.Errorf("%q, %q, %v", out, errOut, err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "<!DOCTYPE html>" {
		t.Errorf("%q, %v", content, err)
	}
	for arguments, want := range map[string]string{
		"report -o wide": "no wide output", "report --owner a -n b": "cannot be used", "report --owner a -A": "cannot be used", "report --file /absent/file": "no such file",
	} {
		if _, _, err := c.run(strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

// The subcommand of the program has the flags of the plugin.
func TestReportCommand(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	command := ReportCommand("scanner-operator")
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(io.Discard)
	command.SetArgs([]string{"-n", "shop", "--service-account", "viewer", "--kubeconfig", c.kubeconfig()})
	if err := command.ExecuteContext(t.Context()); err != nil || out.String() != "page" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
