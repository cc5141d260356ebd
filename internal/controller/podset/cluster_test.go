package podset

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m, controllertest.OwnersAreGuarded)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
)

// site is an API server with a controller that watches a namespace and has only the rights that it asks for.
type site struct {
	client.Client
	*gomega.WithT
	t         *testing.T
	namespace string
	writes    *controllertest.Writes
	told      *tally
	clock     *fastClock
}

// fastClock is ahead of the real time.
type fastClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *fastClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func newSite(t *testing.T) *site {
	t.Helper()
	s := emptySite(t)
	s.start()
	return s
}

// emptySite is a site whose controller does not run yet.
func emptySite(t *testing.T) *site {
	t.Helper()
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: controllertest.Scheme(t, appv1alpha1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	return &site{
		Client: c, WithT: gomega.NewWithT(t), t: t, namespace: controllertest.Namespace(t, c),
		writes: &controllertest.Writes{}, told: &tally{}, clock: &fastClock{},
	}
}

// start runs the controller.
func (s *site) start() (stop func()) {
	s.t.Helper()
	config := controllertest.Restricted(s.t)
	config.Wrap(s.writes.Wrap)
	return controllertest.Start(s.t, config, s.Scheme(), []string{s.namespace}, func(mgr ctrl.Manager) error {
		r := &Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Changes: s.told, Clock: s.clock,
			Recorder: mgr.GetEventRecorder("scanner-operator"),
		}
		return r.SetupWithManager(mgr)
	})
}

// tally counts what the event log is told: every look at a PodSet tells its status.
type tally struct{ looks sync.Map }

func (t *tally) RecordChange(_ context.Context, change store.ObjectChange) error {
	n, _ := t.looks.LoadOrStore(change.Object.Name, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return change.Validate()
}

func (t *tally) of(name string) int64 {
	n, _ := t.looks.LoadOrStore(name, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

// sample makes the PodSet of the sample manifest.
func (s *site) sample() *appv1alpha1.PodSet {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", "app_v1alpha1_podset.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	ps := &appv1alpha1.PodSet{}
	if err := yaml.UnmarshalStrict(content, ps); err != nil {
		s.t.Fatal(err)
	}
	ps.Namespace = s.namespace
	s.create(ps)
	return ps
}

func (s *site) create(obj client.Object) {
	s.t.Helper()
	if err := s.Create(s.t.Context(), obj); err != nil {
		s.t.Fatalf("create %T: %v", obj, err)
	}
}

// get reads the PodSet anew.
func (s *site) get(g gomega.Gomega, ps *appv1alpha1.PodSet) *appv1alpha1.PodSet {
	current := &appv1alpha1.PodSet{}
	g.Expect(s.Get(s.t.Context(), client.ObjectKeyFromObject(ps), current)).To(gomega.Succeed())
	return current
}

func (s *site) list(g gomega.Gomega) map[string]corev1.Pod {
	var pods corev1.PodList
	g.Expect(s.List(s.t.Context(), &pods, client.InNamespace(s.namespace))).To(gomega.Succeed())
	byName := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		byName[pod.Name] = pod
	}
	return byName
}

// kubelet lets pods of the namespace run and get ready, and lets those go that are being deleted.
func (s *site) kubelet(g gomega.Gomega) {
	for _, pod := range s.list(g) {
		switch {
		case !pod.DeletionTimestamp.IsZero():
			g.Expect(client.IgnoreNotFound(s.Delete(s.t.Context(), &pod, client.GracePeriodSeconds(0)))).To(gomega.Succeed())
		case pod.Status.Phase == corev1.PodPending:
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
			if pod.Spec.NodeName == "" {
				g.Expect(s.SubResource("binding").Create(s.t.Context(), &pod, binding)).To(gomega.Succeed())
			}
			s.setPhase(g, pod.Name, corev1.PodRunning, corev1.ConditionTrue)
		}
	}
}

func (s *site) setPhase(g gomega.Gomega, name string, phase corev1.PodPhase, readiness corev1.ConditionStatus) {
	pod := &corev1.Pod{}
	g.Expect(s.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: name}, pod)).To(gomega.Succeed())
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: readiness, LastTransitionTime: metav1.Now()}}
	g.Expect(s.Status().Update(s.t.Context(), pod)).To(gomega.Succeed())
}

