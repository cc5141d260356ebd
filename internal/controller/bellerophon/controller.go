// Package bellerophon reconciles BellerophonSimples: it applies the StatefulSet, the Service and the PodDisruptionBudget of each.
package bellerophon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// retryBlocked is when a shero is reconciled again while a user has to act. The cache does not hold the objects of other owners, so their deletion
// is no event.
const retryBlocked = time.Minute

// retryRefused is when a shero is reconciled again after the API server rejected an object of its current spec for the first time: the admission
// policies compare the object with the shero, and the API server that evaluates them may see a change of the spec later than the operator.
const retryRefused = time.Second

// Reconciler reconciles BellerophonSimples.
type Reconciler struct {
	// Client reads from the cache, which holds the StatefulSets, Services and PodDisruptionBudgets with kube.LabelManagedBy, and all pods.
	Client client.Client
	// Live reads from the API server, before every write: the cache may be stale, and does not hold the objects of other owners.
	Live     client.Reader
	Changes  kube.ChangeRecorder
	Metrics  kube.ObjectMetrics
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes,verbs=list;watch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/status,verbs=patch
// +kubebuilder:rbac:groups=stable.simple-bellerophon.io,resources=sheroes/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile applies the objects of one shero and writes its status. When a shero is deleted, the garbage collector deletes its objects.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reporter := kube.Reporter{Kind: kube.KindBellerophonSimple, Client: r.Client, Changes: r.Changes, Metrics: r.Metrics}
	shero := &stablev444beta989.BellerophonSimple{}
	if err := r.Client.Get(ctx, req.NamespacedName, shero); apierrors.IsNotFound(err) {
		return reporter.ReportDeletion(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !shero.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := shero.DeepCopy()
	set, err := r.applyAll(ctx, shero)
	pods, podsErr := r.failingPods(ctx, shero, set)
	err = errors.Join(err, podsErr)
	if !kube.IsConflict(err) {
		setStatus(shero, set, pods, err)
	}
	outcome := kube.Outcome{Before: before, After: shero, Status: shero.Status, Err: err}
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		logr.FromContextOrDiscard(ctx).V(1).Info("Blocked", "reason", blocked.reason, "message", blocked.message)
		// An error would retry earlier, which does not help.
		outcome.Err, outcome.RequeueAfter = podsErr, retryBlocked
		if blocked.reason == stablev444beta989.ReasonRefused && before.Status.ObservedGeneration != before.Generation {
			outcome.RequeueAfter = retryRefused
		}
		outcome.Written = func() { r.warn(before, shero, blocked) }
	}
	return reporter.Report(ctx, outcome)
}

// applyAll applies every object of a shero. It returns the StatefulSet, if there is one that the shero controls, and the first error. After an error
// it still updates the other objects, but creates none.
func (r *Reconciler) applyAll(ctx context.Context, shero *stablev444beta989.BellerophonSimple) (*appsv1.StatefulSet, error) {
	objects, err := desired(shero)
	if err != nil {
		return nil, err
	}
	var set *appsv1.StatefulSet
	var failed error
	for _, object := range objects {
		observed, err := r.reconcileObject(ctx, shero, object, failed == nil)
		if failed == nil {
			failed = err
		}
		if s, ok := observed.(*appsv1.StatefulSet); ok {
			set = s
		}
	}
	return set, failed
}

// failingPods lists the pods of a StatefulSet from the cache, unless all of its pods are ready.
func (r *Reconciler) failingPods(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet,
) ([]*corev1.Pod, error) {
	if set == nil || set.Status.ReadyReplicas >= set.Status.Replicas {
		return nil, nil
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(shero.Namespace), client.MatchingLabels(selector(shero))); err != nil {
		return nil, fmt.Errorf("list the pods of StatefulSet %s: %w", set.Name, err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; metav1.IsControlledBy(pod, set) && pod.DeletionTimestamp.IsZero() {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// warn creates an Event when a user has to act for a new reason.
func (r *Reconciler) warn(before, after *stablev444beta989.BellerophonSimple, blocked *blockedError) {
	known := meta.FindStatusCondition(before.Status.Conditions, stablev444beta989.ConditionReady)
	if !blocked.needsUser() || known != nil && known.Reason == blocked.reason && known.Message == blocked.message {
		return
	}
	r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, blocked.reason, actionApply, "%s", truncate.Ellipsis(blocked.message, kube.MaxNote))
}
