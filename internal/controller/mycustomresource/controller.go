// Package mycustomresource reconciles MyCustomResources: it says whether the pod exists that each of them looks for.
package mycustomresource

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// The reason of the event when a friend is gone, and what events say was done. That of the event when one is found is that of the condition.
const (
	reasonFriendLost = "FriendLost"
	actionLook       = "LookForFriend"
)

// Reconciler reconciles MyCustomResources.
type Reconciler struct {
	// Client reads from a cache with the indexes that SetupWithManager adds.
	Client   client.Client
	Recorder events.EventRecorder
}

// +kubebuilder:rbac:groups=poc.test.domain,resources=mycustomresources,verbs=list;watch
// +kubebuilder:rbac:groups=poc.test.domain,resources=mycustomresources/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile looks for the friend of one MyCustomResource and writes into the status whether it is there.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	resource := &pocv1.MyCustomResource{}
	if err := r.Client.Get(ctx, req.NamespacedName, resource); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
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
	if err := kube.PatchStatus(ctx, r.Client, before, resource); apierrors.IsConflict(err) {
		// Most often the cache does not show the last status yet. That is no failure.
		return kube.RetryConflict, nil
	} else if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.tellChange(before, resource, friend)
	return ctrl.Result{}, nil
}

// friend returns the pod that a MyCustomResource looks for, nil when there is none: one of its own namespace before others, and those
// in the order of their namespaces, so that the answer does not change without need.
func (r *Reconciler) friend(ctx context.Context, resource *pocv1.MyCustomResource) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.MatchingFields{podsByName: resource.Spec.Name}); err != nil {
		return nil, fmt.Errorf("look for pods named %s: %w", resource.Spec.Name, err)
	}
	there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
	if len(there) == 0 {
		return nil, nil //nolint:nilnil // no friend is an answer
	}
	friend := slices.MinFunc(there, func(a, b corev1.Pod) int {
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

func setStatus(resource *pocv1.MyCustomResource, friend *corev1.Pod) {
	ready := metav1.Condition{
		Type: pocv1.ConditionReady, Status: metav1.ConditionFalse, Reason: pocv1.ReasonFriendNotFound,
		Message: fmt.Sprintf("There is no pod named %s.", resource.Spec.Name), ObservedGeneration: resource.Generation,
	}
	if friend != nil {
		ready.Status, ready.Reason = metav1.ConditionTrue, pocv1.ReasonFriendFound
		ready.Message = fmt.Sprintf("Pod %s exists in namespace %s.", friend.Name, friend.Namespace)
	}
	resource.Status.Healthy = friend != nil
	resource.Status.ObservedGeneration = resource.Generation
	meta.SetStatusCondition(&resource.Status.Conditions, ready)
}

// tellChange makes an event when a friend came or went.
func (r *Reconciler) tellChange(before, after *pocv1.MyCustomResource, friend *corev1.Pod) {
	switch {
	case before.Status.Healthy == after.Status.Healthy:
	case friend != nil:
		pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: friend.Namespace, Name: friend.Name, UID: friend.UID}
		r.Recorder.Eventf(after, pod, corev1.EventTypeNormal, pocv1.ReasonFriendFound, actionLook, "Found pod %s in namespace %s", friend.Name, friend.Namespace)
	default:
		r.Recorder.Eventf(after, nil, corev1.EventTypeWarning, reasonFriendLost, actionLook, "There is no pod named %s any more", after.Spec.Name)
	}
}
