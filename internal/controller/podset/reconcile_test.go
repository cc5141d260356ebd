package podset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

var podResource = schema.GroupResource{Resource: "pods"}

// once reconciles with a cache that is up to date.
func (l *leader) once() ctrl.Result {
	l.w.t.Helper()
	l.sync()
	result, err := l.reconcile()
	if err != nil {
		l.w.t.Fatal(err)
	}
	return result
}

func (l *leader) events() []string {
	var got []string
	for {
		select {
		case event := <-l.recorder.Events:
			got = append(got, event)
		default:
			return got
		}
	}
}

// count counts the writes of a kind.
func (w *world) count(verb string) int {
	return len(slices.DeleteFunc(slices.Clone(w.writes), func(text string) bool { return !strings.HasPrefix(text, verb+" ") }))
}

func readyOf(ps *appv1alpha1.PodSet) metav1.Condition {
	if c := meta.FindStatusCondition(ps.Status.Conditions, appv1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// TestDocumentedSteps scales up and down, each in one pass; the status tells the result of the same pass.
func TestDocumentedSteps(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	l := newLeader(w)
	for _, replicas := range []int32{3, 5, 1} {
		w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = replicas })
		l.once()
		var want []string
		for _, pod := range w.live() {
			if active(&pod) {
				want = append(want, pod.Name)
			}
		}
		slices.Sort(want)
		status := w.set().Status
		if diff := cmp.Diff(want, status.PodNames); diff != "" || status.AvailableReplicas != replicas || len(want) != int(replicas) {
			t.Errorf("%d replicas: status %+v (-want +got):\n%s", replicas, status, diff)
		}
		if status.Selector != "app=set,version=v0.1" || status.ObservedGeneration != w.set().Generation {
			t.Errorf("selector and generation of %+v", status)
		}
		l.settle()
		checkSettled(t, l)
	}
	if got := l.events(); len(got) != 9 || got[0][:len("Normal SuccessfulCreate Created pod: set-pod-")] != "Normal SuccessfulCreate Created pod: set-pod-" ||
		!strings.HasPrefix(got[8], "Normal SuccessfulDelete Deleted pod: set-pod-") {
		t.Errorf("events: %q, want 5 creations and 4 deletions", got)
	}
	if last := l.told[len(l.told)-1]; !strings.Contains(string(last.Detail), `"availableReplicas":1`) || last.Object.Name != "set" {
		t.Errorf("the event log was told %+v", last)
	}
}

func TestSlowStartStopsAtTheFirstRefusal(t *testing.T) {
	w := newWorld(t, podSet(10, ""))
	tried := 0
	w.refuse = func(verb, name string) error {
		if verb != "create" {
			return nil
		}
		if tried++; tried > 3 {
			return apierrors.NewForbidden(podResource, name, errors.New("exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"))
		}
		return nil
	}
	l := newLeader(w)
	if _, err := l.reconcile(); err == nil {
		t.Fatal("no error: it would not be tried again")
	}
	// 1 and 2 went well, then 4 were asked for.
	if tried != 7 || w.count("create") != 3 {
		t.Errorf("%d were tried and %d created, want 7 and 3", tried, w.count("create"))
	}
	c := readyOf(w.set())
	if c.Status != metav1.ConditionFalse || c.Reason != appv1alpha1.ReasonReplicaFailure || !strings.Contains(c.Message, "exceeded quota: few") {
		t.Errorf("Ready: %+v", c)
	}
	if w.set().Status.AvailableReplicas != 3 {
		t.Errorf("status %+v, want the 3 pods that there are", w.set().Status)
	}
	if got := strings.Join(l.events(), "\n"); strings.Count(got, "Warning FailedCreate Error creating: ") != 4 {
		t.Errorf("events:\n%s", got)
	}
	w.refuse = nil
	l.settle()
	checkSettled(t, l)
}

