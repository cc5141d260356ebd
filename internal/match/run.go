package match

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/anchore/grype/grype"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxFailure bounds the text of a failure in bytes.
const maxFailure = 1 << 10

// run is one pass over some packages, by one goroutine.
type run struct {
	database *Database
	reader   *reader
	provider *provider
	matchers []match.Matcher
	rules    []match.IgnoreRule
}

func (d *Database) newRun() *run {
	r := &reader{store: d.store}
	return &run{database: d, reader: r, provider: newProvider(r), matchers: d.matchers(), rules: ignoreRules()}
}

// errDatabase is wrapped by errors that are not the fault of a package.
var errDatabase = errors.New("the vulnerability database cannot be read")

// answer matches one package in its context. An error is not the fault of the package.
func (r *run) answer(ctx context.Context, p *model.Package) (model.PackageAnswer, error) {
	findings, keys, err := r.match(ctx, p)
	if ctxErr := ctx.Err(); ctxErr != nil {
		return model.PackageAnswer{}, ctxErr
	}
	if errors.Is(err, errDatabase) {
		return model.PackageAnswer{}, err
	}
	if err != nil {
		return model.PackageAnswer{Failure: truncate.Text(err.Error(), maxFailure)}, nil
	}
	return model.PackageAnswer{Findings: findings, SearchKeys: slices.Sorted(maps.Keys(keys))}, nil
}

// match asks the packages of the context for what they rule out, and lets Grype apply it to what it finds for the package
// itself.
func (r *run) match(ctx context.Context, p *model.Package) (findings []model.PackageFinding, keys searchKeys, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	restored, err := restoreUnit(*p)
	if err != nil {
		return nil, nil, err
	}
	keys = searchKeys{}
	context := make(map[pkg.ID]*ignoreFilters, len(restored.context))
	for _, other := range restored.context {
		filters, err := r.filtersOf(ctx, other)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(keys, filters.keys)
		context[other.ID] = filters
	}
	matches, err := r.find(ctx, keys, replayFilters(r.matchers, context), append([]pkg.Package{restored.subject}, restored.context...))
	if err != nil {
		return nil, nil, err
	}
	findings, err = convertMatches(matches)
	return findings, keys, err
}

// filtersOf returns the ignore filters of a package, from the cache if possible.
func (r *run) filtersOf(ctx context.Context, p pkg.Package) (*ignoreFilters, error) {
	if known, ok := r.database.ignoreFilters.get(string(p.ID)); ok {
		return known, nil
	}
	filters := &ignoreFilters{keys: searchKeys{}, filters: map[match.MatcherType][]match.IgnoreFilter{}}
	if _, err := r.find(ctx, filters.keys, recordFilters(r.matchers, filters), []pkg.Package{p}); err != nil {
		return nil, fmt.Errorf("match the package %s %s (%s), which owns the files of another package or has the same name: %w", p.Name, p.Version, p.Type, err)
	}
	r.database.ignoreFilters.put(string(p.ID), filters, filters.size())
	return filters, nil
}

// find lets Grype merge, rank and filter what the matchers say of the first package, and adds what they asked for to keys.
// The others have no findings.
func (r *run) find(ctx context.Context, keys searchKeys, matchers []match.Matcher, packages []pkg.Package) ([]match.Match, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.reader.begin(keys)
	failures := r.database.store.failures.count()
	grypeMatcher := grype.VulnerabilityMatcher{
		VulnerabilityProvider: r.provider, Matchers: matchers, IgnoreRules: rulesFor(r.rules, &packages[0]),
	}
	matches, _, err := grypeMatcher.FindMatchesContext(ctx, packages, pkg.Context{})
	if ctxErr := ctx.Err(); ctxErr != nil {
		// FindMatchesContext takes the end of a context for one of the errors that it may pass over.
		return nil, ctxErr
	}
	if failure := r.database.store.failures.since(failures); failure != nil {
		return nil, fmt.Errorf("%w: build %s: %w", errDatabase, r.database.build.ID, failure)
	}
	if err := errors.Join(err, r.reader.refused); err != nil {
		return nil, err
	}
	return matches.Sorted(), nil
}
