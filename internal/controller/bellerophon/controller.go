// Package bellerophon reconciles BellerophonSimples: it keeps the StatefulSet, the Service and the disruption budget that each is made of.
package bellerophon

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// retryObstacle is when a shero is reconciled again while something is in its way that only people remove. Objects of others are in no
// cache, so their end is no event.
const retryObstacle = time.Minute

// Reconciler reconciles BellerophonSimples.
type Reconciler struct {
	// Client reads from a cache that holds of StatefulSets, Services and PodDisruptionBudgets those with kube.LabelManagedBy.
	Client client.Client
	// Live asks the API server. That is done before every write: the cache lags, and does not hold the objects of others.
	Live     client.Reader
	Changes  kube.Changes
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes,verbs=list;watch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/status,verbs=patch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one shero to its wanted state and writes into the status how far that is. What a shero leaves behind when it is deleted
// is the garbage collector's.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	shero := &stablev444beta989.BellerophonSimple{}
	if err := r.Client.Get(ctx, req.NamespacedName, shero); apierrors.IsNotFound(err) {
		return ctrl.Result{}, kube.TellGone(ctx, r.Changes, store.EventSheroChanged, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !shero.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := shero.DeepCopy()
	set, err := r.keepAll(ctx, shero)
	if apierrors.IsConflict(err) {
		return kube.RetryConflict, nil
	}
	setStatus(shero, set, err)
	if patchErr := kube.PatchStatus(ctx, r.Client, before, shero); apierrors.IsConflict(patchErr) {
		// Most often the cache does not show the last status yet. That is no failure.
		return kube.RetryConflict, nil
	} else if patchErr != nil {
		return ctrl.Result{}, errors.Join(err, client.IgnoreNotFound(patchErr))
	}
	tellErr := kube.TellStatus(ctx, r.Changes, store.EventSheroChanged, req.NamespacedName, shero.Status)
	if obstacle, ok := errors.AsType[*obstacleError](err); ok {
		logr.FromContextOrDiscard(ctx).V(1).Info("The wanted state cannot be brought about", "reason", obstacle.reason, "message", obstacle.message)
		r.tellObstacle(before, shero, obstacle)
		return ctrl.Result{RequeueAfter: retryObstacle}, tellErr
	}
	return ctrl.Result{}, errors.Join(err, tellErr)
}

// keepAll brings about every object of a shero. It returns the StatefulSet, if there is one that is ours, and the first thing that went wrong.
// The others are looked after all the same, but nothing is made while something is in the way.
func (r *Reconciler) keepAll(ctx context.Context, shero *stablev444beta989.BellerophonSimple) (*appsv1.StatefulSet, error) {
	objects, err := wanted(shero)
	if err != nil {
		return nil, err
	}
	var set *appsv1.StatefulSet
	var failed error
	for _, object := range objects {
		kept, err := r.keep(ctx, shero, object, failed == nil)
		if failed == nil {
			failed = err
		}
		if s, ok := kept.(*appsv1.StatefulSet); ok {
			set = s
		}
	}
	return set, failed
}

// tellObstacle makes an event when something has come into the way.
func (r *Reconciler) tellObstacle(before, after *stablev444beta989.BellerophonSimple, obstacle *obstacleError) {
	known := meta.FindStatusCondition(before.Status.Conditions, stablev444beta989.ConditionReady)
	if !obstacle.warns() || known != nil && known.Reason == obstacle.reason && known.Message == obstacle.message {
		return
	}
	r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, obstacle.reason, actionApply, "%s", cut(obstacle.message, maxNote))
}
