package main

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag of one name has one type, default and shorthand in all subcommands. Those that connect as kubectl does have its flags for namespace and output.
func TestFlagsAreTheSameEverywhere(t *testing.T) {
	type flag struct{ kind, value, shorthand string }
	first, user := map[string]flag{}, map[string]string{}
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		client := cmd.LocalFlags().Lookup("kubeconfig") != nil
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if client && (f.Name == "namespace" || f.Name == "output") {
				return
			}
			got := flag{f.Value.Type(), f.DefValue, f.Shorthand}
			if want, known := first[f.Name]; known && got != want {
				t.Errorf("--%s is %+v in %q and %+v in %q", f.Name, got, cmd.CommandPath(), want, user[f.Name])
			}
			first[f.Name], user[f.Name] = got, cmd.CommandPath()
		})
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(root)
	for _, name := range []string{"data-dir", "vulnerability-database-url", "plain-http-registries", "log-level", "file"} {
		if _, known := first[name]; !known {
			t.Errorf("no subcommand has --%s", name)
		}
	}
}

func TestDefaultDataDir(t *testing.T) {
	if runsInCluster() {
		t.Skip("this test runs in a pod, whose default is another")
	}
	t.Setenv("XDG_DATA_HOME", "/data")
	t.Setenv("HOME", "/home/somebody")
	if got := defaultDataDir(); got != "/data/scanner-operator" {
		t.Errorf("with XDG_DATA_HOME: %s", got)
	}
	t.Setenv("XDG_DATA_HOME", "")
	if got := defaultDataDir(); got != filepath.FromSlash("/home/somebody/.local/share/scanner-operator") {
		t.Errorf("with HOME: %s", got)
	}
	t.Setenv("HOME", "")
	if got := defaultDataDir(); got != "scanner-operator-data" {
		t.Errorf("with neither: %s", got)
	}
}
