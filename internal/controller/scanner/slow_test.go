package scanner

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestSlowNamespacesStartLast: tenants whose admission webhooks hang do not delay the scans of others, however many namespaces they have.
func TestSlowNamespacesStartLast(t *testing.T) {
	const slowNamespaces, images = 5, 4
	for name, tt := range map[string]struct {
		takes       time.Duration
		refused     bool
		concurrency int32
		// reconciles is the number of reconciles until the young image starts. Until it is known which namespaces are slow, each takes a slot once.
		reconciles int
	}{
		"no answer":                          {20 * time.Second, false, 50, 2},
		"no answer, few slots":               {20 * time.Second, false, 2, 3},
		"the answer is a refusal":            {10 * time.Second, true, 50, 2},
		"the answer is a refusal, few slots": {10 * time.Second, true, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}, failing: map[string]error{}, refused: map[string]bool{}}
			objects := []client.Object{
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "young"}},
				scannerWith(func(s *scannerv1.Scanner) {
					s.Spec.NamespaceSelector, s.Spec.Concurrency = &metav1.LabelSelector{}, &tt.concurrency
				}),
			}
			add := func(namespace, name string, age time.Duration) {
				pod := podOf(name, imageKey(name).ImageID, age)
				pod.Namespace = namespace
				objects = append(objects, pod)
			}
			slow := map[string]bool{}
			for i := range slowNamespaces {
				namespace := fmt.Sprint("slow-", i)
				slow[namespace] = true
				objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
				for n := range images {
					add(namespace, fmt.Sprintf("old-%d-%d", i, n), time.Hour)
				}
				if cataloger.refused[namespace] = tt.refused; !tt.refused {
					cataloger.failing[namespace] = apierrors.NewTimeoutError("request did not complete", 0)
				}
			}
			add("young", "young", time.Minute)
			r, _ := newReconciler(t, known, cataloger, objects...)
			r.Namespace, r.Limits = "ns", Limits{Scans: 50, PerRegistry: 50, PerNode: 50}
			clk := clockOf(r)
			tried, slowStarts := map[string]int{}, 0
			cataloger.took = func(req scanjob.Request) {
				if slow[req.Namespace] {
					tried[req.Namespace]++
					slowStarts++
					clk.Step(tt.takes)
				}
			}
			for i := range tt.reconciles {
				result, _ := reconcileOnce(t, r)
				clk.Step(result.RequeueAfter)
				if want := min(int(tt.concurrency), maxSlowStarts); i == 0 && (slowStarts != want || cataloger.hurried != want-1) {
					t.Errorf("%d slow starts in the first reconcile, %d of them with little time; want %d, all but the first with little", slowStarts, cataloger.hurried, want)
				}
			}
			if len(cataloger.started) != 1 || cataloger.started[0] != imageKey("young") {
				t.Fatalf("started %v in %d reconciles, want the young image", cataloger.started, tt.reconciles)
			}
			// From now on they are known: one of them is tried at a time, and takes a small part of the time.
			for range 2 * slowNamespaces {
				if len(tried) == slowNamespaces {
					break
				}
				result, _ := reconcileOnce(t, r)
				clk.Step(result.RequeueAfter)
			}
			clear(tried)
			began, before := clk.Now(), slowStarts
			for clk.Since(began) < 20*time.Minute {
				last := slowStarts
				result, _ := reconcileOnce(t, r)
				if slowStarts > last+1 {
					t.Fatalf("%d slow starts in one reconcile, want at most one", slowStarts-last)
				}
				if result.RequeueAfter <= 0 {
					t.Fatal("not reconciled again")
				}
				clk.Step(result.RequeueAfter)
			}
			if spent := time.Duration(slowStarts-before) * tt.takes; spent > clk.Since(began)/3 {
				t.Errorf("%s of %s were spent on starts that fail", spent, clk.Since(began))
			}
			if len(tried) != slowNamespaces {
				t.Errorf("tries by namespace: %v, want some in each", tried)
			}
			// They recover.
			clear(slow)
			clear(cataloger.failing)
			clear(cataloger.refused)
			for began := clk.Now(); clk.Since(began) < 3*time.Hour && len(cataloger.started) < slowNamespaces*images+1; {
				result, _ := reconcileOnce(t, r)
				clk.Step(result.RequeueAfter)
				for _, key := range cataloger.started {
					known[key] = store.Image{ImageState: store.ImageState{Key: key, State: store.StateScanned}}
				}
				clear(cataloger.attempts)
			}
			if len(cataloger.started) != slowNamespaces*images+1 {
				t.Errorf("%d scans started after the recovery, want %d", len(cataloger.started), slowNamespaces*images+1)
			}
		})
	}
}

// TestNewPodsOfSlowNamespacesWaitForAReconcile: between reconciles, no other pod is to wait for them.
func TestNewPodsOfSlowNamespacesWaitForAReconcile(t *testing.T) {
	cataloger := &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, &meanwhile{memory: memory{}}, cataloger, scannerWith(nil))
	reconcileOnce(t, r)
	r.stalls.clear("ns", "", slowStart, now)
	if !arrives(t, r, podOf("a", imageKey("a").ImageID, 0)) || len(cataloger.started) != 0 {
		t.Errorf("started %v in a slow namespace", cataloger.started)
	}
	r.stalls.clear("ns", "", time.Second, now)
	if !arrives(t, r, podOf("b", imageKey("b").ImageID, 0)) || len(cataloger.started) != 1 || cataloger.hurried != 1 {
		t.Errorf("started %v, %d of them with little time; want the second pod's image with little", cataloger.started, cataloger.hurried)
	}
}

// TestSlowStatusesOfScanners: tenants whose admission webhooks hang on the status of their Scanners do not take the time of the others.
func TestSlowStatusesOfScanners(t *testing.T) {
	const slowScanners, hangs, retried = 10, 20 * time.Second, 30 * time.Second
	var objects []client.Object
	due := map[types.NamespacedName]time.Time{}
	for i := range slowScanners {
		s := scannerWith(func(s *scannerv1.Scanner) {
			s.Namespace, s.UID = fmt.Sprint("slow-", i), types.UID(fmt.Sprint("slow-", i))
		})
		objects = append(objects, s)
		due[client.ObjectKeyFromObject(s)] = now
	}
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, objects...)
	clk, spent, tried := clockOf(r), time.Duration(0), map[string]bool{}
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			tried[object.GetNamespace()] = true
			clk.Step(hangs)
			spent += hangs
			return context.DeadlineExceeded
		},
	})
	r.statuses = kube.NewStatusWriter(r.Client, statusesPerSecond, clk)
	reconcileFor := func(period time.Duration) {
		for began := clk.Now(); clk.Since(began) < period; {
			var next types.NamespacedName
			for name, at := range due {
				if next.Name == "" || at.Before(due[next]) {
					next = name
				}
			}
			clk.Step(max(0, due[next].Sub(clk.Now())))
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: next})
			wait := result.RequeueAfter
			if err != nil {
				wait = retried
			} else if wait <= 0 {
				t.Fatal("not reconciled again")
			}
			due[next] = clk.Now().Add(wait)
		}
	}
	// Each has to hang once until it is known.
	reconcileFor(slowScanners * (hangs + retried))
	spent = 0
	clear(tried)
	if reconcileFor(time.Hour); spent > 15*time.Minute || len(tried) != slowScanners {
		t.Errorf("%s of an hour were spent on the statuses of %d Scanners that cannot be written, want at most a quarter, on all %d", spent, len(tried), slowScanners)
	}
}
