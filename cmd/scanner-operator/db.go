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

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// dbOptions are the flags of all subcommands of "db".
type dbOptions struct {
	dataDir string
	url     string
	caFile  string
	sample  bool
	output  string

	allowOlder bool
	full       bool
}

func newDBCommand() *cobra.Command {
	o := &dbOptions{}
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Manage the vulnerability databases of a data directory",
		Long: `Manage the vulnerability databases of a data directory: show the installed ones, download the official database of Grype,
or import a database without network access. A manager that uses the same data directory loads a new database within seconds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	addDataDirFlag(flags, &o.dataDir, `Data directory; databases are stored in its subdirectory "db"`)
	addDatabaseSourceFlags(flags, &o.url, &o.sample)
	flags.StringVar(&o.caFile, "ca-file", "", "PEM file of certificate authorities to trust for downloads, in addition to those of the system")
	flags.StringVarP(&o.output, "output", "o", outputTable, "Output format: table or json")
	cmd.AddCommand(
		&cobra.Command{
			Use: "status", Short: "Show the current database and its age", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.status(cmd) },
		},
		&cobra.Command{
			Use: "list", Short: "List the installed databases, the current one first", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd) },
		},
		&cobra.Command{
			Use: "update", Short: "Download a newer database, if there is one", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return o.update(cmd) },
		},
		o.importCommand(),
		o.rematchCommand(),
	)
	return cmd
}

func (o *dbOptions) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import SOURCE", Short: "Install a database from a .tar.zst archive, a directory or a URL",
		Long: `Install a database from SOURCE: a .tar.zst archive as Grype publishes it, the URL of one, a directory that contains the archive and
its latest.json, or a directory that contains vulnerability.db, such as the cache of the grype command.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.importFrom(cmd, args[0]) },
	}
	cmd.Flags().BoolVar(&o.allowOlder, "allow-older", false, "Also install a database that is older than the current one")
	return cmd
}

func (o *dbOptions) rematchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rematch", Short: "Request the manager to match packages against the current database again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.rematch(cmd) },
	}
	cmd.Flags().BoolVar(&o.full, "full", false, "Match all packages again, not only those whose matching failed")
	return cmd
}

func (o *dbOptions) checkOutput() error {
	if o.output != outputTable && o.output != outputJSON {
		return fmt.Errorf("output format %q is not supported: use table or json", o.output)
	}
	return nil
}

// libraryDir is the directory of the databases.
func (o *dbOptions) libraryDir() string { return filepath.Join(o.dataDir, "db") }

// open validates the flags before it changes anything.
func (o *dbOptions) open(progress io.Writer) (*vulndb.Library, func(), error) {
	if err := errors.Join(o.checkOutput(), checkDataDir(o.dataDir)); err != nil {
		return nil, nil, err
	}
	p := newProgress(progress)
	library, err := vulndb.New(vulndb.Config{
		Dir: o.libraryDir(), UpdateURL: o.url, CAFile: o.caFile, Sample: o.sample,
		Progress: p.report, Log: logr.Discard(),
	})
	if err != nil {
		return nil, nil, err
	}
	return library, p.end, nil
}

// dbView is the output about one database.
type dbView struct {
	Current bool `json:"current"`
	model.DatabaseBuild
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
		return fmt.Errorf("no vulnerability database is installed in %s: run \"db update\" or \"db import SOURCE\"", o.libraryDir())
	}
	stale := library.Status().Stale
	if o.output == outputJSON {
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
		note = " (stale: vulnerabilities published since then are missing)"
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
	if o.output == outputJSON {
		return writeJSON(cmd.OutOrStdout(), views)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CURRENT\tSOURCE\tSCHEMA\tBUILT\tINSTALLED\tBUILD")
	for _, v := range views {
		current := ""
		if v.Current {
			current = "*"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", current, v.Source, v.SchemaVersion,
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
		// --sample-database asks for this, but nobody should take the sample for the real database.
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: installed the sample database, because no other database is available: %v\n", err)
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
		return fmt.Errorf("%w; use --allow-older to install it", err)
	}
	if err != nil {
		return err
	}
	return o.report(cmd, library, installed.Dir != before.Dir)
}

// rematch stores a request in the data directory, for the manager that uses it.
func (o *dbOptions) rematch(cmd *cobra.Command) error {
	if err := errors.Join(o.checkOutput(), checkDataDir(o.dataDir)); err != nil {
		return err
	}
	if err := vulndb.RequestRematch(o.libraryDir(), o.full); err != nil {
		return err
	}
	if o.output == outputJSON {
		return writeJSON(cmd.OutOrStdout(), struct {
			Requested bool   `json:"requested"`
			Full      bool   `json:"full"`
			DataDir   string `json:"dataDir"`
		}{true, o.full, o.dataDir})
	}
	what := "the packages whose matching failed"
	if o.full {
		what = "all packages"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Requested a rematch of %s from the manager that uses %s. It starts within seconds; "+
		"GET /api/v1/databases shows the progress.\n", what, o.dataDir)
	return err
}

// report prints the current database after an update or import, whether it changed or not.
func (o *dbOptions) report(cmd *cobra.Command, library *vulndb.Library, changed bool) error {
	current, ok := library.Current()
	if !ok {
		return errors.New("no vulnerability database is installed and downloads are disabled: set --vulnerability-database-url or --sample-database")
	}
	if o.output == outputJSON {
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
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s database, built %s, schema %s, build %s\n",
		text, b.Source, b.Built.Format(time.DateOnly), b.SchemaVersion, b.ID)
	return err
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// progressLine shows the progress in one line of a terminal, and nothing elsewhere.
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
