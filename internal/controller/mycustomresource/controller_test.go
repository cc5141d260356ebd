package mycustomresource

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "own", Name: "seeker"}}

func seeker() *pocv1.MyCustomResource {
	return &pocv1.MyCustomResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "seeker", Generation: 3},
		Spec:       pocv1.MyCustomResourceSpec{Name: "funny-joe"},
	}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func deleting(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	return p
}

func failed(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodFailed
	return p
}

func newReconciler(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*Reconciler, *events.FakeRecorder) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t, pocv1.AddToScheme)).WithObjects(objects...).
		WithStatusSubresource(&pocv1.MyCustomResource{}).WithInterceptorFuncs(funcs).
		WithIndex(&corev1.Pod{}, podsByName, podName).WithIndex(&pocv1.MyCustomResource{}, resourcesByName, friendName).Build()
	recorder := events.NewFakeRecorder(10)
	return &Reconciler{Client: c, Recorder: recorder}, recorder
}

func TestStatus(t *testing.T) {
	found := func(message string) pocv1.MyCustomResourceStatus {
		return pocv1.MyCustomResourceStatus{Healthy: true, ObservedGeneration: 3, Conditions: []metav1.Condition{{
			Type: "Ready", Status: metav1.ConditionTrue, Reason: "FriendFound", Message: message, ObservedGeneration: 3,
		}}}
	}
	lonely := pocv1.MyCustomResourceStatus{ObservedGeneration: 3, Conditions: []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "FriendNotFound", Message: "No pod named funny-joe exists.", ObservedGeneration: 3,
	}}}
	tests := map[string]struct {
		pods []client.Object
		want pocv1.MyCustomResourceStatus
		// event is empty when none is made.
		event string
	}{
		"no pod":                 {nil, lonely, ""},
		"a pod of another name":  {[]client.Object{pod("own", "funny-joe-2"), pod("own", "seeker")}, lonely, ""},
		"a pod":                  {[]client.Object{pod("own", "funny-joe")}, found("Pod funny-joe exists in namespace own."), "Normal FriendFound Found pod funny-joe in namespace own"},
		"a pod elsewhere":        {[]client.Object{pod("other", "funny-joe")}, found("Pod funny-joe exists in another namespace."), "Normal FriendFound Found pod funny-joe in another namespace"},
		"its own first":          {[]client.Object{pod("a", "funny-joe"), pod("own", "funny-joe"), pod("z", "funny-joe")}, found("Pod funny-joe exists in namespace own."), "Normal FriendFound Found pod funny-joe in namespace own"},
		"several elsewhere":      {[]client.Object{pod("z", "funny-joe"), pod("b", "funny-joe")}, found("Pod funny-joe exists in another namespace."), "Normal FriendFound Found pod funny-joe in another namespace"},
		"a pod that goes":        {[]client.Object{deleting(pod("own", "funny-joe"))}, lonely, ""},
		"one goes, one stays":    {[]client.Object{deleting(pod("own", "funny-joe")), pod("z", "funny-joe")}, found("Pod funny-joe exists in another namespace."), "Normal FriendFound Found pod funny-joe in another namespace"},
		"a pod that has failed":  {[]client.Object{failed(pod("own", "funny-joe"))}, found("Pod funny-joe exists in namespace own."), "Normal FriendFound Found pod funny-joe in namespace own"},
		"a pod with a long name": {[]client.Object{pod("own", "funny-joe.example")}, lonely, ""},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			r, recorder := newReconciler(t, interceptor.Funcs{}, append(test.pods, seeker())...)
			if result, err := r.Reconcile(t.Context(), request); err != nil || result != (ctrl.Result{}) {
				t.Fatalf("%+v, %v", result, err)
			}
			got := &pocv1.MyCustomResource{}
			if err := r.Client.Get(t.Context(), request.NamespacedName, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := nextEvent(recorder); got != test.event {
				t.Errorf("event %q, want %q", got, test.event)
			}
		})
	}
}

func nextEvent(recorder *events.FakeRecorder) string {
	select {
	case e := <-recorder.Events:
		return e
	default:
		return ""
	}
}

// Users who read the Events of one namespace need not know what another one is called.
func TestEventsNameNoOtherNamespace(t *testing.T) {
	for namespace, want := range map[string]string{"own": "own/funny-joe", "other": ""} {
		r, _ := newReconciler(t, interceptor.Funcs{}, pod(namespace, "funny-joe"), seeker())
		recorder := &relatedRecorder{}
		r.Recorder = recorder
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want}, recorder.related); diff != "" {
			t.Errorf("the related objects of Events about a pod in namespace %s (-want +got):\n%s", namespace, diff)
		}
	}
}

