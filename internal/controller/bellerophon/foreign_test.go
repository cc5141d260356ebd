package bellerophon

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// foreign returns objects of others with the name of the hero.
func (w *world) foreign() map[string]client.Object {
	theirs := map[string]string{"app": "theirs"}
	meta := w.meta(hero)
	return map[string]client.Object{
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(7)), ServiceName: hero, Selector: &metav1.LabelSelector{MatchLabels: theirs},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: theirs},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "quay.io/pok-us-io/pokus_api_build"}}},
			},
		}},
		"Service": &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: theirs, Ports: []corev1.ServicePort{{Port: 80}}}},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: theirs},
		}},
	}
}

// TestObjectsOfOthersAreLeftAlone has an object of the name before there is a shero: one of nobody, one of another controller, and one that
// looks like ours.
func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	tests := map[string]struct {
		kind, controller string
		mutate           func(client.Object)
	}{
		"a StatefulSet of nobody":    {"StatefulSet", "has no controller", func(client.Object) {}},
		"a StatefulSet in the cache": {"StatefulSet", "has no controller", func(o client.Object) { o.SetLabels(map[string]string{kube.LabelManagedBy: kube.ManagedBy}) }},
		"a Service of another":       {"Service", "is controlled by Database db", func(o client.Object) { o.SetOwnerReferences([]metav1.OwnerReference{database()}) }},
		"a Service of nobody":        {"Service", "has no controller", func(client.Object) {}},
		"a budget of nobody":         {"PodDisruptionBudget", "has no controller", func(client.Object) {}},
		"a budget of another":        {"PodDisruptionBudget", "is controlled by Database db", func(o client.Object) { o.SetOwnerReferences([]metav1.OwnerReference{database()}) }},
	}
	w := newWorld(t)
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			w.t, w.WithT = t, gomega.NewWithT(t)
			theirs := w.foreign()[test.kind]
			test.mutate(theirs)
			w.Expect(w.Create(t.Context(), theirs)).To(gomega.Succeed())
			shero := sample(t)
			shero.Namespace = w.namespace
			w.Expect(w.Create(t.Context(), shero)).To(gomega.Succeed())
			message := test.kind + " " + hero + " already exists and " + test.controller +
				", so the operator does not change it. Delete it, or create the BellerophonSimple with another name."
			w.Eventually(w.ready, patience, tick).Should(gomega.Equal("False/NameTaken: " + message))
			w.Eventually(w.notes, patience, tick).Should(gomega.ContainElement("Warning NameTaken: " + message))
			now := w.foreign()[test.kind]
			w.Expect(w.Get(t.Context(), w.key(hero), now)).To(gomega.Succeed())
			w.Expect(now.GetResourceVersion()).To(gomega.Equal(theirs.GetResourceVersion()), "it was written to")

			// Once it is gone, the next look makes ours.
			w.Expect(w.Delete(t.Context(), theirs)).To(gomega.Succeed())
			w.patchShero(`{"spec":{"replicas":2}}`)
			w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("False/Progressing"))
			w.clear()
		})
	}
}

func database() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Database", Name: "db", UID: "1", Controller: new(true)}
}

// clear removes the hero and, as the garbage collector would, all that it was made of.
func (w *world) clear() {
	w.t.Helper()
	w.Expect(w.Delete(w.t.Context(), w.shero())).To(gomega.Succeed())
	w.Eventually(func() string { return w.journal.of(w.namespace, hero) }, patience, tick).Should(gomega.Equal(`{"deleted":true}`))
	for kind, child := range w.children() {
		w.Expect(client.IgnoreNotFound(w.Delete(w.t.Context(), child))).To(gomega.Succeed())
		w.Eventually(func() bool { return apierrors.IsNotFound(w.Get(w.t.Context(), w.key(hero), child)) }, patience, tick).Should(gomega.BeTrue(), kind)
	}
}

// TestALostRaceTakesNothingOver applies while somebody has just made an object of the name, which the look before did not see.
func TestALostRaceTakesNothingOver(t *testing.T) {
	w := newWorld(t)
	shero := sample(t)
	shero.Namespace, shero.UID = w.namespace, "00000000-0000-0000-0000-000000000001"
	r := &Reconciler{Client: w.Client, Live: w.Client, Recorder: events.NewFakeRecorder(10)}
	for kind, object := range desiredOf(t, shero) {
		theirs := w.foreign()[kind]
		w.Expect(w.Create(t.Context(), theirs)).To(gomega.Succeed())
		if _, err := r.create(t.Context(), shero, object); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v, want a conflict", kind, err)
		}
		// Nor is an object taken over that came in place of ours, or was let go, since we looked.
		ours := w.foreign()[kind]
		ours.SetUID("00000000-0000-0000-0000-000000000002")
		ours.SetResourceVersion("1")
		if _, err := r.update(t.Context(), shero, object, ours); !apierrors.IsConflict(err) {
			t.Errorf("%s in place of ours: %v, want a conflict", kind, err)
		}
		ours.SetUID(theirs.GetUID())
		if _, err := r.update(t.Context(), shero, object, ours); !apierrors.IsConflict(err) {
			t.Errorf("%s that was let go: %v, want a conflict", kind, err)
		}
		w.Expect(w.Get(t.Context(), w.key(hero), ours)).To(gomega.Succeed())
		w.Expect(ours.GetResourceVersion()).To(gomega.Equal(theirs.GetResourceVersion()), "it was written to")
		// One that is gone is not made by an update either: the deletion is an event.
		w.Expect(w.Delete(t.Context(), theirs)).To(gomega.Succeed())
		if _, err := r.update(t.Context(), shero, object, ours); !apierrors.IsConflict(err) {
			t.Errorf("%s that is gone: %v, want a conflict", kind, err)
		}
	}
}

// TestAnObjectThatWasLetGoIsLeftAlone takes the StatefulSet out of the hands of its shero.
func TestAnObjectThatWasLetGoIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.patch(w.set(), `{"metadata":{"ownerReferences":null}}`)
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("False/NameTaken: StatefulSet " + hero + " already exists and has no controller"))
	w.Expect(w.set().OwnerReferences).To(gomega.BeEmpty())
}
