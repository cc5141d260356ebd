// Package tracing exports traces to a receiver of the OpenTelemetry protocol (OTLP) over HTTP.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	// queueSize is the maximum number of spans that wait to be sent. Further ones are dropped.
	queueSize = 2048
	// batchSize is the maximum number of spans in a request, batchDelay how long a span waits for others.
	batchSize  = 512
	batchDelay = 5 * time.Second
	// exportTimeout bounds a request, shutdownTimeout the last ones when the operator ends.
	exportTimeout   = 10 * time.Second
	shutdownTimeout = 5 * time.Second

	// defaultPath is the path of traces at a receiver.
	defaultPath = "/v1/traces"
	// headersVariable is the environment variable with headers for each request: name=value, separated by commas.
	headersVariable = "OTEL_EXPORTER_OTLP_HEADERS"
)

// Config says where traces are sent.
type Config struct {
	// Endpoint is the URL of the receiver, http or https; without a path, it is /v1/traces. Without an endpoint, nothing is traced.
	Endpoint string
	// Version is that of the operator, Cluster the name of the cluster, which may be empty.
	Version, Cluster string
	Log              logr.Logger
}

// ParseEndpoint returns the URL that traces are sent to.
func ParseEndpoint(endpoint string) (*url.URL, error) {
	parsed, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL") // The error of the parser repeats the URL, which could contain a password.
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return nil, errors.New("use a URL such as http://collector.observability:4318")
	case parsed.User != nil:
		return nil, fmt.Errorf("it contains a password: use the environment variable %s", headersVariable)
	}
	if strings.Trim(parsed.Path, "/") == "" {
		parsed.Path = defaultPath
	}
	return parsed, nil
}

// Traces makes the tracers of the operator. The recorded spans wait in a queue of 2,048; when it is full, further ones are dropped, so that a receiver
// that is slow or away delays nothing. It implements manager.Runnable, on all replicas.
type Traces struct {
	// provider is nil when nothing is traced.
	provider *sdktrace.TracerProvider
}

// New connects nothing: the first request is made when there are spans. Which traces are recorded follows from OTEL_TRACES_SAMPLER and
// OTEL_TRACES_SAMPLER_ARG, as those variables are specified; by default all that a caller does not exclude.
func New(config Config) (*Traces, error) {
	if config.Endpoint == "" {
		return &Traces{}, nil
	}
	endpoint, err := ParseEndpoint(config.Endpoint)
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(os.Getenv(headersVariable))
	if err != nil {
		return nil, fmt.Errorf("the environment variable %s: %w", headersVariable, err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", "scanner-operator"), attribute.String("service.version", config.Version)}
	if host, err := os.Hostname(); err == nil {
		attributes = append(attributes, attribute.String("service.instance.id", host))
	}
	if config.Cluster != "" {
		attributes = append(attributes, attribute.String("k8s.cluster.name", config.Cluster))
	}
	sender, err := otlptrace.New(context.Background(), newClient(endpoint, headers)) // It connects to nothing yet.
	if err != nil {
		return nil, err
	}
	exporter := &loggingExporter{SpanExporter: sender, log: config.Log}
	return &Traces{provider: sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(attributes...)),
		sdktrace.WithBatcher(exporter,
			sdktrace.WithMaxQueueSize(queueSize), sdktrace.WithMaxExportBatchSize(batchSize), sdktrace.WithBatchTimeout(batchDelay),
			sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 512, AttributeCountLimit: 32, EventCountLimit: 16, LinkCountLimit: 16, AttributePerEventCountLimit: 8,
			AttributePerLinkCountLimit: 8,
		}),
	)}, nil
}

// Tracer returns a tracer for a part of the operator, which records nothing when there is no endpoint.
func (t *Traces) Tracer(part string) trace.Tracer {
	if t.provider == nil {
		return noop.NewTracerProvider().Tracer(part)
	}
	return t.provider.Tracer("scanner-operator/" + part)
}

// Start waits until the operator ends, and sends what is left.
func (t *Traces) Start(ctx context.Context) error {
	<-ctx.Done()
	if t.provider == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	// What cannot be sent is lost; the exporter has logged why.
	_ = t.provider.Shutdown(bounded)
	return nil
}

// NeedLeaderElection is false: each replica sends its own traces.
func (t *Traces) NeedLeaderElection() bool { return false }

// parseHeaders reads name=value pairs that are separated by commas, with values in percent-encoding. Its errors do not repeat values: they are secret.
func parseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !found || name == "" || err != nil {
			return nil, errors.New("use name=value pairs that are separated by commas, with values in percent-encoding")
		}
		headers[name] = value
	}
	return headers, nil
}
