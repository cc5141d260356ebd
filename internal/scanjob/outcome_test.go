package scanjob

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// jobAged is a Job that is so old, changed by mutate.
func jobAged(age time.Duration, mutate ...func(*batchv1.Job)) *batchv1.Job {
	job := build(nil)
	job.CreationTimestamp = metav1.NewTime(now.Add(-age))
	for _, m := range mutate {
		m(job)
	}
	return job
}

// with adds a condition that came so long ago.
func with(kind batchv1.JobConditionType, reason string, ago time.Duration) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "why", LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		})
	}
}

// failed is a Job that has failed; a pod of it was counted unless the reason is the deadline.
func failed(reason string) *batchv1.Job {
	return jobAged(time.Minute, with(batchv1.JobFailed, reason, 0), func(j *batchv1.Job) { j.Status.Failed = 1 })
}

func podWith(status corev1.ContainerStatus, mutate ...func(*corev1.Pod)) []corev1.Pod {
	status.Name = ContainerName
	pod := corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
	for _, m := range mutate {
		m(&pod)
	}
	return []corev1.Pod{pod}
}

// ended is the status of a container that ended two minutes ago.
func ended(code int32, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.NewTime(now.Add(-2 * time.Minute)),
	}}}
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}
}

func evictedFor(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", message }
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func podCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: "0/3 nodes"})
	}
}

func disruptedBy(reason string) func(*corev1.Pod) {
	return podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, reason)
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

const terminatedBySignal = `{"reason":"DeadlineExceeded","message":"received a signal"}`

type evaluationTest struct {
	job  *batchv1.Job
	pods []corev1.Pod
	done bool
	want model.Reason
	// message must be contained in that of the outcome.
	message string
}

