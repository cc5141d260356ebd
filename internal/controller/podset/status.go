package podset

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// setStatus sets the whole status from the observed state. invalid is the error of the template, if any.
func setStatus(ps *appv1alpha1.PodSet, s *state, invalid error) {
	status := &ps.Status
	status.ObservedGeneration = ps.Generation
	status.Selector = labels.SelectorFromSet(selectorOf(ps)).String()
	status.PodNames = []string{}
	status.ReadyReplicas, status.UpdatedReplicas = 0, 0
	for _, pod := range s.pods {
		if !available(pod) {
			continue
		}
		status.PodNames = append(status.PodNames, pod.Name)
		if ready(pod) {
			status.ReadyReplicas++
		}
		if !s.outdated(pod) {
			status.UpdatedReplicas++
		}
	}
	slices.Sort(status.PodNames)
	status.AvailableReplicas = int32(len(status.PodNames)) //nolint:gosec // far below
	if invalid != nil {
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonInvalidTemplate, truncate.Ellipsis(invalid.Error(), kube.MaxNote))
		return
	}
	setProgress(ps, s)
}

// available returns whether a pod is pending or running, and not terminating.
func available(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning)
}

func setProgress(ps *appv1alpha1.PodSet, s *state) {
	status := &ps.Status
	waiting := 0
	for _, v := range missing(s) {
		if v.due.After(s.now) {
			waiting++
		}
	}
	message := fmt.Sprintf("%d of %d pods are ready", status.ReadyReplicas, s.replicas)
	if outdated := status.AvailableReplicas - status.UpdatedReplicas; outdated > 0 {
		message += fmt.Sprintf(", %d use a previous template", outdated)
	}
	failure := kube.PodsFailure(s.active())
	switch desired := int32(s.replicas); { //nolint:gosec // 10 at most
	case waiting > 0:
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonPodsEnded,
			fmt.Sprintf("%s, %d finished soon after the start and will be replaced after a backoff.", message, waiting))
	case status.ReadyReplicas == desired && status.UpdatedReplicas == desired && status.AvailableReplicas == desired:
		setReady(ps, metav1.ConditionTrue, appv1alpha1.ReasonAllReady, message+".")
	case failure != "":
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonPodsFailing, truncate.Ellipsis(fmt.Sprintf("%s. %s", message, failure), kube.MaxNote))
	default:
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonProgressing, message+".")
	}
}

// setFailed sets Ready after an error. Its message is the answer of the API server, if any: the texts of other errors may change with each retry,
// and every change of a condition is a write.
func setFailed(ps *appv1alpha1.PodSet, err error) {
	if kube.IsConflict(err) {
		return
	}
	message := "Failed to reconcile the PodSet; the log of the operator has the error. The operator retries."
	if answer, answered := errors.AsType[*apierrors.StatusError](err); answered {
		message = truncate.Ellipsis(answer.Error(), kube.MaxNote)
	}
	ps.Status.ObservedGeneration = ps.Generation
	setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonReplicaFailure, message)
}

func setReady(ps *appv1alpha1.PodSet, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{
		Type: appv1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: ps.Generation,
	})
}
