package vulndb_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/cpe"
	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

func compare(t *testing.T, from, to vulndb.Installed) *vulndb.Difference {
	t.Helper()
	difference, err := vulndb.Compare(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	return difference
}

func databaseFile(installed vulndb.Installed) string {
	return filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName)
}

// TestCompareBuilds asks Grype itself every question that there is, of both databases: where the answers differ, the difference
// must say so, and elsewhere it should not.
func TestCompareBuilds(t *testing.T) {
	from := dbtest.Sample(t)
	before := askAll(t, from)
	for _, kind := range append(dbtest.Kinds(), dbtest.Renumber) {
		t.Run(string(kind), func(t *testing.T) {
			to := dbtest.Mutate(t, from, 1, dbtest.Change{Kind: kind, Fraction: 0.02})
			checkDifference(t, compare(t, from, to), before, askAll(t, to), kind != dbtest.Renumber)
		})
	}
	t.Run("all at once", func(t *testing.T) {
		var changes []dbtest.Change
		for _, kind := range dbtest.Kinds() {
			changes = append(changes, dbtest.Change{Kind: kind, Fraction: 0.05})
		}
		to := dbtest.Mutate(t, from, 1, changes...)
		checkDifference(t, compare(t, from, to), before, askAll(t, to), true)
		// And the other way round, as after an older database was imported.
		checkDifference(t, compare(t, to, from), askAll(t, to), before, true)
	})
}

func TestCompareSharedDatabase(t *testing.T) {
	from := dbtest.Shared(t)
	to := dbtest.Mutate(t, from, 1, dbtest.Fraction(0.01)...)
	start := time.Now()
	difference := compare(t, from, to)
	t.Logf("compared in %s: %+v", time.Since(start).Round(time.Millisecond), difference.Summary())
	packages := count(t, from, "SELECT COUNT(DISTINCT name) FROM packages")
	if n := difference.Summary().Packages; n < packages/200 || n > packages/50 {
		t.Errorf("%d of %d packages are touched; about a hundredth was changed", n, packages)
	}
	if n := difference.CVEs(); n != 0 {
		t.Errorf("the scores of %d CVEs are touched", n)
	}
	if got := compare(t, from, from); got.Keys() != 0 || got.CVEs() != 0 {
		t.Errorf("a database differs from itself: %+v", got.Summary())
	}
}

// question is something that Grype asks a database for. Questions with search keys are those of matchers.
type question struct {
	key model.SearchKey
	cve string
}

// checkDifference compares what is touched with the answers. Systems and vulnerabilities may be touched without need,
// since what stands behind them is asked for in many ways.
func checkDifference(t *testing.T, difference *vulndb.Difference, before, after map[string]answer, changed bool) {
	t.Helper()
	if reason, full := difference.Full(); full {
		t.Fatalf("everything is touched: %s", reason)
	}
	differing, needless := 0, []string(nil)
	for text := range union(before, after) {
		b, a := before[text], after[text]
		q := b.question
		if b.text == "" {
			q = a.question
		}
		touched := difference.Touches([]model.SearchKey{q.key})
		if q.cve != "" {
			touched = difference.ScoresTouched([]string{strings.ToLower(q.cve)})
		}
		switch differs := b.text != a.text; {
		case differs && !touched:
			t.Errorf("%s: the answer is another, but nothing is touched (-before +after):\n%s", text, cmp.Diff(b.text, a.text))
		case touched && !differs && (strings.HasPrefix(text, "package ") || strings.HasPrefix(text, "score ")):
			needless = append(needless, text)
		case differs:
			differing++
		}
	}
	if (differing > 0) != changed {
		t.Errorf("%d answers differ, which says nothing of the difference", differing)
	}
	if len(needless) > differing/10 {
		t.Errorf("touched without need, beside %d that differ: %q", differing, needless)
	}
}

func union(a, b map[string]answer) map[string]bool {
	out := map[string]bool{}
	for _, m := range []map[string]answer{a, b} {
		for name := range m {
			out[name] = true
		}
	}
	return out
}

type answer struct {
	question
	text string
}

