package exceptions

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const (
	// debounce is how long changes of exceptions are collected before they are applied together.
	debounce = 200 * time.Millisecond
	// debouncePlaces is the same for changes of pods and namespaces, of which there are many.
	debouncePlaces = time.Second
)

// The requests: to reconcile all exceptions, and to do so if they apply in other places than before.
var (
	everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}
	placesOnly = reconcile.Request{NamespacedName: types.NamespacedName{Name: "places"}}
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller. A message on recount says that findings have changed. It reconciles at the start, also when there is
// no exception: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, recount <-chan event.GenericEvent) error {
	changed := builder.WithPredicates(predicate.Or(kube.SpecChanged(), authorChanged()))
	return ctrl.NewControllerManagedBy(mgr).
		Named("exceptions").
		Watches(&scannerv1alpha1.ClusterVulnerabilityException{}, after(debounce, everything), changed).
		Watches(&scannerv1alpha1.VulnerabilityException{}, after(debounce, everything), changed).
		Watches(&corev1.Namespace{}, after(debouncePlaces, placesOnly), builder.OnlyMetadata, builder.WithPredicates(r.namespaceMoves())).
		Watches(&corev1.Pod{}, after(debouncePlaces, placesOnly), builder.WithPredicates(r.podMoves())).
		WatchesRawSource(source.Channel(recount, after(countEvery, everything))).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			q.Add(everything)
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}

// after makes a request a while after an event.
func after(delay time.Duration, request reconcile.Request) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(request, delay) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(request, delay) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(request, delay) },
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[client.Object], q queue) {
			q.AddAfter(request, delay)
		},
	}
}
