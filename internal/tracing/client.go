package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// maxAnswer bounds what is read of the answer of a receiver.
	maxAnswer = 64 << 10
	// logInterval is the minimum time between two log messages about traces that cannot be sent.
	logInterval = time.Minute
)

// client sends spans with OTLP over HTTP. It implements otlptrace.Client. The client of OpenTelemetry itself would link a gRPC gateway.
type client struct {
	endpoint *url.URL
	headers  map[string]string
	http     *http.Client
}

func newClient(endpoint *url.URL, headers map[string]string) *client {
	return &client{endpoint: endpoint, headers: headers, http: &http.Client{
		Timeout: exportTimeout,
		// The headers may be secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// It has the encoding of an ExportTraceServiceRequest.
	content, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode traces: %w", err)
	}
	var body bytes.Buffer
	compressed := gzip.NewWriter(&body)
	if _, err := compressed.Write(content); err != nil {
		return fmt.Errorf("compress traces: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("compress traces: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint.String(), &body)
	if err != nil {
		return err
	}
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // So that the connection can be used again.
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver of traces answers with the status %d", response.StatusCode)
	}
	return nil
}

// loggingExporter logs what cannot be sent, and drops it.
type loggingExporter struct {
	sdktrace.SpanExporter
	log logr.Logger

	mu      sync.Mutex
	logged  time.Time
	dropped int
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped += len(spans); time.Since(e.logged) >= logInterval {
		e.log.Error(err, "Cannot send traces, dropping them", "spans", e.dropped)
		e.logged, e.dropped = time.Now(), 0
	}
	return nil
}
