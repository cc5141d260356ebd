package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/version"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// errFailOn is the exit code when a finding has the severity of --fail-on or a higher one. After an error the code is 1.
const errFailOn exitError = 2

type scanOptions struct {
	request  catalog.Request
	database dbOptions
	platform string
	output   string
	failOn   string
	vex      vexOptions
}

func newScanCommand() *cobra.Command {
	o := &scanOptions{database: dbOptions{output: outputTable}} // of "db", not of the report; it must be valid
	command := &cobra.Command{
		Use:   "scan IMAGE|ARCHIVE|DIRECTORY|SBOM",
		Short: "Scan one image for vulnerabilities, without a cluster",
		Long: `Scan one image for vulnerabilities, without a cluster. IMAGE is pulled from its registry by tag or digest. ARCHIVE is a Docker
or OCI archive, DIRECTORY an OCI image layout, SBOM a file in the JSON format of Syft. A path that exists takes precedence
over an image reference.

The scan uses the current vulnerability database of the data directory (see "db status"). If none is installed, it downloads
the official database of Grype first.

The environment variable SCANNER_REGISTRIES says in JSON or YAML how to reach registries (proxy, mirrors, certificate authorities, plain HTTP), and the
keys whose attested SBOMs are used instead of pulling images.

With --vex, vulnerabilities that a VEX document declares as not_affected or fixed are suppressed: without --suppressed they are missing in the report (json
always lists them), and they do not count for --fail-on. With --decisions, the same holds for the decisions of a document that scanner-operator has
exported: accepted risks, too, and until decisions end. Use it only for documents of your own clusters.

Exit codes: 0 on success, 1 on an error, 2 if a vulnerability has the severity of --fail-on or a higher one.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			err := o.run(command.Context(), args[0], command.OutOrStdout(), command.ErrOrStderr())
			if err != nil && command.Context().Err() != nil {
				return errors.New("interrupted") // the error that follows from it does not matter
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.output, "output", "o", string(report.FormatTable), "Output format: "+report.Formats())
	flags.StringVar(&o.failOn, "fail-on", "", "Exit with code 2 if a vulnerability has this severity or a higher one: negligible, low, medium, high or critical")
	o.vex.addFlags(flags)
	o.addSourceFlags(flags, "PEM file of certificate authorities to trust for registries and database downloads, in addition to those of the system")
	return command
}

// addSourceFlags adds the flags about images and the vulnerability database.
func (o *scanOptions) addSourceFlags(flags *pflag.FlagSet, caFile string) {
	addDataDirFlag(flags, &o.database.dataDir, `Data directory; databases are stored in its subdirectory "db"`)
	addDatabaseSourceFlags(flags, &o.database.url, &o.database.sample)
	addImageFlags(flags, &o.request, &o.platform)
	flags.StringVar(&o.database.caFile, "ca-file", "", caFile)
	flags.DurationVar(&o.request.Limits.Timeout, "timeout", catalog.DefaultLimits().Timeout, "Maximum duration of pulling and analyzing the image")
}

// run validates the flags and the argument before it downloads anything.
func (o *scanOptions) run(ctx context.Context, source string, stdout, stderr io.Writer) (err error) {
	format, err := report.ParseFormat(o.output)
	if err != nil {
		return err
	}
	threshold, err := parseFailOn(o.failOn)
	if err != nil {
		return err
	}
	if err := o.readPlatform(); err != nil {
		return err
	}
	statements, err := o.vex.read(format)
	if err != nil {
		return err
	}
	sbomFile, err := isSBOMFile(source)
	if err != nil {
		return err
	}
	scanner, err := o.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scanner.close()) }()
	one, err := scanner.scan(ctx, source, sbomFile, statements)
	if err != nil {
		return err
	}
	input, packages, findings := one.input, one.packages, one.findings
	input.Packages, input.Findings = each(packages.Packages), each(findings)
	if err := report.Write(stdout, format, input); err != nil {
		return err
	}
	return failOn(findings, threshold, stderr)
}

func (o *scanOptions) readPlatform() (err error) {
	if o.platform == "" {
		return nil
	}
	if o.request.Platform, err = model.ParsePlatform(o.platform); err != nil {
		return fmt.Errorf("--platform: %w", err)
	}
	return nil
}

// sourceScanner scans images with one vulnerability database.
type sourceScanner struct {
	o         *scanOptions
	installed vulndb.Installed
	database  *match.Database
	progress  *progressLine
	stderr    io.Writer
}

// scannedSource is what a scan found; input states the image, and has no packages and findings.
type scannedSource struct {
	input    report.Input
	packages model.Catalog
	findings []model.Finding
}

// open opens the current database, and downloads one when none is installed.
func (o *scanOptions) open(ctx context.Context, stderr io.Writer) (*sourceScanner, error) {
	installed, err := o.installed(ctx, stderr)
	if err != nil {
		return nil, err
	}
	database, err := match.Open(installed)
	if err != nil {
		return nil, err
	}
	progress := newProgress(stderr)
	o.request.Warn = func(text string) {
		progress.end()
		_, _ = fmt.Fprintln(stderr, "Warning:", text)
	}
	return &sourceScanner{o, installed, database, progress, stderr}, nil
}

func (s *sourceScanner) close() error {
	s.progress.end()
	return s.database.Close()
}

// scan scans an image, or the SBOM in a file.
func (s *sourceScanner) scan(ctx context.Context, source string, sbomFile bool, statements *vex.Set) (*scannedSource, error) {
	one := &scannedSource{input: report.Input{ImageID: source, Build: &s.installed.Build, ToolVersion: version.String()}}
	sbom, err := s.o.sbom(ctx, source, sbomFile, s.database.Imports(), &one.input, s.progress)
	if err != nil {
		return nil, err
	}
	s.progress.report("match", 0, 0)
	result, err := s.database.Match(ctx, sbom)
	if err != nil {
		return nil, err
	}
	s.progress.end()
	one.packages = sbom.Catalog()
	one.findings = match.Findings(one.packages, result)
	one.input.Distro, one.input.MatchedAt = one.packages.Distro, time.Now()
	one.findings, err = s.o.vex.apply(ctx, statements, sbom.ImageNames(), one.findings, &one.input, s.stderr)
	return one, err
}

// parseFailOn returns nil when no severity was given.
func parseFailOn(text string) (*model.Severity, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no threshold is no error
	}
	severity, err := model.ParseSeverity(text)
	if err != nil {
		return nil, fmt.Errorf("--fail-on: %w", err)
	}
	return &severity, nil
}

// failOn prints how many findings reach the threshold and returns an exit code that differs from that of an error.
func failOn(findings []model.Finding, threshold *model.Severity, stderr io.Writer) error {
	if threshold == nil {
		return nil
	}
	count := 0
	for _, f := range findings {
		if f.Vulnerability.Severity >= *threshold {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(stderr, "Vulnerabilities of severity %s or higher: %d\n", threshold, count)
	return errFailOn
}

// installed returns the current database, and downloads one when none is installed. A sample database counts only with
// --sample-database: an image whose vulnerabilities it does not know would look as if it had none.
func (o *scanOptions) installed(ctx context.Context, stderr io.Writer) (vulndb.Installed, error) {
	library, end, err := o.database.open(stderr)
	if err != nil {
		return vulndb.Installed{}, err
	}
	usable := func() (vulndb.Installed, bool) {
		current, ok := library.Current()
		return current, ok && (o.database.sample || current.Build.Source != model.DatabaseSourceSample)
	}
	current, ok := usable()
	if !ok {
		_, updateErr := library.Update(ctx)
		end()
		if current, ok = usable(); !ok {
			err := fmt.Errorf("no vulnerability database is installed in %s: run \"db update\" or \"db import SOURCE\", or set --sample-database",
				o.database.libraryDir())
			if updateErr != nil {
				err = fmt.Errorf("%w (download failed: %w)", err, updateErr)
			}
			return vulndb.Installed{}, err
		}
	}
	switch {
	case current.Build.Source == model.DatabaseSourceSample:
		_, _ = fmt.Fprintln(stderr, "Warning: the scan uses the sample database, which contains only a few vulnerabilities.")
	case library.Status().Stale:
		_, _ = fmt.Fprintf(stderr, "Warning: the vulnerability database was built on %s; vulnerabilities published since then are missing. Run \"db update\".\n",
			current.Build.Built.Format(time.DateOnly))
	}
	return current, nil
}

// isSBOMFile distinguishes an SBOM from an image archive by the first character of the file. A reference with a digest is never
// a file, as for "catalog".
func isSBOMFile(source string) (bool, error) {
	if strings.Contains(source, "@sha256:") {
		return false, nil
	}
	info, err := os.Stat(source)
	if err != nil || !info.Mode().IsRegular() {
		if strings.EqualFold(filepath.Ext(source), ".json") {
			return false, fmt.Errorf("open the SBOM %s: no such file", source)
		}
		return false, nil
	}
	file, err := os.Open(source)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	start := make([]byte, 512)
	n, err := io.ReadFull(file, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", source, err)
	}
	return strings.HasPrefix(strings.TrimLeft(string(start[:n]), " \t\r\n"), "{"), nil
}

// sbom reads the SBOM or generates it from the image, and sets the fields of the report about the image.
func (o *scanOptions) sbom(
	ctx context.Context, source string, isFile bool, imports *match.Imports, input *report.Input, progress *progressLine,
) (*match.SBOM, error) {
	digest := sha256.New()
	var content io.Reader
	if isFile {
		file, err := os.Open(source)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		content = file
	} else {
		progress.report("pull and analyze", 0, 0)
		request := o.request
		request.Image, request.CAFile = source, o.database.caFile
		var err error
		if request.Registries, err = configuredRegistries(); err != nil {
			return nil, err
		}
		result, err := catalog.Run(ctx, request)
		if err != nil {
			return nil, err
		}
		input.ImageID, input.Platform = pinned(source, result.ManifestDigest), result.Platform
		content = bytes.NewReader(result.SBOM)
	}
	sbom, err := match.Decode(io.TeeReader(content, digest), match.DecodeLimits{}, imports)
	if err != nil {
		return nil, fmt.Errorf("read the SBOM of %s: %w", source, err)
	}
	input.SBOMSHA256 = hex.EncodeToString(digest.Sum(nil))
	return sbom, nil
}

// pinned resolves the tag of an image reference to the digest. It returns paths and references with a digest unchanged.
func pinned(source, digest string) string {
	if _, err := os.Stat(source); err == nil || digest == "" || strings.Contains(source, "@") {
		return source
	}
	for _, prefix := range []string{"oci-dir:", "oci-archive:", "docker-archive:"} { // the prefixes of paths in package catalog
		if strings.HasPrefix(source, prefix) {
			return source
		}
	}
	tag, err := name.NewTag(source)
	if err != nil {
		return source
	}
	return tag.Context().Name() + "@" + digest
}

// each iterates over a list, as reports read their input.
func each[T any](list []T) func(yield func(T) error) error {
	return func(yield func(T) error) error {
		for _, element := range list {
			if err := yield(element); err != nil {
				return err
			}
		}
		return nil
	}
}
