package scanner

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// A reconcile reads all pods in the scope of a Scanner, so that it takes longer the more there are. After it the Scanner rests for a multiple of
// that time, and the events of that time make one reconcile.
const (
	// Events that start no scan, such as another replica of what runs already, take 1/50 of the time. That is some 3 % of a core: garbage
	// collection runs beside reconciles.
	restFactor = 49
	maxRest    = 20 * time.Second
	// A slow machine or SQL database does not delay a small Scanner, whose reconciles cost little.
	restPerContainer = time.Millisecond
	// While images wait for a slot, events that may free one are soon followed by a reconcile.
	urgentRestFactor = 4
	maxUrgentRest    = 400 * time.Millisecond
	// If none waits, the scans of new pods start without a reconcile, which only records and reports what they and other scans did.
	soonRestFactor = 9
	maxSoonRest    = 2 * time.Second
)

// pace knows when each Scanner was reconciled last, and what it found. The zero value is ready.
type pace struct {
	mu     sync.Mutex
	rounds map[types.NamespacedName]round
}

// round is a reconcile of a Scanner, and when the next one began, if that is under way.
type round struct {
	began time.Time
	ended time.Time
	took  time.Duration
	// containers is the number of containers that it read.
	containers int
	found      found
}

// found is what a reconcile found in the cluster. It is not modified afterwards.
type found struct {
	namespaces map[string]bool
	images     map[model.ImageKey]bool
	read       inventory.Options
	reads      readable
	// ghosts has when nodes were first missed that pods name and that are not known.
	ghosts map[string]time.Time
}

// lacks reports whether a pod runs an image to catalog that was not found, or names a node that is not known for the first time. A node may be known soon;
// one that pods named before may never be.
func (f *found) lacks(pod *corev1.Pod) bool {
	if !f.namespaces[pod.Namespace] {
		return false
	}
	containers := inventory.Containers(pod, f.read)
	for i := range containers {
		if c := &containers[i]; (c.NodeUnknown && f.ghosts[c.Node].IsZero()) || !f.images[c.Key] && f.reads.image(c) {
			return true
		}
	}
	return false
}

// lacks reports whether a pod runs something that the last reconcile of a Scanner did not find. Nothing is lacking before the first one.
func (p *pace) lacks(scanner types.NamespacedName, pod *corev1.Pod) bool {
	p.mu.Lock()
	last := p.rounds[scanner]
	p.mu.Unlock()
	return last.found.lacks(pod)
}

// ghosts returns the nodes that containers name and that are not known, with the time when they were first missed.
func (p *pace) ghosts(scanner types.NamespacedName, containers []inventory.Container, now time.Time) map[string]time.Time {
	p.mu.Lock()
	before := p.rounds[scanner].found.ghosts
	p.mu.Unlock()
	missed := map[string]time.Time{}
	for i := range containers {
		name := containers[i].Node
		if !containers[i].NodeUnknown || !missed[name].IsZero() {
			continue
		}
		if missed[name] = before[name]; missed[name].IsZero() {
			missed[name] = now
		}
	}
	return missed
}

// begin notes that a reconcile begins.
func (p *pace) begin(scanner types.NamespacedName, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, known := p.rounds[scanner]; known {
		last.began = began
		p.rounds[scanner] = last
	}
}

// end notes the end of a reconcile and what it observed. If it failed before, that is nil, and what the one before found stands.
func (p *pace) end(scanner types.NamespacedName, began, ended time.Time, v *observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rounds == nil {
		p.rounds = map[types.NamespacedName]round{}
	}
	last := p.rounds[scanner]
	last.began, last.ended, last.took = time.Time{}, ended, ended.Sub(began)
	if v != nil {
		last.found, last.containers = v.found, len(v.containers)
	}
	p.rounds[scanner] = last
}

func (p *pace) forget(scanner types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.rounds, scanner)
}

// rest returns how long a Scanner rests from now on, because of a pod, or nil for another event that concerns scans. A pod that runs something new
// concerns scans, too. waits says whether images wait for a slot.
func (p *pace) rest(scanner types.NamespacedName, pod *corev1.Pod, waits bool, now time.Time) time.Duration {
	p.mu.Lock()
	last, known := p.rounds[scanner]
	p.mu.Unlock()
	if !known {
		return 0
	}
	rest := min(soonRestFactor*last.took, maxSoonRest)
	switch {
	case pod != nil && !last.found.lacks(pod):
		rest = min(restFactor*last.took, time.Duration(last.containers)*restPerContainer, maxRest)
	case waits:
		rest = min(urgentRestFactor*last.took, maxUrgentRest)
	}
	if !last.began.IsZero() {
		// It rests after the reconcile that is under way, too, which takes about as long as the last one.
		last.ended = last.began.Add(last.took)
		if last.ended.Before(now) {
			last.ended = now
		}
	}
	return max(0, last.ended.Add(rest).Sub(now))
}

// paced queues the Scanners that an event concerns, each for the end of its rest. What is queued already stays queued for the earlier time.
func (r *Reconciler) paced(concerned func(*scannerv1.Scanner, client.Object) bool) handler.EventHandler {
	queue := func(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		pod, _ := obj.(*corev1.Pod)
		if pod != nil && r.Cataloger.Made(pod) {
			pod = nil // A scan.
		}
		if _, deployment := obj.(*appsv1.Deployment); deployment {
			pod = &corev1.Pod{} // No scan waits for it.
		}
		for _, request := range r.scanners(ctx, func(s *scannerv1.Scanner) bool { return concerned(s, obj) }) {
			q.AddAfter(request, r.pace.rest(request.NamespacedName, pod, r.queues.waits(request.NamespacedName), r.Clock.Now()))
		}
	}
	return onEvents(queue)
}

// onEvents calls queue with the object of each event, that of an update as it is now.
func onEvents(queue func(context.Context, client.Object, workqueue.TypedRateLimitingInterface[reconcile.Request])) handler.Funcs {
	type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc:  func(ctx context.Context, e event.CreateEvent, q requests) { queue(ctx, e.Object, q) },
		UpdateFunc:  func(ctx context.Context, e event.UpdateEvent, q requests) { queue(ctx, e.ObjectNew, q) },
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q requests) { queue(ctx, e.Object, q) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q requests) { queue(ctx, e.Object, q) },
	}
}

// The Scanners that an event concerns.
func concernsAll(*scannerv1.Scanner, client.Object) bool { return true }

func concernsSelecting(s *scannerv1.Scanner, _ client.Object) bool {
	return s.Spec.NamespaceSelector != nil
}

func concernsNamespace(s *scannerv1.Scanner, namespace client.Object) bool {
	return s.Namespace == namespace.GetName() || s.Spec.NamespaceSelector != nil
}

func concernsPod(s *scannerv1.Scanner, pod client.Object) bool {
	return s.Namespace == pod.GetNamespace() || s.Spec.NamespaceSelector != nil
}
