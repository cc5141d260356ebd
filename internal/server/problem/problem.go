// Package problem says which HTTP answer an error becomes, and writes it as a problem document (RFC 9457).
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// retryAfter is when a client should ask again after a failure that is expected to pass.
const retryAfter = 5 * time.Second

// Error is an error that knows the answer to the client.
type Error struct {
	// Status is the HTTP status, Detail what the client is shown.
	Status int
	Detail string
	// RetryAfter is when the client should ask again, 0 when trying again does not help.
	RetryAfter time.Duration
	// Cause is for the log only.
	Cause error
}

// Error returns status, detail and cause.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%d %s: %v", e.Status, e.Detail, e.Cause)
	}
	return fmt.Sprintf("%d %s", e.Status, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns an error with a status and a detail.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// BadRequest refuses what a client sent.
func BadRequest(format string, args ...any) *Error {
	return New(http.StatusBadRequest, format, args...)
}

// Unavailable asks the client to try again soon.
func Unavailable(cause error, detail string) *Error {
	return &Error{Status: http.StatusServiceUnavailable, Detail: detail, RetryAfter: retryAfter, Cause: cause}
}

// UploadForbidden refuses the upload of an SBOM. The answer is the same for every cause: it must not tell which pods, Jobs and images exist.
func UploadForbidden(cause error) *Error {
	return &Error{Status: http.StatusForbidden, Detail: "this pod is not allowed to upload the SBOM of this image; the operator's log has the reason", Cause: cause}
}

// TooManyRequests asks the client to try again after some time.
func TooManyRequests(wait time.Duration, detail string) *Error {
	return &Error{Status: http.StatusTooManyRequests, Detail: detail, RetryAfter: wait}
}

// RefusedError says that a body is refused, and why.
type RefusedError struct {
	// Status is the HTTP status to answer with: 400, 413 or 422; anything else becomes 400.
	Status int
	// Detail is shown to the caller.
	Detail string
}

// Error returns the detail.
func (e *RefusedError) Error() string { return e.Detail }

// From maps an error to the answer. Nothing of an unexpected error is shown.
func From(err error) *Error {
	if p, ok := errors.AsType[*Error](err); ok {
		return p
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		switch refused.Status {
		case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return New(refused.Status, "%s", refused.Detail)
		default:
			return BadRequest("%s", refused.Detail)
		}
	}
	if invalid, ok := errors.AsType[*report.InvalidError](err); ok {
		if invalid.TooLarge {
			return New(http.StatusRequestEntityTooLarge, "%s", invalid.Detail)
		}
		return BadRequest("%s", invalid.Detail)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return New(http.StatusRequestEntityTooLarge, "the request body exceeds the limit of %d bytes", tooLarge.Limit)
	}
	if limit, ok := errors.AsType[*store.LimitError](err); ok {
		return BadRequest("%s", limit.Detail)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return New(http.StatusNotFound, "image not found, or it does not have the requested data yet")
	case errors.Is(err, store.ErrAttemptClosed):
		return UploadForbidden(err)
	case errors.Is(err, store.ErrInvalidToken):
		return BadRequest("pageToken is not valid for this list; start again without it")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrSchemaTooNew):
		return Unavailable(err, "the SQL database is unavailable; try again")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return New(http.StatusRequestTimeout, "timeout while reading the request body")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unavailable(err, "the request was canceled or timed out")
	default:
		return &Error{Status: http.StatusInternalServerError, Detail: "internal error; see the operator's log", Cause: err}
	}
}

// As returns the answer for an error that has one of its own or is caused by the database or a timeout; ok is false for
// any other error.
func As(err error) (p *Error, ok bool) {
	if p, ok := errors.AsType[*Error](err); ok {
		return p, true
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return From(err), true
	}
	return nil, false
}

// BadParameter says which parameter of a request the generated code could not read, and what it may be.
func BadParameter(err error) *Error {
	malformed, ok := errors.AsType[*api.InvalidParamFormatError](err)
	if !ok {
		return BadRequest("%v", err)
	}
	number, isNumber := errors.AsType[*strconv.NumError](err)
	_, isTime := errors.AsType[*time.ParseError](err)
	switch {
	case isNumber && number.Func == "ParseBool":
		return BadRequest("%s: %.40q is not a boolean; use true or false", malformed.ParamName, number.Num)
	case isNumber && number.Func == "ParseFloat":
		return BadRequest("%s: %.40q is not a number", malformed.ParamName, number.Num)
	case isNumber:
		return BadRequest("%s: %.40q is not a valid integer", malformed.ParamName, number.Num)
	case isTime:
		return BadRequest("%s is not a valid date such as 2026-01-31 or time such as 2026-01-31T12:00:00Z", malformed.ParamName)
	default:
		return BadRequest("%v", err)
	}
}

// Write writes a problem document as the whole answer.
func Write(w http.ResponseWriter, p *Error) error {
	h := w.Header()
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="scanner-operator"`)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	h.Del("Content-Disposition")
	body := api.Problem{Type: "about:blank", Title: http.StatusText(p.Status), Status: p.Status}
	if p.Detail != "" {
		body.Detail = &p.Detail
	}
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		return fmt.Errorf("write a problem document: %w", err)
	}
	return nil
}
