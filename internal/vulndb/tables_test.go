package vulndb_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// withTables makes a file by statements.
func withTables(tb testing.TB, statements ...string) vulndb.Installed {
	tb.Helper()
	installed := vulndb.Installed{Dir: tb.TempDir()}
	if err := os.MkdirAll(installed.SQLiteDir(), 0o700); err != nil {
		tb.Fatal(err)
	}
	db, err := sql.Open(sqlite.DriverName, filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.ExecContext(tb.Context(), statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
	return installed
}

// oddTable is filled with rows of all types and lengths, up to 70,000 bytes, in trees of several levels.
var oddTable = []string{
	"CREATE TABLE odd (name text, id integer PRIMARY KEY AUTOINCREMENT, number integer, rate real, other)",
	`WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < 3000)
		INSERT INTO odd SELECT CASE WHEN n % 5 THEN 'name-' || n END, n * 3, (n - 1500) * (1 << (n % 50)), n / 3.0,
			CASE n % 4 WHEN 0 THEN zeroblob(n % 700) WHEN 1 THEN n % 2 WHEN 2 THEN printf('%.*c', n % 997, 'x') END FROM k`,
	"INSERT INTO odd VALUES ('most', 9223372036854775807, 9223372036854775807, 1e300, NULL), ('least', -9223372036854775808, -9223372036854775808, -0.5, '')",
	"INSERT INTO odd SELECT 'long', -n, n, 2.0, printf('%.*c', n, 'y') FROM (SELECT 400 AS n UNION SELECT 477 UNION SELECT 478 UNION SELECT 4061 UNION SELECT 4062 " +
		"UNION SELECT 8153 UNION SELECT 65501 UNION SELECT 65502 UNION SELECT 70000)",
	"DELETE FROM odd WHERE id % 7 = 0",
}

// TestTablesEqualQueries reads tables from the pages of files and by queries.
func TestTablesEqualQueries(t *testing.T) {
	columns := []string{"id", "name", "other", "number", "rate"}
	for _, size := range []int{512, 4096, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			installed := withTables(t, append([]string{fmt.Sprintf("PRAGMA page_size = %d", size)}, oddTable...)...)
			checkTable(t, installed, "odd", columns, 2000)
			checkTable(t, installed, "odd", []string{"rate"}, 2000)
		})
	}
	t.Run("empty", func(t *testing.T) { checkTable(t, withTables(t, oddTable[0]), "odd", columns, 0) })
	t.Run("text as primary key", func(t *testing.T) {
		installed := withTables(t, "CREATE TABLE named (name text, id text PRIMARY KEY)", "INSERT INTO named VALUES ('a', 'z'), ('b', NULL), ('c', 'x')")
		checkTable(t, installed, "named", []string{"id", "name"}, 3)
	})
	t.Run("two columns as primary key", func(t *testing.T) {
		installed := withTables(t, "CREATE TABLE pairs (a integer, b integer, PRIMARY KEY (a, b))", "INSERT INTO pairs VALUES (7, 1), (5, NULL)")
		checkTable(t, installed, "pairs", []string{"b", "a"}, 2)
	})
	t.Run("real database", func(t *testing.T) {
		checkTable(t, dbtest.SharedOrSample(t), "vulnerability_handles", []string{"id", "blob_id", "name", "status", "provider_id"}, 10)
	})
}

