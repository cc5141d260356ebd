package bellerophon

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m, controllertest.OwnersAreGuarded)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
	hero     = "example-simple-bellerophon-hero1"
)

// journal is an event log that keeps what was told last of each object, as the store does.
type journal struct {
	mu   sync.Mutex
	last map[string]store.ObjectChange
	told int
}

func (j *journal) RecordChange(_ context.Context, change store.ObjectChange) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := change.Object.Namespace + "/" + change.Object.Name
	last, known := j.last[name]
	if change.Gone && !known || bytes.Equal(last.Detail, change.Detail) {
		return nil
	}
	j.last[name] = change
	j.told++
	return nil
}

func (j *journal) of(namespace, name string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.last[namespace+"/"+name].Detail)
}

// world is an API server with the controller, which has only the rights that it asks for. There is no StatefulSet controller.
type world struct {
	client.Client
	*gomega.WithT
	t         *testing.T
	namespace string
	writes    *controllertest.Writes
	journal   *journal
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: controllertest.Scheme(t, stablev444beta989.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Client: c, WithT: gomega.NewWithT(t), t: t, namespace: controllertest.Namespace(t, c)}
	first := w.another()
	w.writes, w.journal = first.writes, first.journal
	return w
}

// another starts the controller once more.
func (w *world) another() *world {
	w.t.Helper()
	config, another := controllertest.Restricted(w.t), *w
	another.writes, another.journal = &controllertest.Writes{}, &journal{last: map[string]store.ObjectChange{}}
	config.Wrap(another.writes.Wrap)
	controllertest.Start(w.t, config, w.Scheme(), []string{w.namespace}, func(mgr ctrl.Manager) error {
		r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Changes: another.journal, Recorder: mgr.GetEventRecorder("scanner-operator")}
		return r.SetupWithManager(mgr)
	})
	return &another
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// sample reads the sample manifest.
func sample(t *testing.T) *stablev444beta989.BellerophonSimple {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", "stable_v444beta989_bellerophonsimple.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shero := &stablev444beta989.BellerophonSimple{}
	if err := yaml.UnmarshalStrict(content, shero); err != nil {
		t.Fatal(err)
	}
	return shero
}

// settle makes the hero of the sample manifest, and has all its instances run.
func (w *world) settle(mutate ...func(*stablev444beta989.BellerophonSimple)) *stablev444beta989.BellerophonSimple {
	w.t.Helper()
	shero := sample(w.t)
	shero.Namespace = w.namespace
	for _, m := range mutate {
		m(shero)
	}
	w.Expect(w.Create(w.t.Context(), shero)).To(gomega.Succeed())
	w.Eventually(func() error { return w.Get(w.t.Context(), w.key(hero), &appsv1.StatefulSet{}) }, patience, tick).Should(gomega.Succeed())
	w.run(*shero.Spec.Replicas, *shero.Spec.Replicas, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("True/"))
	return shero
}

// run plays the StatefulSet controller: so many instances are there, and of the new revision.
func (w *world) run(replicas, updated int32, current, update string) {
	w.t.Helper()
	w.Eventually(func() error {
		set := w.set()
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			UpdatedReplicas: updated, CurrentRevision: current, UpdateRevision: update,
		}
		return w.Status().Update(w.t.Context(), set)
	}, patience, tick).Should(gomega.Succeed())
}

func (w *world) set() *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	if err := w.Get(w.t.Context(), w.key(hero), set); err != nil {
		w.t.Log(err)
	}
	return set
}

func (w *world) shero() *stablev444beta989.BellerophonSimple {
	shero := &stablev444beta989.BellerophonSimple{}
	if err := w.Get(w.t.Context(), w.key(hero), shero); err != nil {
		w.t.Log(err)
	}
	return shero
}

