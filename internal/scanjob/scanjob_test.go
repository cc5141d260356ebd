package scanjob

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

var key = vuln.ImageKey{
	ImageID:  "r.example:5000/team/app@sha256:" + strings.Repeat("a", 64),
	Platform: vuln.Platform{OS: "linux", Architecture: "arm64"},
}

func TestNameIsStableAndDependsOnEverything(t *testing.T) {
	name := Name(key, "nonce", 1)
	if again := Name(key, "nonce", 1); again != name {
		t.Errorf("Name is not stable: %s, then %s", name, again)
	}
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(name) {
		t.Errorf("Name %q is not a DNS label", name)
	}
	other := key
	other.Platform.Architecture = "amd64"
	seen := map[string]bool{name: true}
	for _, n := range []string{
		Name(key, "nonce", 2), Name(key, "other", 1), Name(other, "nonce", 1), Name(vuln.ImageKey{ImageID: "x"}, "nonce", 1),
		// Parts that run together must not give the same name.
		Name(vuln.ImageKey{ImageID: "b"}, "a", 1), Name(vuln.ImageKey{ImageID: ""}, "ab", 1),
	} {
		if seen[n] {
			t.Errorf("two different attempts share the name %s", n)
		}
		seen[n] = true
	}
}

func build(mutate func(*Request)) *batchv1.Job {
	req := Request{Name: "scan-x", Key: key, Namespace: "shop", ScannerUID: "uid"}
	if mutate != nil {
		mutate(&req)
	}
	opts := DefaultOptions()
	opts.Image, opts.UploadURL, opts.PlainHTTP = "operator:1", "http://api:8000", []string{"10.0.0.1:5000"}
	return Build(req, opts)
}

func TestBuildIsRestricted(t *testing.T) {
	pod := build(nil).Spec.Template.Spec
	if *pod.AutomountServiceAccountToken {
		t.Error("the pod mounts the API token of its service account")
	}
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the pod does not meet Pod Security restricted")
	}
	c := pod.Containers[0].SecurityContext
	if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || !slices.Contains(c.Capabilities.Drop, "ALL") {
		t.Error("the container does not meet Pod Security restricted")
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir == nil && v.Projected == nil {
			t.Errorf("volume %s is neither emptyDir nor projected", v.Name)
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Errorf("volume %s has no size limit", v.Name)
		}
	}
}

func TestBuildBoundsTheJob(t *testing.T) {
	spec := build(nil).Spec
	if *spec.BackoffLimit != 0 || *spec.ActiveDeadlineSeconds != 900 || *spec.TTLSecondsAfterFinished != 300 {
		t.Errorf("backoffLimit %d, deadline %d, ttl %d", *spec.BackoffLimit, *spec.ActiveDeadlineSeconds, *spec.TTLSecondsAfterFinished)
	}
	if !slices.Contains(spec.Template.Spec.Containers[0].Args, "--timeout=13m30s") {
		t.Errorf("the scan must end before the Job's deadline: %v", spec.Template.Spec.Containers[0].Args)
	}
}

func TestBuildMountsPullSecretsByName(t *testing.T) {
	job := build(func(r *Request) { r.PullSecrets = []string{"wrong", "right"} })
	var sources []string
	for _, v := range job.Spec.Template.Spec.Volumes {
		if v.Name != "credentials" {
			continue
		}
		for _, s := range v.Projected.Sources {
			sources = append(sources, s.Secret.Name+"="+s.Secret.Items[0].Path)
			if !*s.Secret.Optional {
				t.Errorf("a missing Secret %s would keep the pod from starting", s.Secret.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"wrong=0/config.json", "right=1/config.json"}, sources); diff != "" {
		t.Errorf("projected Secrets (-want +got):\n%s", diff)
	}
	args := job.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"--docker-config=" + credentialsPath + "/0/config.json", "--docker-config=" + credentialsPath + "/1/config.json",
		"--platform=linux/arm64", "--plain-http-registry=10.0.0.1:5000", "--upload-url=http://api:8000",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among the arguments %v", want, args)
		}
	}
}

