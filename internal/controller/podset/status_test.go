package podset

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// TestLogs checks that the log tells at level info what the controller did, and nothing once all is settled.
func TestLogs(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	l := newLeader(w)
	expect := func(step string, want ...string) {
		t.Helper()
		l.logs = nil
		l.once()
		logs := regexp.MustCompile(`set-pod-\w+`).ReplaceAllString(strings.Join(l.logs, "\n"), "POD")
		slices.Sort(want)
		got := strings.Split(logs, "\n")
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	const created, deleted = `"level"=0 "msg"="Created pod" "pod"="POD"`, `"level"=0 "msg"="Deleted pod" "pod"="POD"`
	expect("created", created, created, `"level"=0 "msg"="Scaled PodSet" "from"=0 "to"=2`)
	w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = 1 })
	expect("scaled down", deleted, `"level"=0 "msg"="Scaled PodSet" "from"=2 "to"=1`)
	l.settle()
	expect("settled", "")
	w.change(func(ctx context.Context, c client.Client) error { return c.Create(ctx, orphan("free")) })
	expect("adopted", `"level"=0 "msg"="Adopted pod" "pod"="free"`, deleted, `"level"=0 "msg"="Scaled PodSet" "from"=2 "to"=1`)
	l.settle()
	expect("settled again", "")
}

// TestConditionHasTheMessageOfTheKubelet checks that the condition has the message of the kubelet.
func TestConditionHasTheMessageOfTheKubelet(t *testing.T) {
	pod := podIn(0, notReady)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "container has runAsNonRoot and image will run as root"},
	}}}
	ps := podSet(2, "")
	setStatus(ps, &state{replicas: 2, hash: "new", pods: podList{pod, podIn(1)}, now: now}, nil)
	want := "1 of 2 pods are ready. Pod " + pod.Name + ", container app: CreateContainerConfigError: container has runAsNonRoot and image will run as root"
	if c := readyOf(ps); c.Status != metav1.ConditionFalse || c.Reason != appv1alpha1.ReasonPodsFailing || c.Message != want {
		t.Errorf("Ready: %+v, want %s: %s", c, appv1alpha1.ReasonPodsFailing, want)
	}
}
