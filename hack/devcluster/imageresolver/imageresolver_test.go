package imageresolver

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}

func push(t *testing.T, image string) string {
	t.Helper()
	content, err := random.Image(16, 1)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, content); err != nil {
		t.Fatal(err)
	}
	digest, err := content.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return reference.Context().Name() + "@" + digest.String()
}

func TestResolve(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/app:1"
	i := newImages()
	resolve := func(node string, policy corev1.PullPolicy) (string, string) {
		id, err := i.resolve(t.Context(), node, amd64, image, policy)
		if failure, ok := errors.AsType[*pullError](err); ok {
			return id, failure.reason
		}
		return id, ""
	}
	if _, reason := resolve("a", corev1.PullIfNotPresent); reason != reasonErrImagePull {
		t.Errorf("a missing image fails with %q", reason)
	}
	first := push(t, image)
	if id, _ := resolve("a", corev1.PullIfNotPresent); id != first {
		t.Errorf("after the push: got %q, want %q", id, first)
	}
	second := push(t, image)
	for _, test := range []struct {
		node   string
		policy corev1.PullPolicy
		want   string
		reason string
	}{
		{"a", corev1.PullIfNotPresent, first, ""},
		{"a", corev1.PullNever, first, ""},
		{"b", corev1.PullNever, "", reasonNeverPull},
		{"b", corev1.PullIfNotPresent, second, ""},
		{"a", corev1.PullAlways, second, ""},
		{"a", corev1.PullIfNotPresent, second, ""},
	} {
		if id, reason := resolve(test.node, test.policy); id != test.want || reason != test.reason {
			t.Errorf("%+v: got %q, %q", test, id, reason)
		}
	}
	image = "not a reference"
	if _, reason := resolve("a", corev1.PullAlways); reason != reasonInvalidName {
		t.Errorf("an invalid name fails with %q", reason)
	}
}

func TestResolveIndex(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/app:1"
	content, err := random.Image(16, 1)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: content, Descriptor: v1.Descriptor{Platform: &amd64}})
	reference, err := name.ParseReference(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(reference, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	i := newImages()
	if id, err := i.resolve(t.Context(), "a", amd64, image, corev1.PullAlways); err != nil || !strings.HasSuffix(id, "@"+digest.String()) {
		t.Errorf("got %q, %v; want the digest of the index, %s", id, err, digest)
	}
	if _, err := i.resolve(t.Context(), "b", v1.Platform{OS: "linux", Architecture: "arm64"}, image, corev1.PullAlways); err == nil || !strings.Contains(err.Error(), "no match for platform") {
		t.Errorf("got %v for a platform that the index lacks", err)
	}
}

func TestResponseSize(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = w.Write(make([]byte, maxResponse+1))
		}
	}))
	defer server.Close()
	image := strings.TrimPrefix(server.URL, "http://") + "/app:1"
	if _, err := newImages().resolve(t.Context(), "a", amd64, image, corev1.PullAlways); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("got %v, want the bound of responses", err)
	}
}

func TestRepository(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "docker.io/library/nginx", "quay.io/a/b:1": "quay.io/a/b", "127.0.0.1:5001/samples/debian:latest": "127.0.0.1:5001/samples/debian",
	} {
		reference, err := name.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		if got := repository(reference); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}

func TestPending(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{imageIDPrefix + "given": ""}},
		Spec: corev1.PodSpec{
			NodeName:       "a",
			InitContainers: []corev1.Container{{Name: "init", Image: "a:1", ImagePullPolicy: corev1.PullNever}},
			Containers:     []corev1.Container{{Name: "given", Image: "a:1"}, {Name: "digest", Image: "a@sha256:1"}, {Name: "tag", Image: "a:1"}},
			EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "a"}},
			},
		},
	}
	want := []container{{"init", "a:1", corev1.PullNever}, {"tag", "a:1", ""}, {"debug", "a", ""}}
	if diff := cmp.Diff(want, pending(pod), cmp.AllowUnexported(container{})); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"not scheduled": func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"ended":         func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"pull error":    func(p *corev1.Pod) { p.Annotations[pullErrorAnnotation] = "ErrImagePull" },
	} {
		changed := pod.DeepCopy()
		change(changed)
		if got := pending(changed); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWaitingStatus(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "c:1"}},
		},
	}}
	failures := map[string]*pullError{"b": {reasonErrImagePull, "no"}, "debug": {reasonErrImagePull, "neither"}}
	status := waitingStatus(pod, failures, metav1.Now())
	if got := status.ContainerStatuses[0].State.Waiting.Reason; got != "ContainerCreating" {
		t.Errorf("the container with an image waits with %q", got)
	}
	if got := *status.ContainerStatuses[1].State.Waiting; status.Phase != corev1.PodPending || got.Reason != reasonErrImagePull || got.Message != "no" {
		t.Errorf("the pod is %s, the container without an image waits with %+v", status.Phase, got)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "a", Ready: true}}}
	status = waitingStatus(pod, failures, metav1.Now())
	if !status.ContainerStatuses[0].Ready || status.Phase != corev1.PodRunning || status.EphemeralContainerStatuses[0].State.Waiting.Message != "neither" {
		t.Errorf("a pod that runs waits for its ephemeral container: got %+v", status)
	}
}

func TestBackoff(t *testing.T) {
	now := time.Now()
	b := newBackoffs()
	b.now = func() time.Time { return now }
	key := item{"default", "a"}
	if left, report := b.wait(key, "1"); left != 0 || report {
		t.Errorf("a new pod waits %s", left)
	}
	var delays []time.Duration
	for range 6 {
		b.failed(key, "1")
		if left, report := b.wait(key, "1"); left != reportBackoff || report {
			t.Errorf("at first the error itself is reported: %s, %t", left, report)
		}
		now = now.Add(reportBackoff)
		left, report := b.wait(key, "1")
		if !report {
			t.Error("the wait is not reported")
		}
		delays = append(delays, left+reportBackoff)
	}
	if diff := cmp.Diff([]time.Duration{firstBackoff, 2 * firstBackoff, 4 * firstBackoff, 8 * firstBackoff, maxBackoff, maxBackoff}, delays); diff != "" {
		t.Error(diff)
	}
	if left, _ := b.wait(key, "2"); left != 0 {
		t.Errorf("another pod of the same name waits %s", left)
	}
}
