// Package mycustomresource reconciles MyCustomResources: it reports whether the pod exists that each of them names, its friend.
package mycustomresource

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// The reason of the Event when a friend is lost, and the action of all Events. The reason when one is found is that of the condition.
const (
	reasonFriendLost = "FriendLost"
	actionFind       = "FindFriend"
)

// Reconciler reconciles MyCustomResources.
type Reconciler struct {
	// Client reads from a cache with the indexes that SetupWithManager adds.
	Client   client.Client
	Metrics  kube.ObjectMetrics
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=poc.test.domain,resources=mycustomresources,verbs=list;watch
// +kubebuilder:rbac:groups=poc.test.domain,resources=mycustomresources/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile finds the friend of one MyCustomResource and writes into the status whether it exists.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reporter := kube.Reporter{Kind: kube.KindMyCustomResource, Client: r.Client, Metrics: r.Metrics}
	resource := &pocv1.MyCustomResource{}
	if err := r.Client.Get(ctx, req.NamespacedName, resource); apierrors.IsNotFound(err) {
		return reporter.ReportDeletion(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !resource.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := resource.DeepCopy()
	friend, err := r.friend(ctx, resource)
	if err != nil {
		return ctrl.Result{}, err
	}
	setStatus(resource, friend)
	return reporter.Report(ctx, kube.Outcome{
		Before: before, After: resource, Status: resource.Status,
		Written: func() { r.reportChange(ctx, before, resource, friend) },
	})
}

// friend returns the pod that a MyCustomResource names, nil when there is none. It prefers a pod in the namespace of the resource, then the first by
// namespace, so that the result does not change without need.
func (r *Reconciler) friend(ctx context.Context, resource *pocv1.MyCustomResource) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{podsByName: resource.Spec.Name}); err != nil {
		return nil, fmt.Errorf("list pods with the name %s: %w", resource.Spec.Name, err)
	}
	existing := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
	if len(existing) == 0 {
		return nil, nil //nolint:nilnil // There is no friend, as documented.
	}
	friend := slices.MinFunc(existing, func(a, b corev1.Pod) int {
		return cmp.Or(distance(resource, &a)-distance(resource, &b), cmp.Compare(a.Namespace, b.Namespace))
	})
	return &friend, nil
}

// distance is 0 for a pod in the namespace of a resource and 1 for any other.
func distance(resource *pocv1.MyCustomResource, pod *corev1.Pod) int {
	if pod.Namespace == resource.Namespace {
		return 0
	}
	return 1
}

// place describes the namespace of a friend. It names no other namespace than that of the resource: those who read the resource need not have
// rights elsewhere.
func place(resource *pocv1.MyCustomResource, friend *corev1.Pod) string {
	if friend.Namespace != resource.Namespace {
		return "another namespace"
	}
	return "namespace " + friend.Namespace
}

func setStatus(resource *pocv1.MyCustomResource, friend *corev1.Pod) {
	ready := metav1.Condition{
		Type: pocv1.ConditionReady, Status: metav1.ConditionFalse, Reason: pocv1.ReasonFriendNotFound,
		Message: fmt.Sprintf("No pod named %s exists.", resource.Spec.Name), ObservedGeneration: resource.Generation,
	}
	if friend != nil {
		ready.Status, ready.Reason = metav1.ConditionTrue, pocv1.ReasonFriendFound
		ready.Message = fmt.Sprintf("Pod %s exists in %s.", friend.Name, place(resource, friend))
	}
	resource.Status.Healthy = friend != nil
	resource.Status.ObservedGeneration = resource.Generation
	meta.SetStatusCondition(&resource.Status.Conditions, ready)
}

// reportChange logs and creates an Event when a friend is found or lost.
func (r *Reconciler) reportChange(ctx context.Context, before, after *pocv1.MyCustomResource, friend *corev1.Pod) {
	if before.Status.Healthy == after.Status.Healthy {
		return
	}
	logr.FromContextOrDiscard(ctx).Info("Health changed", "pod", after.Spec.Name, "from", before.Status.Healthy, "to", after.Status.Healthy)
	if friend != nil {
		var pod runtime.Object
		if friend.Namespace == after.Namespace {
			pod = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: friend.Namespace, Name: friend.Name, UID: friend.UID}
		}
		r.Recorder.Eventf(after, pod, corev1.EventTypeNormal, pocv1.ReasonFriendFound, actionFind, "Found pod %s in %s", friend.Name, place(after, friend))
		return
	}
	r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, reasonFriendLost, actionFind, "Pod %s does not exist any more", after.Spec.Name)
}