// finishedJobs holds Jobs that have ended, by what ended them.
var finishedJobs = map[string]evaluationTest{
	"complete":                {jobAged(0, with(batchv1.JobComplete, "", 0)), nil, true, "", ""},
	"reported by the scan":    {failed("BackoffLimitExceeded"), podWith(ended(1, "Error", `{"reason":"ImageNotFound","message":"m"}`)), true, model.ReasonImageNotFound, "m"},
	"unknown reason reported": {failed("BackoffLimitExceeded"), podWith(ended(1, "Error", `{"reason":"Gremlins"}`)), true, model.ReasonCatalogFailed, "exit code 1"},
	"reported before the deadline": {
		failed("DeadlineExceeded"), podWith(ended(1, "Error", `{"reason":"RegistryUnavailable","message":"m"}`)), true, model.ReasonRegistryUnavailable, "",
	},
	"out of memory":                        {failed(""), podWith(ended(137, "OOMKilled", "")), true, model.ReasonOutOfMemory, "limit"},
	"killed":                               {failed(""), podWith(ended(137, "Error", "")), true, model.ReasonOutOfMemory, "most likely"},
	"killed at the deadline":               {failed("DeadlineExceeded"), podWith(ended(137, "Error", ""), deleted), true, model.ReasonDeadlineExceeded, ""},
	"signal at the deadline":               {failed("DeadlineExceeded"), podWith(ended(1, "Error", terminatedBySignal), deleted), true, model.ReasonDeadlineExceeded, "signal"},
	"the scan's own time limit":            {failed("BackoffLimitExceeded"), podWith(ended(1, "Error", terminatedBySignal)), true, model.ReasonDeadlineExceeded, "signal"},
	"pod deleted":                          {failed("BackoffLimitExceeded"), podWith(ended(1, "Error", terminatedBySignal), deleted), true, model.ReasonCatalogFailed, "was deleted while it was running"},
	"pod killed after it was deleted":      {failed("BackoffLimitExceeded"), podWith(ended(137, "Error", ""), deleted), true, model.ReasonCatalogFailed, "was deleted"},
	"pod deleted after it had failed":      {failed("BackoffLimitExceeded"), podWith(ended(1, "Error", `{"reason":"ImageTooLarge"}`), deleted), true, model.ReasonImageTooLarge, ""},
	"pod gone":                             {failed("BackoffLimitExceeded"), nil, true, model.ReasonCatalogFailed, "no longer exists"},
	"evicted for an emptyDir":              {failed(""), podWith(ended(137, "Error", ""), evictedFor("Usage of EmptyDir volume exceeds the limit")), true, model.ReasonOutOfDisk, "EmptyDir"},
	"evicted for disk":                     {failed(""), podWith(corev1.ContainerStatus{}, evictedFor("low on resource: ephemeral-storage")), true, model.ReasonOutOfDisk, ""},
	"evicted for memory":                   {failed(""), podWith(corev1.ContainerStatus{}, evictedFor("low on resource: memory")), true, model.ReasonOutOfMemory, ""},
	"evicted for something":                {failed(""), podWith(corev1.ContainerStatus{}, evictedFor("taint")), true, model.ReasonCatalogFailed, "taint"},
	"evicted, outcome reported":            {failed(""), podWith(ended(1, "Error", terminatedBySignal), evictedFor("low on resource: memory")), true, model.ReasonOutOfMemory, "evicted"},
	"preempted":                            {failed(""), podWith(ended(1, "Error", terminatedBySignal), disruptedBy("PreemptionByScheduler")), true, model.ReasonUnschedulable, "higher priority"},
	"node drained":                         {failed(""), podWith(ended(143, "Error", ""), disruptedBy("EvictionByEvictionAPI")), true, model.ReasonCatalogFailed, "drained"},
	"node lost, by its taint":              {failed(""), podWith(corev1.ContainerStatus{}, disruptedBy("DeletionByTaintManager"), deleted), true, model.ReasonCatalogFailed, "node of the scan pod was lost"},
	"node removed":                         {failed(""), podWith(corev1.ContainerStatus{}, disruptedBy("DeletionByPodGC"), phase(corev1.PodFailed)), true, model.ReasonCatalogFailed, "node of the scan pod was lost"},
	"node shut down":                       {failed(""), podWith(corev1.ContainerStatus{}, disruptedBy("TerminationByKubelet"), phase(corev1.PodFailed)), true, model.ReasonCatalogFailed, "TerminationByKubelet"},
	"cannot be started":                    {failed(""), podWith(ended(128, "StartError", "no such file")), true, model.ReasonCatalogFailed, "no such file"},
	"pod failed without a message":         {failed(""), podWith(corev1.ContainerStatus{}, phase(corev1.PodFailed)), true, model.ReasonCatalogFailed, "pod failed"},
	"deadline":                             {failed("DeadlineExceeded"), nil, true, model.ReasonDeadlineExceeded, ""},
	"failed for a reason unknown":          {failed("Unknown"), podWith(corev1.ContainerStatus{}), true, model.ReasonCatalogFailed, "why"},
	"never scheduled":                      {failed("DeadlineExceeded"), podWith(corev1.ContainerStatus{}, podCondition(corev1.PodScheduled, corev1.ConditionFalse, "")), true, model.ReasonUnschedulable, "0/3 nodes"},
	"own image cannot be pulled":           {failed("DeadlineExceeded"), podWith(waiting("ImagePullBackOff")), true, model.ReasonUnschedulable, "own image"},
	"container cannot be made":             {failed("DeadlineExceeded"), podWith(waiting("CreateContainerConfigError")), true, model.ReasonUnschedulable, "CreateContainerConfigError"},
	"no pod until the deadline, for quota": {jobAged(0, with(batchv1.JobFailed, "DeadlineExceeded", 0)), nil, true, model.ReasonUnschedulable, "kubectl describe job scan-x -n shop"},
}

