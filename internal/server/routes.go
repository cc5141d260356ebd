package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// smallBody bounds the bodies of requests that need none or a short one.
const smallBody = 64 << 10

// route is what holds for all requests of one operation.
type route struct {
	// verb is what the caller must be allowed to do with scan results. "" when the operation asks for nothing, or asks by
	// itself.
	verb string
	// audience says that the token must have been made for us: the API server's own tokens are for reading and deleting.
	audience bool
	// signsIn says that the operation looks at a token in the body, and counts by itself.
	signsIn bool
	// tag gives answers in JSON an ETag, compress compresses them for clients that take it.
	tag, compress bool
	// cost is how much of its caller's allowance a request takes, 0 for 1.
	cost int
	// body bounds the body in bytes; read and write bound its arrival and the answer.
	body        int64
	read, write time.Duration
}

// Verbs on the resource "scanresults".
const (
	verbGet    = "get"
	verbList   = "list"
	verbUpdate = "update"
	verbDelete = "delete"
)

// expensiveCost is what a request costs that goes through everything that is stored.
const expensiveCost = 20

// routes lists every operation of the interface by its ServeMux pattern. An operation that is not listed is refused.
func routes(l Limits) map[string]route {
	plain := func(verb string) route {
		return route{verb: verb, body: smallBody, read: l.ReadTimeout, write: l.WriteTimeout}
	}
	reading := func(verb string) route {
		r := plain(verb)
		r.tag, r.compress = true, true
		return r
	}
	// A stream is not held until it ends.
	streaming := func(r route) route {
		r.tag = false
		return r
	}
	signingIn := func(r route) route {
		r.signsIn = true
		return r
	}
	expensive := func(r route) route {
		r.cost = expensiveCost
		return r
	}
	return map[string]route{
		"GET /scan-results":                         expensive(streaming(reading(verbList))),
		"PUT /scan-results":                         {verb: verbUpdate, audience: true, body: l.ReportBody, read: l.UploadTimeout, write: l.UploadTimeout + l.WriteTimeout},
		"GET /scan-results/{imageId}":               reading(verbGet),
		"DELETE /scan-results/{imageId}":            plain(verbDelete),
		"GET /subscribe":                            plain(verbList),
		"GET /api/wds/logs":                         plain(verbList),
		"GET /api/v1/overview":                      reading(verbList),
		"GET /api/v1/images":                        reading(verbList),
		"GET /api/v1/images/{imageId}":              reading(verbGet),
		"GET /api/v1/images/{imageId}/findings":     reading(verbGet),
		"GET /api/v1/images/{imageId}/sbom":         reading(verbGet),
		"PUT /api/v1/images/{imageId}/sbom":         {body: l.SBOMBody, read: l.UploadTimeout, write: l.UploadTimeout + l.WriteTimeout},
		"GET /api/v1/images/{imageId}/presences":    reading(verbGet),
		"GET /api/v1/vulnerabilities":               reading(verbList),
		"GET /api/v1/vulnerabilities/{id}":          reading(verbList),
		"GET /api/v1/vulnerabilities/{id}/affected": reading(verbList),
		"GET /api/v1/packages":                      reading(verbList),
		"GET /api/v1/workloads":                     reading(verbList),
		"GET /api/v1/coverage":                      reading(verbList),
		"GET /api/v1/rollouts":                      reading(verbList),
		"GET /api/v1/rollouts/{rolloutId}":          reading(verbList),
		"GET /api/v1/trends":                        reading(verbList),
		"GET /api/v1/databases":                     reading(verbList),
		"GET /api/v1/databases/{build}/changes":     reading(verbList),
		"POST /api/v1/databases/rematch":            expensive(plain(verbUpdate)),
		"GET /api/v1/events":                        plain(verbList),
		"GET /api/v1/session":                       plain(""),
		"POST /api/v1/session":                      signingIn(plain("")),
		"DELETE /api/v1/session":                    plain(""),
	}
}

// requestKey finds the request in the context that the strict handlers get.
type requestKey struct{}

// requestOf returns the request that a strict handler answers.
func requestOf(ctx context.Context) *http.Request {
	r, _ := ctx.Value(requestKey{}).(*http.Request)
	return r
}

