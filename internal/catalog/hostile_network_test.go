package catalog

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// bystander is a server that has nothing to do with a registry, and must not get its credentials.
type bystander struct {
	url, host string
	mu        sync.Mutex
	requests  int
}

func newBystander(t *testing.T) *bystander {
	t.Helper()
	b := &bystander{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests++
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || strings.Contains(r.RequestURI+string(body), secret) {
			t.Errorf("%s %s with %v and %q reached another host", r.Method, r.RequestURI, r.Header, body)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	b.url, b.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return b
}

// asked is the number of requests so far.
func (b *bystander) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}
