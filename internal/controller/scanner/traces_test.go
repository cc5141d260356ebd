package scanner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestEndedScansAreTracedOnce(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	created := time.Unix(1000, 0)
	attempt := func(done bool, reason model.Reason) Attempt {
		return Attempt{Key: model.ImageKey{ImageID: "image"}, Namespace: "n", Created: created, Done: done, Outcome: model.Outcome{Reason: reason, Message: "why"}}
	}
	inProcess := attempt(true, "")
	inProcess.Created = time.Time{}
	var traces scanTraces
	traces.record(nil, map[string]Attempt{"before": attempt(true, "")}, created)
	for i, attempts := range []map[string]Attempt{
		{"before": attempt(true, ""), "good": attempt(false, ""), "bad": attempt(false, "")},
		{"before": attempt(true, ""), "good": attempt(true, ""), "bad": attempt(true, model.ReasonImagePullDenied), "in-process": inProcess},
		{"good": attempt(true, ""), "bad": attempt(true, model.ReasonImagePullDenied)},
		{},
	} {
		traces.record(tracer, attempts, created.Add(time.Duration(i)*time.Minute))
	}
	got := map[string]string{}
	for _, span := range spans.Ended() {
		attributes := map[string]string{}
		for _, one := range span.Attributes() {
			attributes[string(one.Key)] = one.Value.String()
		}
		got[attributes["k8s.job.name"]] = fmt.Sprint(span.Name(), " of ", attributes["scanner.image.id"], " in ", attributes["k8s.namespace.name"], ": ",
			span.EndTime().Sub(span.StartTime()), " ", attributes["scanner.scan.reason"], " ", span.Status().Description)
	}
	want := map[string]string{"good": "scan of image in n: 1m0s  ", "bad": "scan of image in n: 1m0s ImagePullDenied why"}
	if diff := cmp.Diff(want, got); diff != "" || len(spans.Ended()) != 2 {
		t.Errorf("%d spans: %s", len(spans.Ended()), diff)
	}
}
