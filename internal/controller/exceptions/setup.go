package exceptions

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// debounce is how long changes of exceptions are collected before they are applied together.
const debounce = 200 * time.Millisecond

// SetupWithManager registers the controller. A message on recount says that findings have changed. It reconciles at the start, also when there is
// no exception: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, recount <-chan event.GenericEvent) error {
	changed := builder.WithPredicates(predicate.Or(kube.SpecChanged(), authorChanged()))
	b := ctrl.NewControllerManagedBy(mgr).
		Named("exceptions").
		Watches(&scannerv1alpha1.ClusterVulnerabilityException{}, kube.After(debounce, kube.Everything), changed).
		Watches(&scannerv1alpha1.VulnerabilityException{}, kube.After(debounce, kube.Everything), changed)
	return r.Places.Watch(b).
		WatchesRawSource(source.Channel(recount, kube.After(countEvery, kube.Everything))).
		WatchesRawSource(kube.AtStart(kube.Everything)).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}
