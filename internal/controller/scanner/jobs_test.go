package scanner

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

func scanJobOf(conditions ...batchv1.JobCondition) *batchv1.Job {
	job := scanjob.Build(scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}, scanjob.DefaultOptions())
	job.UID, job.Status.Conditions = "job", conditions
	return job
}

func scanPod(status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scan-a-x", Labels: map[string]string{scanjob.LabelScan: "scan-a"}},
		Status:     status,
	}
}

func attemptOf(t *testing.T, jobs *Jobs) Attempt {
	t.Helper()
	attempts, err := jobs.Attempts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return attempts["scan-a"]
}

// The caches of Jobs and of pods follow the API server independently.
func TestJobOutcomeWhenTheCachedPodsLag(t *testing.T) {
	failed := scanJobOf(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue})
	message := `{"reason":"ImageTooLarge","message":"big"}`
	ended := scanPod(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name:  scanjob.ContainerName,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}},
	}}})
	build := func(objects ...client.Object) client.WithWatch {
		return fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).Build()
	}
	live := build(failed.DeepCopy(), ended)
	jobs := NewJobs(build(failed, scanPod(corev1.PodStatus{})), live, testclock.NewFakeClock(now), scanjob.DefaultOptions())
	if got := attemptOf(t, jobs); got.Outcome.Reason != vuln.ReasonImageTooLarge || got.Key != imageKey("a") {
		t.Errorf("attempt: %+v, want the reason that the pod told", got)
	}
	// An end does not change any more, and is not asked for again.
	if err := live.Delete(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs); got.Outcome.Reason != vuln.ReasonImageTooLarge {
		t.Errorf("attempt: %+v, want the same again", got)
	}
}

// At its deadline, a Job deletes the pod that could tell why it never started.
func TestJobOutcomeOfAPodThatNeverStarted(t *testing.T) {
	pending := scanPod(corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available",
	}}})
	c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(scanJobOf(), pending).WithStatusSubresource(&batchv1.Job{}).Build()
	jobs := NewJobs(c, c, testclock.NewFakeClock(now), scanjob.DefaultOptions())
	if got := attemptOf(t, jobs); got.Done {
		t.Fatalf("attempt: %+v, want it under way", got)
	}
	job := &batchv1.Job{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, job); err != nil {
		t.Fatal(err)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs); !got.Done || got.Outcome.Reason != vuln.ReasonUnschedulable {
		t.Errorf("attempt: %+v, want Unschedulable", got)
	}
	if err := c.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if attemptOf(t, jobs); len(jobs.troubles)+len(jobs.outcomes) != 0 {
		t.Errorf("remembers %v and %v of a Job that is gone", jobs.troubles, jobs.outcomes)
	}
}