func TestTextsAreBounded(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	w.refuse = func(verb, name string) error {
		if verb == "create" {
			return apierrors.NewForbidden(podResource, name, errors.New(strings.Repeat("ü", 3000)))
		}
		return nil
	}
	l := newLeader(w)
	if _, err := l.reconcile(); err == nil {
		t.Fatal("no error")
	}
	for _, text := range append(l.events(), readyOf(w.set()).Message) {
		if text = strings.TrimPrefix(text, "Warning FailedCreate "); len(text) > kube.MaxNote || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("%d bytes, or half a rune: %s", len(text), text)
		}
	}
}

func TestNamespaceThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	w.refuse = func(verb, name string) error {
		if verb != "create" {
			return nil
		}
		err := apierrors.NewForbidden(podResource, name, errors.New("the namespace is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
	l := newLeader(w)
	l.once()
	if got := l.events(); len(got) != 0 || w.count("create") != 0 {
		t.Errorf("events %q, writes %q", got, w.writes)
	}
}

// TestAnswerIsLost creates a pod without knowing, and finds it by its name or in the list.
func TestAnswerIsLost(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	w.lose = func(verb, _ string) error {
		if verb == "create" {
			return errors.New("connection reset")
		}
		return nil
	}
	l := newLeader(w)
	for range 3 {
		if _, err := l.reconcile(); err != nil && !strings.Contains(err.Error(), "connection reset") {
			t.Fatal(err)
		}
		l.psAt = len(w.sets) - 1
	}
	w.lose = nil
	if _, err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if w.count("create") != 2 {
		t.Errorf("writes %q, want 2 pods", w.writes)
	}
	if c := readyOf(w.set()); c.Reason != appv1alpha1.ReasonProgressing {
		t.Errorf("Ready: %+v, without the text of a lost connection", c)
	}
}

// staleLive lists nothing, as if another leader had created the pods a moment later.
type staleLive struct{ client.Reader }

func (staleLive) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestNamesThatAreTaken(t *testing.T) {
	t.Run("by another leader", func(t *testing.T) {
		w := newWorld(t, podSet(3, ""))
		newLeader(w).once()
		second := newLeader(w)
		second.podAt = 0
		second.r.Live = staleLive{w.truth}
		if _, err := second.reconcile(); err != nil {
			t.Fatal(err)
		}
		if pods := w.live(); len(pods) != 3 || len(second.events()) != 0 {
			t.Errorf("%d pods, want the 3 of the first", len(pods))
		}
		if status := w.set().Status; status.AvailableReplicas != 3 {
			t.Errorf("status %+v", status)
		}
	})
	foreign := func(count int) []client.Object {
		var pods []client.Object
		for n := range count {
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: podName(podSet(1, ""), 0, n), UID: "foreign"}})
		}
		return append(pods, podSet(1, ""))
	}
	t.Run("by somebody else", func(t *testing.T) {
		w := newWorld(t, foreign(maxNames-1)...)
		l := newLeader(w)
		l.settle()
		if pods := w.live(); len(pods) != 1 || pods[0].Name != podName(w.set(), 0, maxNames-1) {
			t.Errorf("pods %v, want one with the last name", pods)
		}
		checkSettled(t, l)
	})
	t.Run("all of them", func(t *testing.T) {
		w := newWorld(t, foreign(maxNames)...)
		if _, err := newLeader(w).reconcile(); err == nil || !strings.Contains(err.Error(), "are taken by terminating pods or by pods of other controllers") {
			t.Errorf("error %v", err)
		}
	})
}

