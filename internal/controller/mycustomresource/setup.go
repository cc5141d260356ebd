package mycustomresource

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// The indexes of the cache: pods by name, and MyCustomResources by the name of their friend.
const (
	podsByName      = "metadata.name"
	resourcesByName = "spec.name"
)

const workers = 4

// SetupWithManager adds the indexes to the manager's cache and registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// The context is not used after the registration.
	ctx, indexer := context.Background(), mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &corev1.Pod{}, podsByName, podName); err != nil {
		return fmt.Errorf("index pods by name: %w", err)
	}
	if err := indexer.IndexField(ctx, &pocv1.MyCustomResource{}, resourcesByName, friendName); err != nil {
		return fmt.Errorf("index MyCustomResources by the name of their friend: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("mycustomresource").
		For(&pocv1.MyCustomResource{}, builder.WithPredicates(kube.SpecChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.resourcesFor), builder.WithPredicates(existenceChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: kube.ErrorBackoff()}).
		Complete(kube.NewFairWorkers(r, workers, clock.RealClock{}))
}

func podName(obj client.Object) []string { return []string{obj.GetName()} }

func friendName(obj client.Object) []string {
	resource, ok := obj.(*pocv1.MyCustomResource)
	if !ok {
		return nil
	}
	return []string{resource.Spec.Name}
}

// existenceChanged passes pods that are created or deleted, or start to terminate. It drops all other changes of pods.
var existenceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	// Also true when a pod was replaced by one with the same name while the watch was interrupted.
	return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// resourcesFor returns the MyCustomResources that name a pod.
func (r *Reconciler) resourcesFor(ctx context.Context, pod client.Object) []reconcile.Request {
	var list pocv1.MyCustomResourceList
	if err := r.Client.List(ctx, &list, client.MatchingFields{resourcesByName: pod.GetName()}); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list the MyCustomResources that name a pod", "pod", pod.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