// handler builds the whole chain: what holds for every request first, then the operation or the UI.
func (s *Server) handler() http.Handler {
	onError := func(w http.ResponseWriter, r *http.Request, err error) { s.writeProblem(w, r, err) }
	onBadRequest := func(w http.ResponseWriter, r *http.Request, err error) {
		if p := problemOf(err); p.status == http.StatusRequestEntityTooLarge || p.status == http.StatusRequestTimeout {
			s.writeProblem(w, r, p)
			return
		}
		s.writeProblem(w, r, badParameter(err))
	}
	strict := api.NewStrictHandlerWithOptions(operations{s}, []api.StrictMiddlewareFunc{refuseUnknown}, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: onBadRequest, ResponseErrorHandlerFunc: onError,
	})
	mux := http.NewServeMux()
	api.HandlerWithOptions(strict, api.StdHTTPServerOptions{
		BaseRouter: guardedMux{mux, s}, ErrorHandlerFunc: onBadRequest,
	})
	ui := s.uiHandler()
	dispatch := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unmatched, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, smallBody)
		probe := &probeWriter{header: http.Header{}}
		unmatched.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			s.writeProblem(w, r, problemf(http.StatusMethodNotAllowed, "%s is not among the methods of this resource", knownMethod(r.Method)))
			return
		}
		ui.ServeHTTP(w, r)
	})
	return s.observe(s.secure(dispatch))
}

// guardedMux puts the guard in front of every operation that is registered: nothing of an operation, not even its
// parameters, is looked at before the caller has proved to be allowed to.
type guardedMux struct {
	*http.ServeMux
	s *Server
}

// HandleFunc registers an operation behind its guard.
func (m guardedMux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(pattern, m.s.guard(pattern, handle))
}

// guard applies the bounds of an operation and authorizes the caller.
func (s *Server) guard(pattern string, next http.HandlerFunc) http.HandlerFunc {
	route, known := s.routes[pattern]
	if !known {
		return func(w http.ResponseWriter, r *http.Request) {
			s.writeProblem(w, r, fmt.Errorf("operation %q has no entry in the table of routes", pattern))
		}
	}
	if route.tag {
		next = tagged(next)
	}
	if route.compress {
		next = s.compress(next)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if rec := recorderOf(w); rec != nil {
			_, rec.route = splitPattern(pattern)
		}
		w.Header().Set("Cache-Control", "no-store")
		limitBody(w, r, route)
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			// Parts that cannot be read would be left out, and the answer would be one to another question.
			s.writeProblem(w, r, badRequest("the query cannot be read: %v", err))
			return
		}
		ctx, err := s.admit(r, route)
		if err != nil {
			s.writeProblem(w, r, err)
			return
		}
		r = r.WithContext(ctx)
		next(w, r.WithContext(context.WithValue(ctx, requestKey{}, r)))
	}
}

// limitBody bounds the body of a request in bytes and in time, and the answer in time. Once the body is there, the connection
// may be silent for as long as the answer may take: a read deadline that passes then would cancel the request.
func limitBody(w http.ResponseWriter, r *http.Request, route route) {
	extendDeadlines(w, route.write)
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	// Writers of tests cannot do this; connections can, or are closed already.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(route.read))
	r.Body = &timedBody{http.MaxBytesReader(w, r.Body, route.body), func() { extendDeadlines(w, route.write) }}
}

// extendDeadlines gives the answer that much time from now on.
func extendDeadlines(w http.ResponseWriter, write time.Duration) {
	control, deadline := http.NewResponseController(w), time.Now().Add(write)
	_ = control.SetReadDeadline(deadline) // as above
	_ = control.SetWriteDeadline(deadline)
}

// timedBody calls complete at the end of the body.
type timedBody struct {
	io.ReadCloser
	complete func()
}

// Read reads on.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.complete()
	}
	return n, err
}

// probeWriter takes an answer only to see its status.
type probeWriter struct {
	header http.Header
	status int
}

// Header returns the header map.
func (p *probeWriter) Header() http.Header { return p.header }

// Write drops the body.
func (p *probeWriter) Write(data []byte) (int, error) { return len(data), nil }

// WriteHeader notes the status.
func (p *probeWriter) WriteHeader(status int) { p.status = status }