// TestChangedPodIsNotDeleted looks again when the pod has changed since it was seen.
func TestChangedPodIsNotDeleted(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = 1 })
	w.refuse = func(verb, name string) error {
		if verb != "delete" {
			return nil
		}
		w.refuse = nil
		var pod corev1.Pod
		if err := w.truth.Get(t.Context(), client.ObjectKey{Namespace: ours.Namespace, Name: name}, &pod); err != nil {
			return err
		}
		pod.Annotations = map[string]string{corev1.PodDeletionCost: "100"}
		return w.truth.Update(t.Context(), &pod)
	}
	if result := l.once(); result != kube.RetryConflict {
		t.Errorf("result %+v, want another look soon", result)
	}
	if got := strings.Join(l.events(), "\n"); strings.Contains(got, "Failed") {
		t.Errorf("events:\n%s", got)
	}
	if c := readyOf(w.set()); c.Reason != appv1alpha1.ReasonProgressing || w.count("delete") != 0 {
		t.Errorf("Ready: %+v; writes %q", c, w.writes)
	}
	l.settle()
	checkSettled(t, l)
	if pod := w.live()[0]; pod.Annotations[corev1.PodDeletionCost] != "100" {
		t.Error("the pod that had become dear was deleted")
	}
}

func TestDeletionFails(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = 1 })
	w.refuse = func(verb, name string) error {
		if verb == "delete" {
			return apierrors.NewForbidden(podResource, name, errors.New("a webhook says no"))
		}
		return nil
	}
	l.sync()
	if _, err := l.reconcile(); err == nil {
		t.Fatal("no error")
	}
	if got := strings.Join(l.events(), "\n"); !strings.Contains(got, "Warning FailedDelete Error deleting pod set-pod-") {
		t.Errorf("events:\n%s", got)
	}
	if c := readyOf(w.set()); c.Reason != appv1alpha1.ReasonReplicaFailure || w.set().Status.AvailableReplicas != 2 {
		t.Errorf("status %+v", w.set().Status)
	}
}

func TestStatusConflictIsNoFailure(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	w.refuse = func(verb, name string) error {
		if verb == "status" {
			return apierrors.NewConflict(podResource, name, errors.New("changed"))
		}
		return nil
	}
	l := newLeader(w)
	if result := l.once(); result != kube.RetryConflict {
		t.Errorf("result %+v", result)
	}
	if len(l.told) != 0 {
		t.Errorf("the event log was told %+v of a status that was not written", l.told)
	}
}

// TestStaleCache has a cache that never moves on: neither pods nor deletions are repeated.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, podSet(10, ""))
	l := newLeader(w)
	for range 5 {
		if _, err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		// Only the PodSet's cache moves on.
		l.psAt = len(w.sets) - 1
	}
	if w.count("create") != 10 {
		t.Errorf("writes %q, want 10 pods", w.writes)
	}
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = 4 })
	for range 5 {
		if _, err := l.reconcile(); err != nil {
			t.Fatal(err)
		}
		l.psAt = len(w.sets) - 1
	}
	if n := countActive(w.live()); n != 4 || w.count("delete") != 6 {
		t.Errorf("%d pods after %q, want 4", n, w.writes)
	}
}

// TestStalePodSet does nothing for a PodSet that is not there any more as the cache shows it.
func TestStalePodSet(t *testing.T) {
	changes := map[string]func(ctx context.Context, c client.Client, ps *appv1alpha1.PodSet) error{
		"changed": func(ctx context.Context, c client.Client, ps *appv1alpha1.PodSet) error {
			ps.Generation++
			return c.Update(ctx, ps)
		},
		"being deleted": func(ctx context.Context, c client.Client, ps *appv1alpha1.PodSet) error {
			ps.Finalizers = []string{"foregroundDeletion"}
			return errors.Join(c.Update(ctx, ps), c.Delete(ctx, ps))
		},
		"gone": func(ctx context.Context, c client.Client, ps *appv1alpha1.PodSet) error { return c.Delete(ctx, ps) },
		"another one": func(ctx context.Context, c client.Client, ps *appv1alpha1.PodSet) error {
			other := podSet(3, "")
			other.UID = "other"
			return errors.Join(c.Delete(ctx, ps), c.Create(ctx, other))
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podSet(3, ""), orphan("old"))
			l := newLeader(w)
			w.change(func(ctx context.Context, c client.Client) error { return change(ctx, c, w.set().DeepCopy()) })
			if result, err := l.reconcile(); err != nil || result != (ctrl.Result{}) {
				t.Errorf("%+v, %v", result, err)
			}
			if len(w.writes) != 0 {
				t.Errorf("writes %q", w.writes)
			}
		})
	}
}