// awaitReady plays the kubelet until a PodSet has so many ready pods and says so, and returns them.
func (s *site) awaitReady(ps *appv1alpha1.PodSet, replicas int32) map[string]corev1.Pod {
	s.t.Helper()
	var pods map[string]corev1.Pod
	s.Eventually(func(g gomega.Gomega) {
		s.kubelet(g)
		current := s.get(g, ps)
		g.Expect(current.Spec.Replicas).To(gomega.Equal(replicas))
		condition := readyOf(current)
		g.Expect(condition.Status).To(gomega.Equal(metav1.ConditionTrue), condition.Message)
		g.Expect(condition.ObservedGeneration).To(gomega.Equal(current.Generation))
		pods = maps.Collect(func(yield func(string, corev1.Pod) bool) {
			for name, pod := range s.list(g) {
				if metav1.IsControlledBy(&pod, current) && !yield(name, pod) {
					return
				}
			}
		})
		g.Expect(current.Status.PodNames).To(gomega.Equal(slices.Sorted(maps.Keys(pods))))
		g.Expect(current.Status.AvailableReplicas).To(gomega.Equal(replicas))
		g.Expect(pods).To(gomega.HaveLen(int(replicas)))
	}, patience, tick).Should(gomega.Succeed())
	return pods
}

func (s *site) patch(ps *appv1alpha1.PodSet, kind types.PatchType, patch string) {
	s.t.Helper()
	s.Expect(s.Patch(s.t.Context(), ps, client.RawPatch(kind, []byte(patch)))).To(gomega.Succeed())
}

// TestSample applies the sample manifest and changes it.
func TestSample(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	for name, pod := range s.awaitReady(ps, 3) {
		if !strings.HasPrefix(name, "podset-sample-pod") || pod.Labels["app"] != "podset-sample" || pod.Labels["version"] != "v0.1" {
			t.Errorf("pod %s with labels %v", name, pod.Labels)
		}
		c := pod.Spec.Containers[0]
		if c.Name != "fancy-alpine" || c.Image != "quay.io/amacdona/strauss" || !slices.Equal(c.Command, []string{"sleep", "3600"}) {
			t.Errorf("container %s runs %s %v", c.Name, c.Image, c.Command)
		}
		if owner := pod.OwnerReferences[0]; owner.Kind != "PodSet" || owner.Name != "podset-sample" || owner.UID != ps.UID || !*owner.Controller {
			t.Errorf("owner %+v", owner)
		}
	}
	s.patch(ps, types.JSONPatchType, `[{"op": "replace", "path": "/spec/replicas", "value":5}]`)
	s.awaitReady(ps, 5)
	s.patch(ps, types.JSONPatchType, `[{"op": "replace", "path": "/spec/replicas", "value":1}]`)
	s.awaitReady(ps, 1)
	s.Eventually(func(g gomega.Gomega) {
		var list eventsv1.EventList
		g.Expect(s.List(t.Context(), &list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		reasons := map[string]int{}
		for i := range list.Items {
			reasons[list.Items[i].Reason]++
		}
		g.Expect(reasons).To(gomega.Equal(map[string]int{"SuccessfulCreate": 5, "SuccessfulDelete": 4}))
	}, patience, tick).Should(gomega.Succeed())
}

func TestSchema(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	s.awaitReady(ps, 3)
	for patch, want := range map[string]string{
		`{"spec":{"replicas":0}}`:     "greater than or equal to 1",
		`{"spec":{"replicas":11}}`:    "less than or equal to 10",
		`{"spec":{"template":"pod"}}`: "must be of type object",
	} {
		err := s.Patch(t.Context(), ps.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		s.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(want)))
	}
	long := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: strings.Repeat("x", 64)}}
	s.Expect(s.Create(t.Context(), long)).To(gomega.MatchError(gomega.ContainSubstring("at most 63 characters")))
	long.Name = strings.Repeat("x", 63)
	s.create(long)
	s.awaitReady(long, 1)
}

func TestScaleSubresource(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	s.awaitReady(ps, 3)
	scale := &autoscalingv1.Scale{}
	s.Expect(s.SubResource("scale").Get(t.Context(), ps, scale)).To(gomega.Succeed())
	s.Expect(scale.Status).To(gomega.Equal(autoscalingv1.ScaleStatus{Replicas: 3, Selector: "app=podset-sample,version=v0.1"}))
	scale.Spec.Replicas = 4
	s.Expect(s.SubResource("scale").Update(t.Context(), ps, client.WithSubResourceBody(scale))).To(gomega.Succeed())
	s.awaitReady(ps, 4)
	scale = &autoscalingv1.Scale{}
	s.Expect(s.SubResource("scale").Get(t.Context(), ps, scale)).To(gomega.Succeed())
	scale.Spec.Replicas = 11
	s.Expect(s.SubResource("scale").Update(t.Context(), ps, client.WithSubResourceBody(scale))).NotTo(gomega.Succeed())
}

