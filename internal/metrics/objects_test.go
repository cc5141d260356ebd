package metrics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

func newObjects(t *testing.T) (*Objects, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	objects, err := NewObjects(registry, kube.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return objects, registry
}

func TestObjects(t *testing.T) {
	objects, registry := newObjects(t)
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	podSet := &appv1alpha1.PodSet{
		ObjectMeta: meta, Spec: appv1alpha1.PodSetSpec{Replicas: 3}, Status: appv1alpha1.PodSetStatus{AvailableReplicas: 2, ReadyReplicas: 1},
	}
	shero := &stablev444beta989.BellerophonSimple{
		ObjectMeta: meta, Status: stablev444beta989.BellerophonSimpleStatus{Replicas: 9, AvailableReplicas: 2, ReadyReplicas: 4},
	}
	objects.Show(kube.KindPodSet, podSet)
	podSet.Spec.Replicas = 5
	objects.Show(kube.KindPodSet, podSet)
	objects.Show(kube.KindBellerophonSimple, shero)
	objects.Show(kube.KindMyCustomResource, &pocv1.MyCustomResource{ObjectMeta: meta, Status: pocv1.MyCustomResourceStatus{Healthy: true}})
	objects.Show(kube.KindMyCustomResource, &pocv1.MyCustomResource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}})
	objects.Show(kube.KindScanner, kube.KindScanner.Object)
	want := strings.Fields(`
		scanner_operator_bellerophonsimple_replicas_available{bellerophonsimple="a",bellerophonsimple_namespace="ns"}=2
		scanner_operator_bellerophonsimple_replicas_desired{bellerophonsimple="a",bellerophonsimple_namespace="ns"}=1
		scanner_operator_bellerophonsimple_replicas_ready{bellerophonsimple="a",bellerophonsimple_namespace="ns"}=4
		scanner_operator_mycustomresource_healthy{mycustomresource="a",mycustomresource_namespace="ns"}=1
		scanner_operator_mycustomresource_healthy{mycustomresource="b",mycustomresource_namespace="ns"}=0
		scanner_operator_objects{kind="BellerophonSimple"}=1
		scanner_operator_objects{kind="MyCustomResource"}=2
		scanner_operator_objects{kind="PodSet"}=1
		scanner_operator_podset_replicas_available{podset="a",podset_namespace="ns"}=2
		scanner_operator_podset_replicas_desired{podset="a",podset_namespace="ns"}=5
		scanner_operator_podset_replicas_ready{podset="a",podset_namespace="ns"}=1`)
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, kind := range kube.Kinds() {
		for _, name := range []string{"a", "b", "never shown"} {
			objects.Delete(kind, types.NamespacedName{Namespace: "ns", Name: name})
		}
	}
	want = strings.Fields(`
		scanner_operator_objects{kind="BellerophonSimple"}=0
		scanner_operator_objects{kind="MyCustomResource"}=0
		scanner_operator_objects{kind="PodSet"}=0`)
	if diff := cmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("after the deletion (-want +got):\n%s", diff)
	}
}

func TestObjectsWithMetricsAreBounded(t *testing.T) {
	objects, registry := newObjects(t)
	resource := &pocv1.MyCustomResource{}
	const extra = 3
	for n := range maxObjects + extra {
		resource.Name = fmt.Sprint(n)
		objects.Show(kube.KindMyCustomResource, resource)
	}
	objects.Show(kube.KindMyCustomResource, resource)
	expect := func(step string, total, shown int) {
		t.Helper()
		got := slices.DeleteFunc(gather(t, registry), func(line string) bool { return !strings.Contains(line, "ustom") })
		if count := fmt.Sprintf(`scanner_operator_objects{kind="MyCustomResource"}=%d`, total); !slices.Contains(got, count) || len(got) != shown+1 {
			t.Errorf("%s: %d series, want %d; want %s", step, len(got), shown+1, count)
		}
	}
	expect("too many", maxObjects+extra, maxObjects)
	objects.Delete(kube.KindMyCustomResource, types.NamespacedName{Name: "0"})
	objects.Delete(kube.KindMyCustomResource, types.NamespacedName{Name: fmt.Sprint(maxObjects)})
	expect("two deleted", maxObjects+extra-2, maxObjects-1)
	objects.Show(kube.KindMyCustomResource, resource)
	expect("a free place", maxObjects+extra-2, maxObjects)
}
