package parity_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

const (
	// defaultRandom is the number of random SBOMs per database.
	defaultRandom = 1000
	// randomWorkers is how many processes of Grype's run at a time.
	randomWorkers = 2
	// unitBatch is how many packages are matched together, apart from their images.
	unitBatch = 50
	// maxReported bounds the differences that are looked into.
	maxReported = 3
)

// number reads a setting.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is no number", variable, text)
	}
	return n
}

// TestRandomParity compares random SBOMs. SCANNER_PARITY_RANDOM is their number per database, SCANNER_PARITY_SEED the seed,
// and SCANNER_PARITY_FIRST the index of the first one, to repeat a failure.
func TestRandomParity(t *testing.T) {
	count := number(t, "SCANNER_PARITY_RANDOM", defaultRandom)
	seed := number(t, "SCANNER_PARITY_SEED", 1)
	first := number(t, "SCANNER_PARITY_FIRST", 0)
	for name, installed := range databases(t) {
		t.Run(name, func(t *testing.T) {
			pool, err := sbomgen.ReadPool(t.Context(), installed.SQLiteDir())
			if err != nil {
				t.Fatal(err)
			}
			r := &random{
				installed: installed, generator: sbomgen.New(pool, uint64(seed)), database: openDatabase(t, installed),
				units: map[string][sha256.Size]byte{},
			}
			r.next.Store(int64(first))
			r.last = int64(first + count)
			var workers sync.WaitGroup
			for range randomWorkers {
				w := &randomWorker{T: t, random: r, grype: startStandIn(t, installed)}
				workers.Go(w.run)
			}
			workers.Wait()
			t.Logf("%d SBOMs with %d different units: %d matches, %d SBOMs that neither Grype nor we take",
				count, len(r.units), r.matches.Load(), r.refused.Load())
			if r.matches.Load() == 0 && count > 0 {
				t.Error("nothing matched at all; the comparison says nothing")
			}
			if t.Failed() {
				t.Logf("seed %d: repeat one with SCANNER_PARITY_SEED=%d SCANNER_PARITY_FIRST=<index> SCANNER_PARITY_RANDOM=1", seed, seed)
			}
		})
	}
}

// random is what the workers share.
type random struct {
	installed vulndb.Installed
	generator *sbomgen.Generator
	database  *match.Database

	next     atomic.Int64
	last     int64
	matches  atomic.Int64
	refused  atomic.Int64
	reported atomic.Int64

	mu sync.Mutex
	// units holds a digest of what was found for every unit, in whatever image it was.
	units map[string][sha256.Size]byte
}

// freshUnit is a package that no image had before, with what was found in the first one.
type freshUnit struct {
	vuln.Package
	found string
}

type randomWorker struct {
	*testing.T
	random *random
	grype  *standIn
	// fresh waits to be matched without an image.
	fresh []freshUnit
}

func (w *randomWorker) run() {
	for {
		index := w.random.next.Add(1) - 1
		if index >= w.random.last || w.random.reported.Load() >= maxReported {
			break
		}
		document := w.random.generator.Document(int(index))
		diff, err := w.compare(document, true)
		if err != nil {
			w.Errorf("SBOM %d: %v", index, err)
			w.random.reported.Store(maxReported)
			return
		}
		if diff != "" {
			w.random.reported.Add(1)
			w.report(index, document, diff)
		}
		if len(w.fresh) >= 4*unitBatch {
			w.matchUnits()
		}
	}
	w.matchUnits()
}

// compare says in what Grype and we differ on an SBOM.
func (w *randomWorker) compare(document sbomgen.Document, count bool) (string, error) {
	sbom, err := document.Encode()
	if err != nil {
		return "", err
	}
	if err := w.grype.ask(sbom); err != nil {
		return "", err
	}
	// Grype works meanwhile.
	findings, catalog, ourErr := findings(w.T, w.random.database, sbom)
	raw, err := w.grype.answer()
	switch {
	case errors.Is(err, errGrypeFails) && ourErr != nil:
		w.random.refused.Add(1)
		return "", nil
	case errors.Is(err, errGrypeFails):
		return fmt.Sprintf("%v, and we have one", err), nil
	case err != nil:
		return "", err
	case ourErr != nil:
		return fmt.Sprintf("grype has a report, and we fail: %v", ourErr), nil
	}
	theirs := readReport(w.T, raw)
	if count {
		w.random.matches.Add(int64(len(theirs.Matches)))
		w.noteUnits(catalog, findings)
		checkScores(w.T, w.random.database, findings)
	}
	return difference(rows(w.T, grypeRows(w.T, theirs)), rows(w.T, ourRows(w.T, findings))), nil
}

