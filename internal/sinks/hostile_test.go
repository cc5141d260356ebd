package sinks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is a sink of Dependency-Track at a server that answers each request in one way.
func answering(t *testing.T, answer http.HandlerFunc) (*fixture, *Engine) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	f := newFixture(t, map[string]string{"url": server.URL + "/s3cret", "token": "t0ken", "ca.crt": caOf(server)})
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	f.run(t, web, workload("shop", "web", ""))
	e, _ := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{repository}"}}))
	return f, e
}

// TestHostileAnswers: whatever a server answers, an attempt ends, nothing of the answer is shown, and it is tried again later.
func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"an endless body": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("s3cret ", 10_000)); err != nil {
					return
				}
			}
		}, "more than 1048576 bytes"},
		"endless headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("s3cret", 100_000))
		}, "gives no valid answer"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/s3cret", http.StatusFound)
		}, "redirects are not followed"},
		"other JSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `["s3cret"]`) }, "not the JSON that is expected"},
		"another path": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"uuid":"../../s3cret","active":false}`)
		}, "no UUID"},
		"an error":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusInternalServerError) }, "status 500"},
		"a refusal":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", http.StatusBadRequest) }, "refuses the report"},
		"a broken body": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			f, e := answering(t, c.answer)
			f.settle(t, e)
			state := e.States()["uid-"]
			if !strings.Contains(state.Problem, c.want) || state.Failed != 1 || state.Pending != 1 {
				t.Errorf("state %+v, want %q", state, c.want)
			}
			for _, secret := range []string{"s3cret", "t0ken", "127.0.0.1", "169.254"} {
				if strings.Contains(state.Problem, secret) {
					t.Errorf("%q shows %s", state.Problem, secret)
				}
			}
			if item := e.lanes["uid-"].next(f.clock.Now().Add(refusedMost)); item == nil || item.Attempts != 1 {
				t.Errorf("next is %+v", item)
			}
		})
	}
}

// A server that never answers holds a sink until the attempt ends, and no longer.
func TestServerThatNeverAnswers(t *testing.T) {
	release, reached := make(chan struct{}), make(chan struct{}, 1)
	f, e := answering(t, func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	must(t, e.plan(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	e.dispatch(ctx)
	<-reached
	cancel()
	e.running.Wait()
	// The process ended: nothing was recorded, and the next one delivers.
	items, err := f.ReportItems(t.Context(), "uid-")
	if err != nil || len(items) != 1 || !items[0].Due || items[0].Attempts != 0 {
		t.Errorf("items %+v, %v", items, err)
	}
}

// A sink that is not available waits longer each time, and an item that is refused does not hold up others.
func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: retryFirst, 1: 2 * retryFirst, 3: 8 * retryFirst, 10: retryMost, 100: retryMost} {
		if got := backoff(retryFirst, retryMost, failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	for _, name := range []string{"bad", "good"} {
		f.catalog(t, image(name), "1", "openssl")
		f.run(t, image(name), workload("shop", name, ""))
	}
	// The project of an empty name is refused by the sink itself.
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{owner}"}}), f.sink(t, Definition{
		Name: "other", DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"},
	}))
	f.settle(t, e)
	results.expect(t, "dependencyTrack delivered 2", "dependencyTrack failed 1")
	states := e.States()
	if s := states["uid-"]; s.Failed != 1 || !strings.Contains(s.Problem, "name of the project is empty") {
		t.Errorf("the sink that refuses: %+v", s)
	}
	if s := states["uid-other"]; s.Failed != 0 || s.Pending != 0 || s.Problem != "" {
		t.Errorf("the other sink: %+v", s)
	}
}

// The metadata services of clouds are refused, also where a credential names them.
func TestMetadataServicesAreRefused(t *testing.T) {
	f := newFixture(t, map[string]string{"url": "http://169.254.169.254", "token": "t"})
	_, err := f.factory.call(t.Context(), "c", &request{method: http.MethodGet, path: "latest"})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"file:///etc/passwd", "https://u:p@h/", "https://h/?q", "x"} {
		f.credential(t, map[string]string{"url": url})
		if _, err := f.factory.call(t.Context(), "c", &request{method: http.MethodGet}); err == nil || !strings.Contains(err.Error(), "is not http://") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
