package scanner

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func scanJobOf(conditions ...batchv1.JobCondition) *batchv1.Job {
	job := scanjob.Build(scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}, scanjob.DefaultOptions())
	job.UID, job.Status.Conditions = "job", conditions
	return job
}

func scanPod(status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "scan-a-x", Labels: map[string]string{scanjob.LabelScan: "scan-a"},
			OwnerReferences: []metav1.OwnerReference{ownedBy("scan-a", "job", true)},
		},
		Status: status,
	}
}

func ownedBy(job string, uid types.UID, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: uid, Controller: &controller}
}

// A label proves nothing: everyone with the right to create pods can set it.
func TestOutcomesComeFromThePodsOfTheJob(t *testing.T) {
	for name, tt := range map[string]struct {
		owners []metav1.OwnerReference
		want   model.Reason
	}{
		"the pod of the Job":                    {[]metav1.OwnerReference{ownedBy("scan-a", "job", true)}, model.ReasonRegistryRateLimited},
		"a pod without an owner":                {nil, ""},
		"a pod of an earlier Job of the name":   {[]metav1.OwnerReference{ownedBy("scan-a", "earlier", true)}, ""},
		"a pod that the Job does not control":   {[]metav1.OwnerReference{ownedBy("scan-a", "job", false)}, ""},
		"a pod of another Job, with that label": {[]metav1.OwnerReference{ownedBy("other", "other", true)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := scanPod(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: scanjob.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 1, Message: `{"reason":"RegistryRateLimited","message":"429","retryAfter":3600}`,
				}},
			}}})
			pod.OwnerReferences = tt.owners
			job := scanJobOf()
			job.CreationTimestamp = metav1.NewTime(now)
			c := clientWith(t, job, pod)
			if got := attemptOf(t, jobsOn(c, c, records(t, job), testclock.NewFakeClock(now))); got.Outcome.Reason != tt.want {
				t.Errorf("attempt: %+v, want the reason %q", got, tt.want)
			}
		})
	}
}

// recorded is store.ScanJobs in memory, by name.
type recorded map[string]store.ScanJob

// records returns what the store knows of a Job under way.
func records(t *testing.T, job *batchv1.Job) recorded {
	t.Helper()
	spec, err := scanjob.Recorded(job)
	if err != nil {
		t.Fatal(err)
	}
	return recorded{job.Name: {
		Name: job.Name, Namespace: job.Namespace, UID: string(job.UID), Key: imageKey("a"), ScannerUID: "me", SizeClass: model.SizeSmall, Spec: spec, Open: true,
	}}
}

// close ends the attempt of a Job.
func (r recorded) close(name string) {
	job := r[name]
	job.Open = false
	r[name] = job
}

func (r recorded) ReserveScanJob(_ context.Context, job store.ScanJob) (store.ScanJob, bool, error) {
	if kept, found := r[job.Name]; found {
		return kept, false, nil
	}
	// As strict as the SQL store.
	if len(job.Spec) > store.MaxJobSpec {
		return store.ScanJob{}, false, errors.New("the spec is too long")
	}
	job.Open = true
	r[job.Name] = job
	return job, true, nil
}

func (r recorded) RecordScanJob(_ context.Context, name, uid string) error {
	job, found := r[name]
	if !found || job.UID != "" {
		return errors.New("not reserved")
	}
	job.UID = uid
	r[name] = job
	return nil
}

func (r recorded) ScanJob(context.Context, string) (store.ScanJob, error) {
	return store.ScanJob{}, store.ErrNotFound
}

func (r recorded) ReservedScanJob(_ context.Context, namespace, name string) (bool, error) {
	job, found := r[name]
	return found && job.Namespace == namespace && job.UID == "" && job.Open, nil
}

func (r recorded) ListScanJobs(context.Context) ([]store.ScanJob, error) {
	jobs := slices.Collect(maps.Values(r))
	for i := range jobs {
		jobs[i].Spec = nil
	}
	return jobs, nil
}

func (r recorded) ScanJobSpec(_ context.Context, name string) (json.RawMessage, error) {
	job, found := r[name]
	if !found {
		return nil, store.ErrNotFound
	}
	return job.Spec, nil
}

func (r recorded) ForgetScanJobs(_ context.Context, names []string) error {
	for _, name := range names {
		delete(r, name)
	}
	return nil
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
	jobs := NewJobs(build(failed, scanPod(corev1.PodStatus{})), live, records(t, failed), testclock.NewFakeClock(now), scanjob.DefaultOptions())
	if got := attemptOf(t, jobs); got.Outcome.Reason != model.ReasonImageTooLarge || got.Key != imageKey("a") {
		t.Errorf("attempt: %+v, want the reason that the pod told", got)
	}
	// An end does not change any more, and is not asked for again.
	if err := live.Delete(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs); got.Outcome.Reason != model.ReasonImageTooLarge {
		t.Errorf("attempt: %+v, want the same again", got)
	}
}

