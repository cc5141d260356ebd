package server

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// beginTrace begins the span of a request that was admitted, as a part of the trace that the caller names in the header traceparent. measure ends it.
// Requests that are refused have none: they could fill the queue of those that are not.
func (s *Server) beginTrace(ctx context.Context, w http.ResponseWriter, r *http.Request, began time.Time) context.Context {
	rec := recorderOf(w)
	if s.config.Tracer == nil || rec == nil {
		return ctx
	}
	method := knownMethod(r.Method)
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	ctx, rec.span = s.config.Tracer.Start(ctx, method+" "+rec.route, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began),
		trace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", rec.route)))
	return ctx
}

// endTrace ends the span of a request, if it has one.
func (s *Server) endTrace(rec *recorder, status int) {
	if rec.span == nil {
		return
	}
	rec.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		rec.span.SetStatus(codes.Error, http.StatusText(status))
	}
	rec.span.End(trace.WithTimestamp(s.clock()))
}
