//go:build faults

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// request is a request that changes something, or an event of a watch.
type request struct {
	// kind is the verb, the resource and the subresource, such as "patch-podsets-status".
	kind string
	// resource is plural, such as "pods"; object is the name where the request has one, or the answer.
	resource, object string
	dryRun           bool
}

// reviews ask the API server something, and leave nothing behind.
func (r *request) review() bool { return strings.HasSuffix(r.resource, "reviews") }

// creates says whether a request makes an object, where apply makes one only if there is none.
func (r *request) creates() bool {
	return r.kind == "create-"+r.resource || r.kind == "apply-"+r.resource
}

func (r *request) deletes() bool { return r.kind == "delete-"+r.resource }

// describe reads a request from its path: /api/v1/... or /apis/GROUP/VERSION/..., then namespaces/NAME/ unless it is for the cluster, then
// RESOURCE/NAME/SUBRESOURCE.
func describe(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	prefix := 2
	if parts[0] == "apis" {
		prefix = 3
	}
	parts = parts[min(prefix, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	parts = append(parts, "", "", "")
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		verb = "apply"
	}
	d := request{resource: parts[0], object: parts[1], dryRun: r.URL.Query().Has("dryRun")}
	d.kind = verb + "-" + d.resource
	if parts[2] != "" {
		d.kind += "-" + parts[2]
	}
	if d.dryRun {
		d.kind += "-dry-run"
	}
	return d
}

// point is where a fault happens: at the nth request of a kind, from 1. The zero value is nowhere.
type point struct {
	kind  string
	n     int
	fault string
}

// trace is what went through the proxies of a run.
type trace struct {
	mu    sync.Mutex
	point point
	// armed says that requests count; those of the preparations do not.
	armed bool
	// counts are the requests by kind, including watch events.
	counts map[string]int
	// hit says that the fault has happened.
	hit bool
	// creates and deletes count, by resource and object, what the API server did.
	creates, deletes map[string]map[string]int
	// existing are the objects that were there before requests counted; doubts are requests of which nobody knows whether they were done.
	existing map[types.UID]bool
	doubts   []request
	// writes are the requests that changed something, as far as asked notes them; last is when the last one came.
	writes []string
	last   time.Time
}

func newTrace(at point) *trace {
	return &trace{
		point: at, counts: map[string]int{}, creates: map[string]map[string]int{}, deletes: map[string]map[string]int{}, last: time.Now(),
	}
}

// arm has requests count from now on.
func (t *trace) arm(s snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed, t.existing = true, map[types.UID]bool{}
	for _, object := range s {
		t.existing[object.GetUID()] = true
	}
}

// disarm ends that: no fault happens any more.
func (t *trace) disarm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
}

// pass has a fault that has not happened yet never happen. Requests still count.
func (t *trace) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hit {
		t.point = point{}
	}
}

// restarts says whether the fault ends the operator, or has another one lead.
func (t *trace) restarts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.HasPrefix(t.point.fault, "kill") && !disturbsServers(t.point.fault) || slices.Contains(leaderFaults, t.point.fault)
}

// take counts a request, and returns the fault that it meets, if any.
func (t *trace) take(kind string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.armed {
		return ""
	}
	t.counts[kind]++
	if kind != t.point.kind || t.counts[kind] != t.point.n {
		return ""
	}
	t.hit = true
	return t.point.fault
}

// asked notes a request that is to change something.
func (t *trace) asked(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.resource == leases || r.review() || r.dryRun {
		return
	}
	if r.resource == events && (strings.HasSuffix(t.point.kind, "-"+events) || disturbsServers(t.point.fault)) {
		// An Event that was not accepted is sent again after ten seconds.
		return
	}
	t.writes, t.last = append(t.writes, r.kind+" "+r.object), time.Now()
}

// did notes what the API server did.
func (t *trace) did(r *request, status int) {
	if status >= http.StatusMultipleChoices || r.resource == leases || r.resource == events || r.review() || r.dryRun {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubts = slices.DeleteFunc(t.doubts, func(doubt request) bool { return doubt.kind == r.kind && doubt.object == r.object })
	switch {
	case !t.armed:
	case r.creates() && (r.kind != "apply-"+r.resource || status == http.StatusCreated):
		note(t.creates, r)
	case r.deletes():
		note(t.deletes, r)
	}
}

// note counts a request by resource and object.
func note(counts map[string]map[string]int, r *request) {
	if counts[r.resource] == nil {
		counts[r.resource] = map[string]int{}
	}
	counts[r.resource][r.object]++
}

const (
	leases = "leases"
	events = "events"
)

// history says per resource how often each object was created and deleted, without the names.
func (t *trace) history() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for what, counts := range map[string]map[string]map[string]int{"created": t.creates, "deleted": t.deletes} {
		for resource, objects := range counts {
			times := slices.Sorted(maps.Values(objects))
			lines = append(lines, fmt.Sprintf("%s %s: %d objects, as often as %v", what, resource, len(objects), times))
		}
	}
	slices.Sort(lines)
	return lines
}

// writesSoFar returns the requests that changed something, and when the last one came.
func (t *trace) writesSoFar() ([]string, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.writes), t.last
}

