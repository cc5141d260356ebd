//go:build e2e

package e2e

import (
	"syscall"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func operatorPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := e2e.client.List(t.Context(), &pods, client.InNamespace(operatorNamespace)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 {
		t.Fatalf("%d pods in %s, want 1 that runs", len(pods.Items), operatorNamespace)
	}
	return &pods.Items[0]
}

// TestOperatorIsKilled ends the operator without a warning while scans are under way: one that ends at once, and has to wait with its
// result, and one that goes on. The successor has the same data directory. The test runs by itself: nobody else could use the API meanwhile.
func TestOperatorIsKilled(t *testing.T) {
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns)
	beforeRef, before := e2e.registry.push(t, "go-app", "killed/before")
	runPod(t, ns, "before", beforeRef)
	scanned(t, a, before)
	endsHold, ends := scanInTheMiddle(t, ns, "killed/ends")
	staysHold, stays := scanInTheMiddle(t, ns, "killed/stays")
	pod := operatorPod(t)
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	jobs := map[string][]batchv1.Job{ends: scanJobs(t, ns, ends), stays: scanJobs(t, ns, stays)}

	signalContainer(t, pod, syscall.SIGKILL)
	endsHold.release()
	g.Eventually(func() bool {
		status := operatorPod(t).Status.ContainerStatuses[0]
		return status.RestartCount > restarts && status.Ready
	}, patience, tick).Should(gomega.BeTrue(), "the operator does not come back")
	if err := waitForService(t.Context()); err != nil {
		t.Fatal(err)
	}
	if results, err := a.results(t.Context()); err != nil || len(results[before].Report.Components) == 0 {
		t.Fatalf("the result of %s is lost: %v", before, err)
	}
	// The successor works, and has seen what goes on, once it scans what came later.
	afterRef, after := e2e.registry.push(t, "python-app", "killed/after")
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
