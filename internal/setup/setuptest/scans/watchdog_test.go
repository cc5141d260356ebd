package scans

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// covered is a row of /api/v1/coverage.
type covered struct {
	ImageID, State, Reason, Message string
	NextAttempt                     time.Time
}

// coverage reads how far the scans of all containers are, by the name of the workload.
func coverage(t *testing.T, api string) map[string]covered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/coverage?pageSize=1000", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var page struct {
		Items []struct {
			Workload struct{ Name string }
			covered
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	found := map[string]covered{}
	for _, item := range page.Items {
		found[item.Workload.Name] = item.covered
	}
	return found
}

// ends are ways for a scan Job to end, and what is to be said of them. Each plays the kubelet and the Job controller.
var ends = map[string]struct {
	play            func(t *testing.T, c client.Client, job *batchv1.Job)
	reason, message string
}{
	"told": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, setuptest.ScanEnded(1, "Error", `{"reason":"ImagePullDenied","message":"tried the pull credentials \"team\""}`))
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "ImagePullDenied", "team"},
	"oom": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, setuptest.ScanEnded(137, "OOMKilled", ""))
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "OutOfMemory", "memory"},
	"killed": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, setuptest.ScanEnded(137, "Error", ""))
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "OutOfMemory", "killed"},
	"evicted": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) {
			s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "Usage of EmptyDir volume \"scratch\" exceeds the limit"
		})
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "OutOfDisk", "evicted"},
	"deadline": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		pod := setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning })
		setuptest.Remove(t, c, pod)
		setuptest.FailJob(t, c, job, batchv1.JobReasonDeadlineExceeded, 1)
	}, "DeadlineExceeded", "deadline"},
	"unschedulable": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
		})
		setuptest.FailJob(t, c, job, batchv1.JobReasonDeadlineExceeded, 1)
	}, "Unschedulable", "0/3 nodes"},
	"own-image": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) {
			s.ContainerStatuses = []corev1.ContainerStatus{{Name: scanjob.ContainerName, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
			}}}
		})
		setuptest.FailJob(t, c, job, batchv1.JobReasonDeadlineExceeded, 1)
	}, "Unschedulable", "operator's own image"},
	"pod-quota": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.FailJob(t, c, job, batchv1.JobReasonDeadlineExceeded, 0)
	}, "Unschedulable", "created no pod"},
	"job-deleted": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.Remove(t, c, job)
	}, "CatalogFailed", "was deleted before it finished"},
	"pod-deleted": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		pod := setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning })
		setuptest.Remove(t, c, pod)
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "CatalogFailed", "no longer exists"},
	"preempted": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) {
			setuptest.ScanEnded(1, "Error", `{"reason":"DeadlineExceeded","message":"told to end"}`)(s)
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		})
		setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	}, "Unschedulable", "higher priority"},
	// The pod of a node that is lost never goes, and the Job waits for it.
	"node-lost": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, func(s *corev1.PodStatus) {
			s.Phase = corev1.PodRunning
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
		})
		job.Status.Conditions = []batchv1.JobCondition{{
			Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", LastTransitionTime: metav1.NewTime(time.Now().Add(-2 * time.Minute)),
		}}
		if err := c.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}, "CatalogFailed", "node of the scan pod was lost"},
	"job-controller-lag": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.ScanPod(t, c, job, setuptest.ScanEnded(1, "Error", `{"reason":"ImageTooLarge","message":"9 GiB"}`))
	}, "ImageTooLarge", "9 GiB"},
	"overdue": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		job.Status.StartTime, job.Status.Active = new(metav1.NewTime(time.Now().Add(-time.Hour))), 1
		if err := c.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}, "DeadlineExceeded", "no longer waits for it"},
	"not-delivered": {func(t *testing.T, c client.Client, job *batchv1.Job) {
		t.Helper()
		setuptest.Finish(t, c, job, batchv1.JobComplete)
	}, "UploadFailed", "did not reach"},
}