// At its deadline, a Job deletes the pod that could tell why it never started.
func TestJobOutcomeOfAPodThatNeverStarted(t *testing.T) {
	pending := scanPod(corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available",
	}}})
	c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(scanJobOf(), pending).WithStatusSubresource(&batchv1.Job{}).Build()
	kept := records(t, scanJobOf())
	jobs := NewJobs(c, c, kept, testclock.NewFakeClock(now), scanjob.DefaultOptions())
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
	if got := attemptOf(t, jobs); !got.Done || got.Outcome.Reason != model.ReasonUnschedulable {
		t.Errorf("attempt: %+v, want Unschedulable", got)
	}
	if err := c.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs); got.Outcome.Reason != model.ReasonUnschedulable {
		t.Errorf("attempt: %+v, want the same after the Job is gone", got)
	}
	kept.close("scan-a")
	for range 2 {
		attemptOf(t, jobs)
	}
	if len(kept)+len(jobs.problems)+len(jobs.outcomes)+len(jobs.created)+len(jobs.gone) != 0 {
		t.Errorf("remembers %v, %v and %v of a Job that is gone", kept, jobs.problems, jobs.outcomes)
	}
}

// Between the end of a pod and that of its Job, the pod goes. What was known of it by then must not hide why the Job has ended, nor get lost.
func TestJobOutcomeOfAPodThatGoesFirst(t *testing.T) {
	killed := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: scanjob.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"}},
	}}}
	unschedulable := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}
	tests := map[string]struct {
		pod  corev1.PodStatus
		end  string
		want model.Reason
	}{
		"killed at the deadline":  {killed, batchv1.JobReasonDeadlineExceeded, model.ReasonDeadlineExceeded},
		"killed when deleted":     {killed, batchv1.JobReasonBackoffLimitExceeded, model.ReasonCatalogFailed},
		"had not started by then": {unschedulable, batchv1.JobReasonDeadlineExceeded, model.ReasonUnschedulable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod, job := scanPod(tt.pod), scanJobOf()
			job.CreationTimestamp, job.Status.Active = metav1.NewTime(now), 1
			pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
			c := clientWith(t, job, pod)
			jobs := jobsOn(c, c, records(t, job), testclock.NewFakeClock(now))
			for _, step := range []func() error{
				func() error { return c.Delete(t.Context(), pod) },
				func() error {
					return c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
				},
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
				if got := attemptOf(t, jobs); got.Done {
					t.Fatalf("attempt: %+v, want it under way", got)
				}
			}
			job.Status.Active, job.Status.Failed = 0, 1
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: tt.end}}
			if err := c.Status().Update(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			if got := attemptOf(t, jobs); !got.Done || got.Outcome.Reason != tt.want {
				t.Errorf("attempt: %+v, want %s", got, tt.want)
			}
		})
	}
}

// jobsOn returns Jobs whose cache and API server are given.
func jobsOn(cached, live client.Client, kept recorded, clk *testclock.FakeClock) *Jobs {
	return NewJobs(cached, live, kept, clk, scanjob.DefaultOptions())
}

func clientWith(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).WithStatusSubresource(&batchv1.Job{}).Build()
}

func TestAJobThatSomebodyDeletesHasFailed(t *testing.T) {
	job := scanJobOf()
	c, kept := clientWith(t, job), records(t, job)
	jobs := jobsOn(c, c, kept, testclock.NewFakeClock(now))
	if got := attemptOf(t, jobs); got.Done || got.Key != imageKey("a") {
		t.Fatalf("attempt: %+v, want it under way", got)
	}
	if err := c.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	for range 2 { // It is told for as long as somebody may not have heard it.
		got := attemptOf(t, jobs)
		if !got.Done || got.Outcome != scanjob.Deleted("shop", "scan-a") || got.ScannerUID != "me" || got.SizeClass != model.SizeSmall {
			t.Errorf("attempt: %+v, want it ended as deleted", got)
		}
	}
	kept.close("scan-a")
	if attempts, err := jobs.Attempts(t.Context()); err != nil || len(attempts) != 0 || len(kept) != 0 {
		t.Errorf("%v, %v; want it forgotten", attempts, err)
	}
}

// Whoever may change Jobs in a namespace may delete one and create another of the same name.
func TestAJobInPlaceOfADeletedOneIsAnother(t *testing.T) {
	job := scanJobOf()
	kept := records(t, job)
	job.UID = "another"
	c := clientWith(t, job)
	if got := attemptOf(t, jobsOn(c, c, kept, testclock.NewFakeClock(now))); !got.Done || got.Outcome != scanjob.Deleted("shop", "scan-a") {
		t.Errorf("attempt: %+v, want it ended as deleted", got)
	}
}

// A Job with the labels of a scan that is not recorded is somebody else's.
func TestAJobThatIsNotRecordedDoesNotCount(t *testing.T) {
	c := clientWith(t, scanJobOf())
	if attempts, err := jobsOn(c, c, recorded{}, testclock.NewFakeClock(now)).Attempts(t.Context()); err != nil || len(attempts) != 0 {
		t.Errorf("%v, %v; want nothing", attempts, err)
	}
}

