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

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/version"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// errFailOn is the exit code when there are findings as bad as --fail-on names; 1 means that nothing is known.
const errFailOn exitError = 2

type scanOptions struct {
	request  catalog.Request
	database dbOptions
	platform string
	output   string
	failOn   string
}

func newScanCommand() *cobra.Command {
	// The formats of "db" do not concern the scan; "table" passes its check.
	o := &scanOptions{database: dbOptions{output: "table"}}
	command := &cobra.Command{
		Use:   "scan IMAGE|FILE.tar|OCI-DIR|SBOM.json",
		Short: "Find the vulnerabilities of one image, without a cluster",
		Long: `Find the vulnerabilities of one image, without a cluster and without configuration. IMAGE is pulled from its registry
by tag or digest; a docker or OCI archive, an OCI layout folder and an SBOM (syft-json) are read from disk.

The vulnerability database is the one that "db" looks after. When there is none, the official one is fetched first.

The exit code is 0 when all went well, 1 after an error, and 2 when --fail-on was reached.`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			err := o.run(command.Context(), args[0], command.OutOrStdout(), command.ErrOrStderr())
			if err != nil && command.Context().Err() != nil {
				return errors.New("interrupted") // whatever failed because of it
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.output, "output", "o", string(report.FormatTable), "output format: "+report.Formats())
	flags.StringVar(&o.failOn, "fail-on", "", "exit with code 2 when a vulnerability is of this severity or worse: negligible, low, medium, high or critical")
	flags.StringVar(&o.platform, "platform", "", "platform of the image as os/architecture[/variant] (default linux on this machine's architecture for an index)")
	flags.StringVar(&o.database.dir, "db-dir", defaultDBDir(), "data directory; databases are kept below it in \"db\"")
	flags.StringVar(&o.database.updateURL, "update-url", "", "where Grype's v6/latest.json is (default: Grype's own; \"none\": nowhere)")
	flags.BoolVar(&o.database.sample, "sample", false, "use the built-in sample database while no other can be had")
	flags.StringArrayVar(&o.request.DockerConfigs, "docker-config", nil, "docker configuration file with credentials; may be repeated, all that fit are tried")
	flags.StringArrayVar(&o.request.PlainHTTP, "plain-http-registry", nil, "registry (host or host:port) that may be asked without TLS; loopback always may; may be repeated")
	flags.StringArrayVar(&o.request.TokenHosts, "token-host", nil, "host outside of the registry's own domain whose token service may receive credentials; may be repeated")
	flags.StringVar(&o.database.caFile, "ca-file", "", "PEM bundle to trust for registries and the database, besides the system's")
	flags.DurationVar(&o.request.Limits.Timeout, "timeout", catalog.DefaultLimits().Timeout, "most time for pulling and cataloguing the image")
	return command
}

// run does what takes no time first: wrong flags and missing files are told before anything is fetched.
func (o *scanOptions) run(ctx context.Context, source string, stdout, stderr io.Writer) (err error) {
	format, err := report.ParseFormat(o.output)
	if err != nil {
		return err
	}
	threshold, err := parseFailOn(o.failOn)
	if err != nil {
		return err
	}
	if o.platform != "" {
		if o.request.Platform, err = vuln.ParsePlatform(o.platform); err != nil {
			return fmt.Errorf("--platform: %w", err)
		}
	}
	sbomFile, err := isSBOMFile(source)
	if err != nil {
		return err
	}
	installed, err := o.installed(ctx, stderr)
	if err != nil {
		return err
	}
	database, err := match.Open(installed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()

	input := report.Input{ImageID: source, Build: &installed.Build, ToolVersion: version.String()}
	progress := newProgress(stderr)
	defer progress.end()
	sbom, err := o.sbom(ctx, source, sbomFile, &input, progress)
	if err != nil {
		return err
	}
	progress.report("match", 0, 0)
	result, err := database.Match(ctx, sbom)
	if err != nil {
		return err
	}
	progress.end()
	held := sbom.Catalog()
	findings := match.Findings(held, result)
	input.Distro, input.MatchedAt = held.Distro, time.Now()
	input.Packages, input.Findings = each(held.Packages), each(findings)
	if err := report.Write(stdout, format, input); err != nil {
		return err
	}
	return failOn(findings, threshold, stderr)
}

// parseFailOn returns nil when no severity was given.
func parseFailOn(text string) (*vuln.Severity, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no threshold is no error
	}
	severity, err := vuln.ParseSeverity(text)
	if err != nil {
		return nil, fmt.Errorf("--fail-on: %w", err)
	}
	return &severity, nil
}

// failOn says how many findings reach the threshold, as an exit code that scripts can tell from a failure.
func failOn(findings []vuln.Finding, threshold *vuln.Severity, stderr io.Writer) error {
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
	_, _ = fmt.Fprintf(stderr, "Vulnerabilities of severity %s or worse: %d\n", threshold, count)
	return errFailOn
}

// installed returns the database to use, and fetches one when there is none. A sample that is left from elsewhere does
// not count unless it is asked for: what it does not know would look like an image without vulnerabilities.
func (o *scanOptions) installed(ctx context.Context, stderr io.Writer) (vulndb.Installed, error) {
	library, end, err := o.database.open(stderr)
	if err != nil {
		return vulndb.Installed{}, err
	}
	usable := func() (vulndb.Installed, bool) {
		current, ok := library.Current()
		return current, ok && (o.database.sample || current.Build.Source != vuln.DatabaseSourceSample)
	}
	current, ok := usable()
	if !ok {
		_, updateErr := library.Update(ctx)
		end()
		if current, ok = usable(); !ok {
			err := fmt.Errorf("there is no vulnerability database in %s: run \"db update\" or \"db import FILE\", or give --sample", o.database.dir)
			if updateErr != nil {
				err = fmt.Errorf("%w (fetching one failed: %w)", err, updateErr)
			}
			return vulndb.Installed{}, err
		}
	}
	switch {
	case current.Build.Source == vuln.DatabaseSourceSample:
		_, _ = fmt.Fprintln(stderr, "The sample database is used: it knows a few vulnerabilities only.")
	case library.Status().Stale:
		_, _ = fmt.Fprintf(stderr, "The vulnerability database is of %s: new vulnerabilities are missing. \"db update\" fetches a newer one.\n",
			current.Build.Built.Format(time.DateOnly))
	}
	return current, nil
}

// isSBOMFile tells an SBOM from an image on disk by its first character. What names a digest is never a file, as for
// "catalog".
func isSBOMFile(source string) (bool, error) {
	if strings.Contains(source, "@sha256:") {
		return false, nil
	}
	info, err := os.Stat(source)
	if err != nil || !info.Mode().IsRegular() {
		if strings.EqualFold(filepath.Ext(source), ".json") {
			return false, fmt.Errorf("%s is not a file that can be read as an SBOM", source)
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

// sbom reads the SBOM or makes one, and completes what the report says about the image.
func (o *scanOptions) sbom(ctx context.Context, source string, isFile bool, input *report.Input, progress *progressLine) (*match.SBOM, error) {
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
		progress.report("pull and catalogue", 0, 0)
		request := o.request
		request.Image, request.CAFile = source, o.database.caFile
		result, err := catalog.Run(ctx, request)
		if err != nil {
			return nil, err
		}
		input.ImageID, input.Platform = pinned(source, result.ManifestDigest), result.Platform
		content = bytes.NewReader(result.SBOM)
	}
	sbom, err := match.Decode(io.TeeReader(content, digest), match.DecodeLimits{})
	if err != nil {
		return nil, fmt.Errorf("read the SBOM of %s: %w", source, err)
	}
	input.SBOMSHA256 = hex.EncodeToString(digest.Sum(nil))
	return sbom, nil
}

// pinned names the image that a tag stood for. Paths and digests stay as they are.
func pinned(source, digest string) string {
	if _, err := os.Stat(source); err == nil || digest == "" || strings.Contains(source, "@") {
		return source
	}
	for _, prefix := range []string{"oci-dir:", "oci-archive:", "docker-archive:"} { // what "catalog" knows as paths
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

// each is the form in which reports read their input.
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