// ready shows the Ready condition.
func (w *world) ready() string {
	shero := w.shero()
	if len(shero.Status.Conditions) != 1 || shero.Status.ObservedGeneration != shero.Generation {
		return "not observed"
	}
	c := shero.Status.Conditions[0]
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

func (w *world) patch(obj client.Object, patch string) {
	w.t.Helper()
	w.Expect(w.Patch(w.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit"))).To(gomega.Succeed())
}

func (w *world) patchShero(patch string) {
	w.t.Helper()
	w.patch(&stablev444beta989.BellerophonSimple{ObjectMeta: w.meta(hero)}, patch)
}

// notes are those of the events, sorted.
func (w *world) notes() []string {
	var list eventsv1.EventList
	if err := w.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		return []string{err.Error()}
	}
	notes := map[string]bool{}
	for i := range list.Items {
		notes[list.Items[i].Type+" "+list.Items[i].Reason+": "+list.Items[i].Note] = true
	}
	return slices.Sorted(maps.Keys(notes))
}

func (w *world) children() map[string]client.Object {
	return map[string]client.Object{
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: w.meta(hero)}, "Service": &corev1.Service{ObjectMeta: w.meta(hero)},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{ObjectMeta: w.meta(hero)},
	}
}

// TestSample applies the sample manifest.
func TestSample(t *testing.T) {
	w := newWorld(t)
	shero := sample(t)
	shero.Namespace = w.namespace
	w.Expect(w.Create(t.Context(), shero)).To(gomega.Succeed())
	w.Eventually(w.ready, patience, tick).Should(gomega.Equal("False/Progressing: The StatefulSet controller has not observed the last change yet."))
	for kind, child := range w.children() {
		w.Expect(w.Get(t.Context(), w.key(hero), child)).To(gomega.Succeed(), kind)
		w.Expect(metav1.IsControlledBy(child, shero)).To(gomega.BeTrue(), kind)
	}
	w.Expect(*w.set().Spec.Replicas).To(gomega.BeEquivalentTo(7))
	w.run(3, 3, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.Equal("False/Progressing: 3 of 7 replicas are ready."))
	w.run(7, 7, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.Equal("True/AllReady: All replicas run quay.io/pok-us-io/pokus_api_build and are ready."))
	status := w.shero().Status
	w.Expect([]any{status.Replicas, status.ReadyReplicas, status.CurrentImage, status.Selector}).To(gomega.Equal(
		[]any{int32(7), int32(7), "quay.io/pok-us-io/pokus_api_build", stablev444beta989.LabelShero + "=" + hero}))
	w.Eventually(func() string { return w.journal.of(w.namespace, hero) }, patience, tick).Should(gomega.ContainSubstring(`"AllReady"`))
	w.Eventually(w.notes, patience, tick).Should(gomega.Equal([]string{
		"Normal SuccessfulCreate: Created PodDisruptionBudget " + hero, "Normal SuccessfulCreate: Created Service " + hero,
		"Normal SuccessfulCreate: Created StatefulSet " + hero,
	}))
}

// TestDriftIsRepaired changes what is ours, and what is not.
func TestDriftIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.settle()
	children := w.children()
	drifts := []struct{ kind, patch, path string }{
		{"StatefulSet", `{"spec":{"replicas":3}}`, "spec.replicas"},
		{"StatefulSet", `{"spec":{"replicas":0}}`, "spec.replicas"},
		{"StatefulSet", `{"spec":{"template":{"spec":{"automountServiceAccountToken":true}}}}`, "spec.template.spec.automountServiceAccountToken"},
		{"StatefulSet", `{"spec":{"template":{"spec":{"securityContext":null}}}}`, "spec.template.spec.securityContext.runAsNonRoot"},
		{"StatefulSet", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"evil"}]}}}}`, "spec.template.spec.containers[app].env"},
		{"StatefulSet", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`, "metadata.labels.app.kubernetes.io/managed-by"},
		{"Service", `{"spec":{"publishNotReadyAddresses":false}}`, "spec.publishNotReadyAddresses"},
		{"Service", `{"spec":{"selector":{"stable.simple-bellerophon.io/shero":"other"}}}`, "spec.selector"},
		{"PodDisruptionBudget", `{"spec":{"maxUnavailable":0}}`, "spec.maxUnavailable"},
		{"PodDisruptionBudget", `{"spec":{"unhealthyPodEvictionPolicy":null}}`, "spec.unhealthyPodEvictionPolicy"},
	}
	want := desiredOf(t, w.shero())
	for _, drift := range drifts {
		child := children[drift.kind]
		w.patch(child, drift.patch)
		w.Eventually(func() string { return w.differenceOf(want, drift.kind) }, patience, tick).Should(gomega.BeEmpty(), "%s %s", drift.kind, drift.patch)
		w.Eventually(func() string { return strings.Join(w.notes(), "\n") }, patience, tick).Should(
			gomega.ContainSubstring("Repaired %s %s: another client had changed %s", drift.kind, hero, drift.path), drift.patch)
	}
	// What others add stays.
	w.patch(children["StatefulSet"], `{"metadata":{"annotations":{"example.com/mine":"x"}},"spec":{"template":{"metadata":{"annotations":{"example.com/restarted":"now"}}}}}`)
	w.patch(children["StatefulSet"], `{"spec":{"replicas":1}}`)
	w.Eventually(func() int32 { return *w.set().Spec.Replicas }, patience, tick).Should(gomega.BeEquivalentTo(7))
	set := w.set()
	w.Expect(set.Annotations).To(gomega.HaveKeyWithValue("example.com/mine", "x"))
	w.Expect(set.Spec.Template.Annotations).To(gomega.HaveKeyWithValue("example.com/restarted", "now"))
}

