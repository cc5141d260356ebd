package bellerophon

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// setStatus computes the status from the StatefulSet, nil if there is none of ours or it is not known, and from what went wrong.
func setStatus(shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet, err error) {
	status := &shero.Status
	status.ObservedGeneration = shero.Generation
	status.Selector = labels.SelectorFromSet(selector(shero)).String()
	obstacle, _ := errors.AsType[*obstacleError](err)
	switch {
	case set != nil:
		status.Replicas, status.ReadyReplicas = set.Status.Replicas, set.Status.ReadyReplicas
		if everywhere(set) {
			status.CurrentImage = image(set)
		}
	case obstacle != nil:
		// After other errors the numbers stay: autoscalers must not see none because the API server could not be asked.
		status.Replicas, status.ReadyReplicas = 0, 0
	}
	ready := metav1.Condition{Type: stablev444beta989.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: shero.Generation}
	ready.Reason, ready.Message = readiness(shero, set, err)
	if ready.Reason == stablev444beta989.ReasonAllReady || ready.Reason == stablev444beta989.ReasonAtRest {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, ready)
}

// readiness returns the reason and the message of the Ready condition.
func readiness(shero *stablev444beta989.BellerophonSimple, set *appsv1.StatefulSet, err error) (reason, message string) {
	if obstacle, ok := errors.AsType[*obstacleError](err); ok {
		return obstacle.reason, obstacle.message
	}
	if err != nil {
		// The text of the error may change from try to try, and every change of a condition is a write.
		return stablev444beta989.ReasonFailed, "The wanted state could not be brought about; it is tried again, and the operator's log says why."
	}
	want := replicas(shero)
	switch {
	case !set.DeletionTimestamp.IsZero():
		return stablev444beta989.ReasonProgressing, "Somebody deletes the StatefulSet; it is made again when it is gone."
	case set.Status.ObservedGeneration < set.Generation:
		return stablev444beta989.ReasonProgressing, "The cluster has not yet taken up the StatefulSet."
	case mixed(set):
		return stablev444beta989.ReasonUpdating, fmt.Sprintf(
			"%d of %d instances run the wanted pod template, %d are ready. Each instance is replaced when those before it are ready.",
			set.Status.UpdatedReplicas, want, set.Status.ReadyReplicas)
	case set.Status.Replicas > want:
		return stablev444beta989.ReasonProgressing, fmt.Sprintf("%d instances are there, %d are wanted.", set.Status.Replicas, want)
	case set.Status.ReadyReplicas < want:
		return stablev444beta989.ReasonProgressing, fmt.Sprintf("%d of %d instances are ready.", set.Status.ReadyReplicas, want)
	case want == 0:
		return stablev444beta989.ReasonAtRest, "No instance is wanted."
	}
	return stablev444beta989.ReasonAllReady, fmt.Sprintf("All instances run %s and are ready.", shero.Spec.Image)
}

// mixed reports whether there are instances of an earlier pod template, or whose update has not ended.
func mixed(set *appsv1.StatefulSet) bool {
	return set.Status.CurrentRevision != set.Status.UpdateRevision || set.Status.UpdatedReplicas < set.Status.Replicas
}

// everywhere reports whether all instances that are wanted are there and of the wanted pod template.
func everywhere(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != "" && !mixed(set) &&
		set.Spec.Replicas != nil && set.Status.UpdatedReplicas == *set.Spec.Replicas
}

// image is that of the application in the pod template.
func image(set *appsv1.StatefulSet) string {
	for i := range set.Spec.Template.Spec.Containers {
		if c := &set.Spec.Template.Spec.Containers[i]; c.Name == containerName {
			return c.Image
		}
	}
	return ""
}
