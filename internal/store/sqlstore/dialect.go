package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"
)

// connection is what a dialect opens: one pool for transactions that write and one for those that read, and a guard that is
// closed after both.
type connection struct {
	writer, reader *sql.DB
	guard          io.Closer
	// listen waits for commits of other processes that wrote events and calls changed after each, until the context ends. It is
	// nil where the database does not tell of them.
	listen func(ctx context.Context, changed func())
}

// dialect is all that differs from database to database. Statements are written with ? for values, "INSERT INTO" and
// standard SQL otherwise; GORM turns the ? into what the driver wants.
type dialect interface {
	// open connects, without a migration. self names this store among those that use the database.
	open(ctx context.Context, config Config, self string) (connection, error)
	// gorm is the GORM dialector of a pool.
	gorm(pool *sql.DB) gorm.Dialector
	// migrations are the goose files; goose names the dialect to it.
	migrations() (goose.Dialect, fs.FS, error)
	// locker keeps two processes from migrating at once; nil where only one can open the database.
	locker() lock.SessionLocker
	// lock makes a writing transaction wait for those before it, so that sequence numbers of events become visible in
	// their order.
	lock(tx *gorm.DB) error
	// writeOptions are those of a writing transaction: each statement after lock sees all that was committed before.
	writeOptions() *sql.TxOptions
	// readOptions give a reading transaction one view of the data for all of its statements.
	readOptions() *sql.TxOptions
	// notify tells other processes with the commit that there are new events, where the database can do that.
	notify(tx *gorm.DB, self string) error
	// ignoreConflict is the end of an INSERT that leaves a row alone that is there already under these unique columns.
	ignoreConflict(unique ...string) string
	// lower is an expression with the ASCII letters of a column in lower case.
	lower(column string) string
	// reset ends a transaction that a failed commit may have left open on a pooled connection.
	reset(pool *sql.DB)
	// classify says what an error of the database means.
	classify(err error) errorClass
	// unsent reports whether a statement certainly never reached the database.
	unsent(err error) bool
}

// errorClass says what to do about an error.
type errorClass int

const (
	// errorOther: trying again does not help.
	errorOther errorClass = iota
	// errorBusy: the transaction was rolled back, and can succeed when it is tried again at once.
	errorBusy
	// errorLost: the connection is gone or was refused; another one may do.
	errorLost
	// errorUnavailable: the database is full, read-only or closed.
	errorUnavailable
)

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
	return nil, fmt.Errorf("the database type %q is not supported; supported: %s", name, strings.Join(supported, ", "))
}