// TestADeletedChildIsMadeAgain deletes each.
func TestADeletedChildIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.settle()
	for kind, child := range w.children() {
		w.Expect(w.Get(t.Context(), w.key(hero), child)).To(gomega.Succeed())
		gone := child.GetUID()
		w.Expect(w.Delete(t.Context(), child, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(gomega.Succeed())
		w.Eventually(func() (types.UID, error) {
			err := w.Get(t.Context(), w.key(hero), child)
			return child.GetUID(), err
		}, patience, tick).ShouldNot(gomega.Equal(gone), kind)
	}
}

// TestAnUpdate changes the image and the winged horse.
func TestAnUpdate(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.shero().Spec.Image
	w.patchShero(`{"spec":{"image":"r.example/app:2","winged_horse_name":null}}`)
	w.Eventually(func() string { return image(w.set()) }, patience, tick).Should(gomega.Equal("r.example/app:2"))
	template := w.set().Spec.Template
	w.Expect(template.Spec.Containers[0].Env).To(gomega.BeEmpty(), "a winged horse that is not wanted any more")
	w.Expect(template.Labels).NotTo(gomega.HaveKey(stablev444beta989.LabelWingedHorseName))
	w.run(7, 2, "r1", "r2")
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("False/Updating: 2 of 7 replicas use the current pod template, 7 are ready."))
	w.Expect(w.shero().Status.CurrentImage).To(gomega.Equal(old))
	w.run(7, 7, "r2", "r2")
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("True/AllReady"))
	w.Expect(w.shero().Status.CurrentImage).To(gomega.Equal("r.example/app:2"))
	w.Eventually(w.notes, patience, tick).Should(gomega.ContainElement("Normal SuccessfulUpdate: Updated StatefulSet " + hero))
}

