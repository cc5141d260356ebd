package scanner

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// statusesPerSecond is how many statuses are written in a second at most.
const statusesPerSecond = 20

// SetupWithManager registers the controller. A message on wake reconciles every Scanner: something changed in the store, the
// database or the cataloger. A Job concerns every Scanner too: one image is scanned once whoever wants it, and the Scanner that
// asked may be gone by the end.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, wake <-chan event.GenericEvent) error {
	r.statuses = kube.NewStatusWriter(r.Client, statusesPerSecond, r.Clock)
	controlled := ctrl.NewControllerManagedBy(mgr).
		Named("scanner").
		For(&scannerv1.Scanner{}, builder.WithPredicates(kube.SpecChanged())).
		Watches(&batchv1.Job{}, r.paced(concernsAll), builder.WithPredicates(jobChanged)).
		Watches(&corev1.Pod{}, r.paced(concernsPod), builder.WithPredicates(r.podChanged())).
		Watches(&corev1.Pod{}, r.paced(concernsAll), builder.WithPredicates(r.scanBlocked())).
		Watches(&corev1.Namespace{}, r.paced(concernsSelecting),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(wake, r.paced(concernsAll))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.reconciles = queue
			return nil
		})).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()})
	if len(r.Owners.Keys) > 0 {
		controlled.Watches(&corev1.Namespace{}, r.paced(concernsNamespace), builder.OnlyMetadata, builder.WithPredicates(r.ownerChanged()))
	}
	if r.Owners.fromDeployments() {
		controlled.Watches(&appsv1.Deployment{}, r.paced(concernsPod), builder.WithPredicates(r.ownerChanged()))
	}
	if err := controlled.Complete(r); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("scanner-new-pods").
		Watches(&corev1.Pod{}, r.lacking(), builder.WithPredicates(r.podChanged())).
		WithOptions(controller.Options{RateLimiter: kube.ErrorBackoff()}).
		Complete(reconcile.Func(r.startNew))
}

// jobChanged passes the beginning and the end of scan Jobs.
var jobChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, okBefore := e.ObjectOld.(*batchv1.Job)
		after, okAfter := e.ObjectNew.(*batchv1.Job)
		return !okBefore || !okAfter || scanjob.Finished(before) != scanjob.Finished(after) || before.UID != after.UID
	},
}

// podChanged passes what changes the inventory. Cached pods hold little more than that.
func (r *Reconciler) podChanged() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(obj client.Object) bool {
			pod, ok := obj.(*corev1.Pod)
			return !ok || !r.Cataloger.Made(pod)
		}),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return !okBefore || !okAfter || before.UID != after.UID ||
				!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
				!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
				!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
				!equality.Semantic.DeepEqual(before.Status, after.Status)
		}},
	)
}

// scanBlocked passes the pods of scans that cannot start, or can again: others may use their slots.
func (r *Reconciler) scanBlocked() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return okBefore && okAfter && scanjob.Blocked(before) != scanjob.Blocked(after) && r.Cataloger.Made(after)
		},
	}
}

// scanners lists the Scanners in effect that an event concerns. It reads the cache only: it is called for every event.
func (r *Reconciler) scanners(ctx context.Context, wanted func(*scannerv1.Scanner) bool) []reconcile.Request {
	var list scannerv1.ScannerList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to list Scanners")
		return nil
	}
	concerned := map[string]bool{}
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			concerned[list.Items[i].Namespace] = true
		}
	}
	list.Items = slices.DeleteFunc(list.Items, func(s scannerv1.Scanner) bool { return !concerned[s.Namespace] })
	var requests []reconcile.Request
	beyond := r.beyond(list.Items)
	for i := range list.Items {
		if name := client.ObjectKeyFromObject(&list.Items[i]); wanted(&list.Items[i]) && !beyond[name] {
			requests = append(requests, reconcile.Request{NamespacedName: name})
		}
	}
	return requests
}
