package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// attributesOf are the attributes of a span.
func attributesOf(span sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, one := range span.Attributes() {
		all[string(one.Key)] = one.Value.String()
	}
	return all
}

func TestRequestsAreTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := newFixture(t, func(c *server.Config) { c.Tracer = provider.Tracer("test") })
	g := gomega.NewWithT(t)
	f.seed()
	const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	before := time.Now()
	f.do(http.MethodGet, "/api/v1/images/"+escape(scannedID), "", "traceparent: 00-"+traceID+"-"+parentID+"-01")
	f.do(http.MethodGet, "/api/v1/images/"+escape(unknownID)+"/presences", "", "traceparent: 00-nonsense")
	// Not sampled by the caller, refused before it was admitted, and no request of the API.
	f.do(http.MethodGet, "/api/v1/images", "", "traceparent: 00-"+traceID+"-"+parentID+"-00")
	f.do(http.MethodGet, "/api/v1/images?%zz", "")
	f.do(http.MethodGet, "/anything", "")
	connection, _ := f.dialPath("/api/v1/events")
	defer func() { _ = connection.Close() }()

	// The WebSocket is open still. A client can have the answer before the span has ended.
	g.Eventually(func() int { return len(spans.Ended()) }, patience).Should(gomega.Equal(3))
	ended := spans.Ended()
	slices.SortFunc(ended, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for i, want := range []struct{ route, status string }{{"/api/v1/images/{imageId}", "200"}, {"/api/v1/images/{imageId}/presences", "404"}, {"/api/v1/events", "101"}} {
		span := ended[i]
		if span.Name() != "GET "+want.route || span.SpanKind() != trace.SpanKindServer || span.Status().Code != codes.Unset {
			t.Errorf("span %d is %s of kind %s with %v", i, span.Name(), span.SpanKind(), span.Status())
		}
		wanted := map[string]string{"http.request.method": "GET", "http.route": want.route, "http.response.status_code": want.status}
		if diff := cmp.Diff(wanted, attributesOf(span)); diff != "" {
			t.Errorf("%s: %s", want.route, diff)
		}
		if span.StartTime().Before(before) || span.EndTime().Before(span.StartTime()) {
			t.Errorf("%s took from %s to %s", want.route, span.StartTime(), span.EndTime())
		}
	}
	if span := ended[0]; span.SpanContext().TraceID().String() != traceID || span.Parent().SpanID().String() != parentID {
		t.Errorf("the span is in trace %s below %s", span.SpanContext().TraceID(), span.Parent().SpanID())
	}
	if ended[1].Parent().IsValid() {
		t.Error("a trace context that cannot be read is taken")
	}
}

// brokenStore cannot sum up images.
type brokenStore struct{ store.Store }

func (brokenStore) Overview(context.Context, store.Namespaces) (store.Overview, error) {
	return store.Overview{}, errors.New("it is broken")
}

func TestOnlyAdmittedRequestsAreTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Tracer, c.Store = provider.Tracer("test"), brokenStore{c.Store} })
	for token, want := range map[string]int{"unknown": http.StatusUnauthorized, "nobody": http.StatusForbidden, "reader": http.StatusInternalServerError} {
		if got := f.do(http.MethodGet, "/api/v1/overview", "", bearer(token)); got.status != want {
			t.Errorf("%s gets %d, want %d", token, got.status, want)
		}
	}
	gomega.NewWithT(t).Eventually(func() []sdktrace.ReadOnlySpan { return spans.Ended() }, patience).ShouldNot(gomega.BeEmpty())
	if ended := spans.Ended(); len(spans.Started()) != 1 || ended[0].Status().Code != codes.Error {
		t.Errorf("there are %d spans, the first with the status %v", len(spans.Started()), ended[0].Status())
	}
}