// TestEveryEndOfAScanIsTold lets scans end in every way on a real API server. Each ends in a reason, an event and a next attempt, and
// none keeps its slot.
func TestEveryEndOfAScanIsTold(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	api := setuptest.Operator(t, ns, func(o *setup.Options) {
		o.Auth = setup.AuthNone
		o.Scans.Concurrency, o.Scans.RegistryConcurrency = 100, 100
	})
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.Concurrency = new(int32(50))
	setuptest.Create(t, c, scanner)
	poke := setuptest.RunningPod(t, c, ns, "poke", "", func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "true"} })
	number := 0
	for name := range ends {
		number++
		setuptest.RunningPod(t, c, ns, name, setuptest.ImageID(name, fmt.Sprintf("%x", number%16)))
	}
	g.Eventually(func() int { return len(setuptest.Jobs(t.Context(), c, ns)) }, patience, tick).Should(gomega.Equal(len(ends)))
	for image, job := range setuptest.Jobs(t.Context(), c, ns) {
		name, _, _ := strings.Cut(strings.TrimPrefix(image, "r.example/"), "@")
		ends[name].play(t, c, job)
	}
	g.Eventually(func(g gomega.Gomega) {
		// What happens to pods of scans is looked at with the next change only, or after a while.
		number++
		poke.Labels["n"] = fmt.Sprint(number)
		g.Expect(c.Update(t.Context(), poke)).To(gomega.Succeed())
		rows := coverage(t, api)
		for name, want := range ends {
			row := rows[name]
			g.Expect(row.State+"/"+row.Reason).To(gomega.Equal("Failed/"+want.reason), name+": "+row.Message)
			g.Expect(row.Message).To(gomega.ContainSubstring(want.message), name)
			g.Expect(row.NextAttempt).To(gomega.BeTemporally(">", time.Now().Add(-time.Minute)), name)
		}
	}, patience, 4*tick).Should(gomega.Succeed())
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Failed"))
	g.Eventually(func() map[string]string {
		return setuptest.ScanFailures(t, c, scanner)
	}, patience, tick).Should(gomega.HaveLen(len(ends)), "an event on the Scanner for each")
}