// TestPodSetThatIsBeingDeleted makes and adopts nothing for it, while its status follows what the garbage collector does.
func TestPodSetThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Finalizers = []string{"foregroundDeletion"} })
	first := w.live()[0]
	w.change(func(ctx context.Context, c client.Client) error {
		return errors.Join(c.Delete(ctx, w.set().DeepCopy()), c.Create(ctx, orphan("old")), c.Delete(ctx, &first))
	})
	before := len(w.writes)
	l.once()
	if diff := cmp.Diff([]string{"status set"}, w.writes[before:]); diff != "" || w.set().Status.AvailableReplicas != 2 {
		t.Errorf("status %+v; writes (-want +got):\n%s", w.set().Status, diff)
	}
	w.change(func(ctx context.Context, c client.Client) error {
		ps := w.set().DeepCopy()
		ps.Finalizers = nil
		return c.Update(ctx, ps)
	})
	l.once()
	if last := l.told[len(l.told)-1]; !last.Gone || string(last.Detail) != `{"deleted":true}` {
		t.Errorf("the event log was told %+v", last)
	}
}

func TestInvalidTemplate(t *testing.T) {
	w := newWorld(t, podSet(3, "a:1"))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) {
		ps.Spec.Replicas, ps.Spec.Template = 2, &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":5}}`)}
	})
	for range 3 {
		l.once()
	}
	c := readyOf(w.set())
	if c.Status != metav1.ConditionFalse || c.Reason != appv1alpha1.ReasonInvalidTemplate || !strings.HasPrefix(c.Message, "spec.template is not a valid pod template: ") {
		t.Errorf("Ready: %+v", c)
	}
	if n := countActive(w.live()); n != 2 || w.set().Status.AvailableReplicas != 2 || w.set().Status.ObservedGeneration != 2 {
		t.Errorf("%d pods, status %+v, want it scaled down still", n, w.set().Status)
	}
	writes := len(w.writes)
	l.once()
	if len(w.writes) != writes {
		t.Errorf("writes %q", w.writes[writes:])
	}
}

func TestPodsLeadToTheirPodSets(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	l := newLeader(w)
	earlier := podIn(0)
	earlier.OwnerReferences[0].UID = "earlier"
	foreign := podIn(0)
	foreign.OwnerReferences[0].APIVersion = "other.example.com/v1alpha1"
	unknownSet := orphan("x", func(pod *corev1.Pod) { pod.Labels["app"] = "other" })
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"its own":                              {podIn(0), 1},
		"an orphan that it may adopt":          {orphan("x"), 1},
		"of an earlier one of the name":        {earlier, 0},
		"of another group":                     {foreign, 0},
		"an orphan of none":                    {unknownSet, 0},
		"an orphan with another version label": {orphan("x", func(pod *corev1.Pod) { pod.Labels["version"] = "v1" }), 0},
	} {
		if got := l.r.podSetOf(t.Context(), tt.pod); len(got) != tt.want {
			t.Errorf("%s: %v, want %d", name, got, tt.want)
		}
	}
}

func TestErrorsOfReadsAreTold(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	l := newLeader(w)
	broken := fmt.Errorf("the API server is away")
	l.r.Live = failingReader{err: broken}
	if _, err := l.reconcile(); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if c := readyOf(w.set()); c.Message != "Failed to reconcile the PodSet; the log of the operator has the error. The operator retries." {
		t.Errorf("Ready: %+v", c)
	}
}

type failingReader struct {
	client.Reader
	err error
}

func (r failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.err
}
