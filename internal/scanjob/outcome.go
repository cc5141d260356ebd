package scanjob

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

const (
	// statusGrace is how long the Job controller may take to say of a Job what its pods have said already.
	statusGrace = time.Minute
	// podGrace is how long it may take to make a pod before somebody is told.
	podGrace = time.Minute
	// overdueGrace is how long after its deadline a Job may go on.
	overdueGrace = 5 * time.Minute
)

// The reasons of the condition DisruptionTarget that have no name in the API.
const (
	deletionByTaintManager = "DeletionByTaintManager"
	deletionByPodGC        = "DeletionByPodGC"
	evictionByEvictionAPI  = "EvictionByEvictionAPI"
)

// Verdict is what a scan Job and its pods say of an attempt.
type Verdict struct {
	// Done: the attempt has ended, whatever the Job says, and holds no slot any more.
	Done bool
	// Outcome is how it ended, when Done. Otherwise it is what keeps the attempt from going on; without a reason nothing is known to.
	Outcome vuln.Outcome
}

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

// Judge says how far an attempt is, from its Job and those of the Job's pods that are still there.
func Judge(job *batchv1.Job, pods []corev1.Pod, now time.Time) Verdict {
	if condition(job, batchv1.JobComplete) != nil {
		return Verdict{Done: true}
	}
	if failed := condition(job, batchv1.JobFailed); failed != nil {
		return Verdict{true, failure(job, pods, failed)}
	}
	// The Job controller waits for every pod to go, and that of a lost node never does.
	if failing := condition(job, batchv1.JobFailureTarget); failing != nil && now.Sub(failing.LastTransitionTime.Time) > statusGrace {
		return Verdict{true, failure(job, pods, failing)}
	}
	if succeeded, at, ended := podsEnded(pods); ended && now.Sub(at) > statusGrace {
		if succeeded {
			return Verdict{Done: true}
		}
		return Verdict{true, failure(job, pods, &batchv1.JobCondition{Message: "its pod has ended"})}
	}
	if overdue(job, now) {
		return Verdict{true, overdueOutcome(job, pods)}
	}
	if outcome, known := soFar(pods); known {
		return Verdict{Outcome: outcome}
	}
	if podless(job, pods) && now.Sub(job.CreationTimestamp.Time) > podGrace {
		return Verdict{Outcome: noPod(job)}
	}
	return Verdict{}
}

// Deleted is the outcome of an attempt whose Job was deleted before it had ended.
func Deleted(namespace, name string) vuln.Outcome {
	return vuln.Outcome{
		Reason:  vuln.ReasonCatalogFailed,
		Message: fmt.Sprintf("the scan Job %s/%s was deleted before it had ended, by somebody or with its namespace", namespace, name),
	}
}

// failure says why a Job failed. It prefers what the scan itself told in its termination message to what Kubernetes says of the
// pod, unless the pod had to go: then the scan knows only that it was told to end.
func failure(job *batchv1.Job, pods []corev1.Pod, failed *batchv1.JobCondition) vuln.Outcome {
	deadline := failed.Reason == batchv1.JobReasonDeadlineExceeded
	gone, disrupted := disruption(pods)
	disrupted = disrupted && !deadline
	if outcome, told := told(pods); told && (!disrupted || outcome.Reason != vuln.ReasonDeadlineExceeded) {
		return outcome
	}
	crash, crashed := crash(pods)
	hindrance, hindered := hindrance(pods)
	switch {
	case disrupted:
		return gone
	// At the deadline the pod is killed, so that how it ended says nothing.
	case crashed && !deadline:
		return crash
	case hindered:
		return hindrance
	case deadline && podless(job, pods):
		return noPod(job)
	case deadline:
		return vuln.Outcome{Reason: vuln.ReasonDeadlineExceeded, Message: "the scan Job did not end within its deadline"}
	case len(pods) == 0:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan pod is gone: it was deleted or its node was lost"}
	default:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan Job failed: " + failed.Message}
	}
}

// podsEnded reports whether there are pods and all of them have ended, whether all did so well, and when the last of them did.
func podsEnded(pods []corev1.Pod) (succeeded bool, at time.Time, ended bool) {
	succeeded = true
	for i := range pods {
		switch pods[i].Status.Phase {
		case corev1.PodSucceeded:
		case corev1.PodFailed:
			succeeded = false
		default:
			return false, time.Time{}, false
		}
		for _, status := range pods[i].Status.ContainerStatuses {
			if t := status.State.Terminated; t != nil && t.FinishedAt.After(at) {
				at = t.FinishedAt.Time
			}
		}
	}
	return succeeded, at, len(pods) > 0
}

// podless reports whether no pod was ever made. One that has gone is in the Job's status, as to be counted or as counted.
func podless(job *batchv1.Job, pods []corev1.Pod) bool {
	status := &job.Status
	if status.Terminating != nil && *status.Terminating > 0 {
		return false
	}
	if uncounted := status.UncountedTerminatedPods; uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		return false
	}
	return len(pods) == 0 && status.Active == 0 && status.Failed == 0 && status.Succeeded == 0
}

func noPod(job *batchv1.Job) vuln.Outcome {
	return vuln.Outcome{Reason: vuln.ReasonUnschedulable, Message: fmt.Sprintf(
		"no pod is made for the scan Job, most often because of a quota or an admission controller: kubectl describe job %s -n %s says why", job.Name, job.Namespace)}
}

