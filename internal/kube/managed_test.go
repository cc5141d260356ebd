package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster's other StatefulSets, Services and budgets cost no memory.
func TestOnlyOurObjectsAreCached(t *testing.T) {
	opts, err := CacheOptions(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for object, by := range opts.ByObject {
		switch object.(type) {
		case *appsv1.StatefulSet, *corev1.Service, *policyv1.PodDisruptionBudget:
			found++
			requireOurs(t, object, by.Label)
		}
	}
	if found != 3 {
		t.Errorf("%d kinds, want 3", found)
	}
}

func requireOurs(t *testing.T, object client.Object, selector labels.Selector) {
	t.Helper()
	if selector == nil || !selector.Matches(labels.Set{LabelManagedBy: ManagedBy, "a": "b"}) || selector.Matches(labels.Set{LabelManagedBy: "Helm"}) {
		t.Errorf("%T: selector %v", object, selector)
	}
}
