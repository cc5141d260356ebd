package scanner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
)

// agenda is a work queue that only notes for when a Scanner is queued.
type agenda struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	clock *testclock.FakeClock
	// next is zero while nothing is queued.
	next time.Time
}

func (a *agenda) AddAfter(_ reconcile.Request, after time.Duration) {
	if at := a.clock.Now().Add(after); a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// TestReconcilesAreCoalesced plays events of pods to a Scanner whose reconciles take long, before, during and after these, and counts them.
func TestReconcilesAreCoalesced(t *testing.T) {
	const (
		took    = 600 * time.Millisecond
		minutes = 5 * time.Minute
		step    = 10 * time.Millisecond
	)
	known, unknown := podOf("known", imageKey("known").ImageID, 0), podOf("unknown", imageKey("unknown").ImageID, 0)
	// The rest before the first of them is short, because the reconcile of pacedReconciler was.
	tests := map[string]struct {
		// every is the time between two events of known pods.
		every time.Duration
		// fresh is when a pod with a new image comes, 0 for never.
		fresh time.Duration
		// waits: images wait for a slot.
		waits   bool
		within  time.Duration
		maximum int
	}{
		"one event per second":    {every: time.Second, maximum: int(minutes/(maxRest+took)) + 2},
		"100 events per second":   {every: step, maximum: int(minutes/(maxRest+took)) + 2},
		"a new image is not held": {every: step, fresh: 100 * time.Second, within: maxSoonRest + took, maximum: int(minutes/(maxRest+took)) + 4},
		"while others wait":       {every: step, fresh: 100 * time.Second, waits: true, within: time.Second, maximum: int(minutes/(maxRest+took)) + 4},
		"one event":               {every: minutes, maximum: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, clock, queue := pacedReconciler(t, known)
			if tt.waits {
				r.queues.set(scannerName, waitsForSlot)
			}
			handle := r.paced(concernsPod)
			reconciles, waited := 0, time.Duration(0)
			// ends is when the reconcile ends that is under way.
			var ends time.Time
			for at := step; at <= minutes; at += step {
				clock.Step(step)
				if at%tt.every == 0 {
					handle.Update(t.Context(), event.UpdateEvent{ObjectOld: known, ObjectNew: known}, queue)
				}
				if at == tt.fresh {
					handle.Create(t.Context(), event.CreateEvent{Object: unknown}, queue)
					waited = max(queue.next.Sub(clock.Now()), ends.Sub(clock.Now())) + took
				}
				if !ends.IsZero() && !ends.After(clock.Now()) {
					r.pace.end(scannerName, ends.Add(-took), ends, nil)
					ends = time.Time{}
				}
				if queue.next.IsZero() || queue.next.After(clock.Now()) || !ends.IsZero() {
					continue
				}
				queue.next = time.Time{}
				reconciles++
				r.pace.begin(scannerName, clock.Now())
				ends = clock.Now().Add(took)
			}
			if reconciles == 0 || reconciles > tt.maximum {
				t.Errorf("%d reconciles of %s in %s, want 1 to %d", reconciles, took, minutes, tt.maximum)
			}
			if waited > tt.within {
				t.Errorf("a reconcile regards a new image after %s, want at most %s", waited, tt.within)
			}
		})
	}
}

// large is the number of containers of a Scanner whose rest depends on the duration of its reconciles alone.
const large = int(maxRest / restPerContainer)

// waitsForSlot is the demand of a Scanner of which an image waits for a slot.
var waitsForSlot = demand{limitOperator: {"ns": 1}}

var scannerName = types.NamespacedName{Namespace: "ns", Name: "s"}

// pacedReconciler has reconciled once a Scanner of the namespace of a pod.
func pacedReconciler(t *testing.T, known *corev1.Pod) (*Reconciler, *testclock.FakeClock, *agenda) {
	t.Helper()
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, scannerWith(nil), known)
	clock := testclock.NewFakeClock(now)
	r.Clock = clock
	reconcileOnce(t, r)
	last := r.pace.rounds[scannerName]
	last.containers = large
	r.pace.rounds[scannerName] = last
	return r, clock, &agenda{clock: clock}
}

