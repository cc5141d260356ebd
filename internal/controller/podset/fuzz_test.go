package podset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// FuzzTemplate makes pods of whatever the API server lets through as spec.template. They keep the identity that the PodSet gives them.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"spec":{"containers":5}}`, `{"spec":{"containers":[{"name":"a","image":"b"}]}}`,
		`{"metadata":{"name":"x","labels":{"app":"other","apps.kubernetes.io/pod-index":"99"},"ownerReferences":[{"controller":true}]}}`,
		`{"metadata":{"annotations":{"a":"b"},"finalizers":["x"]},"spec":{"nodeName":"n","containers":null}}`,
	} {
		f.Add([]byte(seed), "podset-sample")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		if len(name) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return
		}
		ps := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"}}
		ps.Spec.Template = &runtime.RawExtension{Raw: raw}
		template, err := Template(ps)
		if err != nil {
			return
		}
		before := template.DeepCopy()
		pod := newPod(ps, template, "hash", vacancy{slot: 3, replacement: 2})
		if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 || len(pod.Name) > maxPodName {
			t.Errorf("the name %q: %v", pod.Name, problems)
		}
		for label, want := range selectorOf(ps) {
			if pod.Labels[label] != want {
				t.Errorf("the label %s is %q, want %q", label, pod.Labels[label], want)
			}
		}
		if pod.Labels[appsv1.PodIndexLabel] != "3" || pod.Namespace != "ns" || !metav1.IsControlledBy(pod, ps) || len(pod.OwnerReferences) != 1 {
			t.Errorf("%+v is no pod of the PodSet", pod.ObjectMeta)
		}
		if diff := cmp.Diff(before, template); diff != "" {
			t.Errorf("making a pod changed the template (-before +after):\n%s", diff)
		}
	})
}
