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

	corev1 "k8s.io/api/core/v1"
)

// signalContainer sends a signal to the only container of a pod: the node is this machine.
func signalContainer(t *testing.T, pod *corev1.Pod, signal syscall.Signal) {
	t.Helper()
	if len(pod.Status.ContainerStatuses) != 1 {
		t.Fatalf("pod %s has %d containers, want 1", pod.Name, len(pod.Status.ContainerStatuses))
	}
	_, id, found := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	if !found || id == "" {
		t.Fatalf("the container of pod %s has no ID", pod.Name)
	}
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
