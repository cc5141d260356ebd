package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

var (
	// ErrUnavailable means that the database cannot be reached, is full, read-only or closed. A later attempt can succeed.
	ErrUnavailable = errors.New("database unavailable")
	// ErrSchemaTooNew means that a newer version of the program has migrated the database.
	ErrSchemaTooNew = errors.New("database schema is newer than this program")
	// ErrInvalidValue means that a sort value is none that the database can hold.
	ErrInvalidValue = errors.New("invalid sort value")
)

// errorClass says what to do about an error.
type errorClass int

const (
	// errorOther: trying again does not help.
	errorOther errorClass = iota
	// errorBusy: the transaction was rolled back, and can succeed when it is tried again at once.
	errorBusy
	// errorLost: the connection is lost or was refused; another one may work.
	errorLost
	// errorUnavailable: the database is full, read-only or closed.
	errorUnavailable
)

// classify says what an error means.
func (db *DB) classify(err error) errorClass {
	switch class := db.dialect.classify(err); {
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

// wrap adds what was done to an error, and ErrUnavailable or the error of the context.
func (db *DB) wrap(ctx context.Context, what string, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		return fmt.Errorf("%s: %w (%w)", what, ctxErr, err)
	}
	if errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if db.classify(err) != errorOther {
		return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// finalError is an error after which a transaction must not be tried again.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Final marks the error of a transaction as one after which it is not tried again, because the caller has seen a part of the
// result. The message stays the same.
func Final(err error) error { return &finalError{err} }
