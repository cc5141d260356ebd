//go:build e2e

package e2e

import (
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// hold keeps scans of a repository waiting.
type hold struct {
	// waits is closed when the first scan waits, released when none has to any more.
	waits, released chan struct{}
	begin, release  func()
}

// hold lets the registry's answers to scans of a repository begin and not go on, as from a registry that hangs, until they are released:
// at the latest at the end of the test. Nodes are not kept waiting.
func (r *registry) hold(t *testing.T, repository string) *hold {
	h := &hold{waits: make(chan struct{}), released: make(chan struct{})}
	h.begin, h.release = sync.OnceFunc(func() { close(h.waits) }), sync.OnceFunc(func() { close(h.released) })
	t.Cleanup(h.release)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[repository] = h
	return h
}

// inTheMiddle returns when a scan waits.
func (h *hold) inTheMiddle(t *testing.T) {
	t.Helper()
	select {
	case <-h.waits:
	case <-time.After(patience):
		t.Fatal("no scan asked for the image")
	}
}

// scanInTheMiddle begins a scan in a namespace that is held up.
func scanInTheMiddle(t *testing.T, namespace, repository string) (held *hold, imageID string) {
	t.Helper()
	held = e2e.registry.hold(t, repository)
	reference, imageID := e2e.registry.push(t, "alpine", repository)
	runPod(t, namespace, path.Base(repository), reference, privately)
	held.inTheMiddle(t)
	return held, imageID
}

// hindered is w, or an answer that a hold applies to.
func (r *registry) hindered(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
	repository, _, isBlob := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/blobs/")
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, held := r.held[repository]; held && isBlob && req.UserAgent() == "scanner-operator" {
		return &heldAnswer{ResponseWriter: w, hold: h, gone: req.Context().Done()}
	}
	return w
}

// heldAnswer sends its headers and waits before its content.
type heldAnswer struct {
	http.ResponseWriter
	hold *hold
	// gone is closed when nobody waits for the answer any more.
	gone <-chan struct{}
}

func (a *heldAnswer) Write(p []byte) (int, error) {
	if err := http.NewResponseController(a.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	a.hold.begin()
	select {
	case <-a.hold.released:
	case <-a.gone:
	}
	return a.ResponseWriter.Write(p)
}