// askAll asks for every name that a database holds.
func askAll(t *testing.T, installed vulndb.Installed) map[string]answer {
	t.Helper()
	reader, err := v6.NewReader(v6.Config{DBDirPath: installed.SQLiteDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	out := map[string]answer{}
	ask := func(q question, name string, answers ...any) {
		out[name] = answer{q, plain(t, answers...)}
	}
	options := &v6.GetPackageOptions{PreloadOS: true, PreloadPackage: true, PreloadPackageCPEs: true, PreloadVulnerability: true, PreloadBlob: true}
	for _, name := range names(t, installed, "SELECT DISTINCT name FROM packages") {
		affected, err := reader.GetAffectedPackages(&v6.PackageSpecifier{Name: name}, options)
		unaffected, err2 := reader.GetUnaffectedPackages(&v6.PackageSpecifier{Name: name}, options)
		must(t, err, err2)
		ask(question{key: vulndb.PackageKey(strings.ToUpper(name))}, "package "+name, affected, unaffected)
	}
	cpeOptions := &v6.GetCPEOptions{PreloadCPE: true, PreloadVulnerability: true, PreloadBlob: true}
	for _, product := range names(t, installed, "SELECT DISTINCT product FROM cpes") {
		attributes := &cpe.Attributes{Product: product}
		affected, err := reader.GetAffectedCPEs(attributes, cpeOptions)
		unaffected, err2 := reader.GetUnaffectedCPEs(attributes, cpeOptions)
		byCPE, err3 := reader.GetAffectedPackages(&v6.PackageSpecifier{CPE: attributes}, options)
		unaffectedByCPE, err4 := reader.GetUnaffectedPackages(&v6.PackageSpecifier{CPE: attributes}, options)
		must(t, err, err2, err3, err4)
		ask(question{key: vulndb.ProductKey(product)}, "product "+product, affected, unaffected, byCPE, unaffectedByCPE)
	}
	askOthers(t, installed, reader, ask)
	return out
}

func askOthers(t *testing.T, installed vulndb.Installed, reader v6.Reader, ask func(question, string, ...any)) {
	t.Helper()
	for _, name := range names(t, installed, "SELECT name FROM operating_systems UNION SELECT alias FROM operating_system_specifier_overrides") {
		var answers []any
		for _, major := range []string{"", "3", "8", "11"} {
			for _, minor := range []string{"", "14", "99"} {
				systems, err := reader.GetOperatingSystems(v6.OSSpecifier{Name: name, MajorVersion: major, MinorVersion: minor})
				must(t, err)
				answers = append(answers, systems)
			}
		}
		ask(question{key: vulndb.OSKey(name)}, "system "+name, answers...)
	}
	for _, name := range names(t, installed, "SELECT name FROM vulnerability_handles UNION SELECT alias FROM vulnerability_aliases") {
		specifier := v6.VulnerabilitySpecifier{Name: name, IncludeAliases: true}
		vulnerabilities, err := reader.GetVulnerabilities(&specifier, &v6.GetVulnerabilityOptions{Preload: true})
		affected, err2 := reader.GetAffectedPackages(nil, &v6.GetPackageOptions{
			PreloadOS: true, PreloadPackage: true, PreloadBlob: true, Vulnerabilities: v6.VulnerabilitySpecifiers{specifier},
		})
		must(t, err, err2)
		ask(question{key: vulndb.VulnerabilityKey(name)}, "vulnerability "+name, vulnerabilities, affected)
	}
	const cves = "SELECT name FROM vulnerability_handles WHERE name LIKE 'CVE-%' UNION SELECT cve FROM epss_handles " +
		"UNION SELECT cve FROM known_exploited_vulnerability_handles UNION SELECT cve FROM cwe_handles"
	for _, cve := range names(t, installed, cves) {
		epss, err := reader.GetEpss(cve)
		kev, err2 := reader.GetKnownExploitedVulnerabilities(cve)
		cwes, err3 := reader.GetCWEs(cve)
		must(t, err, err2, err3)
		ask(question{cve: cve}, "score "+cve, epss, kev, cwes)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// plain is an answer as text, without the numbers of rows, the data of providers and the ends of support.
func plain(t *testing.T, answers ...any) string {
	t.Helper()
	data, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	strip(value)
	data, err = json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func strip(value any) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			strip(e)
		}
	case map[string]any:
		for name, e := range v {
			switch name {
			case "ID", "VulnerabilityID", "OperatingSystemID", "PackageID", "BlobID", "CpeID", "Provider", "EOLDate", "EOASDate":
				delete(v, name)
			default:
				strip(e)
			}
		}
	}
}

func names(t *testing.T, installed vulndb.Installed, query string) []string {
	t.Helper()
	db := openFile(t, databaseFile(installed)+"?mode=ro&immutable=1")
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func count(t *testing.T, installed vulndb.Installed, query string) int {
	t.Helper()
	var n int
	if err := openFile(t, databaseFile(installed)).QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func openFile(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(sqlite.DriverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// altered is a copy of a database after some statements.
func altered(t *testing.T, installed vulndb.Installed, statements ...string) vulndb.Installed {
	t.Helper()
	out := dbtest.Mutate(t, installed, 1)
	db := openFile(t, databaseFile(out))
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return out
}

func TestCompareFull(t *testing.T) {
	from := dbtest.Sample(t)
	for name, statement := range map[string]string{
		"schema":        "UPDATE db_metadata SET addition = addition + 1",
		"ecosystems":    "DELETE FROM package_specifier_overrides WHERE ecosystem = 'pypi'",
		"architectures": "INSERT INTO architecture_aliases (alias, canonical) VALUES ('a', 'b')",
	} {
		t.Run(name, func(t *testing.T) {
			difference := compare(t, from, altered(t, from, statement))
			if reason, full := difference.Full(); !full || !strings.Contains(reason, name) {
				t.Errorf("full is %t because of %q", full, reason)
			}
			if !difference.Touches(nil) || !difference.ScoresTouched(nil) {
				t.Error("something is not touched")
			}
		})
	}
}

// Dates of the providers, of the build and of the end of support change daily and answer nothing.
func TestCompareIgnoresDates(t *testing.T) {
	from := dbtest.Sample(t)
	to := altered(t, from, "UPDATE providers SET date_captured = '2030-01-01', input_digest = 'x'",
		"UPDATE operating_systems SET eol_date = '2030-01-01', eoas_date = '2030-01-01'")
	if difference := compare(t, from, to); difference.Keys() != 0 || difference.CVEs() != 0 {
		t.Errorf("they differ: %+v", difference.Summary())
	}
}

// The order of records counts, since Grype takes what it says of a vulnerability from the first.
func TestCompareOrder(t *testing.T) {
	from := dbtest.Sample(t)
	to := altered(t, from, `UPDATE affected_package_handles SET id = id + 1000000 WHERE id = (SELECT h.id FROM affected_package_handles h
		JOIN packages p ON p.id = h.package_id WHERE p.name = 'openssl' ORDER BY h.id LIMIT 1)`)
	difference := compare(t, from, to)
	if !difference.Touches([]model.SearchKey{vulndb.PackageKey("openssl")}) || difference.Summary().Packages != 1 {
		t.Errorf("%+v", difference.Summary())
	}
}

func TestCompareAnyKeys(t *testing.T) {
	from := dbtest.Sample(t)
	for kind, key := range map[dbtest.Kind]model.SearchKey{
		dbtest.Ranges: vulndb.AnyPackageKey, dbtest.CPERanges: vulndb.AnyCPEKey, dbtest.OperatingSystems: vulndb.AnyOSKey,
		dbtest.Overrides: vulndb.AnyOSKey, dbtest.PackageCPEs: vulndb.AnyCPEKey,
	} {
		difference := compare(t, from, dbtest.Mutate(t, from, 2, dbtest.Change{Kind: kind, Fraction: 0.01}))
		if !difference.Touches([]model.SearchKey{key}) {
			t.Errorf("%s: all of the sort are not touched", kind)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	from := dbtest.Sample(t)
	truncated := dbtest.Mutate(t, from, 1)
	if err := os.Truncate(databaseFile(truncated), 40960); err != nil {
		t.Fatal(err)
	}
	noDatabase := dbtest.Mutate(t, from, 1)
	if err := os.WriteFile(databaseFile(noDatabase), []byte(strings.Repeat("hello", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := dbtest.Mutate(t, from, 1)
	if err := os.Remove(databaseFile(gone)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		to   vulndb.Installed
		says string
	}{
		"missing table":  {altered(t, from, "DROP TABLE unaffected_cpe_handles"), "no such table: unaffected_cpe_handles"},
		"missing column": {altered(t, from, "ALTER TABLE cwe_handles DROP COLUMN source"), "no such column: source"},
		"truncated":      {truncated, "read build"},
		"no database":    {noDatabase, "not an SQLite database"},
		"gone":           {gone, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			difference, err := vulndb.Compare(t.Context(), from, test.to)
			if err == nil {
				t.Fatalf("no error, but %+v", difference.Summary())
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
}

// A file may number its rows as it likes: that neither takes memory nor hides a change.
func TestCompareOddIDs(t *testing.T) {
	from := dbtest.Sample(t)
	for _, id := range []string{"4611686018427387904", "9223372036854775807", "-1", "-9223372036854775808", "0", "100000"} {
		t.Run(id, func(t *testing.T) {
			renumber := []string{
				"UPDATE affected_package_handles SET blob_id = " + id + ", vulnerability_id = " + id + ", package_id = " + id + " WHERE id = 1",
				"INSERT INTO blobs SELECT " + id + ", value FROM blobs WHERE id = 5",
				"INSERT INTO vulnerability_handles SELECT " + id + ", name, status, published_date, modified_date, withdrawn_date, " +
					"provider_id, blob_id FROM vulnerability_handles WHERE id = 1",
				"INSERT INTO packages SELECT " + id + ", ecosystem, name || '-odd' FROM packages WHERE id = 1",
			}
			odd := altered(t, from, renumber...)
			if difference := compare(t, from, odd); !difference.Touches([]model.SearchKey{vulndb.PackageKey(names(t, from, "SELECT name FROM packages WHERE id = 1")[0] + "-odd")}) {
				t.Error("a package with an odd ID is not touched")
			}
			if difference := compare(t, odd, altered(t, from, renumber...)); difference.Keys() != 0 {
				t.Errorf("equal databases differ: %+v", difference.Summary())
			}
			changed := altered(t, from, append(renumber, "UPDATE blobs SET value = '{}' WHERE id = "+id)...)
			if difference := compare(t, odd, changed); difference.Summary().Packages != 1 {
				t.Errorf("a blob with an odd ID changed: %+v", difference.Summary())
			}
		})
	}
}

// References to missing rows, or out of range, are no reason to fail, and count as a change.
func TestCompareOddReferences(t *testing.T) {
	from := dbtest.Sample(t)
	for _, value := range []string{"4611686018427387904", "-5", "NULL", "'x'"} {
		to := altered(t, from, fmt.Sprintf("UPDATE affected_package_handles SET blob_id = %s, operating_system_id = %s WHERE id = 1", value, value))
		if difference := compare(t, from, to); difference.Summary().Packages != 1 {
			t.Errorf("%s: %+v", value, difference.Summary())
		}
	}
}

func TestCompareChangesNothing(t *testing.T) {
	from := dbtest.Sample(t)
	to := dbtest.Mutate(t, from, 1, dbtest.Fraction(0.5)...)
	before := append(read(t, databaseFile(from)), read(t, databaseFile(to))...)
	compare(t, from, to)
	if !bytes.Equal(before, append(read(t, databaseFile(from)), read(t, databaseFile(to))...)) {
		t.Error("a file changed")
	}
	for _, installed := range []vulndb.Installed{from, to} {
		entries, err := os.ReadDir(installed.SQLiteDir())
		if err != nil || len(entries) != 2 {
			t.Errorf("the folder holds %v, %v", entries, err)
		}
	}
}

func TestCompareEndsWithContext(t *testing.T) {
	from := dbtest.Sample(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := vulndb.Compare(ctx, from, from); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
