package mycustomresource

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
)

// The indexes of the cache: pods by their names, and MyCustomResources by the names that they look for.
const (
	podsByName      = "metadata.name"
	resourcesByName = "spec.name"
)

const workers = 4

// SetupWithManager adds the indexes to the manager's cache and registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	// The indexes last as long as the manager; nothing is waited for.
	ctx, indexer := context.Background(), mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &corev1.Pod{}, podsByName, podName); err != nil {
		return fmt.Errorf("index pods by name: %w", err)
	}
	if err := indexer.IndexField(ctx, &pocv1.MyCustomResource{}, resourcesByName, friendName); err != nil {
		return fmt.Errorf("index MyCustomResources by the name they look for: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("mycustomresource").
		For(&pocv1.MyCustomResource{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.lookingFor), builder.WithPredicates(existenceChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func podName(obj client.Object) []string { return []string{obj.GetName()} }

func friendName(obj client.Object) []string {
	resource, ok := obj.(*pocv1.MyCustomResource)
	if !ok {
		return nil
	}
	return []string{resource.Spec.Name}
}

// existenceChanged passes pods that come, go, or begin to go. All else that happens to a pod is cut off here.
var existenceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	// It ends as well when a pod was replaced by one of the same name while the watch was away.
	return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
}}

// lookingFor returns the MyCustomResources that look for a pod.
func (r *Reconciler) lookingFor(ctx context.Context, pod client.Object) []reconcile.Request {
	var list pocv1.MyCustomResourceList
	if err := r.Client.List(ctx, &list, client.MatchingFields{resourcesByName: pod.GetName()}); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Cannot find the MyCustomResources that look for a pod", "pod", pod.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
