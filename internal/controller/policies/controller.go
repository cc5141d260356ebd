// Package policies applies VulnerabilityPolicies: it keeps the policies of the store equal to them, lets the store tell of dates that have passed, and
// writes into their status what is due.
package policies

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
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
	// countEvery is how often findings are counted at most.
	countEvery = time.Minute
	// patchesPerSecond is how many statuses are written in a second at most.
	patchesPerSecond = 20
	// restFactor is how many times longer than telling of dates takes the controller rests before the next date.
	restFactor = 20
)

// Store is what the controller needs of the store.
type Store interface {
	store.Policies
	ListPolicies(ctx context.Context, in store.Namespaces) ([]store.PolicySummary, error)
}

// Reconciler reconciles all VulnerabilityPolicies at once: the store takes a complete list. NewReconciler makes one.
type Reconciler struct {
	// Places resolves where policies apply.
	Places places.Tracker

	client client.Client
	store  Store
	clock  clock.PassiveClock

	statuses *kube.StatusWriter
	// counts are the last ones of each policy, and countedAt is when they were made.
	counts    map[types.UID]count
	countedAt time.Time
	// due is when the next reconcile has something else to do than to look at places, and rested until when it tells of no dates because places have changed.
	due, rested time.Time
}

// count is what was due because of a policy in one of its generations.
type count struct {
	generation   int64
	due, overdue int
}

// NewReconciler returns a Reconciler that reads policies, namespaces and pods from a cache.
func NewReconciler(c client.Client, policies Store, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		Places: places.Tracker{Reader: c},
		client: c, store: policies, clock: now, statuses: kube.NewStatusWriter(c, patchesPerSecond, now), counts: map[types.UID]count{},
	}
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=vulnerabilitypolicies,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=vulnerabilitypolicies/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces;pods,verbs=list;watch

// Reconcile applies all policies that exist, and none besides, and tells of the dates that have passed. After an event of a pod or a namespace it does so only
// if places have changed.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	policies, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	planned, err := r.plan(ctx, policies)
	if err != nil {
		return ctrl.Result{}, err
	}
	untilDue := r.due.Sub(r.clock.Now())
	waiting := request == places.Changed && untilDue > 0
	if waiting && !planned.places.Changed {
		return ctrl.Result{RequeueAfter: untilDue}, nil // The event has taken the place of what waited in the queue.
	}
	// After an error, everything is due.
	r.due = time.Time{}
	problems, err := r.apply(ctx, planned)
	if err != nil {
		return ctrl.Result{}, err
	}
	if rest := r.rested.Sub(r.clock.Now()); waiting && rest > 0 {
		r.due = r.rested
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	began := r.clock.Now()
	next, err := r.store.RecordOverdue(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("report overdue findings: %w", err)
	}
	rest := restFactor * r.clock.Since(began)
	r.rested = r.clock.Now().Add(rest)
	recount, err := r.count(ctx, policies, problems)
	if err != nil {
		return ctrl.Result{}, err
	}
	left := r.writeStatuses(ctx, policies, problems)
	wait := min(resync, recount)
	if !next.IsZero() {
		wait = min(wait, max(next.Sub(r.clock.Now()), rest))
	}
	if left > 0 {
		wait = min(wait, left)
	}
	wait = max(soonest, wait)
	r.due = r.clock.Now().Add(wait)
	return ctrl.Result{RequeueAfter: wait}, nil
}

// list returns the policies that are not being deleted, the oldest first: it has precedence when there are too many.
func (r *Reconciler) list(ctx context.Context) ([]scannerv1alpha1.VulnerabilityPolicy, error) {
	var list scannerv1alpha1.VulnerabilityPolicyList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the VulnerabilityPolicies: %w", err)
	}
	policies := slices.DeleteFunc(list.Items, func(p scannerv1alpha1.VulnerabilityPolicy) bool { return !p.DeletionTimestamp.IsZero() })
	slices.SortFunc(policies, func(a, b scannerv1alpha1.VulnerabilityPolicy) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return policies, nil
}

// count counts what is due, if that is due or if a policy was not counted in its generation. It returns when to count again.
func (r *Reconciler) count(
	ctx context.Context, policies []scannerv1alpha1.VulnerabilityPolicy, problems map[string]store.PolicyProblem,
) (time.Duration, error) {
	left := r.countedAt.Add(countEvery).Sub(r.clock.Now())
	uncounted := func(p scannerv1alpha1.VulnerabilityPolicy) bool {
		return applies(problems[p.Name]) && r.counts[p.UID].generation != p.Generation
	}
	if left > 0 && !slices.ContainsFunc(policies, uncounted) {
		return left, nil
	}
	summaries, err := r.store.ListPolicies(ctx, store.AllNamespaces())
	if err != nil {
		return 0, fmt.Errorf("count what is due: %w", err)
	}
	counted := make(map[string]store.PolicySummary, len(summaries))
	for _, summary := range summaries {
		counted[summary.Name] = summary
	}
	r.counts = make(map[types.UID]count, len(policies))
	for i := range policies {
		if summary, found := counted[policies[i].Name]; found {
			r.counts[policies[i].UID] = count{policies[i].Generation, summary.Due.Total(), summary.Overdue.Total()}
		}
	}
	r.countedAt = r.clock.Now()
	return resync, nil
}

// applies reports whether a policy with this problem, or without one, applies.
func applies(problem store.PolicyProblem) bool {
	return problem.Reason == "" || problem.Reason == store.PolicyEvaluationFailed
}
