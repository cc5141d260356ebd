package scanner

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// blocks marks the attempts under way of a namespace as blocked since their start.
func (s *starter) blocks(namespace string, since time.Time) (count int) {
	for name, attempt := range s.attempts {
		if attempt.For == namespace && !attempt.Done {
			attempt.Blocked, attempt.Outcome = true, model.Outcome{Reason: model.ReasonUnschedulable, Message: "quota"}
			if attempt.Created.IsZero() {
				attempt.Created = since
			}
			s.attempts[name] = attempt
			count++
		}
	}
	return count
}

// A quota rejects the pods of one tenant. Its images take the slots of nobody else, and end early.
func TestBlockedAttemptsLeaveSlotsToOthers(t *testing.T) {
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	shop, _ := tenant("shop", "")
	bank, bankPod := tenant("bank", "b")
	objects := []client.Object{shop, bank, bankPod}
	for i := range 20 {
		_, pod := tenant("shop", fmt.Sprint("shop-", i))
		pod.Name = fmt.Sprint("shop-", i)
		objects = append(objects, pod)
	}
	r, _ := newReconciler(t, known, cataloger, objects...)
	r.Limits = Limits{Scans: 2, PerRegistry: 2}
	clk := testclock.NewFakeClock(now)
	r.Clock = clk
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "s"}})
	if err != nil || result.RequeueAfter > scanjob.PodDelay {
		t.Fatalf("%+v, %v; want a look at the new attempts after %s", result, err, scanjob.PodDelay)
	}
	if count := cataloger.blocks("shop", now); count != 2 {
		t.Fatalf("%d scans of the shop, want 2", count)
	}
	reconcileIn(t, r, "bank")
	if _, started := cataloger.attempts[scanjob.Name(imageKey("b"), "nonce", 0)]; !started {
		t.Errorf("started %v, want the image of the bank too", cataloger.started)
	}
	failed := func() (count int) {
		for _, image := range known {
			if image.State == store.StateFailed && image.Reason == model.ReasonUnschedulable {
				count++
			}
		}
		return count
	}
	for _, step := range []struct {
		at   time.Duration
		want int
	}{
		{blockedGrace - 1, 0}, {blockedGrace, 1}, {blockedTime - 1, 1}, {blockedTime, 2},
	} {
		clk.SetTime(now.Add(step.at))
		reconcileIn(t, r, "shop")
		if got := failed(); got != step.want {
			t.Errorf("after %s, %d attempts have ended, want %d", step.at, got, step.want)
		}
	}
}

// No event says that a Job gets no pod: it is looked at again soon, and then rarely.
func TestNextLookAtAttemptsThatHaveNotStarted(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: scanjob.PodDelay, scanjob.PodDelay: time.Second, scanjob.PodDelay + time.Second: scanjob.PodDelay - time.Second,
		2 * scanjob.PodDelay: blockedGrace - 2*scanjob.PodDelay, blockedTime: time.Hour,
	} {
		v := &observed{active: []Attempt{{Created: now.Add(-age)}, {Created: now, Started: true}}}
		if got := v.nextBlocked(time.Hour, now); got != want {
			t.Errorf("at the age of %s: in %s, want %s", age, got, want)
		}
	}
}

// What remains of an attempt that is over is deleted, unless it ends by itself.
func TestJobsOfAttemptsThatAreOver(t *testing.T) {
	scan := func(state corev1.ContainerState) *corev1.Pod {
		return scanPod(corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: scanjob.ContainerName, State: state}}})
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(ago time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}
	}
	for name, tt := range map[string]struct {
		open       bool
		sbom       string
		pod        *corev1.Pod
		done, gone bool
	}{
		"under way":                      {true, "", scan(running), false, false},
		"blocked":                        {true, "", scanPod(corev1.PodStatus{}), false, false},
		"given up, never started":        {false, "", scanPod(corev1.PodStatus{}), true, true},
		"given up, running":              {false, "", scan(running), true, true},
		"delivered, running":             {false, "sha", scan(running), false, false},
		"delivered, ended just now":      {false, "sha", scan(ended(time.Second)), false, false},
		"delivered, a sidecar remains":   {false, "sha", scan(ended(slotGrace + 1)), true, false},
		"delivered, a sidecar continues": {false, "sha", scan(ended(time.Hour)), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			job := scanJobOf()
			job.CreationTimestamp = metav1.NewTime(now)
			c, kept := clientWith(t, job, tt.pod), records(t, job)
			record := kept["scan-a"]
			record.Open, record.SBOMSHA256 = tt.open, tt.sbom
			kept["scan-a"] = record
			jobs := jobsOn(c, c, kept, testclock.NewFakeClock(now))
			if got := attemptOf(t, jobs); got.Done != tt.done {
				t.Errorf("done %t, want %t", got.Done, tt.done)
			}
			if again := jobs.DeleteEnded(t.Context()); again != 0 {
				t.Errorf("to be deleted again after %s", again)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(job), &batchv1.Job{})
			if gone := apierrors.IsNotFound(err); gone != tt.gone {
				t.Errorf("the Job is gone: %t (%v), want %t", gone, err, tt.gone)
			}
		})
	}
}

// Where a quota limits the CPU, pods without a limit are rejected.
func TestQuotasGetACPULimit(t *testing.T) {
	quota := func(name, hard, used string) client.Object {
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse(hard)}},
			Status:     corev1.ResourceQuotaStatus{Used: corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse(used)}},
		}
	}
	pods := quota("pods", "1", "0")
	pods.(*corev1.ResourceQuota).Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}
	for name, tt := range map[string]struct {
		quotas []client.Object
		wanted string
		want   string
	}{
		"none":                {nil, "", "0"},
		"of pods":             {[]client.Object{pods}, "", "0"},
		"large":               {[]client.Object{quota("a", "10", "2")}, "", "1"},
		"almost exhausted":    {[]client.Object{quota("a", "10", "2"), quota("b", "3", "2500m")}, "", "500m"},
		"exhausted":           {[]client.Object{quota("a", "2", "2")}, "", "100m"},
		"a limit of the spec": {[]client.Object{quota("a", "10", "2")}, "3", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientWith(t, tt.quotas...)
			req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}
			if tt.wanted != "" {
				req.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(tt.wanted)}
			}
			if err := jobsOn(c, c, recorded{}, testclock.NewFakeClock(now)).Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); err != nil {
				t.Fatal(err)
			}
			var job batchv1.Job
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, &job); err != nil {
				t.Fatal(err)
			}
			if got := job.Spec.Template.Spec.Containers[0].Resources.Limits.Cpu(); got.String() != tt.want {
				t.Errorf("limit %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAnnotationsOfAJobKeepTheBackoff: a blocked attempt of a changed spec.job is followed by another one at once. Users of the namespace can edit the
// annotations of its Jobs, and must not have the operator try again and again.
func TestAnnotationsOfAJobKeepTheBackoff(t *testing.T) {
	c, kept := clientWith(t), recorded{}
	jobs := jobsOn(splitClient{c, c}, c, kept, testclock.NewFakeClock(now))
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me", JobSpec: "as specified"}
	if err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, job); err != nil {
		t.Fatal(err)
	}
	job.Annotations[scanjob.AnnotationJobSpec] = "forged"
	if err := c.Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs).JobSpec; got != "as specified" {
		t.Errorf("the attempt has the spec %q, want what the store has", got)
	}
}
