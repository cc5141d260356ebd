package places

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// TestEventsThatMatter: only pods and namespaces that selections are about cause a reconcile, and only if something changes that selectors see.
func TestEventsThatMatter(t *testing.T) {
	tracker := &Tracker{Reader: cached{}}
	pods, namespaces := tracker.watch.ofPods(), tracker.watch.ofNamespaces()
	pod := func(namespace string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a", UID: "a", Labels: map[string]string{"app": "web"}}}
		change(p)
		return p
	}
	same := func(*corev1.Pod) {}
	changes := []func(*corev1.Pod){
		same,
		func(p *corev1.Pod) { p.Status.Message = "another" },
		func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} },
		func(p *corev1.Pod) { p.UID = "b" },
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: new(true)}}
		},
	}
	passed := func(namespace string) []bool {
		got := []bool{pods.Create(event.CreateEvent{Object: pod(namespace, same)}), pods.Delete(event.DeleteEvent{Object: pod(namespace, same)})}
		for _, change := range changes {
			got = append(got, pods.Update(event.UpdateEvent{ObjectOld: pod(namespace, same), ObjectNew: pod(namespace, change)}))
		}
		return got
	}
	passedNamespaces := func() []bool {
		before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		after := before.DeepCopy()
		after.Labels = map[string]string{"team": "a"}
		return []bool{
			namespaces.Create(event.CreateEvent{Object: after}),
			namespaces.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: before}),
			namespaces.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}),
		}
	}
	exception := func(namespace string, namespaces, workloads *metav1.LabelSelector) *Selection {
		t.Helper()
		s, err := Of(namespace, &scannerv1alpha1.ExceptionMatch{NamespaceSelector: namespaces, WorkloadSelector: workloads})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	policy, err := OfPolicy(&scannerv1alpha1.VulnerabilityPolicySpec{WorkloadSelector: selector("app=web")})
	if err != nil {
		t.Fatal(err)
	}
	none, some := make([]bool, 2+len(changes)), []bool{true, true, false, false, true, true, true, true}
	for name, test := range map[string]struct {
		selections []*Selection
		shop, bank []bool
		namespaces []bool
	}{
		"no selection":                {nil, none, none, []bool{false, false, false}},
		"everywhere":                  {[]*Selection{exception("", nil, nil)}, none, none, []bool{false, false, false}},
		"a namespace":                 {[]*Selection{exception("shop", nil, nil)}, none, none, []bool{false, false, false}},
		"workloads of a namespace":    {[]*Selection{exception("shop", nil, selector("app=web"))}, some, none, []bool{false, false, false}},
		"namespaces":                  {[]*Selection{exception("", selector("team=a"), nil)}, none, none, []bool{true, false, true}},
		"workloads of all namespaces": {[]*Selection{exception("", nil, selector("app=web"))}, some, some, []bool{true, false, true}},
		"workloads of a policy":       {[]*Selection{nil, policy}, some, some, []bool{true, false, true}},
	} {
		if _, err := tracker.Resolve(t.Context(), test.selections); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]bool{test.shop, test.bank, test.namespaces}, [][]bool{passed("shop"), passed("bank"), passedNamespaces()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTracker expects that places that differ from those that were kept are reported, until they are kept.
func TestTracker(t *testing.T) {
	reader := cached{pods: map[string][]corev1.Pod{"shop": nil, "bank": nil}}
	tracker := &Tracker{Reader: reader, Namespaces: []string{"shop"}}
	all, err := OfPolicy(&scannerv1alpha1.VulnerabilityPolicySpec{NamespaceSelector: selector(), WorkloadSelector: selector("app=web")})
	if err != nil {
		t.Fatal(err)
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}}}
	steps := []struct {
		do, want string
		changed  bool
		keep     bool
	}{
		{"begin", "", true, false},
		{"begin", "", true, true},
		{"begin", "", false, true},
		{"add a pod", "shop/Pod/a", true, true},
		{"begin", "shop/Pod/a", false, true},
	}
	for i, step := range steps {
		if step.do == "add a pod" {
			reader.pods["shop"], reader.pods["bank"] = []corev1.Pod{pod}, []corev1.Pod{pod}
		}
		resolved, err := tracker.Resolve(t.Context(), []*Selection{nil, all})
		if err != nil {
			t.Fatal(err)
		}
		if step.keep {
			tracker.Keep(resolved)
		}
		if resolved.Of(nil) != nil || text(resolved.Of(all)) != step.want || resolved.Changed != step.changed {
			t.Errorf("step %d, %s: %+v, changed %t; want %q, %t", i, step.do, resolved.Of(all), resolved.Changed, step.want, step.changed)
		}
	}
}
