package scanner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// homeWorld is a cluster in which scans of most images run in the namespace of the operator.
type homeWorld struct {
	*Reconciler
	known     memory
	cataloger *starter
	clock     *testclock.FakeClock
	// slow is how long starts take in a namespace.
	slow map[string]time.Duration
	// at has when a scan of an image was started.
	at map[model.ImageKey]time.Time
}

// newHomeWorld has public images, each with a pod, and private images of tenants, which are older.
func newHomeWorld(t *testing.T, public, tenants int) *homeWorld {
	t.Helper()
	w := &homeWorld{
		known: memory{}, cataloger: &starter{attempts: map[string]Attempt{}, failing: map[string]error{}}, slow: map[string]time.Duration{}, at: map[model.ImageKey]time.Time{},
	}
	objects := []client.Object{scannerWith(func(s *scannerv1.Scanner) {
		s.Spec.NamespaceSelector, s.Spec.Concurrency = &metav1.LabelSelector{}, new(int32(50))
	}), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}}
	for i := range public {
		objects = append(objects, podOf(fmt.Sprint("public-", i), imageKey(fmt.Sprint("public-", i)).ImageID, time.Minute))
	}
	for i := range tenants {
		name := fmt.Sprint("tenant-", i)
		for n := range 3 {
			image := fmt.Sprintf("%s-%d", name, n)
			pod := podOf(image, imageKey(image).ImageID, time.Hour)
			pod.Namespace, pod.Spec.ImagePullSecrets = name, []corev1.LocalObjectReference{{Name: "pull"}}
			objects = append(objects, pod)
		}
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.Reconciler, _ = newReconciler(t, w.known, w.cataloger, objects...)
	w.Namespace, w.Home, w.Limits, w.clock = "ns", Home{Namespace: "ns"}, Limits{Scans: 50, PerRegistry: 50, PerNode: 50}, clockOf(w.Reconciler)
	w.cataloger.took = func(req scanjob.Request) { w.clock.Step(w.slow[req.Namespace]) }
	return w
}

// run reconciles as long as the Scanner asks for it, for some time, and returns how long it took until all public images were started.
func (w *homeWorld) run(t *testing.T, public int, within time.Duration) time.Duration {
	t.Helper()
	began := w.clock.Now()
	for w.clock.Since(began) < within {
		result, _ := reconcileOnce(t, w.Reconciler)
		left := public
		for _, key := range w.cataloger.started {
			if _, started := w.at[key]; !started {
				w.at[key] = w.clock.Now()
			}
			w.known[key] = store.Image{ImageState: store.ImageState{Key: key, State: store.StateScanned}}
		}
		clear(w.cataloger.attempts)
		for i := range public {
			if _, started := w.at[imageKey(fmt.Sprint("public-", i))]; started {
				left--
			}
		}
		if left == 0 {
			return w.clock.Since(began)
		}
		w.clock.Step(result.RequeueAfter)
	}
	t.Fatalf("started %v in %s, want %d public images", w.cataloger.started, within, public)
	return 0
}

// TestASlowStartInTheOperatorsNamespaceIsShort: nearly all scans run there. They do not pause for long after one that hung.
func TestASlowStartInTheOperatorsNamespaceIsShort(t *testing.T) {
	w := newHomeWorld(t, 20, 0)
	w.slow["ns"], w.cataloger.failing["ns"] = 20*time.Second, apierrors.NewTimeoutError("request did not complete", 0)
	result, _ := reconcileOnce(t, w.Reconciler)
	clear(w.slow)
	clear(w.cataloger.failing)
	w.clock.Step(result.RequeueAfter)
	if took := w.run(t, 20, time.Hour) + result.RequeueAfter; took > 10*time.Second {
		t.Errorf("all scans were started %s after the slow start, want 10s at most", took)
	}
}

