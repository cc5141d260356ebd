package notificationrules

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const (
	// debounce is how long changes of rules are collected before they are applied together.
	debounce = 200 * time.Millisecond
	// statusDelay is how long changes of what the engine knows are collected before statuses are written.
	statusDelay = time.Second
)

// SetupWithManager registers the controller. A message on changed says that the states of the engine have changed. It reconciles at the start, also when
// there is no rule: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changed <-chan event.GenericEvent) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("notifications").
		Watches(&scannerv1alpha1.NotificationRule{}, kube.After(debounce, kube.Everything), builder.WithPredicates(kube.SpecChanged())).
		Watches(&scannerv1alpha1.ClusterNotificationRule{}, kube.After(debounce, kube.Everything), builder.WithPredicates(kube.SpecChanged())).
		WatchesRawSource(source.Channel(changed, kube.After(statusDelay, kube.Everything))).
		WatchesRawSource(kube.AtStart(kube.Everything)).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}