// overdue reports whether a Job goes on although its deadline is long over: it is suspended, or nothing looks after Jobs.
func overdue(job *batchv1.Job, now time.Time) bool {
	start := job.CreationTimestamp.Time
	if job.Status.StartTime != nil {
		start = job.Status.StartTime.Time
	}
	if job.Spec.ActiveDeadlineSeconds == nil || start.IsZero() {
		return false
	}
	deadline := time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second
	return now.Sub(start) > deadline+overdueGrace
}

func overdueOutcome(job *batchv1.Job, pods []corev1.Pod) vuln.Outcome {
	if outcome, known := soFar(pods); known {
		return outcome
	}
	if podless(job, pods) {
		return noPod(job)
	}
	return vuln.Outcome{Reason: vuln.ReasonDeadlineExceeded, Message: "the scan Job goes on long after its deadline and is not waited for any more"}
}

// soFar is what the pods of a Job say that has not ended. How one ended that was deleted says little: why it was, only the Job will tell.
func soFar(pods []corev1.Pod) (vuln.Outcome, bool) {
	deleted := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if outcome, told := told(pods); told && (!deleted || outcome.Reason != vuln.ReasonDeadlineExceeded) {
		return outcome, true
	}
	if outcome, crashed := crash(pods); crashed && !deleted {
		return outcome, true
	}
	return hindrance(pods)
}

// scanStatus is that of the container that scans, nil before there is one.
func scanStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// told is what the scan itself said at its end.
func told(pods []corev1.Pod) (vuln.Outcome, bool) {
	for i := range pods {
		status := scanStatus(&pods[i])
		if status == nil || status.State.Terminated == nil || status.State.Terminated.ExitCode == 0 {
			continue
		}
		var outcome vuln.Outcome
		if err := json.Unmarshal([]byte(status.State.Terminated.Message), &outcome); err == nil && outcome.Reason.Valid() {
			return outcome, true
		}
	}
	return vuln.Outcome{}, false
}

// crash is what Kubernetes says of a scan that ended without a word.
func crash(pods []corev1.Pod) (vuln.Outcome, bool) {
	for i := range pods {
		pod := &pods[i]
		if status := scanStatus(pod); status != nil && status.State.Terminated != nil && status.State.Terminated.ExitCode != 0 {
			return terminated(pod, status.State.Terminated), true
		}
		switch {
		case pod.Status.Reason == "Evicted":
			return evicted(pod), true
		case pod.Status.Phase == corev1.PodFailed:
			message := strings.TrimSpace("the scan pod failed: " + pod.Status.Reason + " " + pod.Status.Message)
			return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: message}, true
		}
	}
	return vuln.Outcome{}, false
}

// hindrance is what keeps a scan from starting.
func hindrance(pods []corev1.Pod) (vuln.Outcome, bool) {
	for i := range pods {
		pod := &pods[i]
		if status := scanStatus(pod); status != nil {
			if outcome, stuck := waits(status.State.Waiting); stuck {
				return outcome, true
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return vuln.Outcome{Reason: vuln.ReasonUnschedulable, Message: "no node takes the scan pod: " + c.Message}, true
			}
		}
	}
	return vuln.Outcome{}, false
}

// waits says what keeps a container from starting, if it is more than that it takes its time.
func waits(waiting *corev1.ContainerStateWaiting) (vuln.Outcome, bool) {
	switch {
	case waiting == nil || slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason):
		return vuln.Outcome{}, false
	case strings.Contains(waiting.Reason, "Image"):
		return vuln.Outcome{
			Reason:  vuln.ReasonUnschedulable,
			Message: fmt.Sprintf("the kubelet cannot pull the operator's own image for the scan pod: %s: %s", waiting.Reason, waiting.Message),
		}, true
	default:
		return vuln.Outcome{
			Reason: vuln.ReasonUnschedulable, Message: fmt.Sprintf("the kubelet cannot start the scan pod: %s: %s", waiting.Reason, waiting.Message),
		}, true
	}
}

func terminated(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) vuln.Outcome {
	switch {
	case ended.Reason == "OOMKilled":
		return vuln.Outcome{Reason: vuln.ReasonOutOfMemory, Message: "the scan pod needed more memory than its limit"}
	case pod.Status.Reason == "Evicted":
		return evicted(pod)
	case ended.ExitCode == 137 && pod.Status.Reason == "":
		return vuln.Outcome{Reason: vuln.ReasonOutOfMemory, Message: "the scan was killed, most likely for want of memory"}
	case ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun":
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan container cannot be started: " + ended.Message}
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

// disruption says who made the pods go, if it was not the scan itself.
func disruption(pods []corev1.Pod) (vuln.Outcome, bool) {
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Reason == "Evicted" {
			return evicted(pod), true
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
				return disruptedFor(c), true
			}
		}
		if pod.DeletionTimestamp != nil {
			return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan pod was deleted while it ran"}, true
		}
	}
	return vuln.Outcome{}, false
}

func disruptedFor(c corev1.PodCondition) vuln.Outcome {
	switch c.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		return vuln.Outcome{Reason: vuln.ReasonUnschedulable, Message: "the scan pod had to make room for one of higher priority: " + c.Message}
	case deletionByTaintManager, deletionByPodGC:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the node of the scan pod was lost: " + c.Message}
	case evictionByEvictionAPI:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: "the scan pod was evicted, as when its node is drained: " + c.Message}
	default:
		return vuln.Outcome{Reason: vuln.ReasonCatalogFailed, Message: fmt.Sprintf("the scan pod was ended from outside (%s): %s", c.Reason, c.Message)}
	}
}
