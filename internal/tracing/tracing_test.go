package tracing

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// received is a request that a receiver got.
type received struct {
	header http.Header
	path   string
	*collectorpb.ExportTraceServiceRequest
}

// receiver is a receiver of OTLP over HTTP, which gives each request to handle after decoding it.
func receiver(t *testing.T, handle func(w http.ResponseWriter, r received)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := received{r.Header, r.URL.Path, &collectorpb.ExportTraceServiceRequest{}}
		body, err := gzip.NewReader(r.Body)
		if err == nil {
			var content []byte
			if content, err = io.ReadAll(body); err == nil {
				err = proto.Unmarshal(content, got)
			}
		}
		if err != nil {
			t.Errorf("the request cannot be read: %v", err)
		}
		handle(w, got)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// run starts traces; the function that it returns ends them and waits.
func run(t *testing.T, config Config) (*Traces, func()) {
	t.Helper()
	traces, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- traces.Start(ctx) }()
	return traces, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestSpansArrive(t *testing.T) {
	t.Setenv(headersVariable, "Authorization=Bearer%20secret, x-tenant=a")
	requests := make(chan received, 10)
	url := receiver(t, func(_ http.ResponseWriter, r received) { requests <- r })
	traces, end := run(t, Config{Endpoint: url, Version: "1.2", Cluster: "c", Log: logr.Discard()})
	ctx, parent := traces.Tracer("part").Start(t.Context(), "parent")
	_, child := traces.Tracer("part").Start(ctx, "child")
	child.SetAttributes(attribute.String("key", strings.Repeat("x", 1000)))
	child.End()
	parent.End()
	end()
	got := <-requests
	if got.path != defaultPath || got.header.Get("Authorization") != "Bearer secret" || got.header.Get("X-Tenant") != "a" ||
		got.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("the request is to %s with %v", got.path, got.header)
	}
	attributes := map[string]string{}
	for _, one := range got.GetResourceSpans()[0].GetResource().GetAttributes() {
		attributes[one.GetKey()] = one.GetValue().GetStringValue()
	}
	if attributes["service.instance.id"] == "" {
		t.Error("the spans do not say which replica they are from")
	}
	delete(attributes, "service.instance.id")
	if diff := cmp.Diff(map[string]string{"service.name": "scanner-operator", "service.version": "1.2", "k8s.cluster.name": "c"}, attributes); diff != "" {
		t.Error(diff)
	}
	spans := got.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 2 || spans[0].GetName() != "child" || string(spans[0].GetParentSpanId()) != string(spans[1].GetSpanId()) ||
		string(spans[0].GetTraceId()) != string(spans[1].GetTraceId()) {
		t.Errorf("the spans are %v", spans)
	}
	if length := len(spans[0].GetAttributes()[0].GetValue().GetStringValue()); length != 512 {
		t.Errorf("an attribute of 1,000 bytes arrives with %d", length)
	}
}

// A receiver that never answers delays nothing: spans beyond the queue are dropped.
func TestNothingWaitsForTheReceiver(t *testing.T) {
	asked, release := make(chan bool, 1000), make(chan bool)
	spans := make(chan int, 1000)
	url := receiver(t, func(_ http.ResponseWriter, r received) {
		asked <- true
		<-release
		spans <- len(r.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans())
	})
	traces, end := run(t, Config{Endpoint: url, Log: logr.Discard()})
	tracer := traces.Tracer("part")
	for range 4 * queueSize {
		_, span := tracer.Start(t.Context(), "span")
		span.End()
	}
	<-asked
	for range 4 * queueSize { // All while the receiver has not answered.
		_, span := tracer.Start(t.Context(), "span")
		span.End()
	}
	close(release)
	end()
	close(spans)
	sum := 0
	for n := range spans {
		sum += n
	}
	// What was in the queue, in the batch that was being collected, and in those that were sent while the first spans were made.
	if sum < queueSize || sum >= 8*queueSize {
		t.Errorf("%d spans arrived of %d, with a queue of %d", sum, 8*queueSize, queueSize)
	}
}

func TestReceiversThatFail(t *testing.T) {
	other := receiver(t, func(http.ResponseWriter, received) { t.Error("the redirect is followed") })
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for name, test := range map[string]struct{ url, want string }{
		"failing": {receiver(t, func(w http.ResponseWriter, _ received) { w.WriteHeader(http.StatusInternalServerError) }), "the status 500"},
		"redirecting": {receiver(t, func(w http.ResponseWriter, _ received) {
			http.Redirect(w, &http.Request{}, other, http.StatusTemporaryRedirect)
		}), "the status 307"},
		"away": {away.URL, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			traces, end := run(t, Config{Endpoint: test.url, Log: log})
			_, span := traces.Tracer("part").Start(t.Context(), "span")
			span.End()
			end()
			if len(logged) != 1 || !strings.Contains(logged[0], test.want) || !strings.Contains(logged[0], `"spans"=1`) {
				t.Errorf("logged %q, want %q", logged, test.want)
			}
		})
	}
}

// Failures are logged once a minute, with the spans since the last message.
func TestFailuresAreCounted(t *testing.T) {
	var logged []string
	e := &loggingExporter{SpanExporter: failing{}, log: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})}
	for range 3 {
		if err := e.ExportSpans(t.Context(), nil); err != nil {
			t.Error(err)
		}
		e.dropped++ // As if there had been a span.
	}
	e.logged = time.Now().Add(-logInterval)
	_ = e.ExportSpans(t.Context(), nil)
	if len(logged) != 2 || !strings.Contains(logged[1], `"spans"=3`) {
		t.Errorf("logged %q", logged)
	}
}

// failing is an exporter that sends nothing.
type failing struct{}

func (failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("it fails")
}
func (failing) Shutdown(context.Context) error { return nil }

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://collector:4318":              "http://collector:4318/v1/traces",
		"https://collector:4318/":            "https://collector:4318/v1/traces",
		"https://example.com/otlp/v1/traces": "https://example.com/otlp/v1/traces",
	} {
		if got, err := ParseEndpoint(endpoint); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", endpoint, got, err)
		}
	}
	for _, endpoint := range []string{"collector:4318", "grpc://collector:4317", "http://", "http://user:hidden@collector", "http://user:hidden@collector:x"} {
		if _, err := ParseEndpoint(endpoint); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	t.Setenv(headersVariable, "secret")
	if _, err := New(Config{Endpoint: "http://collector"}); err == nil || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("headers without values: %v", err)
	}
}

func TestOffByDefault(t *testing.T) {
	traces, end := run(t, Config{})
	if _, span := traces.Tracer("part").Start(t.Context(), "span"); span.IsRecording() {
		t.Error("a span is recorded without an endpoint")
	}
	end()
}