func TestBuildFillsResources(t *testing.T) {
	small := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
	got := build(func(r *Request) { r.Resources.Limits = small }).Spec.Template.Spec.Containers[0].Resources
	if got.Limits.Memory().String() != "128Mi" || got.Requests.Memory().String() != "128Mi" || got.Requests.Cpu().String() != "100m" {
		t.Errorf("resources = %+v", got)
	}
	if limits := DefaultOptions().Resources.Limits; limits.Memory().String() != "1Gi" {
		t.Error("Build changed the defaults")
	}
}

func failedJob(reason string) *batchv1.Job {
	job := build(nil)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: "why"}}
	return job
}

func podWith(status corev1.ContainerStatus, mutate ...func(*corev1.Pod)) corev1.Pod {
	status.Name = ContainerName
	pod := corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
	for _, m := range mutate {
		m(&pod)
	}
	return pod
}

func ended(code int32, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
	}}
}

func TestOutcome(t *testing.T) {
	complete := build(nil)
	complete.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	evictedFor := func(message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Reason, p.Status.Message = "Evicted", message }
	}
	tests := map[string]struct {
		job  *batchv1.Job
		pods []corev1.Pod
		want vuln.Reason
	}{
		"complete": {complete, nil, ""},
		"told by the scan": {
			failedJob("BackoffLimitExceeded"), []corev1.Pod{podWith(ended(1, "Error", `{"reason":"ImageNotFound","message":"m"}`))},
			vuln.ReasonImageNotFound,
		},
		"told nonsense": {
			failedJob("BackoffLimitExceeded"), []corev1.Pod{podWith(ended(1, "Error", `{"reason":"Gremlins"}`))}, vuln.ReasonCatalogFailed,
		},
		"told before the deadline": {
			failedJob("DeadlineExceeded"), []corev1.Pod{podWith(ended(1, "Error", `{"reason":"RegistryUnavailable"}`))},
			vuln.ReasonRegistryUnavailable,
		},
		"out of memory":         {failedJob(""), []corev1.Pod{podWith(ended(137, "OOMKilled", ""))}, vuln.ReasonOutOfMemory},
		"a child out of memory": {failedJob(""), []corev1.Pod{podWith(ended(137, "Error", ""))}, vuln.ReasonOutOfMemory},
		"evicted for disk": {
			failedJob(""), []corev1.Pod{podWith(ended(137, "Error", ""), evictedFor("Usage of EmptyDir volume exceeds the limit"))},
			vuln.ReasonOutOfDisk,
		},
		"evicted for memory":    {failedJob(""), []corev1.Pod{podWith(corev1.ContainerStatus{}, evictedFor("low on resource: memory"))}, vuln.ReasonOutOfMemory},
		"evicted for something": {failedJob(""), []corev1.Pod{podWith(corev1.ContainerStatus{}, evictedFor("taint"))}, vuln.ReasonCatalogFailed},
		"deadline":              {failedJob("DeadlineExceeded"), nil, vuln.ReasonDeadlineExceeded},
		"pod gone":              {failedJob("BackoffLimitExceeded"), nil, vuln.ReasonCatalogFailed},
		"never scheduled": {
			failedJob("DeadlineExceeded"), []corev1.Pod{podWith(corev1.ContainerStatus{}, func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}
			})}, vuln.ReasonUnschedulable,
		},
		"own image cannot be pulled": {
			failedJob("DeadlineExceeded"), []corev1.Pod{podWith(corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"},
			}})}, vuln.ReasonUnschedulable,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Outcome(tt.job, tt.pods)
			if got.Reason != tt.want {
				t.Errorf("Outcome = %+v, want reason %q", got, tt.want)
			}
			if !Finished(tt.job) {
				t.Error("the Job counts as unfinished")
			}
			if got.Reason != "" && got.Message == "" && !strings.Contains(name, "told") {
				t.Error("the outcome does not say what happened")
			}
		})
	}
	if Finished(build(nil)) {
		t.Error("a new Job counts as finished")
	}
}
