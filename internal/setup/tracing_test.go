package setup_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// traceReceiver is a receiver of OTLP over HTTP that keeps the spans by name.
type traceReceiver struct {
	mu    sync.Mutex
	spans map[string]*tracepb.Span
}

// ServeHTTP implements http.Handler.
func (r *traceReceiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var traces collectorpb.ExportTraceServiceRequest
	body, err := gzip.NewReader(request.Body)
	if err == nil {
		var content []byte
		if content, err = io.ReadAll(body); err == nil {
			err = proto.Unmarshal(content, &traces)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range traces.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans[span.GetName()] = span
			}
		}
	}
}

func (r *traceReceiver) named(name string) *tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans[name]
}

// TestTraces scans an image and expects what the operator did as spans at a real receiver.
func TestTraces(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	received := &traceReceiver{spans: map[string]*tracepb.Span{}}
	server := httptest.NewServer(received)
	defer server.Close()
	ns := namespace(t, c)
	api := operator(t, ns, func(o *setup.Options) { o.OTLPEndpoint = server.URL })
	image := imageID("traced", "6")
	runningPod(t, c, ns, "traced", image)
	create(t, c, sampleScanner(t, ns))
	var job *batchv1.Job
	g.Eventually(func() *batchv1.Job {
		job = jobs(t.Context(), c, ns)[image]
		return job
	}, patience, tick).ShouldNot(gomega.BeNil())
	if status := deliver(t, api, image, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the upload has the status %d", status)
	}
	finish(t, c, job, batchv1.JobComplete)

	const upload, ingest, matching, packages, scan = "PUT /api/v1/images/{imageId}/sbom", "ingest SBOM", "match new images", "match packages", "scan"
	for _, name := range []string{upload, ingest, matching, packages, scan} {
		g.Eventually(func() *tracepb.Span { return received.named(name) }, patience, tick).ShouldNot(gomega.BeNil(), name)
	}
	for child, parent := range map[string]string{ingest: upload, packages: matching} {
		if got, want := received.named(child).GetParentSpanId(), received.named(parent).GetSpanId(); string(got) != string(want) {
			t.Errorf("%s is below %x, want %s, which is %x", child, got, parent, want)
		}
	}
	attributes := map[string]string{}
	for _, one := range received.named(scan).GetAttributes() {
		attributes[one.GetKey()] = one.GetValue().GetStringValue()
	}
	if attributes["scanner.image.id"] != image || attributes["k8s.job.name"] != job.Name || attributes["k8s.namespace.name"] != ns {
		t.Errorf("the scan has the attributes %v", attributes)
	}
}
