package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keptPool is a pool of one connection to a new file, with a table of the numbers 1 to 3.
func keptPool(t *testing.T) (pool *sql.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kept.db")
	pool, err := openSQLite(path, nil, "immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(1)
	for _, statement := range []string{"CREATE TABLE numbers (n INTEGER PRIMARY KEY)", "INSERT INTO numbers VALUES (1), (2), (3)"} {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool, path
}

// querier is a pool, a transaction or a connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// numbers reads the numbers above another, and calls each with every one that it has read.
func numbers(t *testing.T, from querier, above int, each func(n int)) {
	t.Helper()
	rows, err := from.QueryContext(t.Context(), "SELECT n FROM numbers WHERE n > ? ORDER BY n", above)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		each(n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestKeptStatementInUse reads the rows of a statement while it reads others of the same text, and while other statements take its place.
func TestKeptStatementInUse(t *testing.T) {
	pool, _ := keptPool(t)
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	numbers(t, tx, 0, func(n int) {
		numbers(t, tx, n, func(more int) { read = append(read, fmt.Sprint(n, more)) })
		for other := range 2 * keptStatements {
			if _, err := tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE numbers SET n = n WHERE n = %d", 100+other)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(read, ", "), "1 2, 1 3, 2 3"; got != want {
		t.Errorf("read %s, want %s", got, want)
	}
}

// TestKeptStatementsAreBounded runs more statements than are kept, and longer ones.
func TestKeptStatementsAreBounded(t *testing.T) {
	pool, _ := keptPool(t)
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	kept := func() (n int) {
		err := conn.Raw(func(plain any) error {
			n = plain.(*keepingConn).kept.Len()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	run := func(statement string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	before := kept()
	for range 2 {
		run("SELECT 1")
	}
	if got := kept(); got != before+1 {
		t.Errorf("%d statements are kept after one more, want %d", got, before+1)
	}
	long := "SELECT 1 " + strings.Repeat(" ", keptAtOnce)
	run(long)
	if got := kept(); got != before+1 {
		t.Errorf("%d statements are kept after a long one that ran once, want %d", got, before+1)
	}
	for range 3 {
		run(long)
	}
	if got := kept(); got != before+2 {
		t.Errorf("%d statements are kept after a long one that ran several times, want %d", got, before+2)
	}
	for range 2 {
		run("SELECT 1 " + strings.Repeat(" ", maxKeptStatement))
	}
	if got := kept(); got != before+2 {
		t.Errorf("%d statements are kept after one that is too long, want %d", got, before+2)
	}
	for n := range 2 * keptStatements {
		run(fmt.Sprint("SELECT ", n))
	}
	if got := kept(); got != keptStatements {
		t.Errorf("%d statements are kept, want %d", got, keptStatements)
	}
}

// TestKeptStatementSeesNewSchema reads a table with a statement from before a column was added to it.
func TestKeptStatementSeesNewSchema(t *testing.T) {
	pool, path := keptPool(t)
	columns := func() (names []string) {
		rows, err := pool.QueryContext(t.Context(), "SELECT * FROM numbers")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		if names, err = rows.Columns(); err != nil || !rows.Next() {
			t.Fatal(err, rows.Err())
		}
		return names
	}
	if got := columns(); len(got) != 1 {
		t.Fatalf("columns %v", got)
	}
	other, err := openSQLite(path, nil, "immediate")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "ALTER TABLE numbers ADD COLUMN name TEXT"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got := columns(); len(got) != 2 {
		t.Errorf("columns %v, want two", got)
	}
}

// TestKeptStatementAfterCancel interrupts a statement, and runs it again on the same connection.
func TestKeptStatementAfterCancel(t *testing.T) {
	pool, _ := keptPool(t)
	const count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) SELECT COUNT(*) FROM c"
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var n int
	if err := conn.QueryRowContext(t.Context(), count, 10).Scan(&n); err != nil || n != 10 {
		t.Fatal(n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // Of a count that takes days.
	defer cancel()
	if err := conn.QueryRowContext(ctx, count, int64(1)<<40).Scan(&n); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if err := conn.QueryRowContext(t.Context(), count, 20).Scan(&n); err != nil || n != 20 {
		t.Errorf("got %d, %v", n, err)
	}
}

// TestKeptStatementsEndWithTheConnection closes a pool: SQLite deletes its log with the last connection, whose statements are closed then.
func TestKeptStatementsEndWithTheConnection(t *testing.T) {
	pool, path := keptPool(t)
	numbers(t, pool, 0, func(int) {})
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is left: %v", err)
	}
}
