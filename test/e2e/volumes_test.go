//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// TestImagesAreReadFromTheirNode: after a pod runs, its image is no longer in the registry, so that only the node has it. The namespaces admit
// restricted pods alone.
func TestImagesAreReadFromTheirNode(t *testing.T) {
	t.Parallel()
	for _, source := range []scannerv1.ImageSource{scannerv1.SourceAuto, scannerv1.SourceImageVolume} {
		for name, mutate := range map[string]func(*corev1.Pod){"home": func(*corev1.Pod) {}, "tenant": privately} {
			t.Run(string(source)+"/"+name, func(t *testing.T) {
				t.Parallel()
				g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
				scanner := applyScanner(t, ns, func(s *scannerv1.Scanner) { s.Spec.Job.Source, s.Spec.Suspend = source, true })
				repository := "volumes/" + strings.ToLower(string(source)) + "-" + name
				reference, id := e2e.registry.push(t, "debian", repository)
				pod := runPod(t, ns, "app", reference, mutate)
				g.Eventually(func() (corev1.PodPhase, error) {
					err := e2e.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
					return pod.Status.Phase, err
				}, patience, tick).Should(gomega.Equal(corev1.PodRunning))
				e2e.registry.remove(repository)
				suspend(t, scanner, false)
				scanned(t, a, id)
				if i, err := a.image(t.Context(), id); err != nil || i.Attempts != 0 {
					t.Errorf("%d failed attempts, %v", i.Attempts, err)
				}
				var jobs batchv1.JobList
				err := e2e.client.List(t.Context(), &jobs, client.MatchingLabels{scanjob.LabelScanner: string(scanner.UID)})
				if err != nil || len(jobs.Items) != 1 {
					t.Fatalf("%d Jobs, %v, want 1", len(jobs.Items), err)
				}
				if spec := &jobs.Items[0].Spec.Template.Spec; spec.HostUsers == nil || *spec.HostUsers || (jobs.Items[0].Namespace == ns) != (name == "tenant") {
					t.Errorf("the Job in %s has hostUsers %v", jobs.Items[0].Namespace, spec.HostUsers)
				}
			})
		}
	}
}