// positions returns how often each kind of request came since arm.
func (t *trace) positions() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

func (t *trace) wasHit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hit
}

// proxy is the way of one operator to the API server.
type proxy struct {
	*httptest.Server
	world     *world
	manager   *manager
	trace     *trace
	transport http.RoundTripper
	forward   *httputil.ReverseProxy
	target    *url.URL

	mu sync.Mutex
	// leads is what the operator calls itself in Leases.
	leads string
	// pending is what the next watch of a resource meets.
	pending map[string]string
}

func newProxy(w *world, m *manager) (*proxy, error) {
	transport, err := rest.TransportFor(w.config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(w.config.Host)
	if err != nil {
		return nil, err
	}
	p := &proxy{world: w, manager: m, trace: w.trace, transport: transport, target: target, pending: map[string]string{}}
	p.forward = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, ErrorHandler: refuse}
	p.Server = httptest.NewServer(p)
	return p, nil
}

// unreachable is what the API server never answers. The client gets no answer either.
const unreachable = http.StatusBadGateway

func refuse(w http.ResponseWriter, _ *http.Request, _ error) {
	if _, change := w.(*httptest.ResponseRecorder); !change {
		abort()
	}
	w.WriteHeader(unreachable)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.narrow(r)
	switch {
	case r.URL.Query().Get("watch") != "":
		p.watch(w, r)
	case r.Method == http.MethodGet:
		p.forward.ServeHTTP(w, r)
	default:
		p.change(w, r)
	}
}

// narrow leaves out the Namespaces of other runs where the operator lists or watches Namespaces: each change of one would be sent to every operator.
func (p *proxy) narrow(r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces" {
		return
	}
	query := r.URL.Query()
	query.Set("fieldSelector", "metadata.name="+p.world.namespace)
	r.URL.RawQuery = query.Encode()
}

// change passes on a request that changes something, with the fault that it meets.
func (p *proxy) change(w http.ResponseWriter, r *http.Request) {
	d := describe(r)
	if err := p.asks(&d, r); err != nil {
		abort()
	}
	p.trace.asked(&d)
	fault := p.trace.take(d.kind)
	if before, is := beforeCommit[fault]; is {
		before(p, w, r)
		return
	}
	p.before(fault)
	// Whatever becomes of the client, the API server does what was asked.
	answer := httptest.NewRecorder()
	committed := r.Clone(context.WithoutCancel(r.Context()))
	acceptJSON(committed.Header)
	p.forward.ServeHTTP(answer, committed)
	if d.object == "" {
		d.object = nameIn(answer.Body.Bytes())
	}
	if answer.Code >= http.StatusInternalServerError {
		p.trace.doubt(&d)
	}
	p.trace.did(&d, answer.Code)
	if p.after(fault) || answer.Code == unreachable {
		abort()
	}
	switch fault {
	case "kill-committed":
		p.manager.kill()
		abort()
	case "lose-answer":
		abort()
	case "delay-answer":
		p.wait(r, delay)
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	if fault == "kill-answered" {
		_ = http.NewResponseController(w).Flush()
		p.manager.kill()
	}
}

// acceptJSON has the API server answer in what can be taken apart here.
func acceptJSON(header http.Header) {
	header.Set("Accept", strings.ReplaceAll(header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"))
	header.Del("Accept-Encoding")
}

// delay is how long answers and watch events are late.
const delay = 5 * time.Second

// beforeCommit are the faults that keep a request from the API server.
var beforeCommit = map[string]func(*proxy, http.ResponseWriter, *http.Request){
	"kill-before": func(p *proxy, _ http.ResponseWriter, _ *http.Request) { p.manager.kill(); abort() },
	"reset":       func(_ *proxy, w http.ResponseWriter, _ *http.Request) { reset(w) },
	"hang":        func(p *proxy, _ http.ResponseWriter, r *http.Request) { p.wait(r, 0); abort() },
	"409":         answerWith(http.StatusConflict, metav1.StatusReasonConflict),
	"429":         answerWith(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
	"500":         answerWith(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	"503":         answerWith(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	"504":         answerWith(http.StatusGatewayTimeout, metav1.StatusReasonTimeout),
}

// requestFaults are what can happen to a request that changes something.
var requestFaults = []string{
	"kill-before", "kill-committed", "kill-answered", "lose-answer", "delay-answer", "reset", "hang", "409", "429", "500", "503", "504",
}

// abort closes the connection without an answer.
func abort() { panic(http.ErrAbortHandler) }

// reset closes the connection with RST.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		abort()
	}
	if tcp, is := connection.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// wait returns after some time, 0 for never, or when the client or the run has ended.
func (p *proxy) wait(r *http.Request, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	// Without this the server does not notice that the client has gone.
	_, _ = io.Copy(io.Discard, r.Body)
	p.world.slot.rest(func() {
		select {
		case <-after:
		case <-r.Context().Done():
		case <-p.world.ended:
		}
	})
}

func answerWith(code int, reason metav1.StatusReason) func(*proxy, http.ResponseWriter, *http.Request) {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request) {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(statusOf(code, reason))
	}
}

func statusOf(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "injected by the fault proxy",
	}
}
