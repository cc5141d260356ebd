package scanner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// newPodsDelay is the time for which pods are collected before their scans are started together.
	newPodsDelay = 50 * time.Millisecond
	// maxNewPods is the maximum number of pods that wait for that, per Scanner. The next reconcile starts the scans of others.
	maxNewPods = 100
)

// newPods are pods with images that the last reconcile of a Scanner did not find. A reconcile reads all pods, which takes long in a large cluster: a
// controller of its own, which runs beside it, starts the scans of these pods. The zero value is ready.
type newPods struct {
	mu sync.Mutex
	// waiting are the pods whose scans are to be started, by Scanner.
	waiting map[types.NamespacedName]map[types.NamespacedName]bool
	// rested is when scans may be started again.
	rested time.Time

	// deciding is held while scans are planned, so that both controllers count the same slots.
	deciding sync.Mutex
	// uses and attempts are what was recorded and started since the last reconcile began, which may not have seen it; starting are the attempts that are being
	// started.
	uses               map[types.NamespacedName][]store.Use
	attempts, starting map[string]Attempt
}

// begin notes that a reconcile begins, of any Scanner: one runs at a time. It will see what was done before.
func (n *newPods) begin() {
	n.deciding.Lock()
	defer n.deciding.Unlock()
	n.uses, n.attempts = map[types.NamespacedName][]store.Use{}, map[string]Attempt{}
}

// addAttempts adds the attempts to what was observed that were started since, or are being started.
func (n *newPods) addAttempts(v *observed) {
	for _, attempts := range []map[string]Attempt{n.attempts, n.starting} {
		for _, name := range slices.Sorted(maps.Keys(attempts)) {
			if _, known := v.attempts[name]; !known {
				v.attempts[name] = attempts[name]
				v.active = append(v.active, attempts[name])
			}
		}
	}
}

// start notes attempts that are about to be started. The caller holds deciding.
func (n *newPods) start(planned []scanjob.Request, now time.Time) {
	if n.starting == nil {
		n.starting = map[string]Attempt{}
	}
	for i := range planned {
		n.starting[planned[i].Name] = begun(&planned[i], now)
	}
}

// started notes that no more of them are. unseen are those that were started beside a reconcile, which may have read the attempts before.
func (n *newPods) started(planned, unseen []scanjob.Request, now time.Time) {
	n.deciding.Lock()
	defer n.deciding.Unlock()
	for i := range planned {
		delete(n.starting, planned[i].Name)
	}
	for i := range unseen {
		n.attempts[unseen[i].Name] = begun(&unseen[i], now)
	}
}

// add has a pod wait, and returns for how long; false if too many do.
func (n *newPods) add(scanner, pod types.NamespacedName, now time.Time) (time.Duration, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[types.NamespacedName]map[types.NamespacedName]bool{}
	}
	if n.waiting[scanner] == nil {
		n.waiting[scanner] = map[types.NamespacedName]bool{}
	}
	if len(n.waiting[scanner]) >= maxNewPods {
		return 0, false
	}
	n.waiting[scanner][pod] = true
	return max(newPodsDelay, n.rested.Sub(now)), true
}

// take returns the pods that wait.
func (n *newPods) take(scanner types.NamespacedName) []types.NamespacedName {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods := slices.Collect(maps.Keys(n.waiting[scanner]))
	delete(n.waiting, scanner)
	return pods
}

// rest has the next pods wait for a multiple of the time since began.
func (n *newPods) rest(began, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rested = now.Add(min(urgentRestFactor*now.Sub(began), maxUrgentRest))
}

// lacking queues the Scanners that lack an image of a pod.
func (r *Reconciler) lacking() handler.EventHandler {
	queue := func(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		pod, isPod := obj.(*corev1.Pod)
		if !isPod {
			return
		}
		lacks := func(s *scannerv1.Scanner) bool {
			return concernsPod(s, pod) && r.pace.lacks(client.ObjectKeyFromObject(s), pod)
		}
		for _, request := range r.scanners(ctx, lacks) {
			if after, added := r.newPods.add(request.NamespacedName, client.ObjectKeyFromObject(pod), r.Clock.Now()); added {
				q.AddAfter(request, after)
			}
		}
	}
	events := onEvents(queue)
	events.DeleteFunc, events.GenericFunc = nil, nil // No scan is wanted after them.
	return events
}