func (s *site) pod(name string, mutate func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "podset-sample", "version": "v0.1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}},
	}
	mutate(pod)
	s.create(pod)
	return pod
}

// TestForeignPodsAndOrphans leaves pods of others alone, adopts one that has no controller, and releases one whose labels change.
func TestForeignPodsAndOrphans(t *testing.T) {
	s := newSite(t)
	foreign := s.pod("foreign", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	})
	orphan := s.pod("orphan", func(*corev1.Pod) {})
	ps := s.sample()
	pods := s.awaitReady(ps, 3)
	s.Expect(pods).To(gomega.HaveKey("orphan"))
	s.Expect(pods).NotTo(gomega.HaveKey("foreign"))
	// One that appears later is a surplus, and the youngest of those that are not scheduled: it goes.
	s.pod("late", func(*corev1.Pod) {})
	s.Eventually(func(g gomega.Gomega) { g.Expect(s.list(g)).NotTo(gomega.HaveKey("late")) }, patience, tick).Should(gomega.Succeed())
	s.awaitReady(ps, 3)

	s.Expect(s.Patch(t.Context(), orphan, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"mine"}}}`)))).To(gomega.Succeed())
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(s.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan)).To(gomega.Succeed())
		g.Expect(orphan.OwnerReferences).To(gomega.BeEmpty())
	}, patience, tick).Should(gomega.Succeed())
	s.Expect(s.awaitReady(ps, 3)).NotTo(gomega.HaveKey("orphan"))
	s.Expect(s.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(gomega.Succeed())
	s.Expect(foreign.DeletionTimestamp).To(gomega.BeNil())
}

func TestEndedPodsAreReplaced(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	pods := s.awaitReady(ps, 3)
	names := slices.Sorted(maps.Keys(pods))
	// The deletion of a pod counts as a failure only when it comes soon.
	s.clock.ahead.Store(int64(time.Minute))
	s.setPhase(s, names[0], corev1.PodFailed, corev1.ConditionFalse)
	s.setPhase(s, names[1], corev1.PodSucceeded, corev1.ConditionFalse)
	s.Expect(s.Delete(t.Context(), new(pods[names[2]]))).To(gomega.Succeed())
	// A pod that was gone before the controller looked has a successor of the same name.
	s.Eventually(func(g gomega.Gomega) {
		s.kubelet(g)
		for name, pod := range s.list(g) {
			g.Expect(pod.UID).NotTo(gomega.Equal(pods[name].UID))
		}
	}, patience, tick).Should(gomega.Succeed())
	failures := map[string]string{}
	for _, pod := range s.awaitReady(ps, 3) {
		failures[pod.Labels["apps.kubernetes.io/pod-index"]] = pod.Labels[appv1alpha1.LabelFailures]
	}
	s.Expect(failures).To(gomega.HaveLen(3))
	for _, name := range names[:2] {
		s.Expect(failures).To(gomega.HaveKeyWithValue(pods[name].Labels["apps.kubernetes.io/pod-index"], "1"))
	}
	s.Expect(failures).To(gomega.HaveKeyWithValue(pods[names[2]].Labels["apps.kubernetes.io/pod-index"], "0"))
}

// sentinel makes a later PodSet. When that has all it wants, what was on its way before has arrived.
func (s *site) sentinel(name string) {
	s.t.Helper()
	later := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: appv1alpha1.PodSetSpec{Replicas: 1}}
	s.create(later)
	s.awaitReady(later, 1)
}

// TestNoOpUpdatesReconcileNothing changes what is not the spec.
func TestNoOpUpdatesReconcileNothing(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	s.awaitReady(ps, 3)
	s.sentinel("first")
	before := s.told.of(ps.Name)
	s.patch(ps, types.MergePatchType, `{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}}}`)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"readyReplicas":2}}`))
	s.Expect(s.Status().Patch(t.Context(), ps, patch)).To(gomega.Succeed())
	s.sentinel("second")
	if n := s.told.of(ps.Name) - before; before == 0 || n != 0 {
		t.Errorf("it was reconciled %d times before and %d times after", before, n)
	}
}

