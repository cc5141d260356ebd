package matching

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// trace begins a span. The function that it returns ends it, with the error that the step returned.
func (a *Matcher) trace(ctx context.Context, step string, attributes ...attribute.KeyValue) (context.Context, func(*error)) {
	ctx, span := a.Tracer.Start(ctx, step, trace.WithAttributes(attributes...))
	return ctx, func(err *error) {
		if *err != nil {
			// The text can name images and packages, as the log does.
			span.SetStatus(codes.Error, (*err).Error())
		}
		span.End()
	}
}

func imageAttributes(key model.ImageKey) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("scanner.image.id", key.ImageID), attribute.String("scanner.image.platform", key.Platform.String())}
}
