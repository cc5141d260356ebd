// Package exceptions applies ClusterVulnerabilityExceptions: it keeps the decisions of the store equal to them, ends those whose time is over, and
// writes into their status what they match.
package exceptions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/model"
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

// Reconciler reconciles all ClusterVulnerabilityExceptions at once: the store takes a complete list. NewReconciler makes one.
type Reconciler struct {
	// TrustAuthors takes the authors of decisions from an annotation of the exceptions. Without an admission policy, anybody could name others there.
	TrustAuthors bool

	client client.Client
	store  store.Decisions
	clock  clock.PassiveClock

	patches *rate.Limiter
	// counts are the last ones of each exception that applies, and countedAt is when all were counted.
	counts    map[types.UID]count
	countedAt time.Time
}

// count is what an exception matched in one of its generations.
type count struct {
	generation int64
	store.DecisionCount
}

// NewReconciler returns a Reconciler that reads exceptions from a cache.
func NewReconciler(c client.Client, decisions store.Decisions, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		client: c, store: decisions, clock: now, patches: rate.NewLimiter(patchesPerSecond, patchesPerSecond), counts: map[types.UID]count{},
	}
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=clustervulnerabilityexceptions,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=clustervulnerabilityexceptions/status,verbs=patch

// Reconcile applies all exceptions that exist, and none besides.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	exceptions, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	next, err := r.store.ExpireDecisions(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("end the exceptions that have expired: %w", err)
	}
	problems, err := r.store.SyncDecisions(ctx, store.DecisionSourceKubernetes, r.decisions(exceptions))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the exceptions: %w", err)
	}
	recount, err := r.count(ctx, exceptions, problems)
	if err != nil {
		return ctrl.Result{}, err
	}
	written, err := r.writeStatuses(ctx, exceptions, problems)
	if err != nil {
		return ctrl.Result{}, err
	}
	wait := min(resync, recount)
	if !written {
		wait = time.Second
	}
	for _, end := range append(r.ends(exceptions), next) {
		if left := end.Sub(r.clock.Now()); !end.IsZero() && left < wait {
			wait = left
		}
	}
	return ctrl.Result{RequeueAfter: max(soonest, wait)}, nil
}

// list returns the exceptions that are not being deleted, the oldest first: it has precedence when there are too many.
func (r *Reconciler) list(ctx context.Context) ([]scannerv1alpha1.ClusterVulnerabilityException, error) {
	var list scannerv1alpha1.ClusterVulnerabilityExceptionList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the ClusterVulnerabilityExceptions: %w", err)
	}
	exceptions := slices.DeleteFunc(list.Items, func(e scannerv1alpha1.ClusterVulnerabilityException) bool { return !e.DeletionTimestamp.IsZero() })
	slices.SortFunc(exceptions, func(a, b scannerv1alpha1.ClusterVulnerabilityException) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return exceptions, nil
}

func (r *Reconciler) decisions(exceptions []scannerv1alpha1.ClusterVulnerabilityException) []store.Decision {
	all := make([]store.Decision, 0, len(exceptions))
	for i := range exceptions {
		spec := &exceptions[i].Spec
		decision := store.Decision{
			Object: objectOf(&exceptions[i]), Vulnerabilities: spec.Match.Vulnerabilities, Packages: spec.Match.Packages, Images: spec.Match.Images,
			Status: model.DecisionStatus(spec.Status), Justification: string(spec.Justification), Comment: spec.Comment,
			Unfixed: spec.ExpireWhenFixed, DryRun: spec.Mode == scannerv1alpha1.ModeDryRun,
			Author: r.authorOf(&exceptions[i]),
		}
		if spec.ExpiresAt != nil {
			decision.ExpiresAt = spec.ExpiresAt.Time
			if decision.ExpiresAt.IsZero() {
				// It is an end like any other, and not none.
				decision.ExpiresAt = time.Unix(0, 0)
			}
		}
		all = append(all, decision)
	}
	return all
}

func objectOf(exception *scannerv1alpha1.ClusterVulnerabilityException) store.DecisionObject {
	return store.DecisionObject{Kind: kube.KindClusterVulnerabilityException.Kind, Name: exception.Name}
}

// ends returns when exceptions end, but for those that have ended.
func (r *Reconciler) ends(exceptions []scannerv1alpha1.ClusterVulnerabilityException) []time.Time {
	var all []time.Time
	for i := range exceptions {
		if end := exceptions[i].Spec.ExpiresAt; end != nil && end.After(r.clock.Now()) {
			all = append(all, end.Time)
		}
	}
	return all
}

// count counts the findings of exceptions: of all of them if that is due, otherwise of those only that were not counted in their generation. It
// returns when to count all.
func (r *Reconciler) count(
	ctx context.Context, exceptions []scannerv1alpha1.ClusterVulnerabilityException, problems map[store.DecisionObject]store.DecisionProblem,
) (time.Duration, error) {
	left := r.countedAt.Add(countEvery).Sub(r.clock.Now())
	uncounted := func(e scannerv1alpha1.ClusterVulnerabilityException) bool {
		_, problem := problems[objectOf(&e)]
		return !problem && r.counts[e.UID].generation != e.Generation
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
		e := &exceptions[i]
		if found, applies := counted[objectOf(e)]; applies {
			counts[e.UID] = count{e.Generation, found}
		}
		if left > 0 && !uncounted(*e) {
			counts[e.UID] = r.counts[e.UID]
		}
	}
	r.counts = counts
	if left > 0 {
		return left, nil
	}
	r.countedAt = r.clock.Now()
	return resync, nil
}
