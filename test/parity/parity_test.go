package parity_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// TestParity fails on any difference between our findings and Grype's.
func TestParity(t *testing.T) {
	sboms := allSBOMs(t)
	for name, installed := range databases(t) {
		t.Run(name, func(t *testing.T) {
			database, err := match.Open(installed)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = database.Close() })
			total, excluded, ignored := 0, 0, 0
			for name, sbom := range sboms {
				t.Run(name, func(t *testing.T) {
					ours, took := ourFindings(t, database, sbom)
					e, i := exceptions(t, database, sbom)
					excluded, ignored = excluded+e, ignored+i
					theirs := runGrype(t, installed, sbom)
					want, got := rows(t, grypeRows(t, theirs)), rows(t, ourRows(t, ours))
					if diff := difference(want, got); diff != "" {
						t.Errorf("findings differ (-grype +ours):\n%s", diff)
					}
					total += len(theirs.Matches)
					t.Logf("%d matches of grype, %d findings of ours in %s", len(theirs.Matches), len(ours), took.Round(time.Millisecond))
				})
			}
			if total == 0 {
				t.Error("nothing matched at all; the comparison says nothing")
			}
			if name == "sample" && (excluded == 0 || ignored == 0) {
				t.Errorf("%d packages are left out and %d findings ignored; both must occur", excluded, ignored)
			}
			t.Logf("%d SBOMs, %d matches, %d packages left out, %d findings ignored", len(sboms), total, excluded, ignored)
		})
	}
}

// TestComparisonCanFail breaks one field at a time and expects the comparison to notice.
func TestComparisonCanFail(t *testing.T) {
	installed := sampleDatabase(t)
	database, err := match.Open(installed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	sbom := fixtures()["debian"].encode(t)
	want := rows(t, grypeRows(t, runGrype(t, installed, sbom)))
	breaks := map[string]func(*vuln.Finding){
		"severity":   func(f *vuln.Finding) { f.Vulnerability.Severity = vuln.SeverityUnknown },
		"fix":        func(f *vuln.Finding) { f.Fix.State = vuln.FixStateWontFix },
		"risk":       func(f *vuln.Finding) { f.Vulnerability.Risk++ },
		"epss":       func(f *vuln.Finding) { f.Vulnerability.EPSS = nil },
		"alias":      func(f *vuln.Finding) { f.Vulnerability.Aliases = append(f.Vulnerability.Aliases, "CVE-0000-0000") },
		"constraint": func(f *vuln.Finding) { f.Details = []vuln.MatchDetail{{Found: []byte(`{}`), SearchedBy: []byte(`{}`)}} },
		"location":   func(f *vuln.Finding) { f.Locations = nil },
		"namespace":  func(f *vuln.Finding) { f.Vulnerability.Namespace = "other" },
	}
	for name, damage := range breaks {
		t.Run(name, func(t *testing.T) {
			ours, _ := ourFindings(t, database, sbom)
			damage(&ours[0])
			if difference(want, rows(t, ourRows(t, ours))) == "" {
				t.Error("the comparison does not notice it")
			}
		})
	}
	t.Run("lost finding", func(t *testing.T) {
		ours, _ := ourFindings(t, database, sbom)
		if difference(want, rows(t, ourRows(t, ours[1:]))) == "" {
			t.Error("the comparison does not notice it")
		}
	})
}

func ourFindings(t *testing.T, database *match.Database, sbom []byte) ([]vuln.Finding, time.Duration) {
	t.Helper()
	decoded, err := match.Decode(bytes.NewReader(sbom), match.DecodeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	result, err := database.Match(t.Context(), decoded)
	if err != nil {
		t.Fatal(err)
	}
	return match.Findings(decoded.Catalog(), result), time.Since(start)
}

// exceptions counts the packages that are left out of matching and the findings that are ignored in an image.
func exceptions(t *testing.T, database *match.Database, sbom []byte) (excluded, ignored int) {
	t.Helper()
	decoded, err := match.Decode(bytes.NewReader(sbom), match.DecodeLimits{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := database.Match(t.Context(), decoded)
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range decoded.Catalog().Packages {
		if held.Excluded {
			excluded++
		}
	}
	return excluded, len(result.Exclusions)
}

// databases are those that there are on this machine: the sample always, a real one when it can be found.
func databases(t *testing.T) map[string]vulndb.Installed {
	t.Helper()
	out := map[string]vulndb.Installed{"sample": sampleDatabase(t)}
	for name, from := range map[string]string{
		"shared": filepath.Join(sharedData(), "grype-db"), "given": os.Getenv("SCANNER_PARITY_DATABASE"),
	} {
		if from == "" {
			continue
		}
		if _, err := os.Stat(from); err != nil {
			t.Logf("no database %q to compare with: set SCANNER_TEST_DATA to the folder of test data", name)
			continue
		}
		library := newLibrary(t, vulndb.Config{UpdateURL: vulndb.UpdateURLNone})
		installed, err := library.Import(context.Background(), from)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = installed
	}
	return out
}

// sharedData is a folder with a real database, beside the checkout unless it is named.
func sharedData() string {
	if dir := os.Getenv("SCANNER_TEST_DATA"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "shared", "data")
}

func sampleDatabase(t *testing.T) vulndb.Installed {
	t.Helper()
	library := newLibrary(t, vulndb.Config{UpdateURL: vulndb.UpdateURLNone, Sample: true})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	installed, ok := library.Current()
	if !ok {
		t.Fatal("the sample database was not installed")
	}
	return installed
}

func newLibrary(t *testing.T, config vulndb.Config) *vulndb.Library {
	t.Helper()
	config.Dir = t.TempDir()
	config.Log = testr.New(t)
	library, err := vulndb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return library
}
