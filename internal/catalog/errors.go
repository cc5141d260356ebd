package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Error is a failure with the reason that is shown to people and machines. Run and Upload return no other error.
type Error struct {
	Reason vuln.Reason
	Err    error
}

// Error returns "Reason: what happened".
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap gives access to the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of an error that this package returned, and ReasonCatalogFailed for any other.
func ReasonOf(err error) vuln.Reason {
	if typed, ok := errors.AsType[*Error](err); ok {
		return typed.Reason
	}
	return vuln.ReasonCatalogFailed
}

// OutcomeOf describes how an attempt ended; a nil error is success.
func OutcomeOf(err error) vuln.Outcome {
	if err == nil {
		return vuln.Outcome{}
	}
	message := err.Error()
	if typed, ok := errors.AsType[*Error](err); ok {
		message = typed.Err.Error()
	}
	return vuln.Outcome{Reason: ReasonOf(err), Message: message, RetryAfter: retryAfterOf(err)}
}

// retryAfterOf is how long the registry behind an error asked to be left alone, 0 when it did not ask.
func retryAfterOf(err error) time.Duration {
	status, ok := errors.AsType[*statusError](err)
	if !ok || status.status != http.StatusTooManyRequests && status.status != http.StatusServiceUnavailable {
		return 0
	}
	return min(status.retryAfter, vuln.MaxRetryAfter)
}

func failf(reason vuln.Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// typed gives err a reason. The end of the context wins, since it makes everything else fail; then a reason that err
// already carries, then what the operating system says, then fallback.
func typed(ctx context.Context, err error, fallback vuln.Reason) *Error {
	if ctx.Err() != nil {
		return interrupted(ctx, err)
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failf(vuln.ReasonOutOfDisk, "the scratch folder is full, give it more space: %w", err)
	case errors.Is(err, syscall.EROFS):
		return failf(vuln.ReasonOutOfDisk, "the scratch folder cannot be written, mount a writable volume there: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		return failf(vuln.ReasonImageNotFound, "%w", err)
	}
	return &Error{Reason: fallback, Err: err}
}

// interrupted explains an ended context. A cause that carries a reason of its own is kept.
func interrupted(ctx context.Context, err error) *Error {
	cause := context.Cause(ctx)
	if known, ok := errors.AsType[*Error](cause); ok {
		return known
	}
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled) {
		return failf(vuln.ReasonDeadlineExceeded, "%w while: %w", cause, err)
	}
	return failf(vuln.ReasonDeadlineExceeded, "%w", cause)
}