// unfinishedJobs holds Jobs that do not say that they have ended.
var unfinishedJobs = map[string]evaluationTest{
	"new":                      {jobAged(0), nil, false, "", ""},
	"running":                  {jobAged(time.Minute), podWith(corev1.ContainerStatus{}, phase(corev1.PodRunning)), false, "", ""},
	"starting":                 {jobAged(time.Minute), podWith(waiting("ContainerCreating")), false, "", ""},
	"not scheduled":            {jobAged(0), podWith(corev1.ContainerStatus{}, podCondition(corev1.PodScheduled, corev1.ConditionFalse, "")), false, model.ReasonUnschedulable, "0/3 nodes"},
	"own image not pulled":     {jobAged(0), podWith(waiting("ErrImagePull")), false, model.ReasonUnschedulable, "own image"},
	"no pod yet":               {jobAged(podGrace), nil, false, "", ""},
	"no pod for long":          {jobAged(startGrace + 1), nil, false, model.ReasonUnschedulable, "created no pod"},
	"pod not in the cache yet": {jobAged(podGrace+1, func(j *batchv1.Job) { j.Status.Active = 1 }), nil, false, "", ""},
	"pod gone and not counted yet": {
		jobAged(podGrace+1, func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"pod"}}
		}), nil, false, "", "",
	},
	"pod that goes not in the cache": {jobAged(podGrace+1, func(j *batchv1.Job) { j.Status.Terminating = new(int32(1)) }), nil, false, "", ""},
	"ended just now":                 {jobAged(time.Minute), podWith(endedAgo(0, `{"reason":"OutOfDisk"}`), phase(corev1.PodFailed)), false, model.ReasonOutOfDisk, ""},
	"signal as its pod is deleted":   {jobAged(time.Minute), podWith(endedAgo(0, terminatedBySignal), phase(corev1.PodFailed), deleted), false, "", ""},
	"killed as its pod goes":         {jobAged(time.Minute), podWith(ended(137, "Error", ""), deleted), false, "", ""},
	"failed before its pod goes":     {jobAged(time.Minute), podWith(endedAgo(0, `{"reason":"ImageTooLarge"}`), phase(corev1.PodFailed), deleted), false, model.ReasonImageTooLarge, ""},
	"its own time limit just now":    {jobAged(time.Minute), podWith(endedAgo(0, terminatedBySignal), phase(corev1.PodFailed)), false, model.ReasonDeadlineExceeded, ""},
	"ended, Job controller lag":      {jobAged(time.Hour), podWith(endedAgo(statusGrace+1, `{"reason":"OutOfDisk"}`), phase(corev1.PodFailed)), true, model.ReasonOutOfDisk, ""},
	"deleted, Job controller lag": {
		jobAged(time.Minute), podWith(endedAgo(statusGrace+1, terminatedBySignal), phase(corev1.PodFailed), deleted), true, model.ReasonCatalogFailed, "was deleted",
	},
	"ended, a sidecar continues": {
		jobAged(time.Hour), podWith(endedAgo(statusGrace+1, `{"reason":"OutOfDisk"}`), phase(corev1.PodRunning)), true, model.ReasonOutOfDisk, "",
	},
	"ended just now, a sidecar continues": {
		jobAged(time.Minute), podWith(endedAgo(statusGrace, `{"reason":"OutOfDisk"}`), phase(corev1.PodRunning)), false, model.ReasonOutOfDisk, "",
	},
	"succeeded, a sidecar continues": {jobAged(time.Minute), podWith(ended(0, "Completed", ""), phase(corev1.PodRunning)), true, "", ""},
	"succeeded, Job controller lag":  {jobAged(time.Minute), podWith(ended(0, "Completed", ""), phase(corev1.PodSucceeded)), true, "", ""},
	"about to fail":                  {jobAged(time.Minute, with(batchv1.JobFailureTarget, "BackoffLimitExceeded", statusGrace)), nil, false, "", ""},
	"about to fail, and its pod never goes": {
		jobAged(time.Minute, with(batchv1.JobFailureTarget, "BackoffLimitExceeded", statusGrace+1)),
		podWith(corev1.ContainerStatus{}, disruptedBy("DeletionByTaintManager"), deleted), true, model.ReasonCatalogFailed, "node of the scan pod was lost",
	},
	"about to fail at its deadline, and its pod never goes": {
		jobAged(time.Minute, with(batchv1.JobFailureTarget, "DeadlineExceeded", statusGrace+1)),
		podWith(corev1.ContainerStatus{}, phase(corev1.PodRunning), deleted), true, model.ReasonDeadlineExceeded, "",
	},
	"at its deadline":                {jobAged(15*time.Minute + overdueGrace), podWith(corev1.ContainerStatus{}, phase(corev1.PodRunning)), false, "", ""},
	"long after its deadline":        {jobAged(15*time.Minute + overdueGrace + 1), podWith(corev1.ContainerStatus{}, phase(corev1.PodRunning)), true, model.ReasonDeadlineExceeded, "no longer waits"},
	"no pod long after its deadline": {jobAged(15*time.Minute + overdueGrace + 1), nil, true, model.ReasonUnschedulable, "created no pod"},
	"unscheduled long after its deadline": {
		jobAged(15*time.Minute + overdueGrace + 1), podWith(corev1.ContainerStatus{}, podCondition(corev1.PodScheduled, corev1.ConditionFalse, "")),
		true, model.ReasonUnschedulable, "0/3 nodes",
	},
	"created long ago, started lately": {
		jobAged(time.Hour, func(j *batchv1.Job) { j.Status.StartTime = new(metav1.NewTime(now)); j.Status.Active = 1 }), nil, false, "", "",
	},
}