// TestSlowStartsInTheOperatorsNamespace: half of the time is spent on starts there, although tenants have admission webhooks that hang.
func TestSlowStartsInTheOperatorsNamespace(t *testing.T) {
	for _, tenants := range []int{0, 6} {
		w := newHomeWorld(t, 20, tenants)
		w.slow["ns"] = 6 * time.Second
		for i := range tenants {
			name := fmt.Sprint("tenant-", i)
			w.slow[name], w.cataloger.failing[name] = 20*time.Second, apierrors.NewTimeoutError("request did not complete", 0)
		}
		// Tenants get a quarter of the time at most, and some more until they are known.
		if took := w.run(t, 20, time.Hour); took > 2*20*w.slow["ns"]+time.Duration(tenants)*time.Minute {
			t.Errorf("%d tenants: 20 starts took %s", tenants, took)
		}
	}
}

// TestSlowTenantsDoNotStopTheOperatorsNamespace: images of tenants are first in the order, and none of their namespaces is known to be slow.
func TestSlowTenantsDoNotStopTheOperatorsNamespace(t *testing.T) {
	w := newHomeWorld(t, 3, 3*maxSlowStarts)
	for i := range 3 * maxSlowStarts {
		name := fmt.Sprint("tenant-", i)
		w.slow[name], w.cataloger.failing[name] = 5*time.Second, apierrors.NewTimeoutError("request did not complete", 0)
	}
	reconcileOnce(t, w.Reconciler)
	if len(w.cataloger.started) != 3 {
		t.Errorf("started %v in the first reconcile, want the public images", w.cataloger.started)
	}
}

// TestSlowNamespacesStayKnown until a start was quick there: it may take long until it is their turn.
func TestSlowNamespacesStayKnown(t *testing.T) {
	var s stalls
	failed := &NamespaceError{"slow", apierrors.NewTimeoutError("request did not complete", 0)}
	s.note(failed, "", slowStart, now)
	s.note(&NamespaceError{"quick", failed.Err}, "", time.Second, now)
	later := now.Add(maxStall + stallMemory + time.Second)
	s.clear("other", "", time.Second, later)
	if _, slow, _ := s.current(later); len(slow) != 1 || len(s.namespaces) != 1 {
		t.Errorf("slow: %v of %v, want the one that was slow", slow, s.namespaces)
	}
	// What it failed before does not count any more.
	if got := s.note(failed, "", slowStart, later); got.failures != 1 || !got.slow {
		t.Errorf("%+v, want the first failure of a slow namespace", got)
	}
	s.clear("slow", "", time.Second, later)
	if _, slow, _ := s.current(later); len(slow) != 0 {
		t.Errorf("slow after a quick start: %v", slow)
	}
	s.clear("slow", "", slowStart, later)
	s.clear("other", "", time.Second, later.Add(slowMemory+time.Second))
	if len(s.namespaces) != 0 {
		t.Errorf("remembered for ever: %v", s.namespaces)
	}
}

// TestRestAfterSlowStarts: one is an accident. In the long run they take a quarter of the time, and no rest is longer than the last one requires.
func TestRestAfterSlowStarts(t *testing.T) {
	const took = 20 * time.Second
	for name, tt := range map[string]struct {
		home bool
		want []time.Duration
	}{
		"others":   {false, []time.Duration{0, took * 5 / 2, 3 * took}},
		"operator": {true, []time.Duration{0, maxHomeRest, maxHomeRest}},
	} {
		var r rests
		at, got := now, []time.Duration{}
		for range tt.want {
			at = at.Add(took)
			r.after(tt.home, took, at)
			rested := r.others
			if tt.home {
				rested = r.home
			}
			rest := max(0, rested.Sub(at))
			got = append(got, rest)
			at = at.Add(rest)
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: rests %v, want %v", name, got, tt.want)
		}
		for range 10 { // In one reconcile.
			r.after(tt.home, took, at)
		}
		if rest := max(r.home.Sub(at), r.others.Sub(at)); rest > slowRestFactor*took {
			t.Errorf("%s: a rest of %s after many", name, rest)
		}
	}
}
