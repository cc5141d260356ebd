package notificationrules

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// everything is the only request: to reconcile all rules.
var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller. A message on changed says that the states of the engine have changed. It reconciles at the start, also when
// there is no rule: the last one may have been deleted before.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changed <-chan event.GenericEvent) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("notifications").
		Watches(&scannerv1alpha1.NotificationRule{}, after(debounce), builder.WithPredicates(kube.SpecChanged())).
		Watches(&scannerv1alpha1.ClusterNotificationRule{}, after(debounce), builder.WithPredicates(kube.SpecChanged())).
		WatchesRawSource(source.Channel(changed, after(statusDelay))).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			q.Add(everything)
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(r)
}

// after reconciles everything a while after an event.
func after(delay time.Duration) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(everything, delay) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(everything, delay) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(everything, delay) },
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[client.Object], q queue) {
			q.AddAfter(everything, delay)
		},
	}
}