// report makes a differing SBOM as small as it can be and keeps it.
func (w *randomWorker) report(index int64, document sbomgen.Document, diff string) {
	w.Helper()
	for i := len(document.Packages) - 1; i >= 0; i-- {
		smaller := document.Without(i)
		if d, err := w.compare(smaller, false); err == nil && d != "" {
			document, diff = smaller, d
		}
	}
	sbom, err := document.Encode()
	if err != nil {
		w.Error(err)
		return
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("parity-%s.json", document.Name))
	if err := os.WriteFile(file, sbom, 0o600); err != nil {
		w.Error(err)
	}
	w.Errorf("SBOM %d differs; %d of its packages are enough, see %s (-grype +ours):\n%s", index, len(document.Packages), file, diff)
}

// noteUnits checks that a unit has the same findings in every image.
func (w *randomWorker) noteUnits(catalog vuln.Catalog, findings []vuln.Finding) {
	byUnit := map[string][]vuln.PackageFinding{}
	for _, f := range findings {
		byUnit[f.Package.Fingerprint] = append(byUnit[f.Package.Fingerprint], f.PackageFinding)
	}
	w.random.mu.Lock()
	defer w.random.mu.Unlock()
	for _, held := range catalog.Packages {
		if held.Excluded {
			continue
		}
		print, found := held.Package.Fingerprint, canonical(w.T, byUnit[held.Package.Fingerprint])
		before, known := w.random.units[print]
		digest := sha256.Sum256([]byte(found))
		if !known {
			w.random.units[print] = digest
			w.fresh = append(w.fresh, freshUnit{held.Package, found})
			continue
		}
		if before != digest {
			w.Errorf("package %s %s (%s) has findings in this image that it did not have in another one:\n%s", held.Package.Name,
				held.Package.Version, held.Package.Type, found)
		}
	}
}

// matchUnits matches packages without their images, with packages of other images beside them.
func (w *randomWorker) matchUnits() {
	for batch := range slices.Chunk(w.fresh, unitBatch) {
		packages := make([]vuln.Package, 0, len(batch))
		for _, unit := range batch {
			packages = append(packages, unit.Package)
		}
		answers, err := w.random.database.MatchPackages(w.Context(), packages)
		if err != nil {
			w.Errorf("match packages without images: %v", err)
			return
		}
		for _, p := range batch {
			answer, ok := answers[p.Fingerprint]
			if !ok || answer.Failure != "" {
				w.Errorf("no answer for package %s %s (%s): %s", p.Name, p.Version, p.Type, answer.Failure)
				continue
			}
			if got := canonical(w.T, answer.Findings); got != p.found {
				w.Errorf("package %s %s (%s) has other findings without its image (-image +alone):\n%s", p.Name, p.Version, p.Type,
					cmp.Diff(p.found, got))
			}
		}
	}
	w.fresh = nil
}

// checkScores expects that what a database says of CVEs without matching is what it says when it is matched.
func checkScores(t *testing.T, database *match.Database, findings []vuln.Finding) {
	t.Helper()
	matched := make([]vuln.Vulnerability, 0, len(findings))
	scored := make([]vuln.Vulnerability, 0, len(findings))
	for _, f := range findings {
		matched = append(matched, f.Vulnerability)
		v := f.Vulnerability
		v.EPSS, v.KEV, v.CWEs, v.Risk = nil, nil, nil, -1
		scored = append(scored, v)
	}
	if err := database.Scores(t.Context(), scored); err != nil {
		t.Errorf("read scores: %v", err)
		return
	}
	if diff := cmp.Diff(matched, scored); diff != "" {
		t.Errorf("scores differ (-matched +read alone):\n%s", diff)
	}
}

// canonical is a text that is equal for equal findings, whatever their order.
func canonical(t *testing.T, findings []vuln.PackageFinding) string {
	t.Helper()
	lines := make([]string, 0, len(findings))
	for _, f := range findings {
		line, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	data, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// findings is what we say about an SBOM, and what it holds.
func findings(t *testing.T, database *match.Database, sbom []byte) ([]vuln.Finding, vuln.Catalog, error) {
	t.Helper()
	decoded, err := match.Decode(bytes.NewReader(sbom), match.DecodeLimits{})
	if err != nil {
		return nil, vuln.Catalog{}, err
	}
	result, err := database.Match(t.Context(), decoded)
	if err != nil {
		return nil, vuln.Catalog{}, err
	}
	return match.Findings(decoded.Catalog(), result), decoded.Catalog(), nil
}
