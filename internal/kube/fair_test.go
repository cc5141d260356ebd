package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestSlowNamespacesLeaveWorkersToOthers reconciles objects of namespaces whose admission webhooks hang, and of one whose requests are answered, with four workers as
// controllers do.
func TestSlowNamespacesLeaveWorkersToOthers(t *testing.T) {
	for name, slowNamespaces := range map[string]int{"one": 1, "several": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const workers, objects, hangs, period = 4, 50, 20 * time.Second, 30 * time.Minute
				var mu sync.Mutex
				tried, atOnce, most := map[string]int{}, map[string]int{}, 0
				added := map[types.NamespacedName]time.Time{}
				var longest time.Duration
				// Each namespace has all workers hang once until it is known.
				began := time.Now()
				known := began.Add(time.Duration(slowNamespaces+1) * hangs)
				object := map[reconcile.Request]int{}
				queue := workqueue.NewTypedRateLimitingQueue(ErrorBackoff())
				next := reconcile.Func(func(_ context.Context, request reconcile.Request) (ctrl.Result, error) {
					mu.Lock()
					if !strings.HasPrefix(request.Namespace, "slow") {
						if added[request.NamespacedName].After(known) {
							longest = max(longest, time.Since(added[request.NamespacedName]))
						}
						mu.Unlock()
						return ctrl.Result{}, nil
					}
					tried[request.Namespace]++
					object[request]++
					if atOnce[request.Namespace]++; time.Now().After(known) {
						most = max(most, atOnce[request.Namespace])
					}
					mu.Unlock()
					if request.Name == "0" {
						queue.Add(request) // Something happens to it all the time.
					}
					time.Sleep(hangs)
					mu.Lock()
					atOnce[request.Namespace]--
					mu.Unlock()
					return ctrl.Result{}, errors.New("the API server did not answer within 20s")
				})
				fair := NewFairWorkers(next, workers, clock.RealClock{})
				var group sync.WaitGroup
				for range workers {
					group.Go(func() {
						for {
							request, stopped := queue.Get()
							if stopped {
								return
							}
							switch result, err := fair.Reconcile(t.Context(), request); {
							case err != nil:
								queue.AddRateLimited(request)
							case result.RequeueAfter > 0:
								queue.Forget(request)
								queue.AddAfter(request, result.RequeueAfter)
							default:
								queue.Forget(request)
							}
							queue.Done(request)
						}
					})
				}
				for i := range slowNamespaces * objects {
					namespace := "slow-0" // It has most of the objects.
					if n := i % (4 * slowNamespaces); n < slowNamespaces {
						namespace = fmt.Sprint("slow-", n)
					}
					queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}})
				}
				for i := 0; time.Since(began) < period; i++ {
					one := types.NamespacedName{Namespace: "quick", Name: fmt.Sprint(i)}
					mu.Lock()
					added[one] = time.Now()
					mu.Unlock()
					queue.Add(reconcile.Request{NamespacedName: one})
					time.Sleep(time.Second)
				}
				queue.ShutDown()
				group.Wait()
				if longest > time.Second || most != 1 {
					t.Errorf("an object of another namespace waited for %s, and %d objects of a slow namespace were reconciled at once; want at most %s, and one", longest, most, time.Second)
				}
				if slowNamespaces == 1 && len(object) != objects {
					t.Errorf("tried %d objects of a slow namespace, want all %d", len(object), objects)
				}
				least := min(tried["slow-0"], tried[fmt.Sprint("slow-", slowNamespaces-1)])
				for _, n := range tried {
					if least = min(least, n); n > 2*least {
						t.Errorf("tries by namespace: %v, want about as many in each", tried)
					}
				}
			})
		})
	}
}

// TestSlowNamespacesRecover: when requests are answered, all workers reconcile the objects of a namespace again.
func TestSlowNamespacesRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := slowReconcile
		next := reconcile.Func(func(context.Context, reconcile.Request) (ctrl.Result, error) {
			time.Sleep(took)
			return ctrl.Result{}, nil
		})
		fair := NewFairWorkers(next, 4, clock.RealClock{})
		request := func(name string) reconcile.Request {
			return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
		}
		postponed := func() bool {
			var group sync.WaitGroup
			group.Go(func() { _, _ = fair.Reconcile(t.Context(), request("a")) })
			synctest.Wait()
			result, err := fair.Reconcile(t.Context(), request("b"))
			group.Wait()
			return err == nil && result.RequeueAfter == workerWait
		}
		if took = slowReconcile - time.Millisecond; postponed() {
			t.Error("postponed an object of a namespace that is not slow")
		}
		if took = slowReconcile; postponed() {
			t.Error("postponed an object before the first one was slow")
		}
		if took = time.Millisecond; !postponed() {
			t.Error("reconciled two objects of a slow namespace at once")
		}
		time.Sleep(slowMemory)
		if postponed() {
			t.Error("postponed an object of a namespace that has recovered")
		}
	})
}

// TestObjectsThatAreGoneKeepNoTurn: what waits for a worker and is not tried again holds up others of its namespace for 4 seconds.
func TestObjectsThatAreGoneKeepNoTurn(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Now())
	object := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "slow", Name: name}}
	}
	var fair *FairWorkers
	ran := map[string]bool{}
	try := func(name string) {
		if _, err := fair.Reconcile(t.Context(), object(name)); err != nil {
			t.Fatal(err)
		}
	}
	fair = NewFairWorkers(reconcile.Func(func(_ context.Context, request reconcile.Request) (ctrl.Result, error) {
		ran[request.Name] = true
		if request.Name == "slow" {
			now.SetTime(now.Now().Add(slowReconcile))
			try("gone") // It waits, since another object of the namespace is reconciled.
		}
		return ctrl.Result{}, nil
	}), 4, now)
	try("slow")
	for range 2 {
		now.SetTime(now.Now().Add(workerWait))
		try("stays")
	}
	if ran["gone"] || ran["stays"] {
		t.Fatalf("ran %v, want neither the object that waits nor a later one", ran)
	}
	now.SetTime(now.Now().Add(time.Millisecond))
	if try("stays"); !ran["stays"] {
		t.Error("an object that is not tried any more keeps the turn of its namespace")
	}
}
