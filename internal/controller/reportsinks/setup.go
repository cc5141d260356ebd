package reportsinks

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const (
	// debounce is how long changes of sinks are collected before they are applied together.
	debounce = 200 * time.Millisecond
	// namespacesDelay is the same for changes of namespaces, of which there are many.
	namespacesDelay = time.Second
	// statusDelay is how long changes of what the engine knows are collected before statuses are written.
	statusDelay = 2 * time.Second
)

// SetupWithManager registers the controller. A message on changed says that the states of the engine have changed. It reconciles at the start, also when
// there is no sink: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changed <-chan event.GenericEvent) error {
	selected := predicate.And(predicate.NewPredicateFuncs(func(client.Object) bool { return r.selecting.Load() }), predicate.LabelChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("reportsinks").
		Watches(&scannerv1alpha1.ReportSink{}, kube.After(debounce, kube.Everything), builder.WithPredicates(kube.SpecChanged())).
		Watches(&corev1.Namespace{}, kube.After(namespacesDelay, kube.Everything), builder.OnlyMetadata, builder.WithPredicates(selected)).
		WatchesRawSource(source.Channel(changed, kube.After(statusDelay, kube.Everything))).
		WatchesRawSource(kube.AtStart(kube.Everything)).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}
