//go:build e2e

package e2e

import (
	"context"
	"syscall"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorPod is the only pod of the operator, which has started.
func operatorPod(ctx context.Context, g gomega.Gomega) *corev1.Pod {
	var pods corev1.PodList
	g.Expect(e2e.client.List(ctx, &pods, client.InNamespace(operatorNamespace),
		client.MatchingLabels{"control-plane": "controller-manager"})).To(gomega.Succeed())
	g.Expect(pods.Items).To(gomega.HaveLen(1))
	g.Expect(pods.Items[0].Status.ContainerStatuses).To(gomega.HaveLen(1))
	return &pods.Items[0]
}

// TestOperatorIsReplaced ends the operator while scans are under way: one that ends at once, and has to wait with its result, and one that
// goes on. The successor has the same volume. The test runs by itself: nobody else could use the API meanwhile.
func TestOperatorIsReplaced(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(*testing.T, *corev1.Pod)
		ends func(before, now *corev1.Pod) bool
	}{
		"killed": {
			do: func(t *testing.T, pod *corev1.Pod) { signalContainer(t, pod, syscall.SIGKILL) },
			ends: func(before, now *corev1.Pod) bool {
				return now.Status.ContainerStatuses[0].RestartCount > before.Status.ContainerStatuses[0].RestartCount
			},
		},
		"deleted": {
			do: func(t *testing.T, pod *corev1.Pod) {
				if err := e2e.client.Delete(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			},
			ends: func(before, now *corev1.Pod) bool { return now.UID != before.UID },
		},
	} {
		t.Run(name, func(t *testing.T) { replaceOperator(t, name, end.do, end.ends) })
	}
}

func replaceOperator(t *testing.T, how string, end func(*testing.T, *corev1.Pod), replaced func(before, now *corev1.Pod) bool) {
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns, fromRegistry)
	beforeRef, before := e2e.registry.push(t, "go-app", how+"/before")
	runPod(t, ns, "before", beforeRef)
	scanned(t, a, before)
	endsHold, ends := scanInTheMiddle(t, ns, how+"/ends")
	staysHold, stays := scanInTheMiddle(t, ns, how+"/stays")
	pod := operatorPod(t.Context(), g)
	jobs := map[string][]batchv1.Job{ends: scanJobs(t, ns, ends), stays: scanJobs(t, ns, stays)}

	end(t, pod)
	endsHold.release()
	g.Eventually(func(g gomega.Gomega) {
		now := operatorPod(t.Context(), g)
		g.Expect(replaced(pod, now)).To(gomega.BeTrue())
		g.Expect(now.Status.ContainerStatuses[0].Ready).To(gomega.BeTrue())
	}, patience, tick).Should(gomega.Succeed(), "the operator does not come back")
	if err := waitForService(t.Context()); err != nil {
		t.Fatal(err)
	}
	if results, err := a.results(t.Context()); err != nil || len(results[before].Report.Components) == 0 {
		t.Fatalf("the result of %s is lost: %v", before, err)
	}
	// The successor works, and has seen what goes on, once it scans what came later.
	afterRef, after := e2e.registry.push(t, "python-app", how+"/after")
	runPod(t, ns, "after", afterRef)
	scanned(t, a, ends, after)
	staysHold.release()
	scanned(t, a, stays)

	for id, before := range jobs {
		if now := scanJobs(t, ns, id); len(before) != 1 || len(now) != 1 || now[0].UID != before[0].UID {
			t.Errorf("%s: %d Jobs before and %d after, want the same one", id, len(before), len(now))
		}
	}
	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
}
