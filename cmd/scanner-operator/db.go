package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// dbOptions are the flags that all commands below "db" share.
type dbOptions struct {
	dir       string
	updateURL string
	caFile    string
	sample    bool
	output    string

	allowOlder bool
	full       bool
}

func newDBCommand() *cobra.Command {
	o := &dbOptions{}
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Look after the vulnerability database",
		Long: "Look after the vulnerability databases in a data directory: see what is there, fetch the official one, import " +
			"another one where there is no network.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.dir, "dir", defaultDBDir(), "data directory; databases are kept below it in \"db\"")
	flags.StringVar(&o.updateURL, "update-url", "", "where Grype's v6/latest.json is (default: Grype's own; \"none\": nowhere)")
	flags.StringVar(&o.caFile, "ca-file", "", "PEM file of certificate authorities to trust besides those of the system")
	flags.BoolVar(&o.sample, "sample", false, "use the built-in sample database while no other can be had")
	flags.StringVarP(&o.output, "output", "o", "table", "output format: table or json")
	cmd.AddCommand(
		&cobra.Command{
			Use: "status", Short: "Show the database in use and its age", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.status(cmd) },
		},
		&cobra.Command{
			Use: "list", Short: "List the installed databases, the one in use first", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd) },
		},
		&cobra.Command{
			Use: "update", Short: "Fetch a newer database when there is one", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.update(cmd) },
		},
		o.importCommand(),
		o.rematchCommand(),
	)
	return cmd
}

func (o *dbOptions) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Install a database from a .tar.zst archive, a folder or a URL", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.importFrom(cmd, args[0]) },
	}
	cmd.Flags().BoolVar(&o.allowOlder, "allow-older", false, "install a database that is older than the one in use, too")
	return cmd
}

func (o *dbOptions) rematchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rematch", Short: "Have the manager match packages again that could not be matched, or all", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.rematch(cmd) },
	}
	cmd.Flags().BoolVar(&o.full, "full", false, "match all packages again, not only those that could not be matched")
	return cmd
}

// clusterDataDir is the default of "manager --data-dir" in a cluster.
const clusterDataDir = "/var/lib/scanner-operator"

// defaultDBDir is the directory of the user's own data, or in the manager's pod that of the manager, so that the commands
// work without any flag.
func defaultDBDir() string {
	if info, err := os.Stat(clusterDataDir); err == nil && info.IsDir() && runsInCluster() {
		return clusterDataDir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "scanner-operator"
	}
	return filepath.Join(cache, "scanner-operator")
}

func (o *dbOptions) checkOutput() error {
	if o.output != "table" && o.output != "json" {
		return fmt.Errorf("output format %q is neither table nor json", o.output)
	}
	return nil
}

// libraryDir is the folder of the library in the data directory.
func (o *dbOptions) libraryDir() string { return filepath.Join(o.dir, "db") }

// open checks the flags before anything is touched.
func (o *dbOptions) open(progress io.Writer) (*vulndb.Library, func(), error) {
	if err := o.checkOutput(); err != nil {
		return nil, nil, err
	}
	p := newProgress(progress)
	library, err := vulndb.New(vulndb.Config{
		Dir: o.libraryDir(), UpdateURL: o.updateURL, CAFile: o.caFile, Sample: o.sample,
		Progress: p.report, Log: logr.Discard(),
	})
	if err != nil {
		return nil, nil, err
	}
	return library, p.end, nil
}

// dbView is one database as the commands show it.
type dbView struct {
	Current bool `json:"current"`
	vuln.DatabaseBuild
	InstalledAt time.Time `json:"installedAt"`
	AgeHours    float64   `json:"ageHours"`
	Path        string    `json:"path"`
}

func viewDB(installed vulndb.Installed, current bool) dbView {
	return dbView{
		Current: current, DatabaseBuild: installed.Build, InstalledAt: installed.InstalledAt,
		AgeHours: time.Since(installed.Build.Built).Hours(), Path: installed.Dir,
	}
}

func (o *dbOptions) status(cmd *cobra.Command) error {
	library, _, err := o.open(nil)
	if err != nil {
		return err
	}
	current, ok := library.Current()
	if !ok {
		return fmt.Errorf("there is no vulnerability database in %s: run \"db update\", \"db update --sample\" or \"db import FILE\"", o.dir)
	}
	stale := library.Status().Stale
	if o.output == "json" {
		return writeJSON(cmd.OutOrStdout(), struct {
			dbView
			Stale bool `json:"stale"`
		}{viewDB(current, true), stale})
	}
	w := cmd.OutOrStdout()
	b := current.Build
	age := time.Since(b.Built).Round(time.Hour)
	note := ""
	if stale {
		note = " (stale: new vulnerabilities are missing)"
	}
	_, err = fmt.Fprintf(w, "Build:   %s\nSource:  %s\nSchema:  %s\nBuilt:   %s\nAge:     %s%s\nPath:    %s\n",
		b.ID, b.Source, b.SchemaVersion, b.Built.Format(time.RFC3339), age, note, current.Dir)
	return err
}

