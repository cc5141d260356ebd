package match

import (
	"fmt"
	"slices"

	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/vulnerability"
	"github.com/anchore/syft/syft/artifact"
)

// statement is what a package says about others: the vulnerabilities that its matchers rule out. It does not change once
// it is made.
type statement struct {
	filters map[match.MatcherType][]match.IgnoreFilter
	keys    searchKeys
}

// size counts what a statement holds.
func (s *statement) size() int {
	n := 1 + len(s.keys)
	for _, filters := range s.filters {
		n += len(filters)
	}
	return n
}

// guard lets matchers answer only in ways that a unit's context accounts for.
type guard struct{ match.Matcher }

// Match implements match.Matcher. A filter that may reach packages outside of a unit's context is an error: what it silences
// there would be reported.
func (g guard) Match(provider vulnerability.Provider, p pkg.Package) (matches []match.Match, filters []match.IgnoreFilter, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			matches, filters, err = nil, nil, match.NewFatalError(g.Type(), fmt.Errorf("panic: %v", cause))
		}
	}()
	matches, filters, err = g.Matcher.Match(provider, p)
	for _, filter := range filters {
		if !accountedFor(filter, &p) {
			return nil, nil, match.NewFatalError(g.Type(), fmt.Errorf("a rule of an unknown kind: %T %+v", filter, filter))
		}
	}
	return matches, filters, err
}

// accountedFor says whether a filter reaches no other packages than those whose context the emitting package belongs to.
func accountedFor(filter match.IgnoreFilter, from *pkg.Package) bool {
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

// listener writes down what a matcher rules out.
type listener struct {
	guard
	said *statement
}

func listenTo(matchers []match.Matcher, said *statement) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = listener{guard{m}, said}
	}
	return out
}

// Match implements match.Matcher.
func (l listener) Match(provider vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	_, filters, err := l.guard.Match(provider, p)
	if len(filters) > 0 {
		l.said.filters[l.Type()] = slices.Clone(filters)
	}
	return nil, nil, err
}

// repeater lets packages of the context repeat what they rule out, without findings of their own.
type repeater struct {
	guard
	context map[pkg.ID]*statement
}

func inContext(matchers []match.Matcher, context map[pkg.ID]*statement) []match.Matcher {
	out := make([]match.Matcher, len(matchers))
	for i, m := range matchers {
		out[i] = repeater{guard{m}, context}
	}
	return out
}

// Match implements match.Matcher.
func (r repeater) Match(provider vulnerability.Provider, p pkg.Package) ([]match.Match, []match.IgnoreFilter, error) {
	if said, ok := r.context[p.ID]; ok {
		return nil, slices.Clone(said.filters[r.Type()]), nil
	}
	return r.guard.Match(provider, p)
}