// TestScale uses the scale subresource, as kubectl and autoscalers do.
func TestScale(t *testing.T) {
	w := newWorld(t)
	shero := w.settle()
	scale := &autoscalingv1.Scale{}
	w.Expect(w.SubResource("scale").Get(t.Context(), shero, scale)).To(gomega.Succeed())
	w.Expect([]any{scale.Spec.Replicas, scale.Status.Replicas, scale.Status.Selector}).To(gomega.Equal(
		[]any{int32(7), int32(7), stablev444beta989.LabelShero + "=" + hero}))
	scale.Spec.Replicas = 0
	w.Expect(w.SubResource("scale").Update(t.Context(), shero, client.WithSubResourceBody(scale))).To(gomega.Succeed())
	w.Eventually(func() int32 { return *w.set().Spec.Replicas }, patience, tick).Should(gomega.BeZero())
	w.run(7, 7, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.Equal("False/Progressing: 7 replicas exist, 0 are desired."))
	w.run(0, 0, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.Equal("True/AtRest: The desired number of replicas is 0."))
}

// TestNames has the API server validate the names of sheroes.
func TestNames(t *testing.T) {
	w := newWorld(t)
	tests := map[string]bool{
		"a": true, "a-1": true, strings.Repeat("a", 52): true, strings.Repeat("a", 53): false, "1-hero": false, "hero-": false, "a.b": false,
	}
	for name, fine := range tests {
		shero := sample(t)
		shero.Namespace, shero.Name = w.namespace, name
		err := w.Create(t.Context(), shero, client.DryRunAll)
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "begin with") && !strings.Contains(err.Error(), "metadata.name") {
			t.Errorf("%q: %v, want fine %v", name, err, fine)
		}
	}
	// The longest name gives objects that the API server takes.
	longest := sample(t)
	longest.Namespace, longest.Name = w.namespace, strings.Repeat("a", 52)
	w.Expect(w.Create(t.Context(), longest)).To(gomega.Succeed())
	w.Eventually(func() error { return w.Get(t.Context(), w.key(longest.Name), &policyv1.PodDisruptionBudget{}) }, patience, tick).Should(gomega.Succeed())
}

