package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// smallBody bounds the bodies of requests that need none or a short one.
const smallBody = 64 << 10

// route is what holds for all requests of one operation.
type route struct {
	auth.Requirement
	// tag gives answers in JSON an ETag, compress compresses them for clients that take it.
	tag, compress bool
	// change is what requests change, for the audit.
	change change
	// body bounds the body in bytes; read and write bound its arrival and the answer.
	body        int64
	read, write time.Duration
}

// expensiveCost is what a request costs that goes through everything that is stored.
const expensiveCost = 20

// searchCost is what a search costs, which reads the first page of several lists.
const searchCost = 5

// routes lists every operation of the interface by its ServeMux pattern. An operation that is not listed is refused.
func routes(l Limits) map[string]route {
	plain := func(verb string) route {
		return route{Requirement: auth.Requirement{Verb: verb}, body: smallBody, read: l.ReadTimeout, write: l.WriteTimeout}
	}
	reading := func(verb string) route {
		r := plain(verb)
		r.tag, r.compress = true, true
		return r
	}
	// What the caller may do with an exception is asked for with the exception.
	ofDecider := func(r route) route {
		r.Identified = true
		return r
	}
	deciding := func(verb string) route { return ofDecider(changes(plain(auth.VerbList), verb, "exceptions")) }
	// Who sees nothing must be permitted to save what is previewed.
	previewing := func() route {
		r := expensive(plain(auth.VerbList))
		r.Decides = true
		return r
	}
	// What the caller may do with VEX documents is asked for with the document.
	vexing := func(verb string) route {
		r := changes(plain(auth.VerbList), verb, vexUploads)
		r.Identified = true
		return r
	}
	// Whether the caller may test a rule is asked for with the rule.
	testing := func() route {
		r := expensive(changes(plain(auth.VerbList), verbTest, notificationRules))
		r.Identified = true
		return r
	}
	uploading := func(r route, body int64) route {
		r.body, r.read, r.write = body, l.UploadTimeout, l.UploadTimeout+vexTimeout+l.WriteTimeout
		return r
	}
	return map[string]route{
		"GET /scan-results":                          expensive(streaming(reading(auth.VerbList))),
		"PUT /scan-results":                          {Requirement: auth.Requirement{Verb: auth.VerbUpdate, Audience: true}, change: change{auth.VerbUpdate, "scanresults"}, body: l.ReportBody, read: l.UploadTimeout, write: l.UploadTimeout + l.WriteTimeout},
		"GET /scan-results/{imageId}":                reading(auth.VerbGet),
		"DELETE /scan-results/{imageId}":             changes(plain(auth.VerbDelete), auth.VerbDelete, "scanresults"),
		"GET /subscribe":                             plain(auth.VerbList),
		"GET /api/wds/logs":                          plain(auth.VerbList),
		"GET /api/v1/overview":                       reading(auth.VerbList),
		"GET /api/v1/overview/changes":               expensive(reading(auth.VerbList)),
		"GET /api/v1/images":                         reading(auth.VerbList),
		"GET /api/v1/images/{imageId}":               reading(auth.VerbGet),
		"GET /api/v1/images/{imageId}/findings":      reading(auth.VerbGet),
		"GET /api/v1/images/{imageId}/packages":      reading(auth.VerbGet),
		"GET /api/v1/images/{imageId}/layers":        reading(auth.VerbGet),
		"GET /api/v1/images/{imageId}/sbom":          reading(auth.VerbGet),
		"PUT /api/v1/images/{imageId}/sbom":          {change: change{auth.VerbUpdate, "sboms"}, body: l.SBOMBody, read: l.UploadTimeout, write: l.UploadTimeout + l.WriteTimeout},
		"GET /api/v1/images/{imageId}/newer-tags":    costing(searchCost, reading(auth.VerbGet)),
		"PUT /api/v1/images/{imageId}/newer-tags":    {change: change{auth.VerbUpdate, "newertags"}, body: l.SBOMBody, read: l.UploadTimeout, write: l.UploadTimeout + l.WriteTimeout},
		"POST /api/v1/images/{imageId}/scan":         changes(plain(auth.VerbUpdate), "scan", "images"),
		"GET /api/v1/images/{imageId}/presences":     reading(auth.VerbGet),
		"GET /api/v1/vulnerabilities":                reading(auth.VerbList),
		"GET /api/v1/vulnerabilities/{id}":           reading(auth.VerbList),
		"GET /api/v1/vulnerabilities/{id}/affected":  reading(auth.VerbList),
		"GET /api/v1/vulnerabilities/{id}/exposures": reading(auth.VerbList),
		"GET /api/v1/decisions":                      reading(auth.VerbList),
		"GET /api/v1/decisions/{decisionId}":         reading(auth.VerbList),
		"GET /api/v1/packages":                       reading(auth.VerbList),
		"GET /api/v1/workloads":                      reading(auth.VerbList),
		"GET /api/v1/bases":                          reading(auth.VerbList),
		"GET /api/v1/owners":                         reading(auth.VerbList),
		"GET /api/v1/namespaces":                     reading(auth.VerbList),
		"GET /api/v1/policies":                       expensive(reading(auth.VerbList)),
		"GET /api/v1/search":                         costing(searchCost, reading(auth.VerbList)),
		"GET /api/v1/notification-rules":             reading(auth.VerbList),
		"POST /api/v1/notification-rules/test":       testing(),
		"GET /api/v1/coverage":                       reading(auth.VerbList),
		"GET /api/v1/rollouts":                       reading(auth.VerbList),
		"GET /api/v1/rollouts/{rolloutId}":           reading(auth.VerbList),
		"GET /api/v1/fixes":                          reading(auth.VerbList),
		"GET /api/v1/fixes/preview":                  expensive(reading(auth.VerbList)),
		"GET /api/v1/compare":                        reading(auth.VerbList),
		"GET /api/v1/trends":                         reading(auth.VerbList),
		"POST /api/v1/exceptions":                    deciding(verbCreate),
		"POST /api/v1/exceptions/preview":            previewing(),
		"GET /api/v1/exceptions/{kind}/{name}":       ofDecider(reading(auth.VerbList)),
		"PUT /api/v1/exceptions/{kind}/{name}":       deciding(auth.VerbUpdate),
		"DELETE /api/v1/exceptions/{kind}/{name}":    deciding(auth.VerbDelete),
		"GET /api/v1/vex":                            reading(auth.VerbList),
		"GET /api/v1/vex/{name}":                     reading(auth.VerbList),
		"PUT /api/v1/vex/{name}":                     uploading(vexing(auth.VerbUpdate), l.VEXBody),
		"DELETE /api/v1/vex/{name}":                  vexing(auth.VerbDelete),
		"GET /api/v1/databases":                      reading(auth.VerbList),
		"GET /api/v1/databases/{build}/changes":      reading(auth.VerbList),
		"POST /api/v1/databases/rematch":             clusterWide(expensive(changes(plain(auth.VerbUpdate), "rematch", "databases"))),
		"GET /api/v1/events":                         plain(auth.VerbList),
		"GET /api/v1/session":                        plain(""),
		"POST /api/v1/session":                       signingIn(plain("")),
		"DELETE /api/v1/session":                     plain(""),
		"GET /api/v1/session/sign-in":                plain(""),
		"GET /api/v1/session/callback":               plain(""),
		"POST /api/v1/session/provider-logout":       plain(""),

		"GET /api/v1/reports/cluster":                expensive(streaming(reading(auth.VerbList))),
		"GET /api/v1/reports/namespaces/{namespace}": expensive(streaming(reading(auth.VerbList))),
		"GET /api/v1/reports/owners/{owner}":         expensive(streaming(reading(auth.VerbList))),
	}
}

