package parity_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// TestParity fails on any difference between our findings and those of the grype command, and on any between the command
// and the program that stands in for it in TestRandomParity.
func TestParity(t *testing.T) {
	sboms := allSBOMs(t)
	used := matchedKinds{}
	for name, installed := range databases(t) {
		t.Run(name, func(t *testing.T) {
			all := databaseSBOMs(t, name, installed)
			asked := maps.Clone(all)
			maps.Copy(all, sboms)
			if name == "invented" {
				// Their packages are in that one. For the others the stand-in has to do, which this test holds to the command.
				asked = all
			}
			p := parity{installed: installed, database: openDatabase(t, installed), used: used}
			p.compareAll(t, all, p.commandReports(t, asked))
			if p.matches == 0 {
				t.Error("nothing matched at all; the comparison says nothing")
			}
			// No other database has enough of everything for this to be certain.
			if name == "invented" && (p.excluded == 0 || p.silenced == 0) {
				t.Errorf("%d packages are left out and %d findings silenced; both must occur", p.excluded, p.silenced)
			}
			t.Logf("%d SBOMs, %d matches, %d packages left out, %d findings silenced by owners", len(all), p.matches, p.excluded, p.silenced)
		})
	}
	used.report(t)
}

// parity compares SBOMs under one database, two at a time.
type parity struct {
	installed vulndb.Installed
	database  *match.Database
	used      matchedKinds

	matches, excluded, silenced int
}

// compareAll compares with the command's reports where there are any, and with the stand-in's otherwise.
func (p *parity) compareAll(t *testing.T, sboms, reports map[string][]byte) {
	t.Helper()
	grype := startStandIn(t, p.installed)
	for _, name := range slices.Sorted(maps.Keys(sboms)) {
		t.Run(name, func(t *testing.T) { p.compare(t, grype, sboms[name], reports[name]) })
	}
}

// commandReports asks the grype command about all SBOMs, two at a time.
func (p *parity) commandReports(t *testing.T, sboms map[string][]byte) map[string][]byte {
	t.Helper()
	type result struct {
		name   string
		report []byte
	}
	results := make(chan result, len(sboms))
	t.Run("grype", func(t *testing.T) {
		names := slices.Sorted(maps.Keys(sboms))
		for part := range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := part; i < len(names); i += 2 {
					results <- result{names[i], runGrypeOn(t, p.installed, "sbom:"+sbomFile(t, sboms[names[i]]))}
				}
			})
		}
	})
	close(results)
	out := map[string][]byte{}
	for r := range results {
		out[r.name] = r.report
	}
	return out
}

func (p *parity) compare(t *testing.T, grype *standIn, sbom, command []byte) {
	t.Helper()
	ours, catalog, err := findings(t, p.database, sbom)
	if err != nil {
		t.Fatal(err)
	}
	report := ask(t, grype, sbom)
	if command != nil {
		if diff := cmp.Diff(inOrder(t, command), inOrder(t, report)); diff != "" {
			t.Errorf("the stand-in says something else than the grype command (-command +stand-in):\n%s", diff)
		}
		report = command
	}
	theirs := readReport(t, report)
	want := rows(t, grypeRows(t, theirs))
	if diff := difference(want, rows(t, ourRows(t, ours))); diff != "" {
		t.Errorf("findings differ (-grype +ours):\n%s", diff)
	}
	for _, held := range catalog.Packages {
		p.used.seen(held.Package.Type)
		if held.Excluded {
			p.excluded++
		}
	}
	for _, m := range theirs.Matches {
		p.used[m.Artifact.Type] = true
	}
	p.matches += len(theirs.Matches)
	p.silenced += silenced(t, grype, sbom, catalog, want)
	t.Logf("%d matches of grype, %d findings of ours", len(theirs.Matches), len(ours))
}

func ask(t *testing.T, grype *standIn, sbom []byte) []byte {
	t.Helper()
	if err := grype.ask(sbom); err != nil {
		t.Fatal(err)
	}
	answer, err := grype.answer()
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// inOrder returns the part of a report that depends only on the SBOM, in one order: Grype leaves it to chance how it
// sorts the matches of packages that have name, version, type and place in common.
func inOrder(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var document map[string]json.RawMessage
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatalf("%.100s is no report: %v", raw, err)
	}
	out := map[string]any{"distro": decode(t, document["distro"])}
	for _, list := range []string{"matches", "ignoredMatches"} {
		var elements []json.RawMessage
		if raw, ok := document[list]; ok {
			if err := json.Unmarshal(raw, &elements); err != nil {
				t.Fatal(err)
			}
		}
		sorted := make([]string, 0, len(elements))
		for _, element := range elements {
			text, err := json.Marshal(decode(t, element))
			if err != nil {
				t.Fatal(err)
			}
			sorted = append(sorted, string(text))
		}
		slices.Sort(sorted)
		out[list] = sorted
	}
	return out
}

// silenced counts what Grype would say if no package owned files of another one, of the packages that take part all the same.
func silenced(t *testing.T, grype *standIn, sbom []byte, catalog model.Catalog, with map[string]row) int {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(sbom, &document); err != nil {
		t.Fatal(err)
	}
	if relationships, _ := document["artifactRelationships"].([]any); len(relationships) == 0 {
		return 0
	}
	delete(document, "artifactRelationships")
	// Grype finds the owners again in the lists of files.
	artifacts, _ := document["artifacts"].([]any)
	for _, a := range artifacts {
		artifact, _ := a.(map[string]any)
		if metadata, ok := artifact["metadata"].(map[string]any); ok {
			delete(metadata, "files")
		}
	}
	stripped, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var excluded []model.Location
	for _, held := range catalog.Packages {
		if held.Excluded {
			excluded = append(excluded, held.Locations...)
		}
	}
	count := 0
	for key, r := range rows(t, grypeRows(t, readReport(t, ask(t, grype, stripped)))) {
		for _, location := range r.Locations {
			if !slices.Contains(with[key].Locations, location) && !slices.Contains(excluded, location) {
				count++
			}
		}
	}
	return count
}

