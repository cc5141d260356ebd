package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glebarez/sqlite"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Primary result codes of SQLite (https://www.sqlite.org/rescode.html); the low byte of an extended code.
const (
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteReadOnly = 8
	sqliteIOErr    = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteProtocol = 15
)

// defaultSQLiteReaders is how many connections read beside the one that writes.
const defaultSQLiteReaders = 4

// sqliteDialect keeps everything in one file, for one process.
type sqliteDialect struct{}

func (sqliteDialect) Type() string { return TypeSQLite }

func (sqliteDialect) open(ctx context.Context, config Config) (connection, error) {
	path, parameters, err := parseSQLiteDSN(config.DSN)
	if err != nil {
		return connection{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return connection{}, fmt.Errorf("create the directory of the database: %w", err)
	}
	guard, err := lockFile(path)
	if err != nil {
		return connection{}, err
	}
	// SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return connection{}, errors.Join(fmt.Errorf("create the database: %w", err), guard.Close())
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return connection{}, errors.Join(fmt.Errorf("create the database: %w", err), guard.Close())
	}
	if info.Size() == 0 {
		if err := makeReclaimable(ctx, path); err != nil {
			return connection{}, errors.Join(fmt.Errorf("create the database: %w", err), guard.Close())
		}
	}
	writer, err := openSQLite(path, parameters, "immediate")
	if err != nil {
		return connection{}, errors.Join(err, guard.Close())
	}
	writer.SetMaxOpenConns(1)
	writer.SetMaxIdleConns(1)
	reader, err := openSQLite(path, parameters, "deferred", "query_only(1)")
	if err != nil {
		return connection{}, errors.Join(err, writer.Close(), guard.Close())
	}
	readers := config.MaxOpenConns - 1
	if config.MaxOpenConns <= 0 {
		readers = defaultSQLiteReaders
	}
	readers = max(readers, 1)
	reader.SetMaxOpenConns(readers)
	reader.SetMaxIdleConns(readers)
	return connection{writer: writer, reader: reader, guard: guard}, nil
}

// makeReclaimable lets Reclaim return the free pages of a file. Only an empty file takes that, before anything else is set.
func makeReclaimable(ctx context.Context, path string) error {
	escaped := (&url.URL{Path: path}).EscapedPath()
	db, err := sql.Open(sqlite.DriverName, "file:"+escaped)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL")
	return errors.Join(err, db.Close())
}

// parseSQLiteDSN reads a path, or a "file:" URI whose parameters are kept.
func parseSQLiteDSN(dsn string) (string, url.Values, error) {
	path, parameters := dsn, url.Values{}
	if rest, isURI := strings.CutPrefix(dsn, "file:"); isURI {
		escaped, query, _ := strings.Cut(rest, "?")
		escaped, _, _ = strings.Cut(escaped, "#")
		if host, isAbsolute := strings.CutPrefix(escaped, "//"); isAbsolute {
			escaped = "/" + strings.TrimLeft(strings.TrimPrefix(host, "localhost"), "/")
		}
		var err error
		if path, err = url.PathUnescape(escaped); err != nil {
			return "", nil, fmt.Errorf("invalid path in the DSN: %w", err)
		}
		if parameters, err = url.ParseQuery(query); err != nil {
			return "", nil, fmt.Errorf("invalid parameters in the DSN: %w", err)
		}
	}
	if path == "" || path == ":memory:" || parameters.Get("mode") == "memory" {
		return "", nil, errors.New("the DSN for sqlite must be the path of a file; in-memory databases are not supported, because their data is lost when the process ends")
	}
	return path, parameters, nil
}

// sqliteSettings are what transactions rely on (docs/decisions/0010-sqlite-durability.md). They come after those of the DSN, and so hold whatever that says.
var sqliteSettings = []string{
	// Short, since SQLite cannot be interrupted while it waits; retry waits longer.
	"busy_timeout(250)",
	"journal_mode(WAL)",
	"synchronous(FULL)",
	"foreign_keys(ON)",
	"journal_size_limit(67108864)",
	"cache_size(-16384)",
	"temp_store(MEMORY)",
}

// sqliteURI is that of a file for the driver.
func sqliteURI(path string, parameters url.Values, transaction string) string {
	values := maps.Clone(parameters)
	if values == nil {
		values = url.Values{}
	}
	values.Set("_txlock", transaction)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + values.Encode()
}

// openSQLite opens a pool of connections to a file, with further pragmas.
func openSQLite(path string, parameters url.Values, transaction string, pragmas ...string) (*sql.DB, error) {
	return openKept(sqliteURI(path, parameters, transaction), slices.Concat(sqliteSettings, pragmas))
}

func (sqliteDialect) gorm(pool *sql.DB) gorm.Dialector { return &sqlite.Dialector{Conn: pool} }

func (sqliteDialect) goose() goose.Dialect { return goose.DialectSQLite3 }

// locker is none: lockFile has kept other processes out.
func (sqliteDialect) locker() lock.SessionLocker { return nil }

// lock does nothing: BEGIN IMMEDIATE has taken the only write lock there is.
func (sqliteDialect) lock(*gorm.DB) error { return nil }

// writeOptions and readOptions are none: a transaction of SQLite always sees one snapshot.
func (sqliteDialect) writeOptions() *sql.TxOptions { return nil }

func (sqliteDialect) readOptions() *sql.TxOptions { return nil }

func (sqliteDialect) notify(*gorm.DB, string) error { return nil }

func (sqliteDialect) List(column string) string { return "GROUP_CONCAT(" + column + ")" }

// Among: SQLite has no function for the bits of a value.
func (sqliteDialect) Among(column string, numbers []int64) clause.Expr {
	return among("CASE WHEN %[1]s >= ? AND %[1]s <= ? THEN SUBSTR(?, %[1]s - ? + 1, 1) = X'01' ELSE 0 END", column, numbers, byteSet, func(column, list string) clause.Expr {
		return gorm.Expr(column+" IN (SELECT value FROM JSON_EACH(?))", "["+list+"]")
	})
}

func (sqliteDialect) IgnoreConflict(unique ...string) string {
	return " ON CONFLICT (" + strings.Join(unique, ", ") + ") DO NOTHING"
}

func (sqliteDialect) Lower(column string) string { return "LOWER(" + column + ")" }

func (sqliteDialect) Position(text, part string) string { return "INSTR(" + text + ", " + part + ")" }

// Size is that of the file, without the write-ahead log.
func (sqliteDialect) Size() string {
	return "SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s"
}

// reset rolls back: SQLite keeps a transaction open when its commit fails for some reasons, and rolls it back for
// others. The pool has one connection, so this is the one; that there is nothing to roll back is no error.
func (sqliteDialect) reset(pool *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = pool.ExecContext(ctx, "ROLLBACK")
}

func (sqliteDialect) classify(err error) errorClass {
	switch sqliteCode(err) {
	case sqliteBusy, sqliteLocked, sqliteProtocol:
		return errorBusy
	case sqliteReadOnly, sqliteIOErr, sqliteFull, sqliteCantOpen:
		return errorUnavailable
	default:
		return errorOther
	}
}

// unsent: there is nothing between the process and the database.
func (sqliteDialect) unsent(error) bool { return true }

// sqliteCode is the primary result code in an error, 0 when there is none.
func sqliteCode(err error) int {
	var coded interface {
		error
		Code() int
	}
	if !errors.As(err, &coded) {
		return 0
	}
	return coded.Code() & 0xff
}