// A stream is not held until it ends.
func streaming(r route) route {
	r.tag = false
	return r
}

func signingIn(r route) route {
	r.SignsIn = true
	return r
}

func changes(r route, verb, resource string) route {
	r.change = change{verb, resource}
	return r
}

// What concerns all namespaces needs the permission in all.
func clusterWide(r route) route {
	r.Cluster = true
	return r
}

func costing(cost int, r route) route {
	r.Cost = cost
	return r
}

func expensive(r route) route { return costing(expensiveCost, r) }

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
		if p := problem.From(err); p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
			s.writeProblem(w, r, p)
			return
		}
		s.writeProblem(w, r, problem.BadParameter(err))
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
		r = slashesInPath(r)
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
			s.writeProblem(w, r, problem.New(http.StatusMethodNotAllowed, "the method %s is not allowed for this resource", knownMethod(r.Method)))
			return
		}
		ui.ServeHTTP(w, r)
	})
	return s.observe(s.secure(s.belowBasePath(dispatch)))
}

// slashesInPath undoes the second encoding of slashes in IDs. The service proxy of the Kubernetes API server, which sets X-Forwarded-Uri, decodes paths: a
// slash of an image ID passes through it only if it was encoded twice.
func slashesInPath(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	if r.Header.Get("X-Forwarded-Uri") == "" || !strings.Contains(escaped, "%252F") {
		return r
	}
	raw := strings.ReplaceAll(escaped, "%252F", "%2F")
	path, err := url.PathUnescape(raw)
	if err != nil {
		return r
	}
	r = r.WithContext(r.Context())
	address := *r.URL
	address.Path, address.RawPath = path, raw
	r.URL = &address
	return r
}

// guardedMux puts the guard in front of every operation that is registered: nothing of an operation, not even its
// parameters, is looked at before the caller has proved to be allowed to.
type guardedMux struct {
	*http.ServeMux
	s *Server
}

// HandleFunc registers an operation behind its guard.
func (m guardedMux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(pattern, m.s.protect(pattern, handle))
}

// protect applies the bounds of an operation and authorizes the caller.
func (s *Server) protect(pattern string, next http.HandlerFunc) http.HandlerFunc {
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
		began := s.clock()
		if rec := recorderOf(w); rec != nil {
			_, rec.route = splitPattern(pattern)
		}
		w.Header().Set("Cache-Control", "no-store")
		limitBody(w, r, route)
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			// Parts that cannot be read would be left out, and the answer would be one to another question.
			s.writeProblem(w, r, problem.BadRequest("invalid query: %v", err))
			return
		}
		ctx, err := s.guard.Admit(r, route.Requirement)
		if err != nil {
			s.writeProblem(w, r, err)
			return
		}
		ctx = s.beginTrace(ctx, w, r, began)
		if admitted, found := auth.AdmissionOf(ctx); found && !admitted.Anonymous || route.Verb != "" && s.config.Auth == auth.None {
			keepConnection(ctx)
		}
		ctx, memory := s.withAnswerMemory(ctx)
		defer memory.release()
		r = r.WithContext(ctx)
		ctx, changing := s.audit(r, route)
		defer func() { changing.end(r.Context(), statusOf(w)) }()
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
