package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// The types of databases.
const (
	// TypeSQLite is a database in a file, for one process.
	TypeSQLite = "sqlite"
	// TypePostgres is a PostgreSQL server, TypeMySQL one of MySQL or MariaDB. Both serve any number of processes.
	TypePostgres = "postgres"
	TypeMySQL    = "mysql"
)

// Dialect is what statements need to know about the type of the database. Apart from it they are standard SQL with ? for values,
// which GORM replaces by what the driver expects.
type Dialect interface {
	// Type is TypeSQLite, TypePostgres or TypeMySQL.
	Type() string
	// IgnoreConflict is the end of an INSERT that skips rows whose unique columns are present already.
	IgnoreConflict(unique ...string) string
	// List is an expression that joins the numbers in a column of a group with commas.
	List(column string) string
	// Among is the condition that a column is one of some thousand numbers, which are in order, each once. All values of the column are looked at.
	Among(column string, numbers []int64) clause.Expr
	// Lower is an expression with the ASCII letters of a column in lower case.
	Lower(column string) string
	// Position is an expression for where the second text begins in the first, from 1 on, and 0 if it is not there. The case of letters counts.
	Position(text, part string) string
	// Size is a statement that returns the size of all tables and indexes in bytes.
	Size() string
}

// dialect is all that differs between types of databases.
type dialect interface {
	Dialect
	// open connects, without a migration.
	open(ctx context.Context, config Config) (connection, error)
	// gorm is the GORM dialector of a pool.
	gorm(pool *sql.DB) gorm.Dialector
	// goose is the dialect of migrations.
	goose() goose.Dialect
	// locker prevents two processes from migrating at once; nil where only one can open the database.
	locker() lock.SessionLocker
	// lock makes a writing transaction wait for those before it, so that transactions become visible in the order in which they
	// took the lock.
	lock(tx *gorm.DB) error
	// writeOptions are those of a writing transaction: each statement after lock sees all that was committed before.
	writeOptions() *sql.TxOptions
	// readOptions give a reading transaction one view of the data for all of its statements.
	readOptions() *sql.TxOptions
	// notify sends a notification to other processes with the commit, where the database supports that.
	notify(tx *gorm.DB, self string) error
	// reset ends a transaction that a failed commit may have left open on a pooled connection.
	reset(pool *sql.DB)
	// classify says what an error of the database means.
	classify(err error) errorClass
	// unsent reports whether a statement certainly never reached the database.
	unsent(err error) bool
}

// connection is what a dialect opens: one pool for transactions that write and one for those that read, and a guard that is
// closed after both.
type connection struct {
	writer, reader *sql.DB
	guard          io.Closer
	// listen waits for notifications of other processes and calls notified after each, until the context ends. It is nil where the
	// database has none.
	listen func(ctx context.Context, notified func())
}

// dialects holds what Config.Type can name.
var dialects = map[string]dialect{
	TypeSQLite:   sqliteDialect{},
	TypePostgres: postgresDialect{},
	TypeMySQL:    mysqlDialect{},
}

func dialectOf(name string) (dialect, error) {
	if name == "" {
		name = TypeSQLite
	}
	if d, found := dialects[name]; found {
		return d, nil
	}
	supported := make([]string, 0, len(dialects))
	for known := range dialects {
		supported = append(supported, known)
	}
	slices.Sort(supported)
	return nil, fmt.Errorf("the database type %q is not supported; supported types: %s", name, strings.Join(supported, ", "))
}
