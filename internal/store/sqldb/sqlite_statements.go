package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/maphash"

	"k8s.io/utils/lru"
	"modernc.org/sqlite"
)

// Bounds of the statements that a connection to SQLite keeps.
const (
	// keptStatements is how many there are at most, besides those that are in use.
	keptStatements = 128
	// maxKeptStatement is the most bytes of the text of a statement that is kept.
	maxKeptStatement = 16 << 10
	// keptAtOnce is the most bytes of the text of a statement that is kept when it runs for the first time. Longer ones often contain lists of numbers, and run once: they are kept
	// when they run for the second time. seenStatements is how many of these a connection knows that it ran once.
	keptAtOnce     = 2 << 10
	seenStatements = 1024
)

var hashSeed = maphash.MakeSeed()

// openKept opens a pool of connections to SQLite that keep the statements that they have compiled: compiling takes longer than running most of them
// (docs/decisions/0139-prepared-statements-of-sqlite.md). Each connection begins with pragmas, in this order: the driver would sort those of the DSN.
func openKept(dsn string, pragmas []string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("invalid DSN: %w", err)
	}
	return sql.OpenDB(keepingConnector{connector, pragmas}), nil
}

// keepingConnector makes connections that keep statements.
type keepingConnector struct {
	driver.Connector
	pragmas []string
}

// Connect implements driver.Connector.
func (k keepingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	plain, err := k.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, complete := plain.(sqliteConn)
	if !complete {
		return nil, errors.Join(fmt.Errorf("the driver of SQLite has connections of the unexpected type %T", plain), plain.Close())
	}
	for _, pragma := range k.pragmas {
		if _, err := conn.ExecContext(ctx, "PRAGMA "+pragma, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", pragma, err), conn.Close())
		}
	}
	kept := lru.NewWithEvictionFunc(keptStatements, func(_ lru.Key, statement any) { statement.(*keptStatement).drop() })
	return &keepingConn{sqliteConn: conn, kept: kept, seen: lru.New(seenStatements)}, nil
}

// sqliteConn is what connections of the driver can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// keepingConn is a connection that keeps statements. As with all connections of database/sql, one goroutine uses it at a time.
type keepingConn struct {
	sqliteConn
	kept *lru.Cache
	// seen has the hashes of long texts that ran once.
	seen *lru.Cache
}

// ExecContext implements driver.ExecerContext.
func (c *keepingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	statement, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if statement == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return statement.ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *keepingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	statement, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if statement == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := statement.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	typed, complete := rows.(sqliteRows)
	if !complete {
		return nil, errors.Join(fmt.Errorf("the driver of SQLite has rows of the unexpected type %T", rows), rows.Close())
	}
	statement.inUse = true
	return &keptRows{typed, statement}, nil
}

// Close implements driver.Conn. SQLite keeps the file open until the last statement is closed.
func (c *keepingConn) Close() error {
	for c.kept.Len() > 0 {
		c.kept.RemoveOldest()
	}
	return c.sqliteConn.Close()
}

// statement returns the compiled statement of a text. It is nil if the text is too long to be kept, if it is long and runs for the first time, or if the statement is in use: rows of it
// are being read.
func (c *keepingConn) statement(ctx context.Context, query string) (*keptStatement, error) {
	if len(query) > maxKeptStatement {
		return nil, nil //nolint:nilnil // The caller runs the text then.
	}
	if found, known := c.kept.Get(query); known {
		if statement := found.(*keptStatement); !statement.inUse {
			return statement, nil
		}
		return nil, nil //nolint:nilnil // The caller runs the text then.
	}
	if len(query) > keptAtOnce && !c.again(query) {
		return nil, nil //nolint:nilnil // The caller runs the text then.
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	runs, complete := prepared.(sqliteStatement)
	if !complete {
		return nil, errors.Join(fmt.Errorf("the driver of SQLite has statements of the unexpected type %T", prepared), prepared.Close())
	}
	statement := &keptStatement{sqliteStatement: runs}
	c.kept.Add(query, statement)
	return statement, nil
}

// again reports whether a text runs for the second time.
func (c *keepingConn) again(query string) bool {
	hash := maphash.String(hashSeed, query)
	_, again := c.seen.Get(hash)
	if again {
		c.seen.Remove(hash)
	} else {
		c.seen.Add(hash, nil)
	}
	return again
}

// sqliteStatement is what statements of the driver can do.
type sqliteStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keptStatement is a compiled statement. It is in use while its rows are read.
type keptStatement struct {
	sqliteStatement
	inUse, dropped bool
}

// drop closes the statement, at the end of its rows if it is in use.
func (s *keptStatement) drop() {
	s.dropped = true
	if !s.inUse {
		_ = s.Close()
	}
}

// sqliteRows is what rows of the driver can do.
type sqliteRows interface {
	driver.Rows
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// keptRows are the rows of a statement that is kept.
type keptRows struct {
	sqliteRows
	statement *keptStatement
}

// Close implements driver.Rows.
func (r *keptRows) Close() error {
	err := r.sqliteRows.Close()
	r.statement.inUse = false
	if r.statement.dropped {
		err = errors.Join(err, r.statement.Close())
	}
	return err
}
