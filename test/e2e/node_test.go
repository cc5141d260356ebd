//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// signalContainer sends a signal to the only container of a pod: the node is this machine.
func signalContainer(t *testing.T, pod *corev1.Pod, signal syscall.Signal) {
	t.Helper()
	var id string
	// The container may run before the kubelet has written its status.
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		g.Expect(e2e.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)).To(gomega.Succeed())
		g.Expect(pod.Status.ContainerStatuses).To(gomega.HaveLen(1))
		_, id, _ = strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		g.Expect(id).NotTo(gomega.BeEmpty())
	}, patience, tick).Should(gomega.Succeed(), "the container of pod %s has no ID", pod.Name)
	pids := processesOf(t, id)
	if len(pids) == 0 {
		t.Fatalf("the container of pod %s has no process", pod.Name)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatalf("send %s to process %d of pod %s: %v", signal, pid, pod.Name, err)
		}
	}
}

// processesOf lists the processes of a container, which its control groups are named after.
func processesOf(t *testing.T, containerID string) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		// A process that has ended in between has no file any more.
		groups, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(groups, []byte(containerID)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
