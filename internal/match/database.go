package match

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/anchore/grype/grype"
	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/syft/syft/artifact"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// ErrClosed is returned by a Database that was closed.
var ErrClosed = errors.New("the vulnerability database is closed")

// Database is an open vulnerability database. Its methods may be called from several goroutines; matching does not
// become faster that way, since reading the database is serial within one process.
type Database struct {
	build    vuln.DatabaseBuild
	provider *provider

	// mu is held for reading while the database is in use, so that Close waits.
	mu     sync.RWMutex
	closed bool
}

// Open opens an installed database for reading. Several builds may be open at once, each in its own folder.
func Open(installed vulndb.Installed) (*Database, error) {
	reader, err := v6.NewReader(v6.Config{DBDirPath: installed.SQLiteDir()})
	if err != nil {
		return nil, fmt.Errorf("open the vulnerability database in %s: %w", installed.Dir, err)
	}
	provider, err := newProvider(reader)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the vulnerability database in %s: %w", installed.Dir, err), reader.Close())
	}
	return &Database{build: installed.Build, provider: provider}, nil
}

// Build describes the database.
func (d *Database) Build() vuln.DatabaseBuild { return d.build }

// Close waits for running matches, then releases the files. Closing twice is harmless.
func (d *Database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if err := d.provider.Close(); err != nil {
		return fmt.Errorf("close the vulnerability database %s: %w", d.build.ID, err)
	}
	return nil
}

// Match finds the vulnerabilities of all packages of an SBOM that take part in matching, each distinct package once.
// An error means that nothing is known: a database that cannot be read never looks like an image without findings.
func (d *Database) Match(ctx context.Context, s *SBOM) (vuln.MatchResult, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return vuln.MatchResult{}, ErrClosed
	}
	result := vuln.MatchResult{Packages: make(map[string][]vuln.PackageFinding, len(s.prints))}
	run := d.newRun()
	recorded := make(map[string]answers, len(s.prints))
	for _, held := range s.catalog.Packages {
		if held.Excluded {
			continue
		}
		findings, said, err := run.matchPackage(ctx, held.Package)
		if err != nil {
			return vuln.MatchResult{}, err
		}
		result.Packages[held.Package.Fingerprint] = findings
		recorded[held.Package.Fingerprint] = said
	}
	exclusions, err := run.exclusions(ctx, s, result.Packages, recorded)
	if err != nil {
		return vuln.MatchResult{}, err
	}
	result.Exclusions = exclusions
	return result, nil
}

// MatchPackages finds the vulnerabilities of packages without any image: by fingerprint, what Match would put into
// MatchResult.Packages. Packages with the same fingerprint are matched once.
func (d *Database) MatchPackages(ctx context.Context, packages []vuln.Package) (map[string][]vuln.PackageFinding, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, ErrClosed
	}
	run := d.newRun()
	out := make(map[string][]vuln.PackageFinding, len(packages))
	for _, p := range packages {
		if _, done := out[p.Fingerprint]; done {
			continue
		}
		findings, _, err := run.matchPackage(ctx, p)
		if err != nil {
			return nil, err
		}
		out[p.Fingerprint] = findings
	}
	return out, nil
}

// run is one pass over some packages. Matchers are made anew for each, since Grype does not promise that they may be
// shared.
type run struct {
	database *Database
	matchers []match.Matcher
	rules    []match.IgnoreRule
}

func (d *Database) newRun() *run {
	return &run{database: d, matchers: newMatchers(), rules: ignoreRules()}
}

// matchPackage matches one package on its own, rebuilt from its MatchInput, so that the same happens with and without
// an SBOM at hand.
func (r *run) matchPackage(ctx context.Context, p vuln.Package) ([]vuln.PackageFinding, answers, error) {
	restored, err := restorePackage(p)
	if err != nil {
		return nil, nil, err
	}
	said := answers{}
	matches, err := r.find(ctx, recordInto(r.matchers, said), []pkg.Package{restored})
	if err != nil {
		return nil, nil, fmt.Errorf("match package %s %s (%s): %w", p.Name, p.Version, p.Type, err)
	}
	findings, err := convertMatches(matches)
	if err != nil {
		return nil, nil, fmt.Errorf("read the matches of package %s %s (%s): %w", p.Name, p.Version, p.Type, err)
	}
	return findings, said, nil
}

// find lets Grype merge, rank and filter what the matchers say.
func (r *run) find(ctx context.Context, matchers []match.Matcher, packages []pkg.Package) ([]match.Match, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	failures := r.database.provider.failures.count()
	grypeMatcher := grype.VulnerabilityMatcher{
		VulnerabilityProvider: r.database.provider,
		Matchers:              matchers,
		IgnoreRules:           r.rules,
	}
	matches, _, err := grypeMatcher.FindMatchesContext(ctx, packages, pkg.Context{})
	if ctxErr := ctx.Err(); ctxErr != nil {
		// FindMatchesContext takes the end of a context for one of the errors that it may pass over.
		return nil, ctxErr
	}
	if err != nil {
		return nil, err
	}
	if err := r.database.provider.failures.since(failures); err != nil {
		return nil, fmt.Errorf("read the vulnerability database %s: %w", r.database.build.ID, err)
	}
	return matches.Sorted(), nil
}

// exclusions names the findings that Grype ignores in this image because of another of its packages. Grype decides:
// it sees the whole image, with the matchers' answers repeated.
func (r *run) exclusions(
	ctx context.Context, s *SBOM, found map[string][]vuln.PackageFinding, recorded map[string]answers,
) ([]vuln.Exclusion, error) {
	if !mayExclude(s, recorded) {
		return nil, nil
	}
	byPackage := make(map[pkg.ID]answers, len(s.packages))
	printOf := make(map[pkg.ID]string, len(s.packages))
	for i := range s.packages {
		byPackage[s.packages[i].ID] = recorded[s.prints[i]]
		printOf[s.packages[i].ID] = s.prints[i]
	}
	remaining, err := r.find(ctx, replay(r.matchers, byPackage), s.packages)
	if err != nil {
		return nil, err
	}
	// A package that is in the image twice keeps its finding when one of the two does.
	kept := make(map[vuln.Exclusion]struct{}, len(remaining))
	for _, m := range remaining {
		kept[vuln.Exclusion{
			Fingerprint:     printOf[m.Package.ID],
			VulnerabilityID: m.Vulnerability.ID,
			Namespace:       m.Vulnerability.Namespace,
		}] = struct{}{}
	}
	var out []vuln.Exclusion
	for _, fingerprint := range slices.Sorted(maps.Keys(found)) {
		for _, f := range found[fingerprint] {
			e := vuln.Exclusion{
				Fingerprint: fingerprint, VulnerabilityID: f.Vulnerability.ID, Namespace: f.Vulnerability.Namespace,
			}
			if _, ok := kept[e]; ok {
				continue
			}
			kept[e] = struct{}{} // named once is enough
			out = append(out, e)
		}
	}
	return out, nil
}

// mayExclude tells whether a package of the image can have a say about another one. Most images of applications need
// no second look.
func mayExclude(s *SBOM, recorded map[string]answers) bool {
	owned := slices.ContainsFunc(s.packages, func(p pkg.Package) bool {
		return len(p.RelatedPackages[artifact.OwnershipByFileOverlapRelationship]) > 0
	})
	for _, said := range recorded {
		for _, a := range said {
			for _, ignore := range a.ignores {
				if related, ok := ignore.(match.IgnoreRelatedPackage); !ok ||
					related.RelationshipType != artifact.OwnershipByFileOverlapRelationship || owned {
					return true
				}
			}
		}
	}
	return false
}