// relatedRecorder keeps the related objects of Events, "" for none.
type relatedRecorder struct{ related []string }

func (r *relatedRecorder) Eventf(_, related runtime.Object, _, _, _, _ string, _ ...any) {
	name := ""
	if pod, ok := related.(*corev1.ObjectReference); ok && pod != nil {
		name = pod.Namespace + "/" + pod.Name
	}
	r.related = append(r.related, name)
}

// A friend is told once when it comes, once when it goes, and nothing is written in between.
func TestOnlyChangesAreWritten(t *testing.T) {
	patches := 0
	funcs := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		patches++
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}}
	r, recorder := newReconciler(t, funcs, seeker())
	reconcile := func(wantPatches int, wantEvent string) {
		t.Helper()
		for range 3 {
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		if patches != wantPatches {
			t.Errorf("%d patches, want %d", patches, wantPatches)
		}
		if got := nextEvent(recorder); got != wantEvent {
			t.Errorf("event %q, want %q", got, wantEvent)
		}
		if got := nextEvent(recorder); got != "" {
			t.Errorf("another event %q", got)
		}
	}
	reconcile(1, "")
	friend := pod("own", "funny-joe")
	if err := r.Client.Create(t.Context(), friend); err != nil {
		t.Fatal(err)
	}
	reconcile(2, "Normal FriendFound Found pod funny-joe in namespace own")
	if err := r.Client.Delete(t.Context(), friend); err != nil {
		t.Fatal(err)
	}
	reconcile(3, "Warning FriendLost Pod funny-joe does not exist any more")
}

func TestConflictsAreNoFailures(t *testing.T) {
	funcs := interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return apierrors.NewConflict(pocv1.Resource("mycustomresources"), "seeker", nil)
	}}
	r, recorder := newReconciler(t, funcs, seeker(), pod("own", "funny-joe"))
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result != kube.RetryConflict {
		t.Errorf("%+v, %v, want another try after a growing pause", result, err)
	}
	if got := nextEvent(recorder); got != "" {
		t.Errorf("event %q of what was not written", got)
	}
}

func TestNothingIsWrittenOfWhatGoes(t *testing.T) {
	going := seeker()
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	r, _ := newReconciler(t, interceptor.Funcs{}, going, pod("own", "funny-joe"))
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	got := &pocv1.MyCustomResource{}
	if err := r.Client.Get(t.Context(), request.NamespacedName, got); err != nil || got.Status.Healthy {
		t.Errorf("status %+v, %v", got.Status, err)
	}
	gone := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "own", Name: "gone"}}
	if result, err := r.Reconcile(t.Context(), gone); err != nil || result != (ctrl.Result{}) {
		t.Errorf("one that is not there: %+v, %v", result, err)
	}
}

func TestOnlyExistenceMatters(t *testing.T) {
	running := failed(pod("own", "funny-joe"))
	running.Labels = map[string]string{"a": "b"}
	updates := map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"another phase and other labels": {pod("own", "funny-joe"), running, false},
		"it begins to go":                {pod("own", "funny-joe"), deleting(pod("own", "funny-joe")), true},
		"it still goes":                  {deleting(pod("own", "funny-joe")), deleting(failed(pod("own", "funny-joe"))), false},
		"it went and another came":       {deleting(pod("own", "funny-joe")), pod("own", "funny-joe"), true},
	}
	for label, test := range updates {
		if got := existenceChanged.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: passed %v, want %v", label, got, test.want)
		}
	}
	if !existenceChanged.Create(event.CreateEvent{Object: running}) || !existenceChanged.Delete(event.DeleteEvent{Object: running}) {
		t.Error("pods that come and go are not passed")
	}
}

func TestOnlyThoseThatLookForAPodAreReconciled(t *testing.T) {
	other, elsewhere := seeker(), seeker()
	other.Name, other.Spec.Name = "other", "crazy-dave"
	elsewhere.Namespace = "elsewhere"
	r, _ := newReconciler(t, interceptor.Funcs{}, seeker(), other, elsewhere)
	got := r.resourcesFor(t.Context(), pod("somewhere", "funny-joe"))
	want := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(elsewhere)}, request}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
