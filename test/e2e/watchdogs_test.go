//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// The scan of an image with license texts needs more memory than the small one. The large one is enough for a sample, and not for largeFile in an
// image beside it.
const (
	smallMemory = "70Mi"
	largeMemory = "140Mi"
	largeFile   = 128 << 20
)

// failed waits until an attempt at an image has failed, and for the event that says so.
func failed(t *testing.T, a api, s *scannerv1.Scanner, imageID, reason string) image {
	t.Helper()
	g := gomega.NewWithT(t)
	var found image
	g.Eventually(func() (string, error) {
		i, err := a.image(t.Context(), imageID)
		found = i
		return i.State + "/" + i.Reason, err
	}, patience, tick).Should(gomega.Equal("Failed/" + reason))
	told := fmt.Sprintf("Image %s could not be scanned: %s: ", imageID, reason)
	g.Eventually(func() (string, error) { return events(t, s) }, patience, tick).Should(gomega.ContainSubstring(told))
	return found
}

// scanJobs lists the Jobs for an image.
func scanJobs(t *testing.T, namespace, imageID string) []batchv1.Job {
	t.Helper()
	var jobs batchv1.JobList
	if err := e2e.client.List(t.Context(), &jobs, client.InNamespace(namespace), client.HasLabels{scanjob.LabelScan}); err != nil {
		t.Fatal(err)
	}
	var found []batchv1.Job
	for i := range jobs.Items {
		if scanjob.Key(&jobs.Items[i]).ImageID == imageID {
			found = append(found, jobs.Items[i])
		}
	}
	return found
}

// scanPod returns the pod of the only Job for an image.
func scanPod(t *testing.T, namespace, imageID string) *corev1.Pod {
	t.Helper()
	jobs := scanJobs(t, namespace, imageID)
	if len(jobs) != 1 {
		t.Fatalf("%d Jobs for %s, want 1", len(jobs), imageID)
	}
	var pods corev1.PodList
	if err := e2e.client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{scanjob.LabelScan: jobs[0].Name}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 {
		t.Fatalf("%d pods of Job %s, want 1", len(pods.Items), jobs[0].Name)
	}
	return &pods.Items[0]
}

// TestOutOfMemory lets the kernel kill scans. What helps is remembered for the repository, and what does not help comes to an end.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns, fromRegistry, func(s *scannerv1.Scanner) {
		s.Spec.Job.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(smallMemory)}
	})
	smallRef, small := e2e.registry.push(t, "debian", "memory/small")
	largeRef, large := e2e.registry.pushImage(t, withFile(t, sampleImage(t, "alpine"), "large/package.json", 0o644, largePackage()), "memory/large", "1")
	runPod(t, ns, "small", smallRef, privately)
	runPod(t, ns, "large", largeRef, privately)

	if i := failed(t, a, scanner, small, "OutOfMemory"); i.Attempts != 1 || i.SizeClass != "M" {
		t.Errorf("after its first scan: %+v", i)
	}
	scanned(t, a, small)
	// No class above gives more than --scan-max-memory.
	g.Eventually(func() (int, error) {
		i, err := a.image(t.Context(), large)
		return i.Attempts, err
	}, patience, tick).Should(gomega.BeNumerically(">=", 2))
	if i := failed(t, a, scanner, large, "OutOfMemory"); i.SizeClass != "M" {
		t.Errorf("out of memory for good: %+v", i)
	}
	g.Eventually(func() (map[string]container, error) { return a.coverage(t.Context(), ns) }, patience, tick).Should(gomega.And(
		gomega.HaveKeyWithValue(small, gomega.HaveField("State", "Scanned")),
		gomega.HaveKeyWithValue(large, gomega.And(gomega.HaveField("State", "Failed"), gomega.HaveField("Reason", "OutOfMemory"),
			gomega.HaveField("NextAttempt", gomega.BeTemporally(">", time.Now())))),
	))

	anotherRef, another := e2e.registry.pushImage(t, sampleImage(t, "python-app"), "memory/small", "2")
	runPod(t, ns, "another", anotherRef, privately)
	scanned(t, a, another)
	jobs := scanJobs(t, ns, another)
	if len(jobs) != 1 || scanjob.SizeClass(&jobs[0]) != "M" {
		t.Errorf("%d Jobs for another image of the repository, want 1 of the class M", len(jobs))
	}
}

// largePackage is a file that a scan has to hold in memory.
func largePackage() []byte {
	return []byte(`{"name":"large","version":"1.0.0","padding":"` + strings.Repeat("x", largeFile) + `"}`)
}

// withFile adds a file to an image.
func withFile(t *testing.T, image v1.Image, name string, mode int64, content []byte) v1.Image {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithCompressedCaching)
	if err != nil {
		t.Fatal(err)
	}
	larger, err := mutate.AppendLayers(image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return larger
}

// TestDeadline has scans that do not end: one that waits for its registry and reports it, and one whose process is stopped.
func TestDeadline(t *testing.T) {
	t.Parallel()
	ns, a := restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns, fromRegistry)
	held, slow := scanInTheMiddle(t, ns, "deadline/slow")
	_, frozen := scanInTheMiddle(t, ns, "deadline/frozen")
	signalContainer(t, scanPod(t, ns, frozen), syscall.SIGSTOP)

	failed(t, a, scanner, slow, "DeadlineExceeded")
	held.release()
	// In the end the kubelet kills it, as it would be for want of memory: more of that is no help.
	if i := failed(t, a, scanner, frozen, "DeadlineExceeded"); i.SizeClass != "S" {
		t.Errorf("a scan that stands still: %+v", i)
	}
	scanned(t, a, slow)
}

// TestScanThatNeverStarts says from the beginning what a scan waits for, and does so no longer than its deadline.
func TestScanThatNeverStarts(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns, func(s *scannerv1.Scanner) { s.Spec.Job.NodeSelector = map[string]string{"e2e": "nowhere"} })
	reference, id := e2e.registry.push(t, "alpine", "nowhere/app")
	runPod(t, ns, "app", reference, privately)
	g.Eventually(func() (map[string]container, error) { return a.coverage(t.Context(), ns) }, patience, tick).Should(
		gomega.HaveKeyWithValue(id, gomega.And(gomega.HaveField("State", "Pending"), gomega.HaveField("Message", gomega.ContainSubstring("cannot be scheduled")))))
	if i := failed(t, a, scanner, id, "Unschedulable"); !strings.Contains(i.Message, "cannot be scheduled") {
		t.Errorf("the message does not say why: %s", i.Message)
	}
}

// TestScanIsDeleted takes away what a scan consists of, as a user may.
func TestScanIsDeleted(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, namespace, imageID string) client.Object{
		"job": func(t *testing.T, namespace, imageID string) client.Object {
			return &scanJobs(t, namespace, imageID)[0]
		},
		"pod": func(t *testing.T, namespace, imageID string) client.Object { return scanPod(t, namespace, imageID) },
	}
	for name, victim := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, a := restrictedNamespace(t), newAPI(t)
			scanner := applyScanner(t, ns, fromRegistry)
			held, id := scanInTheMiddle(t, ns, "deleted/"+name)
			if err := e2e.client.Delete(t.Context(), victim(t, ns, id), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Fatal(err)
			}
			if i := failed(t, a, scanner, id, "CatalogFailed"); !strings.Contains(i.Message, "was deleted") {
				t.Errorf("the message does not say that the %s was deleted: %s", name, i.Message)
			}
			held.release()
			scanned(t, a, id)
		})
	}
}