// endedAgo is the status of a container that ended with code 1 so long ago.
func endedAgo(ago time.Duration, message string) corev1.ContainerStatus {
	status := ended(1, "Error", message)
	status.State.Terminated.FinishedAt = metav1.NewTime(now.Add(-ago))
	return status
}

func TestEvaluate(t *testing.T) {
	for _, table := range []map[string]evaluationTest{finishedJobs, unfinishedJobs} {
		for name, tt := range table {
			t.Run(name, func(t *testing.T) {
				got := Evaluate(tt.job, tt.pods, now)
				if got.Done != tt.done || got.Outcome.Reason != tt.want || !strings.Contains(got.Outcome.Message, tt.message) {
					t.Errorf("got %+v, want done %t, reason %q and %q in the message", got, tt.done, tt.want, tt.message)
				}
				if got.Outcome.Reason != "" && got.Outcome.Message == "" && !strings.Contains(fmtPods(tt.pods), `"reason"`) {
					t.Error("the outcome does not say what happened")
				}
			})
		}
	}
}

// A termination message is written by a pod in the namespace of others.
func TestTerminationMessagesAreUntrusted(t *testing.T) {
	const unreported = "without a termination message"
	long := strings.Repeat("x", 3*maxReport/4)
	for name, tt := range map[string]struct{ message, reason, text string }{
		"a scan's":                     {`{"reason":"ImageNotFound","message":"m"}`, "ImageNotFound", "m"},
		"too much memory":              {`{"reason":"OutOfMemory","message":"m"}`, "OutOfMemory", "m"},
		"scheduling is the operator's": {`{"reason":"Unschedulable","message":"m"}`, "CatalogFailed", unreported},
		"matching is the operator's":   {`{"reason":"MatchFailed","message":"m"}`, "CatalogFailed", unreported},
		"longer than the kubelet's":    {`{"reason":"ImageNotFound","message":"` + strings.Repeat("x", maxReport) + `"}`, "CatalogFailed", unreported},
		"shortened":                    {`{"reason":"ImageNotFound","message":"` + long + `"}`, "ImageNotFound", strings.Repeat("x", maxMessage-3) + "…"},
		"one line of text":             {`{"reason":"ImageNotFound","message":"a\u001b[2Jb\nc\u202ed"}`, "ImageNotFound", "a [2Jb c d"},
		"not JSON":                     {`reason`, "CatalogFailed", unreported},
	} {
		got := Evaluate(failed(""), podWith(ended(1, "Error", tt.message)), now).Outcome
		if string(got.Reason) != tt.reason || tt.text != unreported && got.Message != tt.text || !strings.Contains(got.Message, tt.text) {
			t.Errorf("%s: got %+v, want %s: %s", name, got, tt.reason, tt.text)
		}
	}
	for reason, want := range map[string]time.Duration{
		"RegistryRateLimited": time.Hour, "RegistryUnavailable": time.Hour, "ImageTooLarge": 0, "ImagePullDenied": 0, "UploadFailed": 0,
	} {
		message := `{"reason":"` + reason + `","retryAfter":86400}`
		if got := Evaluate(failed(""), podWith(ended(1, "Error", message)), now).Outcome; string(got.Reason) != reason || got.RetryAfter != want {
			t.Errorf("%s: got %+v, want a delay of %s", reason, got, want)
		}
	}
}

