package bellerophon

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// setStatus sets the status from the StatefulSet, nil if the shero controls none, from the pods of a StatefulSet that is not ready, and from the error of
// the reconcile.
func setStatus(shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet, pods []*corev1.Pod, err error) {
	status := &shero.Status
	status.ObservedGeneration = shero.Generation
	status.Selector = labels.SelectorFromSet(selector(shero)).String()
	blocked, _ := errors.AsType[*blockedError](err)
	switch {
	case set != nil:
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas = set.Status.Replicas, set.Status.ReadyReplicas, set.Status.AvailableReplicas
		if fullyUpdated(set) {
			status.CurrentImage = image(set)
		}
	case blocked != nil:
		// After other errors the numbers stay: autoscalers must not observe 0 when the API server does not answer.
		status.Replicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	}
	ready := metav1.Condition{Type: stablev444beta989.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: shero.Generation}
	ready.Reason, ready.Message = readiness(shero, set, pods, err)
	if ready.Reason == stablev444beta989.ReasonAllReady || ready.Reason == stablev444beta989.ReasonAtRest {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, ready)
}

// readiness returns the reason and the message of the Ready condition.
func readiness(
	shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet, pods []*corev1.Pod, err error,
) (reason, message string) {
	if blocked, ok := errors.AsType[*blockedError](err); ok {
		return blocked.reason, blocked.message
	}
	if err != nil {
		// The text of the error may change with each retry, and every change of a condition is a write.
		return stablev444beta989.ReasonFailed, "Failed to reconcile the BellerophonSimple; the log of the operator has the error. The operator retries."
	}
	reason, message = progress(shero, set)
	if failure := kube.PodsFailure(pods); failure != "" {
		return stablev444beta989.ReasonPodsFailing, truncate.Ellipsis(message+" "+failure, kube.MaxNote)
	}
	return reason, message
}

// progress returns the reason and the message for a StatefulSet, without the failures of its pods.
func progress(shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet) (reason, message string) {
	desired := replicas(shero)
	switch {
	case !set.DeletionTimestamp.IsZero():
		return stablev444beta989.ReasonProgressing, "The StatefulSet is being deleted; it is created again after that."
	case set.Status.ObservedGeneration < set.Generation:
		return stablev444beta989.ReasonProgressing, "The StatefulSet controller has not observed the last change yet."
	case updating(set):
		return stablev444beta989.ReasonUpdating, fmt.Sprintf(
			"%d of %d replicas use the current pod template, %d are ready.",
			set.Status.UpdatedReplicas, desired, set.Status.ReadyReplicas)
	case set.Status.Replicas > desired:
		return stablev444beta989.ReasonProgressing, fmt.Sprintf("%d replicas exist, %d are desired.", set.Status.Replicas, desired)
	case set.Status.ReadyReplicas < desired:
		return stablev444beta989.ReasonProgressing, fmt.Sprintf("%d of %d replicas are ready.", set.Status.ReadyReplicas, desired)
	case desired == 0:
		return stablev444beta989.ReasonAtRest, "The desired number of replicas is 0."
	}
	return stablev444beta989.ReasonAllReady, fmt.Sprintf("All replicas run %s and are ready.", shero.Spec.Image)
}

// updating returns whether there are instances of a previous pod template, or the update has not completed.
func updating(set *appsv1.StatefulSet) bool {
	return set.Status.CurrentRevision != set.Status.UpdateRevision || set.Status.UpdatedReplicas < set.Status.Replicas
}

// fullyUpdated returns whether all desired instances exist and use the current pod template.
func fullyUpdated(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != "" && !updating(set) &&
		set.Spec.Replicas != nil && set.Status.UpdatedReplicas == *set.Spec.Replicas
}

// image returns the image of the application in the pod template.
func image(set *appsv1.StatefulSet) string {
	for i := range set.Spec.Template.Spec.Containers {
		if c := &set.Spec.Template.Spec.Containers[i]; c.Name == containerName {
			return c.Image
		}
	}
	return ""
}
