package scanjob

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// PodDelay is how long the pod of a Job that the Job controller has started may be missing before the attempt counts as blocked: a quota or an
// admission controller may reject the pod, which the status of the Job does not show. A Job without a start time is one that a busy Job
// controller has not seen yet.
const PodDelay = 3 * time.Second

const (
	// statusGrace is how long the status of a Job may lag behind that of its pods.
	statusGrace = time.Minute
	// podGrace is how long the creation of a pod may take before it is reported, startGrace how long the start of a Job.
	podGrace   = 10 * time.Second
	startGrace = time.Minute
	// overdueGrace is how long a Job may continue after its deadline.
	overdueGrace = 5 * time.Minute
	// maxReport is the maximum size in bytes of a termination message in Kubernetes; a longer one is ignored. maxMessage is how much of the
	// message in it is kept.
	maxReport  = 4096
	maxMessage = 1024
)

// The reasons of the condition DisruptionTarget that have no name in the API.
const (
	deletionByTaintManager = "DeletionByTaintManager"
	deletionByPodGC        = "DeletionByPodGC"
	evictionByEvictionAPI  = "EvictionByEvictionAPI"
)

// Evaluation is the state of a scan attempt, computed from its Job and pods.
type Evaluation struct {
	// Done: the attempt has ended, even if the Job has not, and no longer counts as a concurrent scan.
	Done bool
	// Started: the scan container runs or has run.
	Started bool
	// Blocked: the scan container does not start, because of a known problem or because the started Job has had no pod for PodDelay.
	Blocked bool
	// Node is the node of a pod that does not start, for a reason other than an image that cannot be pulled; empty if there is none.
	Node string
	// RunsOn is the node of the last pod that has one; empty if none has.
	RunsOn string
	// Outcome is the result if Done. Otherwise it is what blocks the attempt, without a reason if nothing is known to block it.
	Outcome model.Outcome
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

// Evaluate computes the state of an attempt from its Job and those pods of the Job that still exist.
func Evaluate(job *batchv1.Job, pods []corev1.Pod, now time.Time) Evaluation {
	evaluation := evaluate(job, pods, now)
	evaluation.Started = slices.ContainsFunc(pods, started)
	evaluation.Node = nodeThatFails(pods)
	for i := range pods {
		evaluation.RunsOn = cmp.Or(pods[i].Spec.NodeName, evaluation.RunsOn)
	}
	evaluation.Blocked = !evaluation.Done && !evaluation.Started &&
		(!evaluation.Outcome.Succeeded() || awaitsPod(job, pods) && startedFor(job, PodDelay, now))
	return evaluation
}

// nodeThatFails returns the node of the first pod whose scan container does not start although its images are there, as far as is known.
func nodeThatFails(pods []corev1.Pod) string {
	for i := range pods {
		status := scanStatus(&pods[i])
		if pods[i].Spec.NodeName == "" || started(pods[i]) {
			continue
		}
		if status != nil && status.State.Waiting != nil && concernsImage(status.State.Waiting) {
			continue
		}
		return pods[i].Spec.NodeName
	}
	return ""
}

// concernsImage reports whether a container waits because an image cannot be pulled.
func concernsImage(waiting *corev1.ContainerStateWaiting) bool {
	return strings.Contains(waiting.Reason, "Image") || coverage.PullFailure(waiting.Reason, waiting.Message) != "" ||
		waiting.Reason == "SignatureValidationFailed"
}

// Blocked reports whether a problem is known that keeps the scan container of a pod from starting.
func Blocked(pod *corev1.Pod) bool {
	_, blocked := startFailure([]corev1.Pod{*pod})
	return blocked && !started(*pod)
}

// Stopped reports whether the scan container of a pod ended before a time, although containers that others have added may continue.
func Stopped(pod *corev1.Pod, before time.Time) bool {
	status := scanStatus(pod)
	return status != nil && status.State.Terminated != nil && status.State.Terminated.FinishedAt.Time.Before(before)
}

// started reports whether the scan container of a pod runs or has run.
func started(pod corev1.Pod) bool {
	status := scanStatus(&pod)
	return status != nil && (status.State.Running != nil || status.State.Terminated != nil)
}

func evaluate(job *batchv1.Job, pods []corev1.Pod, now time.Time) Evaluation {
	if condition(job, batchv1.JobComplete) != nil {
		return Evaluation{Done: true}
	}
	if failed := condition(job, batchv1.JobFailed); failed != nil {
		return Evaluation{Done: true, Outcome: failure(job, pods, failed)}
	}
	// The Job controller waits for every pod to go, and that of a lost node never does.
	if failing := condition(job, batchv1.JobFailureTarget); failing != nil && now.Sub(failing.LastTransitionTime.Time) > statusGrace {
		return Evaluation{Done: true, Outcome: failure(job, pods, failing)}
	}
	if succeeded, at, ended := podsEnded(pods); ended && now.Sub(at) > statusGrace {
		if succeeded {
			return Evaluation{Done: true}
		}
		return Evaluation{Done: true, Outcome: failure(job, pods, &batchv1.JobCondition{Message: "its pod has ended"})}
	}
	if overdue(job, now) {
		return Evaluation{Done: true, Outcome: overdueOutcome(job, pods)}
	}
	if outcome, known := soFar(pods); known {
		return Evaluation{Outcome: outcome}
	}
	if awaitsPod(job, pods) && (startedFor(job, podGrace, now) || job.Status.StartTime == nil && now.Sub(job.CreationTimestamp.Time) > startGrace) {
		return Evaluation{Outcome: noPod(job)}
	}
	return Evaluation{}
}

// Deleted is the outcome of an attempt whose Job was deleted before it had ended.
func Deleted(namespace, name string) model.Outcome {
	return model.Outcome{
		Reason:  model.ReasonCatalogFailed,
		Message: fmt.Sprintf("the scan Job %s/%s was deleted before it finished", namespace, name),
	}
}

// failure returns why a Job failed. The termination message of the scan takes precedence over the status of the pod, unless the
// pod was disrupted: then the scan knows only that it received a signal.
func failure(job *batchv1.Job, pods []corev1.Pod, failed *batchv1.JobCondition) model.Outcome {
	deadline := failed.Reason == batchv1.JobReasonDeadlineExceeded
	gone, disrupted := disruption(pods)
	disrupted = disrupted && !deadline
	if outcome, reported := reported(pods); reported && (!disrupted || outcome.Reason != model.ReasonDeadlineExceeded) {
		return outcome
	}
	crash, crashed := crash(pods)
	blocked, isBlocked := startFailure(pods)
	switch {
	case disrupted:
		return gone
	// At the deadline the pod is killed, so its exit code has no meaning.
	case crashed && !deadline:
		return crash
	case isBlocked:
		return blocked
	case deadline && podless(job, pods):
		return noPod(job)
	case deadline:
		return model.Outcome{Reason: model.ReasonDeadlineExceeded, Message: "the scan Job exceeded its deadline"}
	case len(pods) == 0:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan pod no longer exists: it was deleted or its node was lost"}
	default:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan Job failed: " + failed.Message}
	}
}

// podsEnded reports whether there are pods and the scan containers of all of them have ended, whether all succeeded, and when the last one
// ended. Containers that others have added may continue.
func podsEnded(pods []corev1.Pod) (succeeded bool, at time.Time, ended bool) {
	succeeded = true
	for i := range pods {
		switch pods[i].Status.Phase {
		case corev1.PodSucceeded:
		case corev1.PodFailed:
			succeeded = false
		default:
			status := scanStatus(&pods[i])
			// What a deleted pod ended with has no meaning until its Job says so.
			if status == nil || status.State.Terminated == nil || pods[i].DeletionTimestamp != nil {
				return false, time.Time{}, false
			}
			succeeded = succeeded && status.State.Terminated.ExitCode == 0
		}
		for _, status := range pods[i].Status.ContainerStatuses {
			if t := status.State.Terminated; t != nil && t.FinishedAt.After(at) {
				at = t.FinishedAt.Time
			}
		}
	}
	return succeeded, at, len(pods) > 0
}

// podless reports whether the Job controller has not created any pod. Deleted pods are counted in the status of the Job.
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

// awaitsPod reports whether the Job controller has not created any pod of a Job that is not about to fail.
func awaitsPod(job *batchv1.Job, pods []corev1.Pod) bool {
	return podless(job, pods) && condition(job, batchv1.JobFailureTarget) == nil
}

// startedFor reports whether the Job controller started a Job at least a duration ago.
func startedFor(job *batchv1.Job, duration time.Duration, now time.Time) bool {
	return job.Status.StartTime != nil && now.Sub(job.Status.StartTime.Time) >= duration
}

func noPod(job *batchv1.Job) model.Outcome {
	return model.Outcome{Reason: model.ReasonUnschedulable, Message: fmt.Sprintf(
		"the Job controller created no pod for the scan Job, most often because of a quota or an admission controller; run kubectl describe job %s -n %s", job.Name, job.Namespace)}
}

// overdue reports whether a Job continues long after its deadline: it is suspended, or the Job controller does not run.
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

func overdueOutcome(job *batchv1.Job, pods []corev1.Pod) model.Outcome {
	if outcome, known := soFar(pods); known {
		return outcome
	}
	if podless(job, pods) {
		return noPod(job)
	}
	return model.Outcome{Reason: model.ReasonDeadlineExceeded, Message: "the scan Job continues long after its deadline; the operator no longer waits for it"}
}

// soFar returns the outcome that the pods of an unfinished Job show. The exit of a deleted pod does not count, because only the Job
// shows why it was deleted.
func soFar(pods []corev1.Pod) (model.Outcome, bool) {
	deleted := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if outcome, reported := reported(pods); reported && (!deleted || outcome.Reason != model.ReasonDeadlineExceeded) {
		return outcome, true
	}
	if outcome, crashed := crash(pods); crashed && !deleted {
		return outcome, true
	}
	return startFailure(pods)
}

// scanStatus returns the status of the scan container, nil before there is one.
func scanStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == ContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// reported returns the outcome in the termination message of a failed scan.
func reported(pods []corev1.Pod) (model.Outcome, bool) {
	for i := range pods {
		status := scanStatus(&pods[i])
		if status == nil || status.State.Terminated == nil || status.State.Terminated.ExitCode == 0 {
			continue
		}
		if outcome, known := readReport(status.State.Terminated.Message); known {
			return outcome, true
		}
	}
	return model.Outcome{}, false
}

// readReport reads a termination message. It is untrusted: the pod ran in a namespace in which others have rights. It is false for what
// no scan reports: other reasons are those of the kubelet, of the scheduler and of the operator.
func readReport(message string) (model.Outcome, bool) {
	var outcome model.Outcome
	if len(message) > maxReport || json.Unmarshal([]byte(message), &outcome) != nil {
		return model.Outcome{}, false
	}
	switch outcome.Reason {
	case model.ReasonRegistryRateLimited, model.ReasonRegistryUnavailable:
	case model.ReasonImagePullDenied, model.ReasonImageNotFound, model.ReasonNotPullable, model.ReasonPlatformMismatch, model.ReasonImageTooLarge,
		model.ReasonOutOfDisk, model.ReasonOutOfMemory, model.ReasonDeadlineExceeded, model.ReasonCatalogFailed, model.ReasonUploadFailed:
		outcome.RetryAfter = 0 // Only a registry requests a delay.
	default:
		return model.Outcome{}, false
	}
	outcome.Message = truncate.Ellipsis(oneLine(outcome.Message), maxMessage)
	return outcome, true
}

// oneLine replaces everything in a text that is not printed, such as line breaks and terminal escapes, by spaces.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// crash returns the outcome of a scan that ended without a termination message.
func crash(pods []corev1.Pod) (model.Outcome, bool) {
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
			return model.Outcome{Reason: model.ReasonCatalogFailed, Message: message}, true
		}
	}
	return model.Outcome{}, false
}

