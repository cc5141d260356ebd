package kube

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

// Relister rebuilds caches. Informers have no function for that, and a resync reads nothing from the API server; but they list again when the
// resource version of their watch has expired. Relister wraps the transport of the client and answers so. It also records when each watch last
// received data. The zero value is ready.
type Relister struct {
	// Clock is the system clock by default.
	Clock clock.PassiveClock

	mu sync.Mutex
	// heard is when a watch last received data. The API server sends data about once per minute.
	heard map[string]lastData
	// watches are the open watches.
	watches map[*watchBody]bool
	// expired are the targets of closed watches, whose next request is answered with 410.
	expired map[string]bool
}

// Wrap wraps a transport; it is a function for rest.Config.Wrap.
func (r *Relister) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		if watches, err := strconv.ParseBool(query.Get("watch")); err != nil || !watches || request.Method != http.MethodGet {
			return next.RoundTrip(request)
		}
		target := request.URL.Path + "?" + query.Get("labelSelector")
		// A watch that starts with all objects is a list already.
		if initial, _ := strconv.ParseBool(query.Get("sendInitialEvents")); !initial && r.takeExpired(target) {
			return gone(request)
		}
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusOK {
			body := &watchBody{ReadCloser: response.Body, relister: r, resource: path.Base(request.URL.Path), target: target}
			r.mu.Lock()
			if r.watches == nil {
				r.watches = map[*watchBody]bool{}
			}
			r.watches[body] = true
			r.mu.Unlock()
			r.hear(body)
			response.Body = body
		}
		return response, err
	})
}

// Relist rebuilds the caches of a resource, such as "pods".
func (r *Relister) Relist(resource string) {
	r.mu.Lock()
	var cut []*watchBody
	for body := range r.watches {
		if body.resource != resource {
			continue
		}
		if r.expired == nil {
			r.expired = map[string]bool{}
		}
		r.expired[body.target] = true
		cut = append(cut, body)
	}
	r.mu.Unlock()
	for _, body := range cut {
		body.cut.Store(true)
		_ = body.Close()
	}
}

// Heard returns the time since a watch of each resource last received data; the maximum when there is a watch per namespace.
func (r *Relister) Heard() map[string]time.Duration {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	ages := make(map[string]time.Duration, len(r.heard))
	for _, last := range r.heard {
		ages[last.resource] = max(ages[last.resource], now.Sub(last.at))
	}
	return ages
}

// lastData is when a watch of a resource last received data.
type lastData struct {
	resource string
	at       time.Time
}

func (r *Relister) hear(body *watchBody) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard == nil {
		r.heard = map[string]lastData{}
	}
	r.heard[body.target] = lastData{body.resource, now}
}

func (r *Relister) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

func (r *Relister) takeExpired(target string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	expired := r.expired[target]
	delete(r.expired, target)
	return expired
}

// watchBody is the response body of a watch.
type watchBody struct {
	io.ReadCloser
	relister         *Relister
	resource, target string
	cut              atomic.Bool
}

// Read returns io.EOF when the watch was closed by Relist.
func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.relister.hear(b)
	}
	if err != nil && b.cut.Load() {
		err = io.EOF
	}
	return n, err
}

// Close removes the watch.
func (b *watchBody) Close() error {
	b.relister.mu.Lock()
	delete(b.relister.watches, b)
	b.relister.mu.Unlock()
	return b.ReadCloser.Close()
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// gone returns the response of the API server to an expired resource version.
func gone(request *http.Request) (*http.Response, error) {
	content, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusGone,
		Reason: metav1.StatusReasonExpired, Message: "the cache is being rebuilt",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Proto: request.Proto, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(content)),
		ContentLength: int64(len(content)), Request: request,
	}, nil
}
