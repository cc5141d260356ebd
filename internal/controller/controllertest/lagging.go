package controllertest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// Lagging is a client whose lists can be behind its writes, as those of a cache. NewLagging makes one.
type Lagging struct {
	client.Client
	stopped bool
	lists   map[reflect.Type]client.ObjectList
}

// NewLagging returns a client of objects that are nowhere else. The object has a status of its own.
func NewLagging(t *testing.T, add func(*runtime.Scheme) error, object client.Object) *Lagging {
	t.Helper()
	object.SetUID(types.UID(t.Name() + object.GetName()))
	object.SetGeneration(1)
	scheme := Scheme(t, add, corev1.AddToScheme)
	return &Lagging{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).Build()}
}

// Stop has the lists show no change from now on, or again all of them.
func (l *Lagging) Stop(stopped bool) {
	l.stopped, l.lists = stopped, map[reflect.Type]client.ObjectList{}
}

// List implements client.Reader.
func (l *Lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := reflect.TypeOf(list)
	if known, found := l.lists[kind]; l.stopped && found {
		reflect.ValueOf(list).Elem().Set(reflect.ValueOf(known.DeepCopyObject()).Elem())
		return nil
	}
	if err := l.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	if l.stopped {
		copied, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("%T is not a list", list)
		}
		l.lists[kind] = copied
	}
	return nil
}

// LastStatusWins tests that a reconciler of all objects does not take the status of an object that the cache shows for right when another one was written
// last, and that it logs what it writes. set changes what the status
// says, and back, and shown returns what it says; good and bad are the status and the reason of the condition.
func (l *Lagging) LastStatusWins(t *testing.T, r reconcile.Reconciler, object client.Object, condition, good, bad string, set func(changed bool), shown func() string) {
	t.Helper()
	logs := &Logs{}
	run := func(what string, logged ...string) (ctrl.Result, string) {
		t.Helper()
		result, err := r.Reconcile(logs.Context(t.Context()), kube.Everything)
		if err == nil {
			err = l.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(logged, logs.Take()); diff != "" {
			t.Errorf("%s: logs (-want +got):\n%s", what, diff)
		}
		return result, shown()
	}
	line := func(from, to string) string {
		return fmt.Sprintf(`"level"=0 "msg"="Condition changed" "object"=%q "condition"=%q "from"=%q "to"=%q`, object.GetName(), condition, from, to)
	}
	settled, first := run("the first status", line("", good))
	run("the same status")
	l.Stop(true)
	set(true)
	_, other := run("another status", line(good, bad))
	if other == first {
		t.Fatalf("the status still says %q", first)
	}
	set(false)
	again, said := run("the first status, with a cache that is behind")
	if again.RequeueAfter == 0 || again.RequeueAfter > time.Second || settled.RequeueAfter <= time.Second {
		t.Errorf("next in %s, with a status of %q, and in %s with one that is right; want it within a second", again.RequeueAfter, said, settled.RequeueAfter)
	}
	l.Stop(false)
	if _, said := run("the first status, with a cache that is not behind", line(bad, good)); said != first {
		t.Errorf("the status says %q, want %q", said, first)
	}
}