// matchedKinds says which types of packages were there, and whether anything matched one.
type matchedKinds map[string]bool

func (k matchedKinds) seen(kind string) {
	if _, known := k[kind]; !known {
		k[kind] = false
	}
}

func (k matchedKinds) report(t *testing.T) {
	t.Helper()
	var without []string
	for kind, matched := range k {
		if !matched {
			without = append(without, kind)
		}
	}
	slices.Sort(without)
	t.Logf("%d types of packages; without any match: %s", len(k), strings.Join(without, ", "))
	if len(k) < 40 {
		t.Errorf("only %d types of packages are compared", len(k))
	}
}

// TestComparisonCanFail breaks one field at a time and expects the comparison to notice.
func TestComparisonCanFail(t *testing.T) {
	installed := databases(t)["sample"]
	database := openDatabase(t, installed)
	sbom := fixtures()["debian"].encode(t)
	want := rows(t, grypeRows(t, runGrype(t, installed, sbom)))
	breaks := map[string]func(*model.Finding){
		"severity": func(f *model.Finding) { f.Vulnerability.Severity = model.SeverityUnknown },
		"fix":      func(f *model.Finding) { f.Fix.State = model.FixStateWontFix },
		"risk":     func(f *model.Finding) { f.Vulnerability.Risk++ },
		"epss":     func(f *model.Finding) { f.Vulnerability.EPSS = nil },
		"alias":    func(f *model.Finding) { f.Vulnerability.Aliases = append(f.Vulnerability.Aliases, "CVE-0000-0000") },
		"constraint": func(f *model.Finding) {
			f.Details = []model.MatchDetail{{Found: []byte(`{}`), SearchedBy: []byte(`{}`)}}
		},
		"location":  func(f *model.Finding) { f.Locations = nil },
		"layer":     func(f *model.Finding) { f.Locations = []model.Location{{Path: f.Locations[0].Path, Layer: "other"}} },
		"licence":   func(f *model.Finding) { f.Package.Licenses = nil },
		"namespace": func(f *model.Finding) { f.Vulnerability.Namespace = "other" },
	}
	for name, damage := range breaks {
		t.Run(name, func(t *testing.T) {
			ours := ourFindings(t, database, sbom)
			damage(&ours[0])
			if difference(want, rows(t, ourRows(t, ours))) == "" {
				t.Error("the comparison does not notice it")
			}
		})
	}
	t.Run("lost finding", func(t *testing.T) {
		ours := ourFindings(t, database, sbom)
		if difference(want, rows(t, ourRows(t, ours[1:]))) == "" {
			t.Error("the comparison does not notice it")
		}
	})
}

func ourFindings(t *testing.T, database *match.Database, sbom []byte) []model.Finding {
	t.Helper()
	found, _, err := findings(t, database, sbom)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func openDatabase(t *testing.T, installed vulndb.Installed) *match.Database {
	t.Helper()
	database, err := match.Open(installed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	return database
}

// databases are the ones to compare with: the sample and the invented one always, a real one if it can be found. The first test
// installs them for all.
func databases(t *testing.T) map[string]vulndb.Installed {
	t.Helper()
	allDatabases.Do(func() { allDatabases.installed = installDatabases(t) })
	if allDatabases.installed == nil {
		t.Fatal("another test could not install the databases")
	}
	return allDatabases.installed
}

// allDatabases are installed in a folder that TestMain removes.
var allDatabases struct {
	sync.Once
	dir       string
	installed map[string]vulndb.Installed
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "parity-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	allDatabases.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func installDatabases(t *testing.T) map[string]vulndb.Installed {
	t.Helper()
	out := map[string]vulndb.Installed{}
	for name, from := range map[string]string{
		"sample": "", "invented": writeInvented(t), "shared": filepath.Join(sharedData(), "grype-db"), "given": os.Getenv("SCANNER_PARITY_DATABASE"),
	} {
		if _, err := os.Stat(from); err != nil && name != "sample" {
			t.Logf("no database %q to compare with: set SCANNER_TEST_DATA or SCANNER_PARITY_DATABASE", name)
			continue
		}
		out[name] = installDatabase(t, name, from)
	}
	return out
}

// installDatabase imports a database, or installs the sample when from is empty.
func installDatabase(t *testing.T, name, from string) vulndb.Installed {
	t.Helper()
	library, err := vulndb.New(vulndb.Config{Dir: filepath.Join(allDatabases.dir, name), UpdateURL: vulndb.UpdateURLNone, Sample: from == "", Log: testr.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	if from == "" {
		_, err = library.Update(t.Context())
	} else {
		_, err = library.Import(t.Context(), from)
	}
	if err != nil {
		t.Fatal(err)
	}
	current, ok := library.Current()
	if !ok {
		t.Fatalf("the database %q was not installed", name)
	}
	return current
}

// sharedData is a folder with a real database, beside the checkout unless it is named.
func sharedData() string {
	if dir := os.Getenv("SCANNER_TEST_DATA"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "data")
}
