package match

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/match"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// ErrClosed is returned by a Database that was closed.
var ErrClosed = errors.New("the vulnerability database is closed")

// Database is an open vulnerability database. Its methods may be called from several goroutines.
//
// What it remembers of the database is bounded, to some 100 MB of the official one when all bounds are reached, whatever the
// number of packages: records of packages and of CPEs, vulnerabilities, their decorations, and what packages say about others.
// Prepared statements would not help: the driver compiles the text of a statement whenever it runs.
type Database struct {
	build model.DatabaseBuild
	store *store
	// matchers makes the matchers of a run. Grype does not promise that they may be shared.
	matchers func() []match.Matcher
	// ignoreFilters caches the ignore filters of related packages, by fingerprint.
	ignoreFilters *cache[string, *ignoreFilters]

	// mu is held for reading while the database is in use, so that Close waits.
	mu     sync.RWMutex
	closed bool
}

// maxIgnoreFilters bounds the cached filters, of some 200 bytes each.
const maxIgnoreFilters = 50_000

// Open opens an installed database for reading. Several builds may be open at once, each in its own folder.
func Open(installed vulndb.Installed) (*Database, error) {
	reader, err := v6.NewReader(v6.Config{DBDirPath: installed.SQLiteDir()})
	if err != nil {
		return nil, fmt.Errorf("open the vulnerability database in %s: %w", installed.Dir, err)
	}
	store, err := newStore(reader)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the vulnerability database in %s: %w", installed.Dir, err), reader.Close())
	}
	return &Database{
		build: installed.Build, store: store, matchers: newMatchers, ignoreFilters: newCache[string, *ignoreFilters](maxIgnoreFilters),
	}, nil
}

// Imports are those that advisories of the database name, for Decode.
func (d *Database) Imports() *Imports { return d.store.imports }

// Build describes the database.
func (d *Database) Build() model.DatabaseBuild { return d.build }

// Close waits for running matches, then releases the files and all that was remembered of them. Closing twice is harmless.
func (d *Database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.ignoreFilters.clear()
	if err := d.store.Close(); err != nil {
		return fmt.Errorf("close the vulnerability database %s: %w", d.build.ID, err)
	}
	return nil
}

// Match finds the vulnerabilities of all packages of an SBOM that take part in matching, each distinct package once. The SBOM must
// have been decoded with the imports of this database.
// An error means that nothing is known: neither a database that cannot be read nor a package that cannot be matched ever
// looks like an image without findings.
func (d *Database) Match(ctx context.Context, s *SBOM) (model.MatchResult, error) {
	if s.catalog.Symbols == model.SymbolsLeftOut {
		return model.MatchResult{}, errors.New("the SBOM was decoded without the imports that the vulnerability database names")
	}
	packages := make([]model.Package, 0, len(s.catalog.Packages))
	for _, held := range s.catalog.Packages {
		if !held.Excluded {
			packages = append(packages, held.Package)
		}
	}
	answers, err := d.MatchPackages(ctx, packages)
	if err != nil {
		return model.MatchResult{}, err
	}
	result := model.MatchResult{Packages: make(map[string][]model.PackageFinding, len(packages))}
	for i := range packages {
		p := &packages[i]
		answer := answers[p.Fingerprint]
		if answer.Failure != "" {
			return model.MatchResult{}, fmt.Errorf("match package %s %s (%s): %s", p.Name, p.Version, p.Type, answer.Failure)
		}
		result.Packages[p.Fingerprint] = answer.Findings
	}
	return result, nil
}

// MatchPackages finds the vulnerabilities of packages, each in the context of its MatchInput, and answers by
// fingerprint. Packages with the same fingerprint are matched once. A package that cannot be matched has a Failure and does not
// disturb the others; an error means that the database cannot be read or that ctx ended, and that nothing is known.
func (d *Database) MatchPackages(ctx context.Context, packages []model.Package) (map[string]model.PackageAnswer, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return nil, ErrClosed
	}
	run := d.newRun()
	out := make(map[string]model.PackageAnswer, len(packages))
	for i := range packages {
		p := &packages[i]
		if _, done := out[p.Fingerprint]; done {
			continue
		}
		answer, err := run.answer(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("match package %s %s (%s): %w", p.Name, p.Version, p.Type, err)
		}
		out[p.Fingerprint] = answer
	}
	return out, nil
}
