package match

import (
	"fmt"
	"slices"

	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/vulnerability"
	"github.com/anchore/syft/syft/artifact"
)

// ignoreFilters are the filters that the matchers return for a package: they suppress vulnerabilities of other packages of the image.
// They do not change after creation.
type ignoreFilters struct {
	filters map[match.MatcherType][]match.IgnoreFilter
	keys    searchKeys
}

// size counts the keys and filters, for the cache.
func (s *ignoreFilters) size() int {
	n := 1 + len(s.keys)
	for _, filters := range s.filters {
		n += len(filters)
	}
	return n
}

// guard rejects filters that the context of a unit does not cover, and panics of matchers.
type guard struct{ match.Matcher }

// Match implements match.Matcher. A filter that may apply to packages outside the context of a unit is an error, because the
// vulnerabilities that it suppresses there would be reported.
func (g guard) Match(provider vulnerability.Provider, p pkg.Package) (matches []match.Match, filters []match.IgnoreFilter, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			matches, filters, err = nil, nil, match.NewFatalError(g.Type(), fmt.Errorf("panic: %v", cause))
		}
	}()
	matches, filters, err = g.Matcher.Match(provider, p)
	for _, filter := range filters {
		if !coveredByContext(filter, &p) {
			return nil, nil, match.NewFatalError(g.Type(), fmt.Errorf("unknown kind of ignore rule: %T %+v", filter, filter))
		}
	}
	return matches, filters, err
}

// coveredByContext reports whether a filter applies only to packages whose context contains the package that it is from.
func coveredByContext(filter match.IgnoreFilter, from *pkg.Package) bool {
	switch rule := filter.(type) {
	case match.IgnoreRelatedPackage:
		return rule.RelationshipType == artifact.OwnershipByFileOverlapRelationship && rule.RelatedPackageID == from.ID
	case match.IgnoreRule:
		return from.Type != "" && from.Name != "" && rule == match.IgnoreRule{
			Vulnerability: rule.Vulnerability, IncludeAliases: rule.IncludeAliases, Reason: rule.Reason,
			Package: match.IgnoreRulePackage{Type: string(from.Type), Name: from.Name, Version: from.Version},
		}
	default:
		return false
	}
}

// filterRecorder records the filters that a matcher returns, and discards its matches.
type filterRecorder struct {
	guard
	filters *ignoreFilters
}

func recordFilters(matchers []match.Matcher, filters *ignoreFilters) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = filterRecorder{guard{m}, filters}
	}
	return out
}

// Match implements match.Matcher.
func (l filterRecorder) Match(provider vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	_, filters, err := l.guard.Match(provider, p)
	if len(filters) > 0 {
		l.filters.filters[l.Type()] = slices.Clone(filters)
	}
	return nil, nil, err
}

// filterReplayer returns the recorded filters for the packages of the context, without matches of their own.
type filterReplayer struct {
	guard
	context map[pkg.ID]*ignoreFilters
}

func replayFilters(matchers []match.Matcher, context map[pkg.ID]*ignoreFilters) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = filterReplayer{guard{m}, context}
	}
	return out
}

// Match implements match.Matcher.
func (r filterReplayer) Match(provider vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	if recorded, ok := r.context[p.ID]; ok {
		return nil, slices.Clone(recorded.filters[r.Type()]), nil
	}
	return r.guard.Match(provider, p)
}