// checkTable expects both to return the same rows, and a number of them at least.
func checkTable(t *testing.T, installed vulndb.Installed, table string, columns []string, least int) {
	t.Helper()
	got, err := vulndb.ReadTable(t.Context(), installed, table, columns, false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := vulndb.ReadTable(t.Context(), installed, table, columns, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < least {
		t.Fatalf("the table has %d rows", len(want))
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("the pages say something else (-query +pages):\n%.2000s", difference)
	}
}

// TestTablesRefuse expects an error of files of which nothing here knows how to read the rows.
func TestTablesRefuse(t *testing.T) {
	columns := []string{"id", "name"}
	for name, test := range map[string]struct {
		statements []string
		says       string
	}{
		"no row numbers":   {[]string{"CREATE TABLE t (id integer PRIMARY KEY, name text) WITHOUT ROWID"}, "is none of a table"},
		"generated column": {[]string{"CREATE TABLE t (name text GENERATED ALWAYS AS ('a'), id integer PRIMARY KEY)"}, "the column name is generated"},
		"added column": {[]string{
			"CREATE TABLE t (id integer PRIMARY KEY)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN name text DEFAULT 'x'",
		}, "row 1"},
		"UTF-16":    {[]string{"PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (id integer PRIMARY KEY, name text)"}, "is not UTF-8"},
		"no table":  {[]string{"CREATE TABLE other (id integer)"}, "no such table: t"},
		"no column": {[]string{"CREATE TABLE t (id integer PRIMARY KEY)"}, "no such column: name"},
		"a view":    {[]string{"CREATE VIEW t AS SELECT 1 AS id, 'a' AS name"}, "page 0"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := vulndb.ReadTable(t.Context(), withTables(t, test.statements...), "t", columns, false)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v and %v, want an error that says %q", rows, err, test.says)
			}
		})
	}
}

// hostileFile is a file with a table of five columns at page 2.
func hostileFile(tb testing.TB) []byte {
	tb.Helper()
	installed := withTables(tb, append([]string{"PRAGMA page_size = 512"}, oddTable...)...)
	content, err := os.ReadFile(databaseFile(installed))
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

// TestHostileTablesEnd scans tables whose pages lead back, or again and again to the same page.
func TestHostileTablesEnd(t *testing.T) {
	// interior is a page that leads 200 times to a child, and then to another one.
	interior := func(file []byte, page int, child, last uint32, cells int) {
		at := file[512*(page-1) : 512*page]
		clear(at)
		at[0] = 5
		binary.BigEndian.PutUint16(at[3:], uint16(cells))
		binary.BigEndian.PutUint32(at[8:], last)
		for cell := range cells {
			binary.BigEndian.PutUint16(at[12+2*cell:], 500)
		}
		binary.BigEndian.PutUint32(at[500:], child)
	}
	for name, test := range map[string]struct {
		damage func(file []byte)
		says   string
	}{
		"itself": {func(file []byte) { interior(file, 2, 0, 2, 0) }, "more than 20 levels"},
		"the same": {func(file []byte) {
			interior(file, 2, 3, 3, 200)
			interior(file, 3, 4, 4, 200)
			interior(file, 4, 0, 0, 0)
			file[512*3] = 13 // A leaf without rows.
		}, "page 4 of"},
		"long rows that are cut": {func(file []byte) {
			for page := 2; page < len(file)/512; page++ {
				if file[512*page] == 0 { // A long row goes on here.
					binary.BigEndian.PutUint32(file[512*page:], 0)
				}
			}
		}, "page 0 of"},
	} {
		t.Run(name, func(t *testing.T) {
			file := hostileFile(t)
			test.damage(file)
			if rows, err := vulndb.CountRows(t.Context(), file, 2, 5); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v after %d rows, want an error that says %q", err, rows, test.says)
			}
		})
	}
}

// FuzzTables writes bytes over a file.
func FuzzTables(f *testing.F) {
	f.Add(uint32(512), []byte{5})
	f.Add(uint32(512), []byte{13, 0, 0, 0xff, 0xff})
	f.Add(uint32(1024), []byte{5, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 2})
	f.Add(uint32(900), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(uint32(16), []byte{0, 0})
	f.Add(uint32(20), []byte{255})
	original := hostileFile(f)
	f.Fuzz(func(t *testing.T, at uint32, bytes []byte) {
		file := slices.Clone(original)
		copy(file[int(at)%len(file):], bytes)
		rows, _ := vulndb.CountRows(context.Background(), file, 2, 5)
		if most := len(file) / 2; rows > most {
			t.Errorf("%d rows in a file of %d bytes", rows, len(file))
		}
	})
}
