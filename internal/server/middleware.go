package server

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// contentSecurityPolicy lets the UI load its own files and talk to its own origin, and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// metrics are what the server counts.
type metrics struct {
	duration    *prometheus.HistogramVec
	subscribers prometheus.Gauge
	evicted     prometheus.Counter
}

// newMetrics registers the metrics, or finds those that another server of this process has registered.
func newMetrics(registerer prometheus.Registerer) (metrics, error) {
	m := metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scanner_operator_http_request_duration_seconds",
			Help:    "Time to answer HTTP requests. For WebSockets, the time to open them.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route", "code"}),
		subscribers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "scanner_operator_websocket_subscribers",
			Help: "Open WebSockets.",
		}),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scanner_operator_websocket_evictions_total",
			Help: "WebSockets that were closed because their client did not keep up.",
		}),
	}
	var err error
	if m.duration, err = register(registerer, m.duration); err != nil {
		return metrics{}, err
	}
	if m.subscribers, err = register(registerer, m.subscribers); err != nil {
		return metrics{}, err
	}
	if m.evicted, err = register(registerer, m.evicted); err != nil {
		return metrics{}, err
	}
	return m, nil
}

func register[T prometheus.Collector](registerer prometheus.Registerer, collector T) (T, error) {
	err := registerer.Register(collector)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(T); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("register a metric: %w", err)
	}
	return collector, nil
}

// recorder sees the status of an answer, and carries what the layers of one request tell each other.
type recorder struct {
	http.ResponseWriter
	// status is 0 until the answer begins.
	status int
	// route is the path pattern of the operation.
	route string
	// observed says that the request is in the metrics already.
	observed bool
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
	s.writeProblem(rec, r, problemf(http.StatusInternalServerError, "internal error; the operator's log says more"))
	return nil
}

// measure puts a request into the metrics, once.
func (s *Server) measure(rec *recorder, r *http.Request, took time.Duration) {
	if rec.observed {
		return
	}
	rec.observed = true
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	method := knownMethod(r.Method)
	s.metrics.duration.WithLabelValues(method, rec.route, strconv.Itoa(status)).Observe(took.Seconds())
	s.log.V(1).Info("Request answered", "method", method, "route", rec.route, "status", status, "took", took.String())
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
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if isHTTPS(r) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if s.config.Auth == AuthNone && !isLoopbackHost(hostOnly(r.Host)) {
			s.writeProblem(w, r, problemf(http.StatusMisdirectedRequest,
				"without authentication only requests to localhost are answered, by the name localhost or a loopback address"))
			return
		}
		if err := protection.Check(r); err != nil {
			s.writeProblem(w, r, problemf(http.StatusForbidden, "a request from another site: %v", err))
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

// isHTTPS reports whether the browser speaks TLS, to us or to a proxy in front of us.
func isHTTPS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
