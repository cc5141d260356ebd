package podset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// maxText bounds the notes of events, which Kubernetes refuses when they are longer, and the messages of conditions, in bytes.
const maxText = 1024

// setStatus computes the whole status from what is there. invalid is what is wrong with the template, if anything.
func setStatus(ps *appv1alpha1.PodSet, l *look, invalid error) {
	status := &ps.Status
	status.ObservedGeneration = ps.Generation
	status.Selector = labels.SelectorFromSet(selectorOf(ps)).String()
	status.PodNames = []string{}
	status.ReadyReplicas, status.UpdatedReplicas = 0, 0
	for _, pod := range l.pods {
		if !available(pod) {
			continue
		}
		status.PodNames = append(status.PodNames, pod.Name)
		if ready(pod) {
			status.ReadyReplicas++
		}
		if !l.outdated(pod) {
			status.UpdatedReplicas++
		}
	}
	slices.Sort(status.PodNames)
	status.AvailableReplicas = int32(len(status.PodNames)) //nolint:gosec // far below
	if invalid != nil {
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonInvalidTemplate, cut(invalid.Error()))
		return
	}
	setProgress(ps, l)
}

// available says of a pod that it is pending or running and is not being deleted.
func available(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning)
}

func setProgress(ps *appv1alpha1.PodSet, l *look) {
	status := &ps.Status
	ended := 0
	for _, v := range missing(l) {
		if v.due.After(l.now) {
			ended++
		}
	}
	message := fmt.Sprintf("%d of %d pods are ready", status.ReadyReplicas, l.replicas)
	if earlier := status.AvailableReplicas - status.UpdatedReplicas; earlier > 0 {
		message += fmt.Sprintf(", %d of an earlier template", earlier)
	}
	switch wanted := int32(l.replicas); { //nolint:gosec // 10 at most
	case ended > 0:
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonPodsEnded,
			fmt.Sprintf("%s, %d ended soon and will be replaced after a pause.", message, ended))
	case status.ReadyReplicas == wanted && status.UpdatedReplicas == wanted && status.AvailableReplicas == wanted:
		setReady(ps, metav1.ConditionTrue, appv1alpha1.ReasonAllReady, message+".")
	default:
		setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonProgressing, message+".")
	}
}

// setFailed sets Ready after an error. Only what the API server answered is told: other texts may change from try to try, and every change
// of a condition is a write.
func setFailed(ps *appv1alpha1.PodSet, err error) {
	if onlyConflicts(err) {
		return
	}
	message := "The PodSet could not be reconciled; the operator's log says why."
	if answer, answered := errors.AsType[*apierrors.StatusError](err); answered {
		message = cut(answer.Error())
	}
	ps.Status.ObservedGeneration = ps.Generation
	setReady(ps, metav1.ConditionFalse, appv1alpha1.ReasonReplicaFailure, message)
}

func setReady(ps *appv1alpha1.PodSet, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{
		Type: appv1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: ps.Generation,
	})
}

// cut shortens a text, at a rune.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
