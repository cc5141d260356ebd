package exceptions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reaches says where the decisions of the last list apply, by name.
func (d *decided) reaches() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	said := map[string]string{}
	for _, decision := range d.last() {
		said[decision.Object.Name] = controllertest.Reach(decision.Places)
	}
	return said
}

// namespacedException returns an exception in a namespace.
func namespacedException(namespace, name string, workloads *metav1.LabelSelector) *scannerv1alpha1.VulnerabilityException {
	e := &scannerv1alpha1.VulnerabilityException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterException(name).Spec}
	e.Spec.Match.WorkloadSelector = workloads
	return e
}

// TestPlacesFollow runs the controller with its own rights on a real API server, and expects exceptions to apply where labels say, within seconds.
func TestPlacesFollow(t *testing.T) {
	admin, g := controllertest.Config(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	create := func(object client.Object) {
		t.Helper()
		g.Expect(c.Create(t.Context(), object)).To(gomega.Succeed())
		t.Cleanup(func() {
			_ = client.IgnoreNotFound(c.Delete(context.Background(), object, client.GracePeriodSeconds(0)))
		})
	}
	patch := func(object client.Object, content string, args ...any) {
		t.Helper()
		g.Expect(c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, content, args...)))).To(gomega.Succeed())
	}
	pod := func(namespace, name, replicaSet string, labels map[string]string) *corev1.Pod {
		t.Helper()
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		if replicaSet != "" {
			p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d4f"
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet + "-5d4f", UID: "uid", Controller: new(true)}}
		}
		create(p)
		return p
	}
	shop, bank := controllertest.Namespace(t, c), controllertest.Namespace(t, c)
	decisions := &decided{counts: map[string]store.DecisionCount{}}
	restricted := controllertest.Restricted(t)
	controllertest.Start(t, restricted, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), decisions, clock.RealClock{}).SetupWithManager(mgr, make(chan event.GenericEvent))
	})
	becomes := func(name, want string) {
		t.Helper()
		g.Eventually(decisions.reaches, patience, tick).Should(gomega.HaveKeyWithValue(name, want))
	}

	create(clusterException("all"))
	becomes("all", "everywhere")
	create(namespacedException(shop, "here", nil))
	becomes("here", shop)
	team := clusterException("team")
	team.Spec.Match.NamespaceSelector = controllertest.Selecting("team-"+shop, "a")
	create(team)
	becomes("team", "")
	patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, `{"metadata":{"labels":{"team-%s":"a"}}}`, shop)
	becomes("team", shop)

	create(namespacedException(shop, "web", controllertest.Selecting("app", "web")))
	becomes("web", "")
	web := pod(shop, "web-1", "web", map[string]string{"app": "web"})
	becomes("web", shop+"/Deployment/web")
	pod(bank, "web-1", "web", map[string]string{"app": "web"})
	single := pod(shop, "single", "", map[string]string{"app": "web"})
	becomes("web", shop+"/Deployment/web "+shop+"/Pod/single")
	// A workload of which another pod does not match is not selected, until that pod has ended.
	other := pod(shop, "web-2", "web", map[string]string{"app": "other"})
	becomes("web", shop+"/Pod/single")
	other.Status.Phase = corev1.PodSucceeded
	g.Expect(c.Status().Update(t.Context(), other)).To(gomega.Succeed())
	becomes("web", shop+"/Deployment/web "+shop+"/Pod/single")
	patch(web, `{"metadata":{"labels":{"app":"db"}}}`)
	becomes("web", shop+"/Pod/single")
	g.Expect(c.Delete(t.Context(), single, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	becomes("web", "")

	both := clusterException("both")
	both.Spec.Match.NamespaceSelector, both.Spec.Match.WorkloadSelector = controllertest.Selecting("team-"+shop, "a"), controllertest.Selecting("app", "db")
	create(both)
	becomes("both", shop+"/Deployment/web")
	patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bank}}, `{"metadata":{"labels":{"team-%s":"a"}}}`, shop)
	becomes("team", strings.Join(slices.Sorted(slices.Values([]string{shop, bank})), " "))
	patch(both, `{"spec":{"match":{"workloadSelector":{"matchLabels":{"app":"web"}}}}}`)
	becomes("both", bank+"/Deployment/web")

	// Static pods of a node are workloads of their own.
	for _, component := range []string{"etcd", "kube-apiserver"} {
		create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: bank, Name: component + "-node-1", Labels: map[string]string{"component": component},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "uid", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: component, Image: component}}},
		})
	}
	create(namespacedException(bank, "etcd", controllertest.Selecting("component", "etcd")))
	becomes("etcd", bank+"/Pod/etcd-node-1")

	// A selector that cannot be read applies nowhere, and says why.
	broken := namespacedException(shop, "broken", &metav1.LabelSelector{MatchLabels: map[string]string{"app": strings.Repeat("x", 64)}})
	create(broken)
	g.Eventually(func() string {
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(broken), broken)
		for _, condition := range broken.Status.Conditions {
			if condition.Type == scannerv1alpha1.ConditionApplied {
				return condition.Reason + ": " + condition.Message
			}
		}
		return ""
	}, patience, tick).Should(gomega.And(gomega.HavePrefix("Invalid: spec.match.workloadSelector: "), gomega.ContainSubstring("must be no more than 63")))
	g.Expect(decisions.reaches()).NotTo(gomega.HaveKey("broken"))
}

