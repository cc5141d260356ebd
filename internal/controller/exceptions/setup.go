package exceptions

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
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

// placesOnly is the request to reconcile all exceptions if they apply in other places than before.
var placesOnly = reconcile.Request{NamespacedName: types.NamespacedName{Name: "places"}}

// SetupWithManager registers the controller. A message on recount says that findings have changed. It reconciles at the start, also when there is
// no exception: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, recount <-chan event.GenericEvent) error {
	changed := builder.WithPredicates(predicate.Or(kube.SpecChanged(), authorChanged()))
	return ctrl.NewControllerManagedBy(mgr).
		Named("exceptions").
		Watches(&scannerv1alpha1.ClusterVulnerabilityException{}, kube.After(debounce, kube.Everything), changed).
		Watches(&scannerv1alpha1.VulnerabilityException{}, kube.After(debounce, kube.Everything), changed).
		Watches(&corev1.Namespace{}, kube.After(debouncePlaces, placesOnly), builder.OnlyMetadata, builder.WithPredicates(r.namespaceMoves())).
		Watches(&corev1.Pod{}, kube.After(debouncePlaces, placesOnly), builder.WithPredicates(r.podMoves())).
		WatchesRawSource(source.Channel(recount, kube.After(countEvery, kube.Everything))).
		WatchesRawSource(kube.AtStart(kube.Everything)).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}
