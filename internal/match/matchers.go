package match

import (
	"regexp"
	"strings"

	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/matcher"
	"github.com/anchore/grype/grype/matcher/dpkg"
	"github.com/anchore/grype/grype/matcher/rpm"
	"github.com/anchore/grype/grype/matcher/stock"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/version"
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

// rulesFor returns the rules of ignoreRules that may apply to a package. Grype compiles the expressions in them for every
// match.
func rulesFor(rules []match.IgnoreRule, p *pkg.Package) []match.IgnoreRule {
	var out []match.IgnoreRule
	for _, rule := range rules {
		if rule.Package.Type != string(p.Type) {
			continue
		}
		if literal, _ := regexp.MustCompile(rule.Package.Name).LiteralPrefix(); strings.HasPrefix(p.Name, literal) {
			out = append(out, rule)
		}
	}
	return out
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