// TestTurns: the exceptions of the cluster come first, and those of a namespace with many of them do not displace those of others.
func TestTurns(t *testing.T) {
	begin := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var all []exception
	for i := range maxNamespaced + 1 {
		e := namespacedException("many", fmt.Sprintf("m%05d", i), nil)
		e.CreationTimestamp = metav1.NewTime(begin.Add(time.Duration(i) * time.Second))
		all = append(all, ofNamespace(e))
	}
	late := metav1.NewTime(begin.AddDate(1, 0, 0))
	for i := range 2 {
		e := namespacedException("few", fmt.Sprint("f", i), nil)
		e.CreationTimestamp = late
		all = append(all, ofNamespace(e))
	}
	ofAll := clusterException("c")
	ofAll.CreationTimestamp = late
	all = append(all, ofCluster(ofAll))
	inTurn(all)
	var first []string
	for _, e := range all[:6] {
		first = append(first, e.GetName())
	}
	if diff := cmp.Diff([]string{"c", "m00000", "f0", "m00001", "f1", "m00002"}, first); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	planned, err := NewReconciler(&statuses{}, &decided{}, clocktesting.NewFakePassiveClock(begin)).plan(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(planned.decisions) != maxNamespaced+1 || len(planned.problems) != 3 || len(planned.refused) != 3 || !planned.refused[0].Refused {
		t.Errorf("%d decisions, %d problems and the refused decisions %+v, want %d and 3", len(planned.decisions), len(planned.problems), planned.refused, maxNamespaced+1)
	}
	for name, problem := range planned.problems {
		if name.Namespace != "many" || problem.Reason != store.DecisionTooMany {
			t.Errorf("%v is refused: %v", name, problem)
		}
	}
}

// TestSelectorsAreBounded: a namespace with many selectors has no effect on those of others.
func TestSelectorsAreBounded(t *testing.T) {
	var all []exception
	for i := range maxWorkloadSelectors + 5 {
		all = append(all, ofNamespace(namespacedException("many", fmt.Sprint("m", i), controllertest.Selecting("app", fmt.Sprint(i)))))
	}
	all = append(all, ofNamespace(namespacedException("many", "same", controllertest.Selecting("app", "0"))), ofNamespace(namespacedException("few", "f", controllertest.Selecting("app", "200"))))
	planned, err := NewReconciler(&statuses{}, &decided{}, clocktesting.NewFakePassiveClock(time.Now())).plan(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(planned.decisions) != maxWorkloadSelectors+2 || len(planned.problems) != 5 {
		t.Errorf("%d decisions and %d problems", len(planned.decisions), len(planned.problems))
	}
	for name := range planned.problems {
		if name.Namespace != "many" || name.Name == "same" {
			t.Errorf("%v is refused", name)
		}
	}
}

// TestExpiredTakeNoRoom: exceptions that have ended leave the bounds to those that apply, and the store says that they have ended.
func TestExpiredTakeNoRoom(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var all []exception
	for i := range maxNamespaced + 1 {
		e := namespacedException("many", fmt.Sprintf("m%05d", i), controllertest.Selecting("app", fmt.Sprint(i)))
		e.Spec.ExpiresAt = timestamp(now)
		all = append(all, ofNamespace(e))
	}
	for name, end := range map[string]scannerv1alpha1.Timestamp{"endless": "", "later": timestamp(now.Add(time.Second))} {
		e := namespacedException("many", name, controllertest.Selecting("app", name))
		e.Spec.ExpiresAt = end
		all = append(all, ofNamespace(e))
	}
	planned, err := NewReconciler(&statuses{}, &decided{}, clocktesting.NewFakePassiveClock(now)).plan(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(planned.decisions) != len(all) || len(planned.problems) != 0 {
		t.Fatalf("%d decisions of %d, and %d problems", len(planned.decisions), len(all), len(planned.problems))
	}
	for i := range planned.decisions {
		d := &planned.decisions[i]
		// The selector belongs to what the exception says, also when it has ended.
		selection, err := places.Of("many", &all[i].spec.Match)
		if err != nil {
			t.Fatal(err)
		}
		if d.Places == nil || d.Places.Selector != selection.Text {
			t.Fatalf("%s has the places %v, want those of %q", d.Object.Name, d.Places, selection.Text)
		}
	}
}

// TestPlacesOnly: events of pods and namespaces cost no statement while exceptions apply where they did.
func TestPlacesOnly(t *testing.T) {
	w := newWorld(t, 1)
	w.objects.exceptions[0].Spec.Match.NamespaceSelector = controllertest.Selecting("team", "a")
	syncs := func(request reconcile.Request) int {
		t.Helper()
		before := len(w.synced)
		if _, err := w.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		return len(w.synced) - before
	}
	got := []int{syncs(places.Changed), syncs(places.Changed)}
	w.objects.namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "a"}}}}
	got = append(got, syncs(places.Changed), syncs(places.Changed), syncs(kube.Everything))
	// The event takes the place of what waits in the queue.
	if result, err := w.Reconcile(t.Context(), places.Changed); err != nil || result.RequeueAfter != w.due.Sub(w.clock.Now()) || result.RequeueAfter <= 0 {
		t.Errorf("next after %s, %v; want what was due", result.RequeueAfter, err)
	}
	// What else is due is not forgotten.
	w.clock.SetTime(w.due)
	got = append(got, syncs(places.Changed))
	if diff := cmp.Diff([]int{1, 0, 1, 0, 1, 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
