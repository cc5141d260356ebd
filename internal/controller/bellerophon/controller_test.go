package bellerophon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: hero}}

// fixture is a Reconciler on an API server in memory, whose applies may fail.
type fixture struct {
	*Reconciler
	t        *testing.T
	recorder *events.FakeRecorder
	// fail returns the error of an apply of a kind.
	fail    func(kind string) error
	applied []string
}

func newFixture(t *testing.T, fail func(kind string) error, mutate ...func(*stablev444beta989.BellerophonSimple)) *fixture {
	t.Helper()
	shero := sample(t)
	shero.Namespace, shero.UID, shero.Generation = "ns", "uid", 1
	for _, m := range mutate {
		m(shero)
	}
	f := &fixture{t: t, recorder: events.NewFakeRecorder(20), fail: fail}
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t, stablev444beta989.AddToScheme)).WithObjects(shero).
		WithStatusSubresource(shero, &appsv1.StatefulSet{}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			kind := config.(interface{ GetKind() string }).GetKind()
			f.applied = append(f.applied, kind)
			if err := f.fail(kind); err != nil {
				return err
			}
			return c.Apply(ctx, config, opts...)
		}}).Build()
	f.Reconciler = &Reconciler{Client: c, Live: c, Changes: &journal{last: map[string]store.ObjectChange{}}, Recorder: f.recorder}
	return f
}

func never(string) error { return nil }

func (f *fixture) reconcile() (ctrl.Result, error) { return f.Reconcile(f.t.Context(), request) }

func (f *fixture) ready() string {
	f.t.Helper()
	shero := &stablev444beta989.BellerophonSimple{}
	if err := f.Client.Get(f.t.Context(), request.NamespacedName, shero); err != nil {
		f.t.Fatal(err)
	}
	return shown(shero)
}

func (f *fixture) events() []string {
	var all []string
	for {
		select {
		case e := <-f.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func of(kind string, err error) func(string) error {
	return func(k string) error {
		if k == kind {
			return err
		}
		return nil
	}
}

// A refusal is told once, and tried again later; what does not depend on it goes on.
func TestRefusals(t *testing.T) {
	group := stablev444beta989.Resource("x")
	for _, refusal := range []error{
		apierrors.NewForbidden(group, hero, errors.New("exceeded quota")),
		apierrors.NewInvalid(stablev444beta989.GroupVersion.WithKind("X").GroupKind(), hero, nil),
		apierrors.NewBadRequest("no"),
	} {
		f := newFixture(t, of("StatefulSet", refusal))
		// The first refusal of a spec may come from an API server that has not seen it.
		for _, want := range []time.Duration{retryRefused, retryBlocked, retryBlocked} {
			if result, err := f.reconcile(); err != nil || result.RequeueAfter != want {
				t.Errorf("%v: %+v, %v, want another try in %s", refusal, result, err, want)
			}
		}
		if got, want := f.ready(), "False/Refused: The API server rejected StatefulSet "+hero+": "+refusal.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		warnings := 0
		for _, e := range f.events() {
			if strings.HasPrefix(e, "Warning Refused") {
				warnings++
			}
		}
		if warnings != 1 {
			t.Errorf("%d warnings, want 1", warnings)
		}
		if err := f.Client.Get(t.Context(), request.NamespacedName, &policyv1.PodDisruptionBudget{}); !apierrors.IsNotFound(err) {
			t.Errorf("a budget was made while something is in the way: %v", err)
		}
	}
}

func TestOtherFailuresAreErrors(t *testing.T) {
	failure := errors.New("no route to host")
	f := newFixture(t, of("Service", failure))
	if _, err := f.reconcile(); !errors.Is(err, failure) {
		t.Errorf("%v, want %v", err, failure)
	}
	if got := f.ready(); !strings.HasPrefix(got, "False/Failed") || strings.Contains(got, failure.Error()) {
		t.Error(got)
	}
}

func TestConflictsAreTriedAgainSoon(t *testing.T) {
	f := newFixture(t, of("Service", apierrors.NewConflict(stablev444beta989.Resource("x"), hero, nil)))
	if result, err := f.reconcile(); err != nil || result != kube.RetryConflict {
		t.Errorf("%+v, %v", result, err)
	}
}

// While the Service is in the way, an existing StatefulSet still follows its shero.
func TestTheRestGoesOn(t *testing.T) {
	f := newFixture(t, never)
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	if err := f.Client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: hero}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Client.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: hero}}); err != nil {
		t.Fatal(err)
	}
	shero := &stablev444beta989.BellerophonSimple{}
	if err := f.Client.Get(t.Context(), request.NamespacedName, shero); err != nil {
		t.Fatal(err)
	}
	shero.Spec.Replicas = new(int32(2))
	if err := f.Client.Update(t.Context(), shero); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{}
	if err := f.Client.Get(t.Context(), request.NamespacedName, set); err != nil || *set.Spec.Replicas != 2 {
		t.Errorf("%d replicas, %v", *set.Spec.Replicas, err)
	}
	if got := f.ready(); !strings.HasPrefix(got, "False/NameTaken: Service") {
		t.Error(got)
	}
}

func TestNothingIsMadeForWhatGoes(t *testing.T) {
	f := newFixture(t, never, func(s *stablev444beta989.BellerophonSimple) {
		s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	})
	if result, err := f.reconcile(); err != nil || result != (ctrl.Result{}) || len(f.applied) > 0 {
		t.Errorf("%+v, %v, applied %v", result, err, f.applied)
	}
}

// brokenJournal cannot be written to.
type brokenJournal struct{}

func (brokenJournal) RecordChange(context.Context, store.ObjectChange) error {
	return store.ErrUnavailable
}

// What could not be told to the event log is told at the next try.
func TestTheEventLogIsNotForgotten(t *testing.T) {
	f := newFixture(t, never)
	told := f.Changes
	f.Changes = brokenJournal{}
	if _, err := f.reconcile(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want that the store is away", err)
	}
	f.Changes = told
	if _, err := f.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := told.(*journal).of("ns", hero); !strings.Contains(got, `"Progressing"`) {
		t.Errorf("told %q", got)
	}
}
