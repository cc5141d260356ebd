package sqldb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gorm.io/gorm"
)

const (
	// retryFor is how long a busy database is tried again, retryLostFor how long one that cannot be reached; it is enough for
	// connections that a restart of the server has closed. retryFirst and retryMost are the first and longest pause.
	retryFor     = 10 * time.Second
	retryLostFor = 2 * time.Second
	retryFirst   = 5 * time.Millisecond
	retryMost    = 500 * time.Millisecond
	// maxStatement limits the text and bytes in the values of one INSERT of several rows. With all that a driver adds, it is
	// below the limit of every database: 16 MiB is the default of MariaDB.
	maxStatement = 4 << 20
)

// Limits of one statement.
const (
	// MaxVariables is the maximum number of values. It is far below the limit of every database.
	MaxVariables = 500
	// MaxIn is the maximum number of values in one IN list.
	MaxIn = 500
)

// Tx is a transaction that writes.
type Tx struct {
	*gorm.DB
	// Dialect is that of the database.
	Dialect Dialect
	db      *DB
	what    string
}

// Execute runs a statement.
func (t *Tx) Execute(statement string, values ...any) error {
	_, err := t.Change(statement, values...)
	return err
}

// Change runs a statement and returns how many rows it changed.
func (t *Tx) Change(statement string, values ...any) (int64, error) {
	if err := inject("statement", t.what); err != nil {
		return 0, err
	}
	result := t.Exec(statement, values...)
	return result.RowsAffected, result.Error
}

// Notify notifies other processes of the commit, where the database supports that: see Config.Notified.
func (t *Tx) Notify() error { return t.db.dialect.notify(t.DB, t.db.config.Self) }

// Insert writes rows, given as their values one after the other, in as few statements as the limits allow. suffix is the end of
// each statement, such as Dialect.IgnoreConflict.
func (t *Tx) Insert(table string, columns []string, values []any, suffix string) error {
	if len(values) == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	head := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES "
	for len(values) > 0 {
		rows := rowsOfStatement(values, len(columns))
		statement := head + row + strings.Repeat(", "+row, rows-1) + suffix
		if err := t.Execute(statement, values[:rows*len(columns)]...); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
		values = values[rows*len(columns):]
	}
	return nil
}

// rowsOfStatement is how many rows of that many columns one statement takes, at least one.
func rowsOfStatement(values []any, columns int) int {
	rows, size := 0, 0
	for ; (rows+1)*columns <= min(len(values), MaxVariables); rows++ {
		for _, value := range values[rows*columns : (rows+1)*columns] {
			switch value := value.(type) {
			case string:
				size += len(value)
			case []byte:
				size += len(value)
			}
		}
		if rows > 0 && size > maxStatement {
			break
		}
	}
	return max(rows, 1)
}

// Write runs work in a transaction. It is tried again while the database is busy or after a lost connection, so work must start
// from scratch each time. Transactions that write run one after the other, also those of other processes. After Write returns nil,
// what work wrote is durable and visible. After ErrUnavailable it may be: the connection may have been lost after the commit.
func (db *DB) Write(ctx context.Context, what string, work func(tx *Tx) error) error {
	session, err := db.current()
	if err != nil {
		return db.wrap(ctx, what, err)
	}
	err = db.retry(ctx, func() error {
		if err := inject("begin", what); err != nil {
			return err
		}
		tx := session.writes.WithContext(ctx).Begin(db.dialect.writeOptions())
		if tx.Error != nil {
			return tx.Error
		}
		ended := false
		defer func() {
			if !ended { // After a panic too, so that it does not keep the one connection that writes.
				_ = tx.Rollback().Error
			}
		}()
		err := db.dialect.lock(tx)
		if err == nil {
			err = work(&Tx{DB: tx, Dialect: db.dialect, db: db, what: what})
		}
		// A driver may skip statements of a cancelled context without an error.
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = inject("commit", what)
		}
		if err != nil {
			return err // The error of the rollback would add nothing: the transaction is gone either way.
		}
		ended = true
		if err := tx.Commit().Error; err != nil {
			db.dialect.reset(session.writer)
			return db.commitError(err)
		}
		return inject("committed", what)
	})
	if err != nil {
		return db.wrap(ctx, what, err)
	}
	return nil
}

// Read runs work in a transaction that sees one state of the database. It is tried again as Write does.
func (db *DB) Read(ctx context.Context, what string, work func(tx *gorm.DB) error) error {
	session, err := db.current()
	if err != nil {
		return db.wrap(ctx, what, err)
	}
	err = db.retry(ctx, func() error {
		tx := session.reads.WithContext(ctx).Begin(db.dialect.readOptions())
		if tx.Error != nil {
			return tx.Error
		}
		defer func() { _ = tx.Rollback().Error }()
		if err := work(tx); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return db.wrap(ctx, what, err)
	}
	return nil
}

// commitError makes the error of a commit final, unless it is certain that nothing was committed.
func (db *DB) commitError(err error) error {
	if db.classify(err) != errorLost || db.dialect.unsent(err) {
		return err
	}
	return Final(fmt.Errorf("%w: the connection was lost during the commit, so it is not known whether the change was saved: %w",
		ErrUnavailable, err))
}

// retry runs attempt again while the database reports that it is busy, for retryFor at most, or cannot be reached, for
// retryLostFor at most.
func (db *DB) retry(ctx context.Context, attempt func() error) error {
	start := time.Now()
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := attempt()
		if err == nil || ctx.Err() != nil || time.Since(start) >= db.retryTime(err) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// retryTime is how long calls that end with this error are tried again.
func (db *DB) retryTime(err error) time.Duration {
	if _, final := errors.AsType[*finalError](err); final {
		return 0
	}
	switch db.classify(err) {
	case errorBusy:
		return retryFor
	case errorLost:
		return retryLostFor
	default:
		return 0
	}
}
