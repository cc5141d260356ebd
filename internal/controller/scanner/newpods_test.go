package scanner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// meanwhile is a store that knows what runs, and does something when a reconcile has observed all else.
type meanwhile struct {
	memory
	uses     []store.Use
	observed func()
	// failing is the error of AddUses.
	failing error
}

func (p *meanwhile) RegistryPauses(context.Context) ([]store.RegistryPause, error) {
	if do := p.observed; do != nil {
		p.observed = nil
		do()
	}
	return nil, nil
}

func (p *meanwhile) RecordUses(_ context.Context, _ string, uses []store.Use) error {
	p.uses = uses
	return nil
}

func (p *meanwhile) AddUses(_ context.Context, _ string, uses []store.Use) error {
	p.uses = slices.Concat(p.uses, uses)
	return p.failing
}

// images lists the images that run.
func (p *meanwhile) images() []model.ImageKey {
	var keys []model.ImageKey
	for _, use := range p.uses {
		keys = append(keys, use.Image)
	}
	return keys
}

// arrives has a pod run, and starts the scans of new pods if the Scanner lacks its image. It reports whether the Scanner does.
func arrives(t *testing.T, r *Reconciler, pod *corev1.Pod) bool {
	t.Helper()
	if err := r.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	queue := &agenda{clock: clockOf(r)}
	r.lacking().Create(t.Context(), event.CreateEvent{Object: pod}, queue)
	if queue.next.IsZero() {
		return false
	}
	if _, err := r.startNew(t.Context(), ctrl.Request{NamespacedName: scannerName}); err != nil {
		t.Fatal(err)
	}
	return true
}

func clockOf(r *Reconciler) *testclock.FakeClock {
	clock, _ := r.Clock.(*testclock.FakeClock)
	return clock
}

var anyOrder = cmpopts.SortSlices(func(a, b model.ImageKey) bool { return a.ImageID < b.ImageID })

func TestScansOfNewPodsStartBetweenReconciles(t *testing.T) {
	known, fresh := imageKey("known"), imageKey("fresh")
	s, cataloger := &meanwhile{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, s, cataloger, scannerWith(nil), podOf("known", known.ImageID, 0))
	if arrives(t, r, podOf("early", fresh.ImageID, 0)) {
		t.Error("a pod is new before the first reconcile")
	}
	if err := r.Client.Delete(t.Context(), podOf("early", fresh.ImageID, 0)); err != nil {
		t.Fatal(err)
	}
	reconcileOnce(t, r)
	if arrives(t, r, podOf("replica", known.ImageID, 0)) {
		t.Error("another pod with a known image is new")
	}
	if !arrives(t, r, podOf("fresh", fresh.ImageID, 0)) {
		t.Error("a pod with an unknown image is not new")
	}
	want := []model.ImageKey{known, fresh}
	if diff := cmp.Diff(want, cataloger.started, anyOrder); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, s.images(), anyOrder); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	reconcileOnce(t, r)
	if len(cataloger.started) != 2 {
		t.Errorf("started %v, want each once", cataloger.started)
	}
}

