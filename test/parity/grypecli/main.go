// Command grypebatch does to many SBOMs what the grype command does to one, so that the start of a process and the opening
// of the database are paid for once. It is Grype's code with the command's defaults and none of ours: TestParity holds its
// reports against those of the command.
//
//	grypebatch <folder of the database> < list of SBOM files > one JSON answer per line
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/anchore/clio"
	"github.com/anchore/grype/cmd/grype/cli/options"
	"github.com/anchore/grype/grype"
	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/matcher"
	"github.com/anchore/grype/grype/matcher/dotnet"
	"github.com/anchore/grype/grype/matcher/dpkg"
	"github.com/anchore/grype/grype/matcher/golang"
	"github.com/anchore/grype/grype/matcher/hex"
	"github.com/anchore/grype/grype/matcher/java"
	"github.com/anchore/grype/grype/matcher/javascript"
	"github.com/anchore/grype/grype/matcher/python"
	"github.com/anchore/grype/grype/matcher/rpm"
	"github.com/anchore/grype/grype/matcher/ruby"
	"github.com/anchore/grype/grype/matcher/stock"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/presenter/models"
	"github.com/anchore/grype/grype/vulnerability"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// answer is one line of the output.
type answer struct {
	// Error is set when Grype has no report: the command would end with it, or with a panic.
	Error  string           `json:"error,omitempty"`
	Report *models.Document `json:"report,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: grypebatch <folder of the database>")
	}
	if err := run(os.Args[1]); err != nil {
		fail(err.Error())
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, "grypebatch:", message)
	os.Exit(1)
}

func run(database string) error {
	id := clio.Identification{Name: "grype"}
	opts := options.DefaultGrype(id)
	opts.DB.Dir = database
	opts.DB.ValidateAge = false
	opts.Ignore = append(opts.Ignore, ignoreLinuxKernelHeaders...)
	provider, status, err := grype.LoadVulnerabilityDB(opts.ToClientConfig(), opts.ToCuratorConfig(), false)
	if err != nil {
		return err
	}
	if status.Error != nil {
		return status.Error
	}
	scan := scanner{id: id, opts: opts, provider: provider}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := encoder.Encode(scan.sbom(in.Text())); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}

type scanner struct {
	id       clio.Identification
	opts     *options.Grype
	provider vulnerability.Provider
}

// quiet leaves out what the matcher asks for only to count severities for a progress bar, four queries for each match.
type quiet struct{ vulnerability.Provider }

// VulnerabilityMetadata answers nothing.
func (quiet) VulnerabilityMetadata(vulnerability.Reference) (*vulnerability.Metadata, error) {
	return nil, nil
}

// sbom does the steps of the command's runGrype.
func (s scanner) sbom(file string) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	packages, context, _, err := pkg.Provide("sbom:"+file, providerConfig())
	if err != nil {
		return answer{Error: err.Error()}
	}
	document, err := s.document(packages, context)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Report: document}
}

func (s scanner) document(packages []pkg.Package, about pkg.Context) (*models.Document, error) {
	vulnerabilityMatcher := grype.VulnerabilityMatcher{
		VulnerabilityProvider: quiet{s.provider},
		IgnoreRules:           s.opts.Ignore,
		NormalizeByCVE:        s.opts.ByCVE,
		FailSeverity:          s.opts.FailOnSeverity(),
		Matchers:              matcher.NewDefaultMatchers(matcherConfig(s.opts)),
		Alerts:                grype.AlertsConfig{EnableEOLDistroWarnings: s.opts.Alerts.EnableEOLDistroWarnings},
	}
	remaining, ignored, err := vulnerabilityMatcher.FindMatchesContext(context.Background(), packages, about)
	if err != nil {
		return nil, err
	}
	document, err := models.NewDocument(s.id, packages, about, *remaining, ignored, s.provider, nil, nil,
		models.SortStrategy(s.opts.SortBy.Criteria), s.opts.Timestamp, nil)
	if err != nil {
		return nil, err
	}
	return &document, nil
}

// providerConfig is the command's for an SBOM: what steers Syft's catalogers is not used then.
func providerConfig() pkg.ProviderConfig {
	return pkg.ProviderConfig{SynthesisConfig: pkg.SynthesisConfig{
		Distro: pkg.DistroConfig{FixChannels: distro.DefaultFixChannels()},
	}}
}

// matcherConfig is the command's getMatcherConfig.
func matcherConfig(opts *options.Grype) matcher.Config {
	return matcher.Config{
		Java: java.MatcherConfig{
			ExternalSearchConfig: opts.ExternalSources.ToJavaMatcherConfig(),
			UseCPEs:              opts.Match.Java.UseCPEs,
		},
		Ruby:       ruby.MatcherConfig(opts.Match.Ruby),
		Python:     python.MatcherConfig(opts.Match.Python),
		Dotnet:     dotnet.MatcherConfig(opts.Match.Dotnet),
		Javascript: javascript.MatcherConfig(opts.Match.Javascript),
		Golang: golang.MatcherConfig{
			UseCPEs:                                opts.Match.Golang.UseCPEs,
			AlwaysUseCPEForStdlib:                  opts.Match.Golang.AlwaysUseCPEForStdlib,
			AllowMainModulePseudoVersionComparison: opts.Match.Golang.AllowMainModulePseudoVersionComparison,
		},
		Hex:   hex.MatcherConfig(opts.Match.Hex),
		Stock: stock.MatcherConfig(opts.Match.Stock),
		Dpkg: dpkg.MatcherConfig{
			MissingEpochStrategy: opts.Match.Dpkg.MissingEpochStrategy,
			UseCPEsForEOL:        opts.Match.Dpkg.UseCPEsForEOL,
		},
		Rpm: rpm.MatcherConfig{
			MissingEpochStrategy: opts.Match.Rpm.MissingEpochStrategy,
			UseCPEsForEOL:        opts.Match.Rpm.UseCPEsForEOL,
		},
	}
}

// ignoreLinuxKernelHeaders is the command's variable of that name.
var ignoreLinuxKernelHeaders = []match.IgnoreRule{
	{Package: match.IgnoreRulePackage{Name: "kernel-headers", UpstreamName: "kernel", Type: string(syftpkg.RpmPkg)}, MatchType: match.ExactIndirectMatch},
	{Package: match.IgnoreRulePackage{Name: "linux(-.*)?-headers-.*", UpstreamName: "linux.*", Type: string(syftpkg.DebPkg)}, MatchType: match.ExactIndirectMatch},
	{Package: match.IgnoreRulePackage{Name: "linux-libc-dev", UpstreamName: "linux", Type: string(syftpkg.DebPkg)}, MatchType: match.ExactIndirectMatch},
	{Package: match.IgnoreRulePackage{Name: "linux-kbuild-.*", UpstreamName: "linux.*", Type: string(syftpkg.DebPkg)}, MatchType: match.ExactIndirectMatch},
}
