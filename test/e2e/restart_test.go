//go:build e2e

package e2e

import (
	"syscall"
	"testing"

	"github.com/onsi/gomega"
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

// TestOperatorIsKilled ends the operator without a warning while a scan is under way. Its successor has the same data directory.
// It runs by itself: nobody else could use the API meanwhile.
func TestOperatorIsKilled(t *testing.T) {
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns)
	beforeRef, before := e2e.registry.push(t, "go-app", "killed/before")
	runPod(t, ns, "before", beforeRef)
	scanned(t, a, before)
	held := e2e.registry.hold(t, "killed/held")
	heldRef, id := e2e.registry.push(t, "alpine", "killed/held")
	runPod(t, ns, "held", heldRef)
	held.inTheMiddle(t)
	pod, jobs := operatorPod(t), scanJobs(t, ns, id)
	restarts := pod.Status.ContainerStatuses[0].RestartCount

	signalContainer(t, pod, syscall.SIGKILL)
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
	// The successor works, and has seen what is held up, once it scans what came later.
	afterRef, after := e2e.registry.push(t, "python-app", "killed/after")
	runPod(t, ns, "after", afterRef)
	scanned(t, a, after)
	held.release()
	scanned(t, a, id)

	if now := scanJobs(t, ns, id); len(jobs) != 1 || len(now) != 1 || now[0].UID != jobs[0].UID {
		t.Errorf("%d Jobs before and %d after, want the same one", len(jobs), len(now))
	}
	if i, err := a.image(t.Context(), id); err != nil || i.State != "Scanned" || i.Attempts != 0 {
		t.Errorf("the image that was held up: %+v, %v", i, err)
	}
	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
}
