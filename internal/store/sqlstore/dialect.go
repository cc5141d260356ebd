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
	"gorm.io/gorm"
)

// connection is what a dialect opens: one pool for transactions that write and one for those that read, which may be the
// same, and a guard that is closed after both.
type connection struct {
	writer, reader *sql.DB
	guard          io.Closer
}

// dialect is all that differs from database to database. Statements are written with ? for values, "INSERT INTO" and
// standard SQL otherwise; GORM turns the ? into what the driver wants.
type dialect interface {
	// open connects, without a migration.
	open(ctx context.Context, config Config) (connection, error)
	// gorm is the GORM dialector of a pool.
	gorm(pool *sql.DB) gorm.Dialector
	// migrations are the goose files; goose names the dialect to it.
	migrations() (goose.Dialect, fs.FS, error)
	// lock makes a writing transaction wait for those before it, so that sequence numbers of events become visible in
	// their order.
	lock(tx *gorm.DB) error
	// readOptions give a reading transaction one view of the data for all of its statements.
	readOptions() *sql.TxOptions
	// ignoreConflict is the end of an INSERT that leaves a row alone that is there already under these unique columns.
	ignoreConflict(unique ...string) string
	// lower is an expression with the ASCII letters of a column in lower case.
	lower(column string) string
	// reset ends a transaction that a failed commit may have left open on a pooled connection.
	reset(pool *sql.DB)
	// isRetryable reports whether the transaction can succeed when it is tried again at once.
	isRetryable(err error) bool
	// isUnavailable reports whether the database is out of reach, too busy, full or read-only.
	isUnavailable(err error) bool
}

// dialects holds what Config.Type can name.
var dialects = map[string]dialect{
	TypeSQLite: sqliteDialect{},
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