func (o *dbOptions) list(cmd *cobra.Command) error {
	library, _, err := o.open(nil)
	if err != nil {
		return err
	}
	views := []dbView{}
	for i, installed := range library.List() {
		views = append(views, viewDB(installed, i == 0))
	}
	if o.output == "json" {
		return writeJSON(cmd.OutOrStdout(), views)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "IN USE\tSOURCE\tSCHEMA\tBUILT\tINSTALLED\tBUILD")
	for _, v := range views {
		used := ""
		if v.Current {
			used = "*"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", used, v.Source, v.SchemaVersion,
			v.Built.Format(time.RFC3339), v.InstalledAt.Format(time.RFC3339), v.ID)
	}
	return w.Flush()
}

func (o *dbOptions) update(cmd *cobra.Command) error {
	library, end, err := o.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	changed, err := library.Update(cmd.Context())
	end()
	if err != nil {
		if !changed {
			return err
		}
		// The sample is what was asked for in this case, but nobody should take it for the real one.
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "No other database can be had, so the sample database is used: %v\n", err)
	}
	return o.report(cmd, library, changed)
}

func (o *dbOptions) importFrom(cmd *cobra.Command, from string) error {
	library, end, err := o.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var options []vulndb.ImportOption
	if o.allowOlder {
		options = append(options, vulndb.AllowOlder())
	}
	before, _ := library.Current()
	installed, err := library.Import(cmd.Context(), from, options...)
	end()
	if errors.Is(err, vulndb.ErrOlder) {
		return fmt.Errorf("%w; --allow-older installs it all the same", err)
	}
	if err != nil {
		return err
	}
	return o.report(cmd, library, installed.Dir != before.Dir)
}

// rematch leaves a request in the data directory, for the manager that runs there.
func (o *dbOptions) rematch(cmd *cobra.Command) error {
	if err := o.checkOutput(); err != nil {
		return err
	}
	if err := vulndb.RequestRematch(o.libraryDir(), o.full); err != nil {
		return err
	}
	if o.output == "json" {
		return writeJSON(cmd.OutOrStdout(), struct {
			Requested bool   `json:"requested"`
			Full      bool   `json:"full"`
			Dir       string `json:"dir"`
		}{true, o.full, o.dir})
	}
	what := "the packages that could not be matched"
	if o.full {
		what = "all packages"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Asked the manager that works in %s for a re-match of %s. It begins within seconds; "+
		"GET /api/v1/databases shows how far it has come.\n", o.dir, what)
	return err
}

// report tells what is in use after a change, or instead of one.
func (o *dbOptions) report(cmd *cobra.Command, library *vulndb.Library, changed bool) error {
	current, ok := library.Current()
	if !ok {
		return fmt.Errorf("there is no vulnerability database, and no update URL to fetch one from: give --update-url or --sample")
	}
	if o.output == "json" {
		return writeJSON(cmd.OutOrStdout(), struct {
			Changed bool `json:"changed"`
			dbView
		}{changed, viewDB(current, true)})
	}
	text := "Up to date"
	if changed {
		text = "Installed"
	}
	b := current.Build
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s database of %s, schema %s, build %s\n",
		text, b.Source, b.Built.Format(time.DateOnly), b.SchemaVersion, b.ID)
	return err
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// progressLine shows one line that is written over again and again, on a terminal only.
type progressLine struct {
	w     io.Writer
	stage string
	last  time.Time
}

func newProgress(w io.Writer) *progressLine {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		w = nil
	}
	return &progressLine{w: w}
}

func (p *progressLine) report(stage string, done, total int64) {
	if p.w == nil || (stage == p.stage && time.Since(p.last) < 100*time.Millisecond && done != total) {
		return
	}
	p.stage, p.last = stage, time.Now()
	switch {
	case total > 0:
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s %d%% of %.1f MB", stage, done*100/total, float64(total)/1e6)
	case done > 0:
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s %.1f MB", stage, float64(done)/1e6)
	default:
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s …", stage)
	}
}

func (p *progressLine) end() {
	if p.w != nil && p.stage != "" {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}
