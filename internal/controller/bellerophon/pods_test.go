package bellerophon

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// instance returns a pod of a StatefulSet whose container cannot start.
func instance(set *appsv1.StatefulSet, name, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, Labels: map[string]string{stablev444beta989.LabelShero: set.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: message},
		}}}},
	}
}

// TestConditionHasTheMessageOfTheKubelet has an image that runs as root, which the kubelet does not start.
func TestConditionHasTheMessageOfTheKubelet(t *testing.T) {
	f := newFixture(t, never, func(s *stablev444beta989.BellerophonSimple) { s.Spec.Replicas = new(int32(2)) })
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{}
	if err := f.Client.Get(t.Context(), request.NamespacedName, set); err != nil {
		t.Fatal(err)
	}
	set.UID = "set"
	if err := f.Client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: 2, UpdatedReplicas: 2, CurrentRevision: "r", UpdateRevision: "r"}
	if err := f.Client.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	const message = "container has runAsNonRoot and image will run as root"
	foreign := instance(set, "a", "of another StatefulSet")
	foreign.OwnerReferences[0].UID = "another"
	for _, pod := range []*corev1.Pod{foreign, instance(set, hero+"-0", message), instance(set, hero+"-1", "another")} {
		if err := f.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := sheroOfPod(t.Context(), pod); !slices.Equal(got, []ctrl.Request{request}) {
			t.Errorf("a change of the pod reconciles %v", got)
		}
	}
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got, want := f.ready(), "False/PodsFailing: 0 of 2 replicas are ready. Pod "+hero+"-0, container app: CreateContainerConfigError: "+message; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := sheroOfPod(t.Context(), &corev1.Pod{}); got != nil {
		t.Errorf("a change of any pod reconciles %v", got)
	}
}

// TestLogs checks that the log tells at level info what the controller did, and nothing once all is settled.
func TestLogs(t *testing.T) {
	f := newFixture(t, never)
	logs := &controllertest.Logs{}
	expect := func(step string, want ...string) {
		t.Helper()
		if _, err := f.Reconcile(logs.Context(t.Context()), request); err != nil {
			t.Fatal(err)
		}
		got := logs.Take()
		if len(got) != len(want) {
			t.Fatalf("%s: logs %q, want %d", step, got, len(want))
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: log %q, want %q", step, got[i], want[i])
			}
		}
	}
	expect("created", `"Created object" "kind"="Service"`, `"Created object" "kind"="StatefulSet"`, `"Created object" "kind"="PodDisruptionBudget"`)
	expect("settled")
	shero := &stablev444beta989.BellerophonSimple{}
	if err := f.Client.Get(t.Context(), request.NamespacedName, shero); err != nil {
		t.Fatal(err)
	}
	from := replicas(shero)
	shero.Spec.Replicas = new(from + 2)
	if err := f.Client.Update(t.Context(), shero); err != nil {
		t.Fatal(err)
	}
	expect("scaled", `"Updated object" "kind"="StatefulSet"`, `"Scaled StatefulSet"`)
	expect("settled again")
	set := &appsv1.StatefulSet{}
	if err := f.Client.Get(t.Context(), request.NamespacedName, set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas = new(from)
	if err := f.Client.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	expect("repaired", `"Repaired object" "kind"="StatefulSet"`, `"Scaled StatefulSet"`)
	expect("settled after all")
}