// TestDeletionDuringScaleUp deletes a PodSet, as with kubectl delete --cascade=foreground, while its pods come. Nothing collects garbage here, so
// the PodSet and its pods stay as they would for a moment.
func TestDeletionDuringScaleUp(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	s.patch(ps, types.MergePatchType, `{"spec":{"replicas":10}}`)
	s.Expect(s.Delete(t.Context(), ps, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(gomega.Succeed())
	s.Expect(s.get(s, ps).DeletionTimestamp).NotTo(gomega.BeNil())
	s.sentinel("first")
	for _, pod := range s.list(s) {
		if pod.Labels["app"] == ps.Name {
			s.Expect(s.Delete(t.Context(), &pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
		}
	}
	s.sentinel("second")
	for name, pod := range s.list(s) {
		if pod.Labels["app"] == ps.Name {
			t.Errorf("pod %s was made for a PodSet that is being deleted", name)
		}
	}
}

// TestRefusedTemplate has a namespace that accepts the default pod, but not one that wants to be root.
func TestRefusedTemplate(t *testing.T) {
	s := newSite(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.Expect(s.Patch(t.Context(), ns, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)))).To(gomega.Succeed())
	ps := s.sample()
	before := s.awaitReady(ps, 3)

	s.patch(ps, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a:1"}]}}}}`)
	s.Eventually(func(g gomega.Gomega) {
		c := readyOf(s.get(g, ps))
		g.Expect(c.Reason).To(gomega.Equal(appv1alpha1.ReasonReplicaFailure))
		g.Expect(c.Message).To(gomega.ContainSubstring("violates PodSecurity"))
		var list eventsv1.EventList
		g.Expect(s.List(t.Context(), &list, client.InNamespace(s.namespace))).To(gomega.Succeed())
		g.Expect(slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "FailedCreate" && strings.Contains(e.Note, "violates PodSecurity")
		})).To(gomega.BeTrue())
	}, patience, tick).Should(gomega.Succeed())
	s.Expect(s.list(s)).To(gomega.HaveLen(3))
	for name := range before {
		s.Expect(s.list(s)).To(gomega.HaveKey(name))
	}

	s.patch(ps, types.JSONPatchType, `[{"op":"remove","path":"/spec/template"}]`)
	s.Expect(maps.Keys(s.awaitReady(ps, 3))).To(gomega.ConsistOf(slices.Collect(maps.Keys(before))))
}

// TestTemplateThatIsNone is there before the controller starts: it must not keep it from reading the other PodSets.
func TestTemplateThatIsNone(t *testing.T) {
	s := emptySite(t)
	broken := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "broken"}, Spec: appv1alpha1.PodSetSpec{
		Replicas: 2, Template: &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":5}}`)},
	}}
	s.create(broken)
	fine := s.sample()
	s.start()
	s.awaitReady(fine, 3)
	s.Eventually(func(g gomega.Gomega) {
		g.Expect(readyOf(s.get(g, broken)).Reason).To(gomega.Equal(appv1alpha1.ReasonInvalidTemplate))
	}, patience, tick).Should(gomega.Succeed())
}

// TestRolloutKeepsPodsServing changes the image of pods that all become ready.
func TestRolloutKeepsPodsServing(t *testing.T) {
	s := newSite(t)
	ps := s.sample()
	before := s.awaitReady(ps, 3)
	s.patch(ps, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a:2"}]}}}}`)
	s.Eventually(func(g gomega.Gomega) {
		serving := 0
		for _, pod := range s.list(g) {
			if active(&pod) && ready(&pod) {
				serving++
			}
		}
		if serving < 2 {
			t.Errorf("%d pods are ready, want 2 at least", serving)
		}
		s.kubelet(g)
		for name := range before {
			g.Expect(s.list(g)).NotTo(gomega.HaveKey(name))
		}
	}, patience, tick).Should(gomega.Succeed())
	for _, pod := range s.awaitReady(ps, 3) {
		s.Expect(pod.Spec.Containers[0].Image).To(gomega.Equal("a:2"))
	}
}

// TestSettledMeansNoWrites lets happen what changes nothing, restarts the controller, and then changes something.
func TestSettledMeansNoWrites(t *testing.T) {
	s := emptySite(t)
	stop := s.start()
	ps := s.sample()
	pods := s.awaitReady(ps, 3)
	stop()
	before := len(s.writes.Seen())
	s.start()
	for name, pod := range pods {
		pod.Annotations = map[string]string{"a": name}
		s.Expect(s.Update(t.Context(), &pod)).To(gomega.Succeed())
	}
	s.patch(ps, types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`)
	s.pod("foreign", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	})
	s.sentinel("later")
	for _, write := range s.writes.Seen()[before:] {
		if strings.Contains(write, "podset-sample") {
			t.Errorf("%s of a settled PodSet", write)
		}
	}
	created := slices.DeleteFunc(s.writes.Seen()[before:], func(write string) bool { return write != fmt.Sprintf("POST /api/v1/namespaces/%s/pods", s.namespace) })
	s.Expect(created).To(gomega.HaveLen(1), "pods were made, one is wanted")
}
