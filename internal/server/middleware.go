package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// contentSecurityPolicy lets the UI load its own files and talk to its own origin, and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// denials are the statuses of requests that were denied, and the reasons in metrics.
var denials = map[int]string{
	http.StatusUnauthorized: "unauthenticated", http.StatusForbidden: "forbidden", http.StatusTooManyRequests: "rate-limited",
}

// statusClientGone is what metrics show for a request whose client went away before the answer.
const statusClientGone = 499

// recorder sees the status of an answer, and carries what the layers of one request tell each other.
type recorder struct {
	http.ResponseWriter
	// status is 0 until the answer begins.
	status int
	// route is the path pattern of the operation.
	route string
	// observed says that the request is in the metrics already.
	observed bool
	// span is nil when the request is not traced.
	span trace.Span
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write begins the answer with 200 when nothing did before.
func (r *recorder) Write(data []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// recorderOf returns the recorder of a request, nil when there is none behind the writer.
func recorderOf(w http.ResponseWriter) *recorder {
	for {
		switch inner := w.(type) {
		case *recorder:
			return inner
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// statusOf is the status that a request was answered with, 0 when it was not.
func statusOf(w http.ResponseWriter) int {
	if rec := recorderOf(w); rec != nil {
		return rec.status
	}
	return 0
}

func routeOf(rec *recorder) string {
	if rec == nil {
		return ""
	}
	return rec.route
}

// observe measures and logs every request and turns a panic into an answer. It is the outermost layer.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec, start := &recorder{ResponseWriter: w, route: "other"}, s.clock()
		defer func() {
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
				s.log.Error(fmt.Errorf("panic: %v", cause), "Handler panicked", "method", r.Method, "route", rec.route, "stack", string(debug.Stack()))
				cause = s.answerPanic(rec, r)
			}
			s.measure(rec, r, s.clock().Sub(start))
			if cause != nil {
				panic(cause)
			}
		}()
		next.ServeHTTP(rec, r)
	})
}

// answerPanic tells the client about a panic if the answer has not begun, and returns what to panic with otherwise.
func (s *Server) answerPanic(rec *recorder, r *http.Request) (cause any) {
	defer func() { cause = recover() }()
	s.writeProblem(rec, r, problem.New(http.StatusInternalServerError, "internal error; see the operator's log"))
	return nil
}

// measure puts a request into the metrics, once, and ends its trace.
func (s *Server) measure(rec *recorder, r *http.Request, took time.Duration) {
	if rec.observed {
		return
	}
	rec.observed = true
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	s.endTrace(rec, status)
	method := knownMethod(r.Method)
	s.metrics.duration.WithLabelValues(method, rec.route, strconv.Itoa(status)).Observe(took.Seconds())
	if reason, denied := denials[status]; denied {
		s.metrics.denied.WithLabelValues(method, rec.route, reason).Inc()
	}
	s.log.V(1).Info("Request served", "method", method, "route", rec.route, "status", status, "took", took.String())
}

// knownMethod keeps what a client can put into a label or a message small.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// splitPattern splits "METHOD /path".
func splitPattern(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, path
}

// secure sets the headers that every answer carries, refuses requests that another web site makes a browser send, and,
// without authentication, requests that name another host than this machine (DNS rebinding).
func (s *Server) secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if s.config.isHTTPS(r) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if s.config.Auth == auth.None && !IsLoopbackHost(hostOnly(r.Host)) {
			s.writeProblem(w, r, problem.New(http.StatusMisdirectedRequest,
				"without authentication, only requests to localhost or a loopback address are allowed"))
			return
		}
		if err := s.protection.Check(r); err != nil {
			s.writeProblem(w, r, problem.New(http.StatusForbidden, "cross-origin request refused: %v", err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostOnly is the host of a Host header without its port.
func hostOnly(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// newProtection trusts the pages of an origin, beside those of the host of a request.
func newProtection(origin string) (*http.CrossOriginProtection, error) {
	protection := http.NewCrossOriginProtection()
	if origin == "" {
		return protection, nil
	}
	if err := protection.AddTrustedOrigin(origin); err != nil {
		return nil, fmt.Errorf("server configuration: %w", err)
	}
	return protection, nil
}

// writeProblem writes a problem document. A client that is gone gets nothing, and an answer that has begun is cut off, so
// that nobody takes it for a whole one.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	rec := recorderOf(w)
	if rec != nil && rec.status != 0 {
		if r.Context().Err() == nil {
			s.log.V(1).Info("Response aborted", "method", r.Method, "route", rec.route, "error", err.Error())
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
	p := problem.From(err)
	switch {
	case p.Status == http.StatusForbidden && p.Cause != nil:
		s.log.Info("Request refused", "method", r.Method, "route", routeOf(rec), "detail", p.Detail, "error", p.Cause.Error())
	case p.Status == http.StatusInternalServerError:
		s.log.Error(p.Cause, "Request failed", "method", r.Method, "route", routeOf(rec))
	case p.Status > http.StatusInternalServerError:
		s.log.Info("Request cannot be served", "method", r.Method, "route", routeOf(rec), "detail", p.Detail, "error", fmt.Sprint(p.Cause))
	}
	if err := problem.Write(w, p); err != nil {
		s.log.V(1).Info("Cannot write the problem document", "error", err.Error())
	}
}