// startNew starts the scans of the pods that wait. Those that it fails to start are started by the next reconcile of the Scanner, which reports the error. The
// reconcile for which the events of these pods ask may be over: it counted these scans as about to start.
func (r *Reconciler) startNew(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pods := r.newPods.take(req.NamespacedName)
	scanner := &scannerv1.Scanner{}
	if err := r.Client.Get(ctx, req.NamespacedName, scanner); apierrors.IsNotFound(err) || err == nil && !scanner.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	began := r.Clock.Now()
	all, err := r.startScans(ctx, scanner, pods)
	if err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("Failed to start the scans of new pods; the next reconcile starts them", "error", err.Error())
	}
	now := r.Clock.Now()
	if !all {
		r.reconciles.AddAfter(req, max(retryRefused, r.pace.rest(req.NamespacedName, nil, r.queues.waits(req.NamespacedName), now)))
	}
	r.newPods.rest(began, now)
	return ctrl.Result{}, nil
}

// startScans starts the scans of images that pods of a Scanner run. It leaves those to a reconcile that need a slot for which other images of the Scanner wait:
// a reconcile knows these. It reports whether all others were started.
func (r *Reconciler) startScans(ctx context.Context, scanner *scannerv1.Scanner, pods []types.NamespacedName) (all bool, err error) {
	v, plan, err := r.planNew(ctx, scanner, pods)
	if err != nil || len(plan.start) == 0 {
		return err == nil, err
	}
	planned := plan.start
	defer func() { r.newPods.started(planned, plan.start, r.Clock.Now()) }()
	err = r.startAll(ctx, scanner, v, &plan)
	return len(plan.start) == len(planned), err
}

// planNew plans the scans of startScans.
func (r *Reconciler) planNew(ctx context.Context, scanner *scannerv1.Scanner, pods []types.NamespacedName) (*observed, plan, error) {
	name := client.ObjectKeyFromObject(scanner)
	r.newPods.deciding.Lock()
	defer r.newPods.deciding.Unlock()
	if r.queues.waitsFor(name, limitOfScanner(name), limitOperator) {
		return nil, plan{}, nil
	}
	v, err := r.observe(ctx, scanner, r.podsNamed(pods))
	if err != nil {
		return nil, plan{}, err
	}
	uses := v.uses()
	if len(uses) == 0 {
		return nil, plan{}, nil
	}
	if err := r.Store.AddUses(ctx, scopeOf(name), uses); err != nil {
		return nil, plan{}, fmt.Errorf("record the uses of images: %w", err)
	}
	if r.newPods.uses == nil {
		r.newPods.uses, r.newPods.attempts = map[types.NamespacedName][]store.Use{}, map[string]Attempt{}
	}
	r.newPods.uses[name] = append(r.newPods.uses[name], uses...)
	r.newPods.addAttempts(v)
	now := r.Clock.Now()
	plan := makePlan(scanner, v, r.Limits, Recatalog{}, now)
	plan.start = slices.DeleteFunc(plan.start, func(start scanjob.Request) bool {
		return start.Key == plan.again || v.waitsFor(start.Namespace) || r.queues.waitsFor(name, limitsOf(&start)...)
	})
	plan.hurried = true // Other pods wait meanwhile.
	r.newPods.start(plan.start, now)
	return v, plan, nil
}

// limitsOf lists the limits of a start that others may need, too, without those of all scans of its Scanner.
func limitsOf(start *scanjob.Request) []limit {
	if start.Volume == nil {
		return []limit{limitOfRegistry(start.Key.Registry())}
	}
	var limits []limit
	for _, host := range start.Volume.Nodes {
		limits = append(limits, limitOfNode(host))
	}
	return limits
}

// podsNamed returns a podLister of some pods. Those that are gone are left out.
func (r *Reconciler) podsNamed(names []types.NamespacedName) podLister {
	return func(ctx context.Context, within scope, read inventory.Options) ([]podContainers, error) {
		var pods []podContainers
		for _, name := range names {
			if !within.namespaces[name.Namespace] {
				continue
			}
			pod := &corev1.Pod{}
			if err := r.Client.Get(ctx, name, pod, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("read a pod: %w", err)
			}
			if found := inventory.Containers(pod, read); len(found) > 0 {
				pods = append(pods, podContainers{pod.CreationTimestamp, found, r.ownerOf(ctx, "Pod", pod), inventory.Omitted(pod, found)})
			}
		}
		return pods, nil
	}
}

// begun returns an attempt as it is when it has just been started.
func begun(start *scanjob.Request, now time.Time) Attempt {
	attempt := Attempt{
		Key: start.Key, ScannerUID: start.ScannerUID, SizeClass: start.SizeClass, Namespace: start.Namespace, For: start.For, JobSpec: start.JobSpec,
		Created: now, Volume: start.Volume != nil,
	}
	if start.Volume != nil {
		attempt.Hosts = start.Volume.Nodes
	}
	return attempt
}