// The cache holds the Jobs with a certain label, which anyone in the namespace may remove.
func TestAJobWithoutItsLabelIsStillOurs(t *testing.T) {
	job := scanJobOf()
	kept := records(t, job)
	live := clientWith(t, job)
	if got := attemptOf(t, jobsOn(clientWith(t), live, kept, testclock.NewFakeClock(now))); got.Done || got.Key != imageKey("a") {
		t.Errorf("attempt: %+v, want it under way", got)
	}
}

// A Job that has ended goes when its time has come, and that is no failure.
func TestAJobThatHasEndedMayGo(t *testing.T) {
	job := scanJobOf(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	job.CreationTimestamp = metav1.NewTime(now)
	c, kept := clientWith(t, job), records(t, job)
	kept.close("scan-a")
	jobs := jobsOn(c, c, kept, testclock.NewFakeClock(now))
	if got := attemptOf(t, jobs); !got.Done {
		t.Fatalf("attempt: %+v, want it done", got)
	}
	if err := c.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if attempts, err := jobs.Attempts(t.Context()); err != nil || len(attempts) != 0 {
		t.Errorf("%v, %v; want nothing", attempts, err)
	}
}

// The cache never shows what is created here.
func TestJobsThatTheCacheLacks(t *testing.T) {
	cached, live, clk := clientWith(t), clientWith(t), testclock.NewFakeClock(now)
	jobs := jobsOn(splitClient{cached, live}, live, recorded{}, clk)
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}
	for range 2 { // The second time, it exists already.
		if err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); err != nil {
			t.Fatal(err)
		}
	}
	if got := attemptOf(t, jobs); got.Done || got.Key != req.Key {
		t.Errorf("right after the start: %+v, want it under way", got)
	}
	clk.Step(cacheLag + 1)
	if got := attemptOf(t, jobs); got.Done || got.Key != req.Key {
		t.Errorf("later: %+v, want it under way as the API server says", got)
	}
	job := &batchv1.Job{}
	if err := live.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, job); err != nil {
		t.Fatal(err)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := live.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if got := attemptOf(t, jobs); !got.Done || !got.Outcome.Succeeded() {
		t.Errorf("at the end: %+v, want it done: it holds no slot any more", got)
	}
}

// What a pod says of itself hides it only when it is a scan and nothing else.
func TestMadePods(t *testing.T) {
	job := scanJobOf()
	job.Spec.Template.Spec.Containers[0].Image = "operator:1"
	c, kept := clientWith(t, job), records(t, job)
	jobs := jobsOn(c, c, kept, testclock.NewFakeClock(now))
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a scan":                         {func(*corev1.Pod) {}, true},
		"without a label":                {func(p *corev1.Pod) { p.Labels = nil }, true},
		"a label alone":                  {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"of another Job":                 {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"an owner that is no controller": {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
		"in another namespace":           {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"with another image":             {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil" }, false},
		"with a sidecar":                 {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x"}) }, false},
		"with an init container":         {func(p *corev1.Pod) { p.Spec.InitContainers = make([]corev1.Container, 1) }, false},
		"with a debug container":         {func(p *corev1.Pod) { p.Spec.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }, false},
		"with another name of it":        {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "x" }, false},
	} {
		pod := scanPod(corev1.PodStatus{})
		pod.Spec = *job.Spec.Template.Spec.DeepCopy()
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
		tt.change(pod)
		if jobs.Made(pod) {
			t.Errorf("%s: a scan before its Job is known to be recorded", name)
		}
		attemptOf(t, jobs)
		if got := jobs.Made(pod); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
		jobs.forget(func(types.UID) bool { return true })
	}
}

func TestRefusal(t *testing.T) {
	job := schema.GroupResource{Group: "batch", Resource: "jobs"}
	terminating := apierrors.NewForbidden(job, "scan", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"namespace terminating": {terminating, "the namespace is being deleted"},
		"namespace gone":        {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), "the namespace does not exist"},
		"quota":                 {apierrors.NewForbidden(job, "scan", errors.New("exceeded quota: jobs")), "quota is exhausted"},
		"policy":                {apierrors.NewForbidden(job, "scan", errors.New("ValidatingAdmissionPolicy denied")), "denies it"},
		"not valid":             {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "scan", nil), "denies it"},
		"bad":                   {apierrors.NewBadRequest("no"), "denies it"},
		"webhook away":          {apierrors.NewInternalError(errors.New(`failed calling webhook "x"`)), "webhook does not respond"},
		"another error":         {apierrors.NewInternalError(errors.New("etcd")), ""},
		"too many requests":     {apierrors.NewTooManyRequestsError("later"), ""},
		"no connection":         {errors.New("connection refused"), ""},
	} {
		outcome, refused := refusal(tt.err, "shop")
		if refused != (tt.want != "") || !strings.Contains(outcome.Message, tt.want) {
			t.Errorf("%s: %+v, refused %t; want %q", name, outcome, refused, tt.want)
		}
		if refused && (outcome.Reason != model.ReasonUnschedulable || !strings.Contains(outcome.Message, "shop")) {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}