// startFailure returns why a scan container cannot start.
func startFailure(pods []corev1.Pod) (model.Outcome, bool) {
	for i := range pods {
		pod := &pods[i]
		if status := scanStatus(pod); status != nil {
			if outcome, stuck := waits(pod, status.State.Waiting); stuck {
				return outcome, true
			}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return model.Outcome{Reason: model.ReasonUnschedulable, Message: "the scan pod cannot be scheduled: " + c.Message}, true
			}
		}
	}
	return model.Outcome{}, false
}

// waits returns the error for which the scan container of a pod waits, if any.
func waits(pod *corev1.Pod, waiting *corev1.ContainerStateWaiting) (model.Outcome, bool) {
	switch {
	case waiting == nil || slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason):
		return model.Outcome{}, false
	case concernsVolume(pod, waiting.Message) && coverage.PullFailure(waiting.Reason, waiting.Message) != "":
		return model.Outcome{
			Reason:  coverage.PullFailure(waiting.Reason, waiting.Message),
			Message: fmt.Sprintf("the kubelet cannot pull the image for the scan pod: %s: %s", waiting.Reason, waiting.Message),
		}, true
	case strings.Contains(waiting.Reason, "Image"):
		return model.Outcome{
			Reason:  model.ReasonUnschedulable,
			Message: fmt.Sprintf("the kubelet cannot pull the operator's own image for the scan pod: %s: %s", waiting.Reason, waiting.Message),
		}, true
	default:
		return model.Outcome{
			Reason: model.ReasonUnschedulable, Message: fmt.Sprintf("the kubelet cannot start the scan pod: %s: %s", waiting.Reason, waiting.Message),
		}, true
	}
}