// TestPodSecurity has the API server check the pods by the strictest standard.
func TestPodSecurity(t *testing.T) {
	w := newWorld(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	w.patch(ns, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	w.settle(func(s *stablev444beta989.BellerophonSimple) {
		s.Spec.Storage = &stablev444beta989.BellerophonSimpleStorage{Size: resource.MustParse("1Gi")}
	})
	try := func(mutate func(*corev1.PodSpec)) func() error {
		return func() error {
			pod := &corev1.Pod{ObjectMeta: w.meta("try"), Spec: *w.set().Spec.Template.Spec.DeepCopy()}
			pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
			mutate(&pod.Spec)
			return w.Create(t.Context(), pod, client.DryRunAll)
		}
	}
	// The API server learns of the standard with a delay.
	w.Eventually(try(func(s *corev1.PodSpec) { s.SecurityContext = nil }), patience, tick).Should(gomega.MatchError(gomega.ContainSubstring("violates PodSecurity")))
	w.Expect(try(func(*corev1.PodSpec) {})()).To(gomega.Succeed())
}

// TestStorage gives every instance a volume, and changes what becomes of them.
func TestStorage(t *testing.T) {
	w := newWorld(t)
	w.settle(func(s *stablev444beta989.BellerophonSimple) {
		s.Spec.Storage = &stablev444beta989.BellerophonSimpleStorage{Size: resource.MustParse("1024Mi"), StorageClassName: new("fast")}
	})
	set := w.set()
	w.Expect(set.Spec.VolumeClaimTemplates).To(gomega.HaveLen(1))
	claim := set.Spec.VolumeClaimTemplates[0]
	w.Expect([]any{claim.Name, *claim.Spec.StorageClassName, claim.Spec.Resources.Requests.Storage().String()}).To(gomega.Equal([]any{"data", "fast", "1Gi"}))
	w.Expect(set.Spec.Template.Spec.Containers[0].VolumeMounts).To(gomega.ConsistOf(corev1.VolumeMount{Name: "data", MountPath: "/data"}))
	w.Expect(*set.Spec.PersistentVolumeClaimRetentionPolicy).To(gomega.Equal(appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}))
	w.patchShero(`{"spec":{"storage":{"onDelete":"Delete","mountPath":"/var/lib/app"}}}`)
	w.Eventually(func() string { return w.set().Spec.Template.Spec.Containers[0].VolumeMounts[0].MountPath }, patience, tick).Should(gomega.Equal("/var/lib/app"))
	w.Expect(w.set().Spec.Template.Spec.Containers[0].VolumeMounts).To(gomega.HaveLen(1))
	w.Expect(w.set().Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted).To(gomega.Equal(appsv1.DeletePersistentVolumeClaimRetentionPolicyType))
}

// TestSettledMeansNoWrites changes what is not ours, and starts the controller again.
func TestSettledMeansNoWrites(t *testing.T) {
	w := newWorld(t)
	w.settle(func(s *stablev444beta989.BellerophonSimple) {
		s.Spec.Storage = &stablev444beta989.BellerophonSimpleStorage{Size: resource.MustParse("1500Mi")}
	})
	w.Eventually(w.notes, patience, tick).Should(gomega.HaveLen(3))
	before := len(w.writes.Seen())

	second := w.another()
	w.Eventually(func() string { return second.journal.of(w.namespace, hero) }, patience, tick).ShouldNot(gomega.BeEmpty())
	for range 5 {
		set := w.set()
		for _, child := range w.children() {
			w.patch(child, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/round":%q}}}`, set.ResourceVersion))
		}
	}
	w.patch(w.set(), `{"spec":{"revisionHistoryLimit":3,"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`)
	w.run(7, 7, "r1", "r1")
	// What comes after all that shows that it was seen.
	w.patchShero(`{"spec":{"replicas":6}}`)
	w.Eventually(func() int32 { return *w.set().Spec.Replicas }, patience, tick).Should(gomega.BeEquivalentTo(6))
	w.run(6, 6, "r1", "r1")
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("True/"))
	all := slices.Concat(w.writes.Seen()[before:], second.writes.Seen())
	for _, write := range all {
		if !strings.Contains(write, "/statefulsets/") && !strings.HasSuffix(write, "/status") && !strings.HasSuffix(write, "/events") {
			t.Errorf("%s: nothing had changed there", write)
		}
	}
	// The change of replicas, which two controllers may see at once: the one that comes second finds it done.
	if n := count(all, "/statefulsets/"); n < 1 || n > 2 {
		t.Errorf("the StatefulSet was written %d times, want 1 for the replicas: %v", n, all)
	}
}

func count(writes []string, part string) int {
	n := 0
	for _, write := range writes {
		if strings.Contains(write, part) {
			n++
		}
	}
	return n
}

// TestDeletion leaves what there is to the garbage collector.
func TestDeletion(t *testing.T) {
	w := newWorld(t)
	shero := w.settle()
	w.Expect(w.Delete(t.Context(), shero)).To(gomega.Succeed())
	w.Eventually(func() string { return w.journal.of(w.namespace, hero) }, patience, tick).Should(gomega.Equal(`{"deleted":true}`))
	// There is no garbage collector here: a new shero of the name finds what the other one left, and waits.
	again := sample(t)
	again.Namespace = w.namespace
	w.Expect(w.Create(t.Context(), again)).To(gomega.Succeed())
	w.Eventually(w.ready, patience, tick).Should(gomega.HavePrefix("False/Progressing: Service " + hero + " of a deleted BellerophonSimple"))
	for _, child := range w.children() {
		w.Expect(w.Delete(t.Context(), child)).To(gomega.Succeed())
	}
	w.Eventually(func() bool { return metav1.IsControlledBy(w.set(), again) }, patience, tick).Should(gomega.BeTrue())
	w.Expect(w.notes()).NotTo(gomega.ContainElement(gomega.HavePrefix("Warning")))
}