// TestNamespacesThatTakeNoJobs has namespaces that refuse scan Jobs for every reason that the API server knows.
func TestNamespacesThatTakeNoJobs(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	own, failing, quota := setuptest.Namespace(t, c), setuptest.Namespace(t, c), setuptest.Namespace(t, c)
	policy, terminating, fine := setuptest.Namespace(t, c), setuptest.Namespace(t, c), setuptest.Namespace(t, c)
	all := []string{own, failing, quota, policy, terminating, fine}
	forbidJobs(t, c, policy, "")
	// This one is no rejection that the operator knows: webhooks answer in such ways, too.
	forbidJobs(t, c, failing, metav1.StatusReasonRequestEntityTooLarge)
	// A namespace controller would fill in the status.
	limit := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: quota, Name: "no-jobs"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}},
	}
	setuptest.Create(t, c, limit)
	limit.Status = corev1.ResourceQuotaStatus{Hard: limit.Spec.Hard, Used: limit.Spec.Hard}
	if err := c.Status().Update(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	for i, ns := range all[1:] {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"take":%q}}}`, own))
		if err := c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, patch); err != nil {
			t.Fatal(err)
		}
		// Without a pull secret, it would be scanned in the operator's namespace.
		setuptest.RunningPod(t, c, ns, ns, setuptest.ImageID("in-"+ns, fmt.Sprint(i)), func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} })
	}
	setuptest.Remove(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: terminating}})
	api := setuptest.Operator(t, own, func(o *setup.Options) { o.Auth, o.WatchNamespaces = setup.AuthNone, all })
	scanner := setuptest.SampleScanner(t, own)
	scanner.Spec.Concurrency = new(int32(2))
	scanner.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"take": own}}
	setuptest.Create(t, c, scanner)

	g.Eventually(func(g gomega.Gomega) {
		rows := coverage(t, api)
		for ns, message := range map[string]string{
			quota: "quota is exhausted", policy: "no scans here, please", terminating: "being deleted",
		} {
			row := rows[ns]
			g.Expect(row.State+"/"+row.Reason).To(gomega.Equal("Failed/Unschedulable"), row.Message)
			g.Expect(row.Message).To(gomega.ContainSubstring(message))
			g.Expect(row.NextAttempt).To(gomega.BeTemporally(">", time.Now().Add(-time.Minute)))
		}
		g.Expect(rows[failing].State + ": " + rows[failing].Message).To(gomega.And(gomega.HavePrefix("Pending: the scan Job could not be created"), gomega.ContainSubstring("no scans here")))
	}, patience, 4*tick).Should(gomega.Succeed())
	g.Eventually(func() int { return len(setuptest.Jobs(t.Context(), c, fine)) }, patience, tick).Should(gomega.Equal(1), "others are not held up")
}

// forbidJobs has the API server refuse Jobs in a namespace, and waits until it does.
func forbidJobs(t *testing.T, c client.Client, namespace string, reason metav1.StatusReason) {
	t.Helper()
	name := "no-scans-" + namespace
	failure, validation := admissionv1.Fail, admissionv1.Validation{Expression: fmt.Sprintf("object.metadata.namespace != %q", namespace), Message: "no scans here, please"}
	if reason != "" {
		validation.Reason = &reason
	}
	setuptest.Create(t, c, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &failure,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs"}},
				},
			}}},
			Validations: []admissionv1.Validation{validation},
		},
	})
	setuptest.Create(t, c, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	})
	options := scanjob.DefaultOptions()
	options.Image = "x"
	gomega.NewWithT(t).Eventually(func() error {
		return c.Create(t.Context(), scanjob.Build(scanjob.Request{Name: "probe", Namespace: namespace}, options), client.DryRunAll)
	}, patience, tick).Should(gomega.MatchError(gomega.ContainSubstring("no scans here")))
}

// TestWhyContainersAreNotScanned shows every other reason of coverage on a real API server.
func TestWhyContainersAreNotScanned(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	api := setuptest.Operator(t, ns, func(o *setup.Options) { o.Auth = setup.AuthNone })
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"reason": reason, "message": message} }
	}
	tests := map[string]struct {
		imageID string
		mutate  func(*corev1.Pod)
		want    string
		message string
	}{
		"starting":   {"", func(*corev1.Pod) {}, "Pending/NotPulled", "kubelet has not pulled"},
		"denied":     {"", waiting("ErrImagePull", "401 Unauthorized"), "Failed/ImagePullDenied", "401"},
		"missing":    {"", waiting("ImagePullBackOff", "manifest unknown"), "Failed/ImageNotFound", "manifest unknown"},
		"never":      {"", waiting("ErrImageNeverPull", "policy is Never"), "Failed/NotPullable", "Never"},
		"by-hand":    {"sha256:" + strings.Repeat("1", 64), func(*corev1.Pod) {}, "Failed/NotPullable", "push it to a registry"},
		"ignored":    {setuptest.ImageID("i", "2"), func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "true"} }, "Skipped/IgnoreLabel", "ignore label"},
		"suspended":  {setuptest.ImageID("s", "3"), func(*corev1.Pod) {}, "Pending/NotCataloged", "suspended"},
		"no-digest":  {"docker.io/library/app:latest", func(*corev1.Pod) {}, "Failed/NotPullable", "push it to a registry"},
		"not-known":  {"", waiting("RegistryUnavailable", "down"), "Failed/RegistryUnavailable", "down"},
		"no-content": {"", waiting("ErrImagePull", "no match for platform in manifest"), "Failed/PlatformMismatch", "platform"},
	}
	for name, tt := range tests {
		pod := setuptest.RunningPod(t, c, ns, name, tt.imageID, tt.mutate)
		if reason := pod.Annotations["reason"]; reason != "" {
			pod.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: pod.Annotations["message"]}
			if err := c.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.Suspend = true
	setuptest.Create(t, c, scanner)
	g.Eventually(func(g gomega.Gomega) {
		rows := coverage(t, api)
		for name, tt := range tests {
			row := rows[name]
			g.Expect(row.State+"/"+row.Reason).To(gomega.Equal(tt.want), name+": "+row.Message)
			g.Expect(row.Message).To(gomega.ContainSubstring(tt.message), name)
		}
	}, patience, 4*tick).Should(gomega.Succeed())
}

// TestOneImageOnTwoPlatforms runs one index on nodes of two kinds.
func TestOneImageOnTwoPlatforms(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	arm := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "arm", Labels: map[string]string{corev1.LabelArchStable: "arm64", corev1.LabelOSStable: "linux"}}}
	if err := c.Create(t.Context(), arm); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	ns := setuptest.Namespace(t, c)
	setuptest.Operator(t, ns, nil)
	setuptest.Create(t, c, setuptest.SampleScanner(t, ns))
	app := setuptest.ImageID("app", "7")
	for range 2 {
		setuptest.RunningPod(t, c, ns, "", app, func(p *corev1.Pod) { p.GenerateName = "amd-" })
		setuptest.RunningPod(t, c, ns, "", app, func(p *corev1.Pod) { p.GenerateName, p.Spec.NodeName = "arm-", "arm" })
	}
	platforms := func() []string {
		var list batchv1.JobList
		if err := c.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			return []string{err.Error()}
		}
		var found []string
		for i := range list.Items {
			found = append(found, list.Items[i].Annotations[scanjob.AnnotationPlatform])
		}
		return found
	}
	g.Eventually(platforms, patience, tick).Should(gomega.ConsistOf("linux/amd64", "linux/arm64"))
	g.Consistently(platforms, time.Second, tick).Should(gomega.HaveLen(2))
}
