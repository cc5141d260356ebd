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
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

const (
	// defaultRandom is the number of random SBOMs per database; "make test-full" compares 700.
	defaultRandom = 120
	// randomWorkers is how many processes of Grype's run at a time.
	randomWorkers = 2
	// randomBatch is how many images are matched together.
	randomBatch = 16
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

// randomWorker compares with one process of Grype's.
type randomWorker struct {
	*testing.T
	random *random
	grype  *standIn
}

func (w *randomWorker) run() {
	for w.random.reported.Load() < maxReported {
		from := w.random.next.Add(randomBatch) - randomBatch
		if from >= w.random.last {
			return
		}
		var documents []sbomgen.Document
		for index := from; index < min(from+randomBatch, w.random.last); index++ {
			documents = append(documents, w.random.generator.Document(int(index)))
		}
		diffs, err := w.compare(documents, true)
		if err != nil {
			w.Errorf("SBOMs from %d: %v", from, err)
			w.random.reported.Store(maxReported)
			return
		}
		for i, diff := range diffs {
			if diff != "" && w.random.reported.Add(1) <= maxReported {
				w.report(from+int64(i), documents[i], diff)
			}
		}
	}
}

// compare says for every document in what Grype and we differ. Grype gets one at a time. We match the distinct units of all
// of them together, as they are matched in a cluster.
func (w *randomWorker) compare(documents []sbomgen.Document, count bool) ([]string, error) {
	sboms := make([][]byte, len(documents))
	for i, d := range documents {
		var err error
		if sboms[i], err = d.Encode(); err != nil {
			return nil, err
		}
	}
	type said struct {
		report json.RawMessage
		err    error
	}
	theirs := make(chan said, len(sboms))
	go func() {
		for _, sbom := range sboms {
			if err := w.grype.ask(sbom); err != nil {
				theirs <- said{nil, err}
				continue
			}
			report, err := w.grype.answer()
			theirs <- said{report, err}
		}
	}()
	ours, err := w.matchTogether(sboms)
	if err != nil {
		return nil, err
	}
	diffs := make([]string, len(sboms))
	for i := range sboms {
		grype := <-theirs
		if grype.err != nil && !errors.Is(grype.err, errGrypeFails) {
			return nil, grype.err
		}
		diffs[i] = w.differ(ours[i], grype.report, grype.err)
		if count && grype.err == nil && ours[i].err == nil {
			w.noteUnits(sboms[i], ours[i], i == 0)
		}
	}
	return diffs, nil
}

// ourImage is what we say about an image.
type ourImage struct {
	catalog  model.Catalog
	findings []model.Finding
	err      error
}

func (w *randomWorker) matchTogether(sboms [][]byte) ([]ourImage, error) {
	images := make([]ourImage, len(sboms))
	var units []model.Package
	for i, sbom := range sboms {
		decoded, err := match.Decode(bytes.NewReader(sbom), match.DecodeLimits{}, w.random.database.Imports())
		if err != nil {
			images[i].err = err
			continue
		}
		images[i].catalog = decoded.Catalog()
		for _, held := range images[i].catalog.Packages {
			if !held.Excluded {
				units = append(units, held.Package)
			}
		}
	}
	answers, err := w.random.database.MatchPackages(w.Context(), units)
	if err != nil {
		return nil, err
	}
	for i := range images {
		image := &images[i]
		result := model.MatchResult{Packages: map[string][]model.PackageFinding{}}
		for _, held := range image.catalog.Packages {
			answer, known := answers[held.Package.Fingerprint]
			switch {
			case held.Excluded:
			case !known:
				image.err = fmt.Errorf("there is no answer for %s %s", held.Package.Name, held.Package.Version)
			case answer.Failure != "":
				image.err = errors.New(answer.Failure)
			}
			result.Packages[held.Package.Fingerprint] = answer.Findings
		}
		image.findings = match.Findings(image.catalog, result)
	}
	return images, nil
}

// differ says in what Grype and we differ on an image.
func (w *randomWorker) differ(ours ourImage, grype json.RawMessage, grypeErr error) string {
	switch {
	case grypeErr != nil && ours.err != nil:
		w.random.refused.Add(1)
		return ""
	case grypeErr != nil:
		return fmt.Sprintf("%v, and we have one", grypeErr)
	case ours.err != nil:
		return fmt.Sprintf("grype has a report, and we fail: %v", ours.err)
	}
	theirs := readReport(w.T, grype)
	w.random.matches.Add(int64(len(theirs.Matches)))
	return difference(rows(w.T, grypeRows(w.T, theirs)), rows(w.T, ourRows(w.T, ours.findings)))
}

// report makes a differing SBOM as small as it can be and keeps it.
func (w *randomWorker) report(index int64, document sbomgen.Document, diff string) {
	w.Helper()
	for i := range slices.Backward(document.Packages) {
		smaller := document.Without(i)
		if diffs, err := w.compare([]sbomgen.Document{smaller}, false); err == nil && diffs[0] != "" {
			document, diff = smaller, diffs[0]
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

// noteUnits checks that a unit has the same findings in every image, and for some images that they are the same when the
// image is matched by itself.
func (w *randomWorker) noteUnits(sbom []byte, ours ourImage, alone bool) {
	byUnit := map[string][]model.PackageFinding{}
	for _, f := range ours.findings {
		byUnit[f.Package.Fingerprint] = append(byUnit[f.Package.Fingerprint], f.PackageFinding)
	}
	if alone {
		checkScores(w.T, w.random.database, ours.findings)
		if findings, _, err := findings(w.T, w.random.database, sbom); err != nil {
			w.Errorf("match an image by itself: %v", err)
		} else if diff := cmp.Diff(ours.findings, findings); diff != "" {
			w.Errorf("the findings of an image differ (-matched with others +by itself):\n%s", diff)
		}
	}
	w.random.mu.Lock()
	defer w.random.mu.Unlock()
	for _, held := range ours.catalog.Packages {
		if held.Excluded {
			continue
		}
		found := canonical(w.T, byUnit[held.Package.Fingerprint])
		digest := sha256.Sum256([]byte(found))
		before, known := w.random.units[held.Package.Fingerprint]
		if known && before != digest {
			w.Errorf("package %s %s (%s) has findings in this image that it did not have in another one:\n%s", held.Package.Name,
				held.Package.Version, held.Package.Type, found)
		}
		w.random.units[held.Package.Fingerprint] = digest
	}
}

// checkScores expects that what a database says of CVEs without matching is what it says when it is matched.
func checkScores(t *testing.T, database *match.Database, findings []model.Finding) {
	t.Helper()
	matched := make([]model.Vulnerability, 0, len(findings))
	scored := make([]model.Vulnerability, 0, len(findings))
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
func canonical(t *testing.T, findings []model.PackageFinding) string {
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
func findings(t *testing.T, database *match.Database, sbom []byte) ([]model.Finding, model.Catalog, error) {
	t.Helper()
	decoded, err := match.Decode(bytes.NewReader(sbom), match.DecodeLimits{}, database.Imports())
	if err != nil {
		return nil, model.Catalog{}, err
	}
	result, err := database.Match(t.Context(), decoded)
	if err != nil {
		return nil, model.Catalog{}, err
	}
	return match.Findings(decoded.Catalog(), result), decoded.Catalog(), nil
}
