package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestRequestsAreLimited has a server that does not answer, or not to the end.
func TestRequestsAreLimited(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			// The connection of a client that has gone is noticed only when the request has been read.
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		case "/begins":
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		default:
			_, _ = io.WriteString(w, "whole")
		}
	}))
	defer server.Close()
	defer close(ended)
	const short, long = 20 * time.Millisecond, time.Minute
	for name, tt := range map[string]struct {
		method, path string
		read, write  time.Duration
		want         string
	}{
		"a write that hangs":         {http.MethodPost, "/hangs", long, short, "the API server did not answer within 20ms"},
		"a read that hangs":          {http.MethodGet, "/hangs", short, long, "the API server did not answer within 20ms"},
		"an answer that never ends":  {http.MethodPatch, "/begins", long, short, "the API server did not answer within 20ms"},
		"an answer in time":          {http.MethodPost, "/", long, long, ""},
		"a watch is not limited":     {http.MethodGet, "/?watch=true", 0, 0, ""},
		"a list is, without a watch": {http.MethodGet, "/hangs?watch=false", short, long, "the API server did not answer within 20ms"},
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: limitRequests(http.DefaultTransport, tt.read, tt.write)}
			request, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			var body []byte
			response, err := client.Do(request)
			if err == nil {
				body, err = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			switch {
			case tt.want == "" && (err != nil || string(body) != "whole"):
				t.Errorf("answered with %q, %v", body, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("answered with %q, %v; want an error that contains %q", body, err, tt.want)
			}
		})
	}
}
