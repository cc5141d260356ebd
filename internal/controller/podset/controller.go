// Package podset reconciles PodSets: each keeps a number of identical pods running, as a ReplicaSet does.
//
// Where it differs from a ReplicaSet:
//
//   - The cache only says that there may be something to do. What to do is decided on what the API server says then, so that a cache that
//     lags makes no pod too many, not even after a restart or when the answer to a request was lost. Expectations, with which a ReplicaSet
//     guards against that, know only what their own process wrote and was told of. It costs two reads for each look that changes something.
//   - Pods have fixed names, by slot: of two leaders that both see a pod missing, the second one finds the name taken.
//   - Pods that have ended are removed and replaced. When the pods of a slot end soon one after the other, or are deleted by others as soon
//     as they are made, the pause before the next one grows from 10 seconds to 5 minutes, as a kubelet's between restarts: a pod that cannot
//     live must not be made in a hot loop.
//   - A change of the template replaces the pods, one ready pod at a time, without ever having one more than wanted. A ReplicaSet leaves
//     that to its Deployment; a PodSet has nothing above it.
package podset

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const kind = "PodSet"

// Reconciler reconciles PodSets.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Store    kube.Changes
	Recorder events.EventRecorder
	Clock    clock.PassiveClock

	mu       sync.Mutex
	families map[types.NamespacedName]family
}

// +kubebuilder:rbac:groups=app.example.com,resources=podsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/status,verbs=patch
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one PodSet forward: it finds its pods, deletes and creates some, and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ps := &appv1alpha1.PodSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, ps); apierrors.IsNotFound(err) {
		r.forgetFamily(req.NamespacedName)
		return ctrl.Result{}, kube.TellGone(ctx, r.Store, store.EventPodSetChanged, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	before := ps.DeepCopy()

	next, err := r.reconcile(ctx, ps)
	if errors.Is(err, errStale) {
		// The change that the cache does not show yet will reconcile it.
		return ctrl.Result{}, nil
	}
	if err != nil {
		setFailed(ps, err)
	}
	patchErr := kube.PatchStatus(ctx, r.Client, before, ps)
	if patchErr == nil {
		err = errors.Join(err, kube.TellStatus(ctx, r.Store, store.EventPodSetChanged, req.NamespacedName, ps.Status))
	} else if !apierrors.IsNotFound(patchErr) {
		err = errors.Join(err, patchErr)
	}
	if onlyConflicts(err) {
		return kube.RetryConflict, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// reconcile acts, and sets the status to what is there afterwards. While the PodSet is being deleted, the garbage collector takes its pods,
// and only the status follows. It returns after which time to look again, 0 when only a change needs another look.
func (r *Reconciler) reconcile(ctx context.Context, ps *appv1alpha1.PodSet) (time.Duration, error) {
	template, invalid := Template(ps)
	known := r.familyOf(ps)
	l := &look{replicas: int(ps.Spec.Replicas), now: r.Clock.Now(), noTemplate: invalid != nil, births: known.births, last: known.last}
	if invalid == nil {
		var err error
		if l.hash, err = hashOf(template); err != nil {
			return 0, err
		}
	}
	v, err := r.cached(ctx, ps)
	if err != nil {
		return 0, err
	}
	l.pods = v.owned
	l.last.see(ps, l.pods)
	strays := v.strays(ps)
	if ps.DeletionTimestamp.IsZero() && (l.unsettled() || len(v.orphans)+len(strays) > 0) {
		if err := r.release(ctx, ps, strays); err != nil {
			return 0, err
		}
		if v, err = r.live(ctx, ps); err != nil {
			return 0, err
		}
		if l.pods, err = r.claim(ctx, ps, v); err != nil {
			return 0, err
		}
		l.births.see(l.pods, l.now)
		l.last.see(ps, l.pods)
		err = r.act(ctx, ps, template, l)
	}
	setStatus(ps, l, invalid)
	next := untilDue(l)
	logr.FromContextOrDiscard(ctx).V(1).Info("Reconciled", "available", ps.Status.AvailableReplicas, "next", next)
	return next, err
}

// untilDue is after which time the next vacancy may be filled, 0 when there is none that waits.
func untilDue(l *look) time.Duration {
	var next time.Duration
	for _, v := range missing(l) {
		if wait := v.due.Sub(l.now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// onlyConflicts reports whether there are errors and all of them are conflicts. Most often the cache does not show the last change yet.
// That is no failure.
func onlyConflicts(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // all of them are looked at
		for _, each := range joined.Unwrap() {
			if !onlyConflicts(each) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err)
}

// errStale says that the cache shows an earlier PodSet than there is.
var errStale = errors.New("the cache does not show the last change of the PodSet yet")

// nameOf is how a PodSet is called in errors.
func nameOf(ps *appv1alpha1.PodSet) string {
	return "PodSet " + ps.Namespace + "/" + ps.Name
}