func terminated(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) model.Outcome {
	switch {
	case ended.Reason == "OOMKilled":
		return model.Outcome{Reason: model.ReasonOutOfMemory, Message: "the scan container exceeded its memory limit"}
	case pod.Status.Reason == "Evicted":
		return evicted(pod)
	case ended.ExitCode == 137 && pod.Status.Reason == "":
		return model.Outcome{Reason: model.ReasonOutOfMemory, Message: "the scan container was killed, most likely because the node ran out of memory"}
	case ended.Reason == "StartError" || ended.Reason == "ContainerCannotRun":
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan container cannot start: " + ended.Message}
	default:
		return model.Outcome{
			Reason:  model.ReasonCatalogFailed,
			Message: fmt.Sprintf("the scan container ended with exit code %d (%s) and without a termination message; see its log", ended.ExitCode, ended.Reason),
		}
	}
}

func evicted(pod *corev1.Pod) model.Outcome {
	lower := strings.ToLower(pod.Status.Message)
	if strings.Contains(lower, "ephemeral") || strings.Contains(lower, "emptydir") || strings.Contains(lower, "disk") {
		return model.Outcome{Reason: model.ReasonOutOfDisk, Message: "the scan pod was evicted: " + pod.Status.Message}
	}
	if strings.Contains(lower, "memory") {
		return model.Outcome{Reason: model.ReasonOutOfMemory, Message: "the scan pod was evicted: " + pod.Status.Message}
	}
	return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan pod was evicted: " + pod.Status.Message}
}

// disruption returns why a pod was terminated from outside, if it was.
func disruption(pods []corev1.Pod) (model.Outcome, bool) {
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
			return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan pod was deleted while it was running"}, true
		}
	}
	return model.Outcome{}, false
}

func disruptedFor(c corev1.PodCondition) model.Outcome {
	switch c.Reason {
	case corev1.PodReasonPreemptionByScheduler:
		return model.Outcome{Reason: model.ReasonUnschedulable, Message: "the scan pod was preempted by a pod of higher priority: " + c.Message}
	case deletionByTaintManager, deletionByPodGC:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the node of the scan pod was lost: " + c.Message}
	case evictionByEvictionAPI:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the scan pod was evicted through the Eviction API, for example because its node was drained: " + c.Message}
	default:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: fmt.Sprintf("the scan pod was terminated (%s): %s", c.Reason, c.Message)}
	}
}
