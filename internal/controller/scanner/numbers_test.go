package scanner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
)

// TestScannersOfANamespaceAreBounded: a tenant may create thousands.
func TestScannersOfANamespaceAreBounded(t *testing.T) {
	const many = maxScanners + 3
	_, pod := tenant("shop", "a")
	objects := []client.Object{pod}
	for _, namespace := range []string{"shop", "operator"} {
		for i := range many {
			s := scannerWith(nil)
			s.Namespace, s.Name, s.UID = namespace, fmt.Sprint("s", i), types.UID(fmt.Sprint(namespace, i))
			// The first by name is the youngest.
			s.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(-i) * time.Minute))
			objects = append(objects, s)
		}
	}
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, objects...)
	ready := func(namespace string, i int) *metav1.Condition {
		t.Helper()
		name := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("s", i)}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
		if err != nil || result.RequeueAfter <= 0 {
			t.Fatalf("%v, next after %s", err, result.RequeueAfter)
		}
		clockOf(r).Step(time.Second) // Statuses are written slowly.
		var shown scannerv1.Scanner
		if err := r.Client.Get(t.Context(), name, &shown); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(shown.Status.Conditions, scannerv1.ConditionReady)
	}
	for _, namespace := range []string{"shop", "operator"} {
		for i := range many {
			condition := ready(namespace, i)
			beyond := condition.Status == metav1.ConditionFalse && strings.Contains(condition.Message, "Delete Scanners")
			if want := namespace == "shop" && i < many-maxScanners; beyond != want {
				t.Errorf("Scanner %d of %s is %+v, want it beyond the maximum: %t", i, namespace, condition, want)
			}
		}
	}
	// Events concern none of them.
	if got := len(r.scanners(t.Context(), func(s *scannerv1.Scanner) bool { return s.Namespace == "shop" })); got != maxScanners {
		t.Errorf("an event concerns %d Scanners, want %d", got, maxScanners)
	}
	// The next one takes the place of a deleted one.
	oldest := scannerWith(nil)
	oldest.Namespace, oldest.Name = "shop", fmt.Sprint("s", many-1)
	if err := r.Client.Delete(t.Context(), oldest); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(oldest)}); err != nil {
		t.Fatal(err)
	}
	if condition := ready("shop", many-maxScanners-1); strings.Contains(condition.Message, "Delete Scanners") {
		t.Errorf("after a deletion: %+v, want it in effect", condition)
	}
}

// TestScannersBeyondTheMaximumAreComputedOnce in a while, however many there are. That of one in effect is not delayed.
func TestScannersBeyondTheMaximumAreComputedOnce(t *testing.T) {
	var objects []client.Object
	for i := range maxScanners + 3 {
		s := scannerWith(nil)
		s.Namespace, s.Name = "shop", fmt.Sprintf("s%02d", i)
		s.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i) * time.Minute))
		objects = append(objects, s)
	}
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, objects...)
	cluster, ok := r.Client.(client.WithWatch)
	if !ok {
		t.Fatal("no client")
	}
	lists := 0
	r.Client = interceptor.NewClient(cluster, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	check := func(what string, i int, want bool, wantLists int) {
		t.Helper()
		lists = 0
		got, err := r.inEffect(t.Context(), types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("s%02d", i)})
		if err != nil || got != want || lists != wantLists {
			t.Errorf("%s: Scanner %d is in effect: %t, %v, after %d lists; want %t after %d", what, i, got, err, lists, want, wantLists)
		}
	}
	clk := clockOf(r)
	check("first", maxScanners, false, 1)
	check("at once", maxScanners, false, 0)
	check("another one at once", maxScanners+1, false, 0)
	check("one in effect", 0, true, 1)
	clk.Step(numbersHold - 1)
	check("shortly after", maxScanners+2, false, 0)
	clk.Step(1)
	check("later", maxScanners, false, 1)
	clk.Step(-time.Hour)
	check("when the clock was set back", maxScanners, false, 1)
	// As many as are deleted come into effect at once.
	for _, gone := range objects[:2] {
		if err := r.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(gone)}); err != nil {
			t.Fatal(err)
		}
	}
	check("after two deletions", maxScanners, true, 1)
	check("after two deletions", maxScanners+2, false, 0)
	// Without any beyond the maximum, nothing is remembered.
	if err := r.Client.Delete(t.Context(), objects[2]); err != nil {
		t.Fatal(err)
	}
	clk.Step(numbersHold)
	check("after three deletions", maxScanners+2, true, 1)
	if len(r.numbers.namespaces) != 0 {
		t.Errorf("remembered: %v", r.numbers.namespaces)
	}
}