func TestStarted(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	for name, tt := range map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"no pod":           {nil, false},
		"not scheduled":    {podWith(corev1.ContainerStatus{}, podCondition(corev1.PodScheduled, corev1.ConditionFalse, "")), false},
		"cannot be pulled": {podWith(waiting("ImagePullBackOff")), false},
		"running":          {podWith(running), true},
		"ended":            {podWith(ended(1, "Error", "")), true},
		"one of two":       {append(podWith(waiting("ContainerCreating")), podWith(running)...), true},
	} {
		if got := Evaluate(jobAged(time.Minute), tt.pods, now).Started; got != tt.want {
			t.Errorf("%s: started %t, want %t", name, got, tt.want)
		}
	}
}

func startedAgo(ago time.Duration) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Status.StartTime = new(metav1.NewTime(now.Add(-ago))) }
}

func TestBlocked(t *testing.T) {
	unscheduled := podCondition(corev1.PodScheduled, corev1.ConditionFalse, "")
	for name, tt := range map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		want bool
	}{
		"no pod yet":             {jobAged(time.Hour, startedAgo(PodDelay-1)), nil, false},
		"no pod":                 {jobAged(time.Hour, startedAgo(PodDelay)), nil, true},
		"not seen yet":           {jobAged(startGrace), nil, false},
		"not scheduled":          {jobAged(time.Second), podWith(corev1.ContainerStatus{}, unscheduled), true},
		"cannot be pulled":       {jobAged(time.Second), podWith(waiting("ImagePullBackOff")), true},
		"is pulled":              {jobAged(time.Minute), podWith(waiting("ContainerCreating")), false},
		"running":                {jobAged(time.Minute), podWith(corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}), false},
		"failed after its start": {jobAged(time.Minute), podWith(ended(1, "Error", "")), false},
	} {
		if got := Evaluate(tt.job, tt.pods, now).Blocked; got != tt.want {
			t.Errorf("%s: blocked %t, want %t", name, got, tt.want)
		}
		if len(tt.pods) == 1 && Blocked(&tt.pods[0]) != tt.want {
			t.Errorf("%s: the pod is blocked: %t, want %t", name, !tt.want, tt.want)
		}
	}
}

func fmtPods(pods []corev1.Pod) string {
	var text strings.Builder
	for i := range pods {
		text.WriteString(pods[i].String())
	}
	return text.String()
}

func TestFinished(t *testing.T) {
	for _, tt := range finishedJobs {
		if !Finished(tt.job) {
			t.Errorf("unfinished: %+v", tt.job.Status)
		}
	}
	for _, tt := range unfinishedJobs {
		if Finished(tt.job) {
			t.Errorf("finished: %+v", tt.job.Status)
		}
	}
	if outcome := Deleted("shop", "scan-x"); outcome.Succeeded() || !strings.Contains(outcome.Message, "shop/scan-x") {
		t.Errorf("a deleted Job: %+v", outcome)
	}
}