// TestNewPodsThatFailAreReconciledSoon has a start hang until the last reconcile that its age asks for is over. The next one would be 30 seconds later.
func TestNewPodsThatFailAreReconciledSoon(t *testing.T) {
	for name, fail := range map[string]func(*starter, *meanwhile){
		"the API server fails": func(c *starter, _ *meanwhile) { c.failing = map[string]error{"ns": errors.New("no answer")} },
		"a quota refuses":      func(c *starter, _ *meanwhile) { c.refused = map[string]bool{"ns": true} },
		"the database fails":   func(_ *starter, s *meanwhile) { s.failing = store.ErrUnavailable },
		"spec.job is invalid":  func(c *starter, _ *meanwhile) { c.invalid = &specError{message: "no"} },
		"nothing fails":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			s, cataloger := &meanwhile{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
			r, _ := newReconciler(t, s, cataloger, scannerWith(nil))
			reconcileOnce(t, r)
			clk, asked := clockOf(r), &agenda{clock: clockOf(r)}
			r.reconciles = asked
			if fail != nil {
				fail(cataloger, s)
			}
			cataloger.took = func(scanjob.Request) {
				clk.Step(2*scanjob.PodDelay + time.Millisecond)
				reconcileOnce(t, r)
			}
			arrives(t, r, podOf("fresh", imageKey("fresh").ImageID, 0))
			if fail == nil {
				if !asked.next.IsZero() || len(cataloger.started) != 1 {
					t.Errorf("started %v, and a reconcile was asked for at %s", cataloger.started, asked.next)
				}
				return
			}
			if asked.next.IsZero() || asked.next.After(clk.Now().Add(2*time.Second)) {
				t.Fatalf("a reconcile was asked for at %s, want one within 2s of %s", asked.next, clk.Now())
			}
			cataloger.failing, cataloger.refused, cataloger.invalid, cataloger.took, s.failing = nil, nil, nil, nil, nil
			for clk.SetTime(asked.next); len(cataloger.started) == 0; {
				result, _ := reconcileOnce(t, r)
				clk.Step(result.RequeueAfter)
				if clk.Since(asked.next) > 2*time.Minute {
					t.Fatal("the scan was not started")
				}
			}
		})
	}
}

