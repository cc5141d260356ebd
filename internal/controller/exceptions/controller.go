// Package exceptions applies VulnerabilityExceptions and ClusterVulnerabilityExceptions: it keeps the decisions of the store equal to them, ends those
// whose time is over, and writes into their status what they match.
package exceptions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// How often something is done.
const (
	// resync is the longest time between two reconciles.
	resync = 5 * time.Minute
	// soonest is the shortest time until the next reconcile.
	soonest = 100 * time.Millisecond
	// countEvery is how often the findings of an exception are counted at most.
	countEvery = time.Minute
	// patchesPerSecond is how many statuses are written in a second at most.
	patchesPerSecond = 20
)

// Reconciler reconciles all exceptions at once: the store takes a complete list. NewReconciler makes one.
type Reconciler struct {
	// TrustAuthors takes the authors of decisions from an annotation of the exceptions. Without an admission policy, anybody could name others there.
	TrustAuthors bool
	// Places resolves where exceptions apply.
	Places places.Tracker
	// Refused takes the number of exceptions that the store is not asked to apply, by reason; nil ignores it.
	Refused func(map[store.DecisionReason]int)
	// Moved is called when exceptions apply in other places than before, which changes counts without an event. It may be nil.
	Moved func()

	client client.Client
	store  store.Decisions
	clock  clock.PassiveClock

	statuses *kube.StatusWriter
	// counts are the last ones of each exception that applies, and countedAt is when all were counted.
	counts    map[types.UID]count
	countedAt time.Time
	// due is when the next reconcile has something else to do than to look at places.
	due time.Time
}

// count is what an exception matched in one of its generations.
type count struct {
	generation int64
	store.DecisionCount
}

// NewReconciler returns a Reconciler that reads exceptions, namespaces and pods from a cache.
func NewReconciler(c client.Client, decisions store.Decisions, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		Places: places.Tracker{Reader: c},
		client: c, store: decisions, clock: now, statuses: kube.NewStatusWriter(c, patchesPerSecond, now), counts: map[types.UID]count{},
	}
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=clustervulnerabilityexceptions;vulnerabilityexceptions,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=clustervulnerabilityexceptions/status;vulnerabilityexceptions/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces;pods,verbs=list;watch

// Reconcile applies all exceptions that exist, and none besides. After an event of a pod or a namespace it does so only if places have changed.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	exceptions, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	planned, err := r.plan(ctx, exceptions)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait := r.due.Sub(r.clock.Now()); request == places.Changed && !planned.places.Changed && wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // The event has taken the place of what waited in the queue.
	}
	// After an error, everything is due.
	r.due = time.Time{}
	next, err := r.store.ExpireDecisions(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("end the exceptions that have expired: %w", err)
	}
	problems, err := r.apply(ctx, planned)
	if err != nil {
		return ctrl.Result{}, err
	}
	recount, err := r.count(ctx, exceptions, problems)
	if err != nil {
		return ctrl.Result{}, err
	}
	wait := min(resync, recount)
	if left := r.writeStatuses(ctx, exceptions, problems); left > 0 {
		wait = min(wait, left)
	}
	for _, end := range append(r.ends(exceptions), next) {
		if left := end.Sub(r.clock.Now()); !end.IsZero() && left < wait {
			wait = left
		}
	}
	wait = max(soonest, wait)
	r.due = r.clock.Now().Add(wait)
	return ctrl.Result{RequeueAfter: wait}, nil
}

// apply makes the decisions of a plan those that apply. It returns why exceptions are not in effect.
func (r *Reconciler) apply(ctx context.Context, planned plan) (map[store.DecisionObject]store.DecisionProblem, error) {
	problems, err := r.store.SyncDecisions(ctx, store.DecisionSourceKubernetes, slices.Concat(planned.decisions, planned.refused))
	if err != nil {
		return nil, fmt.Errorf("apply the exceptions: %w", err)
	}
	r.Places.Keep(planned.places)
	if planned.places.Changed && r.Moved != nil {
		r.Moved()
	}
	refused := map[store.DecisionReason]int{}
	for _, problem := range planned.problems {
		refused[problem.Reason]++
	}
	if r.Refused != nil {
		r.Refused(refused)
	}
	all := maps.Clone(planned.problems)
	maps.Copy(all, problems)
	return all, nil
}

// ends returns when exceptions end, but for those that have ended, or whose end cannot be read.
func (r *Reconciler) ends(exceptions []exception) []time.Time {
	var all []time.Time
	for i := range exceptions {
		if end, err := exceptions[i].spec.End(); err == nil && end.After(r.clock.Now()) {
			all = append(all, end)
		}
	}
	return all
}

// count counts the findings of exceptions: of all of them if that is due, otherwise of those only that were not counted in their generation. It
// returns when to count all.
func (r *Reconciler) count(
	ctx context.Context, exceptions []exception, problems map[store.DecisionObject]store.DecisionProblem,
) (time.Duration, error) {
	left := r.countedAt.Add(countEvery).Sub(r.clock.Now())
	uncounted := func(e exception) bool {
		_, problem := problems[e.name()]
		return !problem && r.counts[e.GetUID()].generation != e.GetGeneration()
	}
	if left > 0 && !slices.ContainsFunc(exceptions, uncounted) {
		return left, nil
	}
	counted, err := r.store.DecisionCounts(ctx, store.AllNamespaces(), store.DecisionSourceKubernetes)
	if err != nil {
		return 0, fmt.Errorf("count the findings of the exceptions: %w", err)
	}
	counts := make(map[types.UID]count, len(counted))
	for i := range exceptions {
		e := exceptions[i]
		if found, applies := counted[e.name()]; applies {
			counts[e.GetUID()] = count{e.GetGeneration(), found}
		}
		if left > 0 && !uncounted(e) {
			counts[e.GetUID()] = r.counts[e.GetUID()]
		}
	}
	r.counts = counts
	if left > 0 {
		return left, nil
	}
	r.countedAt = r.clock.Now()
	return resync, nil
}