func TestOnlyScansAreUrgent(t *testing.T) {
	const took = 100 * time.Millisecond
	soon, urgent, calm := soonRestFactor*took, urgentRestFactor*took, restFactor*took
	pod := func(mutate func(*corev1.Pod)) *corev1.Pod {
		p := podOf("p", imageKey("new").ImageID, 0)
		mutate(p)
		return p
	}
	tests := map[string]struct {
		event client.Object
		want  time.Duration
	}{
		"a pod with a new image":        {pod(func(*corev1.Pod) {}), soon},
		"another replica":               {pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ImageID = imageKey("known").ImageID }), calm},
		"a pod that is ignored":         {pod(func(p *corev1.Pod) { p.Labels = map[string]string{scannerv1.DefaultIgnoreLabel: "true"} }), calm},
		"an image that nobody can pull": {pod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ImageID = "sha256:abc" }), calm},
		"no image yet":                  {pod(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), calm},
		"a node that is not known":      {pod(func(p *corev1.Pod) { p.Spec.NodeName = "new" }), soon},
		"a pod that has ended":          {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), calm},
		"another kind":                  {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, soon},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, clock, queue := pacedReconciler(t, podOf("known", imageKey("known").ImageID, 0))
			r.pace.end(scannerName, clock.Now().Add(-took), clock.Now(), nil)
			r.paced(concernsAll).Create(t.Context(), event.CreateEvent{Object: tt.event}, queue)
			if got := queue.next.Sub(clock.Now()); got != tt.want {
				t.Errorf("the Scanner rests for %s, want %s", got, tt.want)
			}
			want := tt.want
			if want == soon {
				want = urgent
			}
			r.queues.set(scannerName, waitsForSlot)
			queue.next = time.Time{}
			r.paced(concernsAll).Create(t.Context(), event.CreateEvent{Object: tt.event}, queue)
			if got := queue.next.Sub(clock.Now()); got != want {
				t.Errorf("while an image waits for a slot, the Scanner rests for %s, want %s", got, want)
			}
		})
	}
}

func TestRestIsBounded(t *testing.T) {
	tests := map[string]struct {
		took, since        time.Duration
		containers         int
		urgent, soon, calm time.Duration
	}{
		"a slow one of few": {took: time.Second, containers: 100, urgent: maxUrgentRest, soon: maxSoonRest, calm: 100 * time.Millisecond},
		"a short reconcile": {took: time.Millisecond, urgent: 4 * time.Millisecond, soon: 9 * time.Millisecond, calm: 49 * time.Millisecond},
		"a long one":        {took: time.Minute, urgent: maxUrgentRest, soon: maxSoonRest, calm: maxRest},
		"some of the time over": {
			took: 200 * time.Millisecond, since: 300 * time.Millisecond,
			urgent: 100 * time.Millisecond, soon: 1500 * time.Millisecond, calm: 9500 * time.Millisecond,
		},
		"all of it": {took: time.Millisecond, since: time.Second},
	}
	known := podOf("known", imageKey("known").ImageID, 0)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var p pace
			if tt.containers == 0 {
				tt.containers = large
			}
			p.end(scannerName, now.Add(-tt.took), now, &observed{containers: make([]inventory.Container, tt.containers)})
			rest := func(pod *corev1.Pod, waits bool) time.Duration {
				return p.rest(scannerName, pod, waits, now.Add(tt.since))
			}
			got := fmt.Sprint(rest(nil, true), rest(nil, false), rest(known, true), rest(known, false))
			if diff := cmp.Diff(fmt.Sprint(tt.urgent, tt.soon, tt.calm, tt.calm), got); diff != "" {
				t.Errorf("rests (-want +got):\n%s", diff)
			}
			p.forget(scannerName)
			if got := p.rest(scannerName, nil, true, now); got != 0 {
				t.Errorf("a Scanner that was never reconciled rests for %s", got)
			}
		})
	}
}

// TestNodesThatDoNotExist: a pod names its node itself, and anyone who may create pods can name one that never comes.
func TestNodesThatDoNotExist(t *testing.T) {
	const took = 100 * time.Millisecond
	ghost := podOf("ghost", imageKey("new").ImageID, 0)
	ghost.Spec.NodeName = "ghost"
	r, clock, queue := pacedReconciler(t, ghost)
	r.pace.end(scannerName, clock.Now().Add(-took), clock.Now(), nil)
	r.paced(concernsAll).Update(t.Context(), event.UpdateEvent{ObjectOld: ghost, ObjectNew: ghost}, queue)
	if got := queue.next.Sub(clock.Now()); got != restFactor*took {
		t.Errorf("after another event of a pod on a node that is not known, the Scanner rests for %s, want %s", got, restFactor*took)
	}
	reconciles := 0
	for began := clock.Now(); clock.Since(began) < time.Hour; reconciles++ {
		result, _ := reconcileOnce(t, r)
		if reconciles == 0 && result.RequeueAfter != retryNode {
			t.Errorf("the first time, it is looked for again after %s, want %s", result.RequeueAfter, retryNode)
		}
		clock.Step(result.RequeueAfter)
	}
	if most := int(time.Hour/auditInterval) + 8; reconciles > most {
		t.Errorf("%d reconciles in an hour, want at most %d", reconciles, most)
	}
	// Another one is urgent again.
	other := ghost.DeepCopy()
	other.Name, other.Spec.NodeName = "other", "late"
	if !r.pace.lacks(scannerName, other) {
		t.Error("a node that is seen for the first time is not urgent")
	}
}
