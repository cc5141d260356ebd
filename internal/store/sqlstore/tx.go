package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// retryFor is how long a busy database is tried again, retryLostFor how long one that cannot be reached; it is enough for
	// connections that a restart of the server has cut. retryFirst and retryMost are the first and longest pause.
	retryFor     = 10 * time.Second
	retryLostFor = 2 * time.Second
	retryFirst   = 5 * time.Millisecond
	retryMost    = 500 * time.Millisecond
	// maxVariables bounds the values in one statement. It is far below the limit of every database, because the sqlite
	// driver looks for each value among all.
	maxVariables = 500
	// maxStatement bounds the text and bytes in the values of one INSERT of several rows. With all that a driver adds, it is
	// below the limit of every database: 16 MiB is the default of MariaDB.
	maxStatement = 4 << 20
	// maxIn bounds the values in one IN list.
	maxIn = 500
)

// txn is a transaction that writes, and the events that it will have written.
type txn struct {
	*gorm.DB
	dialect dialect
	now     int64
	// events holds the columns behind seq of each.
	events [][]any
}

// exec runs a statement.
func (t *txn) exec(statement string, values ...any) error {
	return t.Exec(statement, values...).Error
}

// event adds an entry to the event log, which becomes visible with the commit. data is written as JSON.
func (t *txn) event(kind store.EventKind, imageID, platform string, data any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", kind, err)
	}
	t.events = append(t.events, []any{t.now, string(kind), imageID, platform, string(content)})
	return nil
}

// publish writes the events. Their numbers follow those of the transaction before, which has ended: sequences of databases
// would leave holes where a transaction was rolled back, and a reader could not tell them from events that it missed.
func (t *txn) publish(self string) error {
	if len(t.events) == 0 {
		return nil
	}
	var last int64
	if err := t.Raw("SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&last).Error; err != nil {
		return err
	}
	if last == 0 { // All may have been removed.
		if err := t.Raw("SELECT seq FROM event_floor WHERE id = 1").Scan(&last).Error; err != nil {
			return err
		}
	}
	values := make([]any, 0, 6*len(t.events))
	for i, event := range t.events {
		values = append(append(values, last+int64(i)+1), event...)
	}
	if err := t.insert("events", []string{"seq", "at", "kind", "image_id", "platform", "data"}, values, ""); err != nil {
		return err
	}
	return t.dialect.notify(t.DB, self)
}

// insert writes rows, given as their values one after the other, in as few statements as the bounds allow.
func (t *txn) insert(table string, columns []string, values []any, suffix string) error {
	if len(values) == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	head := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES "
	for len(values) > 0 {
		rows := rowsOfStatement(values, len(columns))
		statement := head + row + strings.Repeat(", "+row, rows-1) + suffix
		if err := t.exec(statement, values[:rows*len(columns)]...); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
		values = values[rows*len(columns):]
	}
	return nil
}

// rowsOfStatement is how many rows of that many columns one statement takes, at least one.
func rowsOfStatement(values []any, columns int) int {
	rows, size := 0, 0
	for ; (rows+1)*columns <= min(len(values), maxVariables); rows++ {
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

// write runs work in a transaction that is tried again while the database is busy or the connection was lost, so work must
// start from scratch each time. After it returns nil, what work wrote is durable and visible. After store.ErrUnavailable it
// may be: the connection may have been lost after the commit.
func (s *Store) write(ctx context.Context, what string, work func(tx *txn) error) error {
	var wrote bool
	err := s.retry(ctx, func() error {
		tx := s.writes.WithContext(ctx).Begin(s.dialect.writeOptions())
		if tx.Error != nil {
			return tx.Error
		}
		ended := false
		defer func() {
			if !ended { // After a panic too, so that it does not keep the one connection that writes.
				_ = tx.Rollback().Error
			}
		}()
		t := &txn{DB: tx, dialect: s.dialect, now: s.now()}
		err := s.dialect.lock(tx)
		if err == nil {
			err = work(t)
		}
		if err == nil {
			err = t.publish(s.self)
		}
		// A driver may skip statements of a cancelled context without an error.
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err // The error of the rollback would add nothing: the transaction is gone either way.
		}
		wrote, ended = len(t.events) > 0, true
		if err := tx.Commit().Error; err != nil {
			s.dialect.reset(s.conn.writer)
			return s.commitError(err)
		}
		return nil
	})
	if err != nil {
		return s.wrap(ctx, what, err)
	}
	if wrote {
		s.announce()
	}
	return nil
}

// read runs work in a transaction that sees one state of the database.
func (s *Store) read(ctx context.Context, what string, work func(tx *gorm.DB) error) error {
	err := s.retry(ctx, func() error {
		tx := s.reads.WithContext(ctx).Begin(s.dialect.readOptions())
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
		return s.wrap(ctx, what, err)
	}
	return nil
}

// commitError makes the error of a commit one that is not tried again, unless it is certain that nothing was kept.
func (s *Store) commitError(err error) error {
	if s.classify(err) != errorLost || s.dialect.unsent(err) {
		return err
	}
	return &finalError{fmt.Errorf("%w: the connection was lost in the commit, so it is not known whether the change was kept: %w",
		store.ErrUnavailable, err)}
}

// retry runs attempt again while the database says that it is busy, for retryFor at most, or cannot be reached, for
// retryLostFor at most.
func (s *Store) retry(ctx context.Context, attempt func() error) error {
	start := time.Now()
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := attempt()
		if err == nil || ctx.Err() != nil || time.Since(start) >= s.patience(err) {
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

// patience is how long calls that end with this error are tried again.
func (s *Store) patience(err error) time.Duration {
	if _, final := errors.AsType[*finalError](err); final {
		return 0
	}
	switch s.classify(err) {
	case errorBusy:
		return retryFor
	case errorLost:
		return retryLostFor
	default:
		return 0
	}
}

// classify says what an error means.
func (s *Store) classify(err error) errorClass {
	switch class := s.dialect.classify(err); {
	case class != errorOther:
		return class
	case isNetworkError(err):
		return errorLost
	case errors.Is(err, sql.ErrTxDone) || err.Error() == "sql: database is closed":
		return errorUnavailable
	default:
		return errorOther
	}
}

// wrap adds what was done to an error, and the error of the store or of the context that callers look for.
func (s *Store) wrap(ctx context.Context, what string, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		return fmt.Errorf("%s: %w (%w)", what, ctxErr, err)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if s.classify(err) != errorOther {
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// finalError is an error after which retry must not start again, because the caller has seen a part of the result.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }
