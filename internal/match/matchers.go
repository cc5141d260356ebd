package match

import (
	"slices"

	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/matcher"
	"github.com/anchore/grype/grype/matcher/dpkg"
	"github.com/anchore/grype/grype/matcher/rpm"
	"github.com/anchore/grype/grype/matcher/stock"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/version"
	"github.com/anchore/grype/grype/vulnerability"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// newMatchers returns Grype's matchers as the grype command configures them by default. The search of Maven Central,
// which would leave the process, is off there as well.
func newMatchers() []match.Matcher {
	return matcher.NewDefaultMatchers(matcher.Config{
		Stock: stock.MatcherConfig{UseCPEs: true},
		Dpkg:  dpkg.MatcherConfig{MissingEpochStrategy: version.MissingEpochStrategyZero},
		Rpm:   rpm.MatcherConfig{MissingEpochStrategy: version.MissingEpochStrategyAuto},
	})
}

// ignoreRules returns the rules that the grype command applies by default: findings that a package of kernel headers
// would inherit from the kernel's source package say nothing about the headers.
func ignoreRules() []match.IgnoreRule {
	rule := func(name, upstream string, kind syftpkg.Type) match.IgnoreRule {
		return match.IgnoreRule{
			Package:   match.IgnoreRulePackage{Name: name, UpstreamName: upstream, Type: string(kind)},
			MatchType: match.ExactIndirectMatch,
		}
	}
	return []match.IgnoreRule{
		rule("kernel-headers", "kernel", syftpkg.RpmPkg),
		rule("linux(-.*)?-headers-.*", "linux.*", syftpkg.DebPkg),
		rule("linux-libc-dev", "linux", syftpkg.DebPkg),
		rule("linux-kbuild-.*", "linux.*", syftpkg.DebPkg),
	}
}

// answer is what one matcher said about one package.
type answer struct {
	matches []match.Match
	ignores []match.IgnoreFilter
}

// answers holds what every matcher said about a package.
type answers map[match.MatcherType]answer

// recorder asks a matcher and keeps a copy of the answer.
type recorder struct {
	match.Matcher
	into answers
}

func recordInto(matchers []match.Matcher, into answers) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = recorder{Matcher: m, into: into}
	}
	return out
}

// Match implements match.Matcher.
func (r recorder) Match(provider vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	matches, ignores, err := r.Matcher.Match(provider, p)
	// Grype uses what comes with an error that is not fatal.
	r.into[r.Type()] = answer{matches: cloneMatches(matches, p), ignores: slices.Clone(ignores)}
	return matches, ignores, err
}

// replayer repeats recorded answers for the packages of an image, as if the matcher had been asked about each.
type replayer struct {
	match.Matcher
	// byPackage finds the answers by the ID that the package has in the image.
	byPackage map[pkg.ID]answers
}

func replay(matchers []match.Matcher, byPackage map[pkg.ID]answers) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = replayer{Matcher: m, byPackage: byPackage}
	}
	return out
}

// Match implements match.Matcher.
func (r replayer) Match(_ vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	a := r.byPackage[p.ID][r.Type()]
	return cloneMatches(a.matches, p), rebindIgnores(a.ignores, p.ID), nil
}

// cloneMatches binds matches to a package. What Grype sorts or merges in place later is copied.
func cloneMatches(matches []match.Match, p pkg.Package) []match.Match {
	out := slices.Clone(matches)
	for i := range out {
		m := &out[i]
		m.Package = p
		m.Details = slices.Clone(m.Details)
		m.Vulnerability.RelatedVulnerabilities = slices.Clone(m.Vulnerability.RelatedVulnerabilities)
		m.Vulnerability.Fix.Versions = slices.Clone(m.Vulnerability.Fix.Versions)
		m.Vulnerability.CPEs = slices.Clone(m.Vulnerability.CPEs)
	}
	return out
}

// rebindIgnores makes rules that speak of the recorded package speak of the package in the image.
func rebindIgnores(ignores []match.IgnoreFilter, id pkg.ID) []match.IgnoreFilter {
	out := slices.Clone(ignores)
	for i, ignore := range out {
		if related, ok := ignore.(match.IgnoreRelatedPackage); ok {
			related.RelatedPackageID = id
			out[i] = related
		}
	}
	return out
}
