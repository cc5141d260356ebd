package bellerophon

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

const workers = 4

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// A resync of the cache is no change.
	changed := builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("bellerophonsimple").
		For(&stablev444beta989.BellerophonSimple{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.StatefulSet{}, handler.EnqueueRequestsFromMapFunc(namesake), changed).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(namesake), changed).
		Watches(&policyv1.PodDisruptionBudget{}, handler.EnqueueRequestsFromMapFunc(namesake), changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// namesake returns the shero of the same name. Owners do not say it better: an object that was taken from us, or whose shero was deleted
// and made again, matters as well.
func namesake(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}
