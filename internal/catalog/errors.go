package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Error is a failure with its typed reason. Run and Upload return no other error.
type Error struct {
	Reason model.Reason
	Err    error
}

// Error returns "Reason: what happened".
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap gives access to the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf is the reason of an error that this package returned, and ReasonCatalogFailed for any other.
func ReasonOf(err error) model.Reason {
	if typed, ok := errors.AsType[*Error](err); ok {
		return typed.Reason
	}
	return model.ReasonCatalogFailed
}

// OutcomeOf describes how an attempt ended; a nil error is success.
func OutcomeOf(err error) model.Outcome {
	if err == nil {
		return model.Outcome{}
	}
	message := err.Error()
	if typed, ok := errors.AsType[*Error](err); ok {
		message = typed.Err.Error()
	}
	return model.Outcome{Reason: ReasonOf(err), Message: message, RetryAfter: retryAfterOf(err)}
}

// retryAfterOf returns the delay that the registry requested with the header Retry-After, 0 if none.
func retryAfterOf(err error) time.Duration {
	status, ok := errors.AsType[*statusError](err)
	if !ok || status.status != http.StatusTooManyRequests && status.status != http.StatusServiceUnavailable {
		return 0
	}
	return min(status.retryAfter, model.MaxRetryAfter)
}

func failf(reason model.Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// typed gives err a reason. The end of the context wins, since it makes everything else fail; then a reason that err
// already carries, then what the operating system says, then fallback.
func typed(ctx context.Context, err error, fallback model.Reason) *Error {
	if ctx.Err() != nil {
		return interrupted(ctx, err)
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failf(model.ReasonOutOfDisk, "the scratch directory is full; increase its size: %w", err)
	case errors.Is(err, syscall.EROFS):
		return failf(model.ReasonOutOfDisk, "the scratch directory is read-only; mount a writable volume: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		return failf(model.ReasonImageNotFound, "%w", err)
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
		return failf(model.ReasonDeadlineExceeded, "%w while: %w", cause, err)
	}
	return failf(model.ReasonDeadlineExceeded, "%w", cause)
}
