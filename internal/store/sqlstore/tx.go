package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
	// retryFor is how long a busy database is tried again, retryFirst and retryMost are the first and longest pause.
	retryFor   = 10 * time.Second
	retryFirst = 5 * time.Millisecond
	retryMost  = 500 * time.Millisecond
	// maxVariables bounds the values in one statement. It is far below the limit of every database, because the sqlite
	// driver looks for each value among all.
	maxVariables = 500
	// maxIn bounds the values in one IN list.
	maxIn = 500
)

// txn is a transaction that writes, and the events that it will have written.
type txn struct {
	*gorm.DB
	dialect dialect
	now     int64
	events  []any
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
	t.events = append(t.events, t.now, string(kind), imageID, platform, string(content))
	return nil
}

// insert writes rows, given as their values one after the other, in as few statements as the bounds allow.
func (t *txn) insert(table string, columns []string, values []any, suffix string) error {
	if len(values) == 0 {
		return nil
	}
	row := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	head := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES "
	chunk := maxVariables / len(columns) * len(columns)
	for start := 0; start < len(values); start += chunk {
		part := values[start:min(start+chunk, len(values))]
		statement := head + row + strings.Repeat(", "+row, len(part)/len(columns)-1) + suffix
		if err := t.exec(statement, part...); err != nil {
			return fmt.Errorf("insert into %s: %w", table, err)
		}
	}
	return nil
}

// write runs work in a transaction that is tried again while the database is busy, so work must start from
// scratch each time. After it returns nil, what work wrote is durable and visible.
func (s *Store) write(ctx context.Context, what string, work func(tx *txn) error) error {
	var wrote bool
	err := s.retry(ctx, func() error {
		tx := s.writes.WithContext(ctx).Begin()
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
			err = t.insert("events", []string{"at", "kind", "image_id", "platform", "data"}, t.events, "")
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
			return err
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
		options := s.dialect.readOptions()
		var tx *gorm.DB
		if options == nil {
			tx = s.reads.WithContext(ctx).Begin()
		} else {
			tx = s.reads.WithContext(ctx).Begin(options)
		}
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

// retry runs attempt again while the database says that it is busy, for retryFor at most.
func (s *Store) retry(ctx context.Context, attempt func() error) error {
	deadline := time.Now().Add(retryFor)
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		err := attempt()
		var final *finalError
		if err == nil || ctx.Err() != nil || errors.As(err, &final) || !s.dialect.isRetryable(err) || time.Now().After(deadline) {
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

// wrap adds what was done to an error, and the error of the store or of the context that callers look for.
func (s *Store) wrap(ctx context.Context, what string, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		return fmt.Errorf("%s: %w (%w)", what, ctxErr, err)
	}
	if errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if s.dialect.isUnavailable(err) || isConnectionLost(err) {
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func isConnectionLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		err.Error() == "sql: database is closed"
}

// finalError is an error after which retry must not start again, because the caller has seen a part of the result.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }
