package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// statusClientGone is what metrics show for a request whose client went away before the answer.
const statusClientGone = 499

// problem is an error that knows how it is told to the client.
type problem struct {
	status int
	detail string
	// retryAfter is in seconds, 0 when trying again does not help.
	retryAfter int
	// cause is for the log only.
	cause error
}

// Error tells status, detail and cause.
func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%d %s: %v", p.status, p.detail, p.cause)
	}
	return fmt.Sprintf("%d %s", p.status, p.detail)
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.cause }

func problemf(status int, format string, args ...any) *problem {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *problem {
	return problemf(http.StatusBadRequest, format, args...)
}

// unavailable asks the client to come back.
func unavailable(cause error, detail string) *problem {
	return &problem{status: http.StatusServiceUnavailable, detail: detail, retryAfter: 5, cause: cause}
}

// problemOf maps an error to what the client is told. Nothing of an unexpected error is shown.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		switch refused.Status {
		case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return problemf(refused.Status, "%s", refused.Detail)
		default:
			return badRequest("%s", refused.Detail)
		}
	}
	if invalid, ok := errors.AsType[*report.InvalidError](err); ok {
		if invalid.TooLarge {
			return problemf(http.StatusRequestEntityTooLarge, "%s", invalid.Detail)
		}
		return badRequest("%s", invalid.Detail)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problemf(http.StatusRequestEntityTooLarge, "the body exceeds the limit of %d bytes", tooLarge.Limit)
	}
	if limit, ok := errors.AsType[*store.LimitError](err); ok {
		return badRequest("%s", limit.Detail)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return problemf(http.StatusNotFound, "there is no such image, or nothing of that kind is known of it yet")
	case errors.Is(err, store.ErrInvalidToken):
		return badRequest("pageToken does not belong to this list; start again without it")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrSchemaTooNew):
		return unavailable(err, "the database cannot be reached at the moment")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemf(http.StatusRequestTimeout, "the body did not arrive in time")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable(err, "the request was given up before it was answered")
	default:
		return &problem{status: http.StatusInternalServerError, detail: "internal error; the operator's log says more", cause: err}
	}
}

// writeProblem writes a problem document. A client that is gone gets nothing, and an answer that has begun is cut off, so
// that nobody takes it for a whole one.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	rec := recorderOf(w)
	if rec != nil && rec.status != 0 {
		if r.Context().Err() == nil {
			s.log.V(1).Info("Answer cut off", "method", r.Method, "route", rec.route, "error", err.Error())
		}
		panic(http.ErrAbortHandler)
	}
	// A body that does not arrive in time ends the request's context as well, but its sender is still there.
	if r.Context().Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		if rec != nil {
			rec.status = statusClientGone
		}
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	switch {
	case p.status == http.StatusInternalServerError:
		s.log.Error(p.cause, "Request failed", "method", r.Method, "route", routeOf(rec))
	case p.status > http.StatusInternalServerError:
		s.log.Info("Request cannot be served", "method", r.Method, "route", routeOf(rec), "detail", p.detail, "error", fmt.Sprint(p.cause))
	}
	h := w.Header()
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="scanner-operator"`)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	h.Del("Content-Disposition")
	body := api.Problem{Type: "about:blank", Title: http.StatusText(p.status), Status: p.status}
	if p.detail != "" {
		body.Detail = &p.detail
	}
	w.WriteHeader(p.status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.log.V(1).Info("Problem not delivered", "error", err.Error())
	}
}

// badParameter says of a request that the generated code could not read which parameter is at fault, and what it may be.
func badParameter(err error) *problem {
	malformed, ok := errors.AsType[*api.InvalidParamFormatError](err)
	if !ok {
		return badRequest("%v", err)
	}
	number, isNumber := errors.AsType[*strconv.NumError](err)
	_, isTime := errors.AsType[*time.ParseError](err)
	switch {
	case isNumber && number.Func == "ParseBool":
		return badRequest("%s: %.40q is neither true nor false", malformed.ParamName, number.Num)
	case isNumber && number.Func == "ParseFloat":
		return badRequest("%s: %.40q is not a number", malformed.ParamName, number.Num)
	case isNumber:
		return badRequest("%s: %.40q is not a whole number within its bounds", malformed.ParamName, number.Num)
	case isTime:
		return badRequest("%s is neither a day such as 2026-01-31 nor a time such as 2026-01-31T12:00:00Z, where the specification asks for it", malformed.ParamName)
	default:
		return badRequest("%v", err)
	}
}

// unknownVulnerability says what was not found.
func unknownVulnerability(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return problemf(http.StatusNotFound, "no finding names or named a vulnerability with this ID or alias")
	}
	return err
}

// asProblem reports whether an error says that the database or the caller's patience is at fault, and not the caller.
func asProblem(err error) (*problem, bool) {
	if p, ok := errors.AsType[*problem](err); ok {
		return p, true
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return problemOf(err), true
	}
	return nil, false
}
