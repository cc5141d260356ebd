package scanner

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// scanTraces records a trace of each attempt that has ended, from the creation of its Job to its end as the controller observed it.
type scanTraces struct {
	mu sync.Mutex
	// ended are the attempts that had ended at the last call; nil before the first one.
	ended map[string]bool
}

// record takes all attempts that are known. Those that had ended before the first call have no trace: a previous leader may have recorded it.
func (t *scanTraces) record(tracer trace.Tracer, attempts map[string]Attempt, now time.Time) {
	if tracer == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := map[string]bool{}
	for name := range attempts {
		attempt := attempts[name]
		if !attempt.Done || attempt.Created.IsZero() || attempt.Lookup != "" {
			continue
		}
		if ended[name] = true; t.ended != nil && !t.ended[name] {
			_, span := startScan(context.Background(), tracer, attempt.Key, trace.WithTimestamp(attempt.Created), trace.WithAttributes(
				attribute.String("k8s.namespace.name", attempt.Namespace), attribute.String("k8s.job.name", name), attribute.Bool("scanner.scan.image_volume", attempt.Volume)))
			endScan(span, attempt.Outcome, trace.WithTimestamp(now))
		}
	}
	t.ended = ended
}

// startScan begins the span of an attempt at an image.
func startScan(ctx context.Context, tracer trace.Tracer, key model.ImageKey, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, noop.Span{}
	}
	return tracer.Start(ctx, "scan", append(options, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("scanner.image.id", key.ImageID), attribute.String("scanner.image.platform", key.Platform.String())))...)
}

// endScan ends it with its outcome.
func endScan(span trace.Span, outcome model.Outcome, options ...trace.SpanEndOption) {
	if !outcome.Succeeded() {
		span.SetAttributes(attribute.String("scanner.scan.reason", string(outcome.Reason)))
		span.SetStatus(codes.Error, outcome.Message)
	}
	span.End(options...)
}
