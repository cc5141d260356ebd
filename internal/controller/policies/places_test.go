package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// reaches says where the policies of the last list apply, by name.
func (a *applied) reaches() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := map[string]string{}
	for _, p := range a.policies {
		said[p.Name] = controllertest.Reach(p.Places)
	}
	return said
}

// TestPoliciesFollowLabels runs the controller with its own rights on a real API server, and expects policies to apply where labels say, within seconds.
func TestPoliciesFollowLabels(t *testing.T) {
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
	label := func(object client.Object, key, value string) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
		g.Expect(c.Patch(t.Context(), object, patch)).To(gomega.Succeed())
	}
	shop := controllertest.Namespace(t, c)
	policies := &applied{}
	controllertest.Start(t, controllertest.Restricted(t), scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), policies, clock.RealClock{}).SetupWithManager(mgr, make(chan event.GenericEvent))
	})
	becomes := func(name, want string) {
		t.Helper()
		g.Eventually(policies.reaches, patience, tick).Should(gomega.HaveKeyWithValue(name, want))
	}

	create(policy("all"))
	becomes("all", "everywhere")
	team, web := policy("team"), policy("web")
	team.Spec.NamespaceSelector = controllertest.Selecting("team-"+shop, "a")
	web.Spec.NamespaceSelector, web.Spec.WorkloadSelector = team.Spec.NamespaceSelector, controllertest.Selecting("tier", "front")
	create(team)
	create(web)
	becomes("team", "")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	label(namespace, "team-"+shop, "a")
	becomes("team", shop)
	becomes("web", "")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shop, Name: "web-1", Labels: map[string]string{"tier": "back", appsv1.DefaultDeploymentUniqueLabelKey: "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f", UID: "uid", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	create(pod)
	label(pod, "tier", "front")
	becomes("web", shop+"/Deployment/web")
	label(pod, "tier", "back")
	becomes("web", "")
	label(pod, "tier", "front")
	becomes("web", shop+"/Deployment/web")
	label(namespace, "team-"+shop, "b")
	becomes("team", "")
	becomes("web", "")

	// A selector that the schema permits and that cannot be read applies nowhere, and says why.
	bad := policy("bad-selector")
	bad.Spec.NamespaceSelector = controllertest.Selecting("team", strings.Repeat("x", 64))
	create(bad)
	g.Eventually(func() string {
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(bad), bad)
		if valid := meta.FindStatusCondition(bad.Status.Conditions, scannerv1alpha1.ConditionValid); valid != nil {
			return valid.Reason + ": " + valid.Message
		}
		return ""
	}, patience, tick).Should(gomega.And(gomega.HavePrefix("Invalid: spec.namespaceSelector: "), gomega.ContainSubstring("must be no more than 63")))
	g.Expect(policies.reaches()).NotTo(gomega.HaveKey("bad-selector"))
}

// TestSelectorsAreBounded expects that a policy whose selectors are not resolved is never given to the store without them: it would apply everywhere.
func TestSelectorsAreBounded(t *testing.T) {
	r := NewReconciler(&listed{}, &applied{}, clocktesting.NewFakePassiveClock(time.Now()))
	var all []scannerv1alpha1.VulnerabilityPolicy
	add := func(name string, workloads *metav1.LabelSelector) *scannerv1alpha1.VulnerabilityPolicy {
		p := policy(name)
		p.Spec.WorkloadSelector = workloads
		all = append(all, *p)
		return &all[len(all)-1]
	}
	for i := range maxWorkloadSelectors {
		add(fmt.Sprint("p", i), controllertest.Selecting("app", fmt.Sprint(i)))
	}
	add("too many", controllertest.Selecting("app", "more"))
	add("same", controllertest.Selecting("app", "0"))
	add("none", nil)
	add("namespaces", nil).Spec.NamespaceSelector = controllertest.Selecting("team", "a")
	add("invalid", controllertest.Selecting("app", "not valid"))
	planned, err := r.plan(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]store.PolicyReason{}
	for name, problem := range planned.problems {
		got[name] = problem.Reason
	}
	if diff := cmp.Diff(map[string]store.PolicyReason{"too many": store.PolicyTooMany, "invalid": store.PolicyInvalid}, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	given := map[string]string{}
	for _, p := range planned.policies {
		given[p.Name] = controllertest.Reach(p.Places)
	}
	if len(given) != maxWorkloadSelectors+3 || given["same"] != "" || given["none"] != "everywhere" || given["namespaces"] != "" {
		t.Errorf("%d policies: %v", len(given), given)
	}
}

// TestPlacesOnly expects that events of pods and namespaces cost no statement while policies apply where they did, and that places that change often do not
// cause dates to be told without a rest.
func TestPlacesOnly(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	objects := &listed{policies: []scannerv1alpha1.VulnerabilityPolicy{*policy("p")}}
	objects.policies[0].Spec.NamespaceSelector = controllertest.Selecting("team", "a")
	policies := &applied{took: func() { clk.Step(time.Second) }}
	r := NewReconciler(objects, policies, clk)
	// calls says how often policies were applied and dates told because of a request, and when the next one is.
	calls := func(request reconcile.Request) string {
		t.Helper()
		syncs, told := policies.syncs, policies.told
		result, err := r.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(policies.syncs-syncs, " ", policies.told-told, " ", result.RequeueAfter)
	}
	namespace := func(team string) {
		objects.namespaces = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": team}}}}
	}
	got := []string{calls(kube.Everything), calls(places.Changed)}
	namespace("a")
	got = append(got, calls(places.Changed), controllertest.Reach(policies.policies[0].Places), calls(places.Changed))
	clk.Step(restFactor * time.Second)
	got = append(got, calls(places.Changed))
	namespace("b")
	got = append(got, calls(kube.Everything), controllertest.Reach(policies.policies[0].Places))
	want := []string{
		"1 1 5m0s", "0 0 5m0s", // The event takes the place of what waits in the queue.
		"1 0 20s", "shop", "0 0 20s", // Applied at once, and told after a rest.
		"1 1 39s",
		"1 1 38s", "", // Other requests do not wait.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
