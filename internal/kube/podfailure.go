package kube

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxFailure is the maximum length of the description of a failure, in bytes.
const maxFailure = 512

// PodsFailure describes the failure of the first pod, by name, with a container that cannot start or does not keep running, such as
//
//	Pod web-0, container app: CreateContainerConfigError: container has runAsNonRoot and image will run as root
//
// It returns "" when there is none. The text comes from the kubelet and from the container.
func PodsFailure(pods []*corev1.Pod) string {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range sorted {
		if ready(pod) {
			continue
		}
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				if failure := containerFailure(&statuses[i]); failure != "" {
					return truncate.Ellipsis(fmt.Sprintf("Pod %s, container %s: %s", pod.Name, statuses[i].Name, failure), maxFailure)
				}
			}
		}
	}
	return ""
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// containerFailure returns the reason and the message of a container that cannot start or does not keep running, "" for others. While the kubelet
// retries, the text stays the same, whichever phase the retry is in: every change of a condition is a write.
func containerFailure(status *corev1.ContainerStatus) string {
	waiting := status.State.Waiting
	if waiting == nil {
		return terminationFailure(status)
	}
	switch waiting.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return ""
	case "CrashLoopBackOff":
		return terminationFailure(status)
	case "ErrImagePull", "ImagePullBackOff":
		message := waiting.Message
		// During the backoff the kubelet puts its own text before the error.
		if _, pullError, found := strings.Cut(message, ": ErrImagePull: "); found {
			message = pullError
		}
		return reasonAndMessage("ImagePullBackOff", message)
	}
	return reasonAndMessage(waiting.Reason, waiting.Message)
}

// terminationFailure describes the last termination of a container, if it failed.
func terminationFailure(status *corev1.ContainerStatus) string {
	terminated := status.State.Terminated
	if terminated == nil {
		terminated = status.LastTerminationState.Terminated
	}
	if terminated == nil {
		return waitingReason(status)
	}
	if terminated.ExitCode == 0 && status.State.Waiting == nil {
		return "" // It has completed.
	}
	reason := fmt.Sprintf("CrashLoopBackOff: last termination with exit code %d", terminated.ExitCode)
	if terminated.Reason != "" {
		reason += " (" + terminated.Reason + ")"
	}
	return reasonAndMessage(reason, terminated.Message)
}

// waitingReason returns why a container waits, "" when it does not.
func waitingReason(status *corev1.ContainerStatus) string {
	if status.State.Waiting == nil {
		return ""
	}
	return status.State.Waiting.Reason
}

// reasonAndMessage joins a reason and a message, without line breaks and other control characters.
func reasonAndMessage(reason, message string) string {
	message = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)), " ")
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
