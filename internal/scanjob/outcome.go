package scanjob

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Finished reports whether a Job has ended.
func Finished(job *batchv1.Job) bool {
	return condition(job, batchv1.JobComplete) != nil || condition(job, batchv1.JobFailed) != nil
}

func condition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if job.Status.Conditions[i].Type == kind && job.Status.Conditions[i].Status == corev1.ConditionTrue {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

// Outcome says how a finished Job ended, from the Job and those of its pods that are still there. It prefers what the scan
// itself told in its termination message to what Kubernetes says of the pod.
func Outcome(job *batchv1.Job, pods []corev1.Pod) vuln.Outcome {
	if condition(job, batchv1.JobComplete) != nil {
		return vuln.Outcome{}
	}
	if outcome, told := Told(pods); told {
		return outcome
	}
	failed := condition(job, batchv1.JobFailed)
	switch {
	case failed == nil:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan Job has not ended"}
	case failed.Reason == batchv1.JobReasonDeadlineExceeded:
		return vuln.Outcome{Reason: vuln.ReasonDeadlineExceeded, Message: "the scan Job did not end within its deadline"}
	case len(pods) == 0:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan pod is gone: it was deleted or its node was lost"}
	default:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan Job failed: " + failed.Message}
	}
}

// Told returns what the pods of a Job say of its end, or of why it does not begin.
func Told(pods []corev1.Pod) (vuln.Outcome, bool) {
	for i := range pods {
		if outcome, told := podOutcome(&pods[i]); told {
			return outcome, true
		}
	}
	return vuln.Outcome{}, false
}

func podOutcome(pod *corev1.Pod) (vuln.Outcome, bool) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.Name != ContainerName {
			continue
		}
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return terminated(pod, ended), true
		}
		if waiting := status.State.Waiting; waiting != nil && strings.Contains(waiting.Reason, "Image") {
			return vuln.Outcome{
				Reason:  vuln.ReasonUnschedulable,
				Message: fmt.Sprintf("the kubelet cannot pull the operator's own image for the scan pod: %s: %s", waiting.Reason, waiting.Message),
			}, true
		}
	}
	if pod.Status.Reason == "Evicted" {
		return evicted(pod), true
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return vuln.Outcome{Reason: vuln.ReasonUnschedulable, Message: "no node takes the scan pod: " + c.Message}, true
		}
	}
	return vuln.Outcome{}, false
}

func terminated(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) vuln.Outcome {
	var told vuln.Outcome
	if err := json.Unmarshal([]byte(ended.Message), &told); err == nil && told.Reason.Valid() {
		return told
	}
	switch {
	case ended.Reason == "OOMKilled" || ended.ExitCode == 137 && pod.Status.Reason == "":
		return vuln.Outcome{Reason: vuln.ReasonOutOfMemory, Message: "the scan pod needed more memory than its limit"}
	case pod.Status.Reason == "Evicted":
		return evicted(pod)
	default:
		return vuln.Outcome{
			Reason:  vuln.ReasonCatalogFailed,
			Message: fmt.Sprintf("the scan container ended with exit code %d (%s) without telling why", ended.ExitCode, ended.Reason),
		}
	}
}

func evicted(pod *corev1.Pod) vuln.Outcome {
	lower := strings.ToLower(pod.Status.Message)
	if strings.Contains(lower, "ephemeral") || strings.Contains(lower, "emptydir") || strings.Contains(lower, "disk") {
		return vuln.Outcome{Reason: vuln.ReasonOutOfDisk, Message: "the scan pod was evicted: " + pod.Status.Message}
	}
	if strings.Contains(lower, "memory") {
		return vuln.Outcome{Reason: vuln.ReasonOutOfMemory, Message: "the scan pod was evicted: " + pod.Status.Message}
	}
	return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan pod was evicted: " + pod.Status.Message}
}