// TestReconcilesCountScansOfNewPods has pods arrive while a reconcile has read the others, and the attempts that are under way.
func TestReconcilesCountScansOfNewPods(t *testing.T) {
	known, waiting, fresh := imageKey("known"), imageKey("waiting"), imageKey("fresh")
	s, cataloger := &meanwhile{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, s, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(2)) }), podOf("known", known.ImageID, time.Hour))
	reconcileOnce(t, r)
	if err := r.Client.Create(t.Context(), podOf("waiting", waiting.ImageID, time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.observed = func() { arrives(t, r, podOf("fresh", fresh.ImageID, 0)) }
	reconcileOnce(t, r)
	if diff := cmp.Diff([]model.ImageKey{known, fresh}, cataloger.started); diff != "" {
		t.Errorf("started with two slots (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]model.ImageKey{known, waiting, fresh}, s.images(), anyOrder); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	// An image of the Scanner waits: those of new pods wait, too.
	s.memory[known] = store.Image{ImageState: store.ImageState{Key: known, State: store.StateScanned}}
	clear(cataloger.attempts)
	arrives(t, r, podOf("later", imageKey("later").ImageID, 0))
	if len(cataloger.started) != 2 {
		t.Errorf("started %v while another image waited", cataloger.started)
	}
}

// TestReconcilesStartNothingTwice has a scan that a reconcile was about to start begin and end meanwhile.
func TestReconcilesStartNothingTwice(t *testing.T) {
	fresh := imageKey("fresh")
	s, cataloger := &meanwhile{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, s, cataloger, scannerWith(nil))
	reconcileOnce(t, r)
	pod := podOf("fresh", fresh.ImageID, 0)
	if err := r.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.observed = func() {
		r.lacking().Create(t.Context(), event.CreateEvent{Object: pod}, &agenda{clock: clockOf(r)})
		if _, err := r.startNew(t.Context(), ctrl.Request{NamespacedName: scannerName}); err != nil {
			t.Fatal(err)
		}
		clear(cataloger.attempts)
	}
	reconcileOnce(t, r)
	if diff := cmp.Diff([]model.ImageKey{fresh}, cataloger.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
}

func TestNewPodsAreBounded(t *testing.T) {
	var n newPods
	for i := range maxNewPods + 1 {
		after, added := n.add(scannerName, types.NamespacedName{Namespace: "ns", Name: string(rune('a' + i))}, now)
		if added != (i < maxNewPods) || added && after != newPodsDelay {
			t.Errorf("pod %d: added is %t, after %s", i, added, after)
		}
	}
	if got := len(n.take(scannerName)); got != maxNewPods || len(n.take(scannerName)) > 0 {
		t.Errorf("%d pods waited", got)
	}
	n.rest(now, now.Add(90*time.Millisecond))
	if after, _ := n.add(scannerName, client.ObjectKey{}, now.Add(90*time.Millisecond)); after != 360*time.Millisecond {
		t.Errorf("the next pods wait for %s", after)
	}
}

// TestStartsThatHangHoldNoLock has the API server hang when a reconcile starts a scan in one namespace. Others get new pods meanwhile.
func TestStartsThatHangHoldNoLock(t *testing.T) {
	s, cataloger := &meanwhile{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, s, cataloger, scannerWith(func(s *scannerv1.Scanner) {
		s.Spec.NamespaceSelector, s.Spec.Concurrency = &metav1.LabelSelector{}, new(int32(2))
	}), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "slow"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	r.Namespace = "ns"
	reconcileOnce(t, r)
	in := func(namespace, name string) *corev1.Pod {
		pod := podOf(name, imageKey(name).ImageID, 0)
		pod.Namespace = namespace
		return pod
	}
	if err := r.Client.Create(t.Context(), in("slow", "hangs")); err != nil {
		t.Fatal(err)
	}
	hangs, goOn, tries := make(chan struct{}), make(chan struct{}), 0
	cataloger.took = func(req scanjob.Request) {
		if req.Key == imageKey("hangs") {
			if tries++; tries == 1 {
				close(hangs)
				<-goOn
			}
		}
	}
	cataloger.failing = map[string]error{"slow": errors.New("no answer")}
	done := make(chan error)
	go func() {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: scannerName})
		done <- err
	}()
	<-hangs
	if !arrives(t, r, in("other", "quick")) {
		t.Error("the pod of another namespace is not new")
	}
	if diff := cmp.Diff([]model.ImageKey{imageKey("quick")}, cataloger.started); diff != "" {
		t.Errorf("started while a start hangs (-want +got):\n%s", diff)
	}
	// The start that hangs holds a slot, and is not begun once more.
	arrives(t, r, in("other", "third"))
	arrives(t, r, in("slow", "hangs-too"))
	again := in("other", "hangs-again")
	again.Status.ContainerStatuses[0].ImageID = imageKey("hangs").ImageID
	arrives(t, r, again)
	if len(cataloger.started) != 1 || tries != 1 {
		t.Errorf("started %v with two slots, and the start that hangs %d times", cataloger.started, tries)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// It failed, so that it holds no slot any more.
	if len(r.newPods.starting) != 0 {
		t.Errorf("still being started: %v", r.newPods.starting)
	}
}

// TestRegistriesOfOthersStopNoNewPods has many images of one registry wait for a slot.
func TestRegistriesOfOthersStopNoNewPods(t *testing.T) {
	for name, tt := range map[string]struct {
		waiting demand
		starts  bool
	}{
		"another registry": {demand{limitOfRegistry("evil"): {"evil": 16}}, true},
		"another node":     {demand{limitOfNode("node-1"): {"evil": 16}}, true},
		"its registry":     {demand{limitOfRegistry("r.example"): {"evil": 16}}, false},
		"the operator":     {demand{limitOperator: {"evil": 16}}, false},
		"the Scanner":      {demand{limitOfScanner(scannerName): {"evil": 16}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cataloger := &starter{attempts: map[string]Attempt{}}
			r, _ := newReconciler(t, &meanwhile{memory: memory{}}, cataloger, scannerWith(nil))
			reconcileOnce(t, r)
			r.queues.set(scannerName, tt.waiting)
			arrives(t, r, podOf("fresh", imageKey("fresh").ImageID, 0))
			if started := len(cataloger.started) == 1; started != tt.starts {
				t.Errorf("started %v, want that: %t", cataloger.started, tt.starts)
			}
		})
	}
}
