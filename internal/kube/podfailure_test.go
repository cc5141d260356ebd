package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodsFailure(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	terminated := func(code int32, reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := func(name string, state corev1.ContainerState, last ...corev1.ContainerState) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name = name
		status := corev1.ContainerStatus{Name: "app", State: state}
		for _, l := range last {
			status.LastTerminationState = l
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		return p
	}
	root := pod("web-0", waiting("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "web-0_ns(1)", container: app)`))
	isReady := root.DeepCopy()
	isReady.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	initFails := pod("web-0", waiting("PodInitializing", ""))
	initFails.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "first", State: terminated(0, "Completed", "")}, {Name: "second", State: waiting("ErrImageNeverPull", "no image")},
	}
	const crash = "Pod web-0, container app: CrashLoopBackOff: last termination with exit code 1 (Error): no config: line 2"
	const pull = "Pod web-0, container app: ImagePullBackOff: not found"
	for name, test := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"no pods": {nil, ""},
		"as root": {[]*corev1.Pod{root},
			`Pod web-0, container app: CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: "web-0_ns(1)", container: app)`},
		"the first by name":              {[]*corev1.Pod{pod("web-1", waiting("InvalidImageName", "bad")), pod("web-0", waiting("ErrImagePull", "not found"))}, pull},
		"a ready pod":                    {[]*corev1.Pod{isReady}, ""},
		"a failing pod after others":     {[]*corev1.Pod{isReady, pod("web-1", waiting("ContainerCreating", "")), pod("web-2", waiting("InvalidImageName", "bad"))}, "Pod web-2, container app: InvalidImageName: bad"},
		"starting":                       {[]*corev1.Pod{pod("web-0", waiting("ContainerCreating", ""))}, ""},
		"starting after a restart":       {[]*corev1.Pod{pod("web-0", waiting("ContainerCreating", ""), terminated(255, "Unknown", ""))}, ""},
		"without a status":               {[]*corev1.Pod{pod("web-0", corev1.ContainerState{})}, ""},
		"running":                        {[]*corev1.Pod{pod("web-0", running)}, ""},
		"completed":                      {[]*corev1.Pod{pod("web-0", terminated(0, "Completed", ""))}, ""},
		"pulling again":                  {[]*corev1.Pod{pod("web-0", waiting("ErrImagePull", "not found"))}, pull},
		"waiting to pull":                {[]*corev1.Pod{pod("web-0", waiting("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`))}, pull},
		"crashed":                        {[]*corev1.Pod{pod("web-0", terminated(1, "Error", "no config:\n line 2\x1b"))}, crash},
		"waiting after a crash":          {[]*corev1.Pod{pod("web-0", waiting("CrashLoopBackOff", "back-off 10s"), terminated(1, "Error", "no config: line 2"))}, crash},
		"running after a crash":          {[]*corev1.Pod{pod("web-0", running, terminated(1, "Error", "no config: line 2"))}, crash},
		"waiting after it completed":     {[]*corev1.Pod{pod("web-0", waiting("CrashLoopBackOff", "back-off"), terminated(0, "Completed", ""))}, "Pod web-0, container app: CrashLoopBackOff: last termination with exit code 0 (Completed)"},
		"crashes without a termination":  {[]*corev1.Pod{pod("web-0", waiting("CrashLoopBackOff", "back-off 10s"))}, "Pod web-0, container app: CrashLoopBackOff"},
		"an init container that fails":   {[]*corev1.Pod{initFails}, "Pod web-0, container second: ErrImageNeverPull: no image"},
		"a message with an escape (ESC)": {[]*corev1.Pod{pod("web-0", waiting("RunContainerError", "a\x1b[31mb"))}, "Pod web-0, container app: RunContainerError: a [31mb"},
	} {
		if got := PodsFailure(test.pods); got != test.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, test.want)
		}
		for _, p := range test.pods {
			trimmed, err := trimPod(managedByPodSet(p))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := PodsFailure([]*corev1.Pod{trimmed.(*corev1.Pod)}), PodsFailure([]*corev1.Pod{p}); got != want {
				t.Errorf("%s: the cache shows %q, the API server %q", name, got, want)
			}
		}
	}
	long := PodsFailure([]*corev1.Pod{pod("web-0", terminated(1, "Error", strings.Repeat("ü", 4096)))})
	if len(long) > maxFailure || !strings.HasSuffix(long, "ü…") {
		t.Errorf("%d bytes, want at most %d: %q", len(long), maxFailure, long)
	}
}

// managedByPodSet returns a copy of a pod that a PodSet controls.
func managedByPodSet(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.OwnerReferences = append(pod.OwnerReferences, controlledBy("PodSet"))
	return pod
}
