package scanjob

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var key = model.ImageKey{
	ImageID:  "r.example:5000/team/app@sha256:" + strings.Repeat("a", 64),
	Platform: model.Platform{OS: "linux", Architecture: "arm64"},
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
		Name(key, "nonce", 2), Name(key, "other", 1), Name(other, "nonce", 1), Name(model.ImageKey{ImageID: "x"}, "nonce", 1),
		// Parts that run together must not give the same name.
		Name(model.ImageKey{ImageID: "b"}, "a", 1), Name(model.ImageKey{ImageID: ""}, "ab", 1),
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

func TestBuildPassesTheCAsOfTheUpload(t *testing.T) {
	opts := DefaultOptions()
	for _, cas := range []string{"", "PEM"} {
		opts.UploadCA = cas
		env := Build(Request{Name: "scan-x", Key: key}, opts).Spec.Template.Spec.Containers[0].Env
		at := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "SCANNER_UPLOAD_CA" })
		if cas == "" && at >= 0 || cas != "" && (at < 0 || env[at] != corev1.EnvVar{Name: "SCANNER_UPLOAD_CA", Value: cas}) {
			t.Errorf("with the CAs %q: %+v", cas, env)
		}
	}
}

func TestBuildPassesTheConfigurationOfRegistries(t *testing.T) {
	opts := DefaultOptions()
	for _, text := range []string{"", `{"caBundle": "PEM"}`} {
		opts.Registries = text
		env := Build(Request{Name: "scan-x", Key: key}, opts).Spec.Template.Spec.Containers[0].Env
		at := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "SCANNER_REGISTRIES" })
		if text == "" && at >= 0 || text != "" && (at < 0 || env[at] != corev1.EnvVar{Name: "SCANNER_REGISTRIES", Value: text}) {
			t.Errorf("with the configuration %q: %+v", text, env)
		}
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
			for _, item := range s.Secret.Items {
				sources = append(sources, s.Secret.Name+" "+item.Key+"="+item.Path)
			}
			if !*s.Secret.Optional {
				t.Errorf("a missing Secret %s would keep the pod from starting", s.Secret.Name)
			}
		}
	}
	want := []string{
		"wrong .dockerconfigjson=wrong/config.json", "wrong .dockercfg=wrong/.dockercfg",
		"right .dockerconfigjson=right/config.json", "right .dockercfg=right/.dockercfg",
	}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("projected Secrets (-want +got):\n%s", diff)
	}
	args := job.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"--docker-config=" + credentialsPath + "/wrong/config.json", "--docker-config=" + credentialsPath + "/right/config.json",
		"--platform=linux/arm64", "--plain-http-registries=10.0.0.1:5000", "--upload-url=http://api:8000",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among the arguments %v", want, args)
		}
	}
}

func TestBuildPassesFallbacks(t *testing.T) {
	args := build(func(r *Request) { r.Fallbacks = []string{"r/1", "r/2", "r/3", "r/4", "r/5"} }).Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--fallback-repository=r/4") || slices.Contains(args, "--fallback-repository=r/5") {
		t.Errorf("the arguments %v do not have the first four fallbacks", args)
	}
}

func TestMemoryFollowsTheSizeClass(t *testing.T) {
	memory := func(request, limit string) corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{}
		if request != "" {
			r.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}
		}
		if limit != "" {
			r.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		return r
	}
	type want struct {
		request, limit string
		next           model.SizeClass
		grows          bool
	}
	for name, tt := range map[string]struct {
		wanted corev1.ResourceRequirements
		class  model.SizeClass
		want   want
	}{
		"the smallest":               {memory("", ""), "", want{"256Mi", "1Gi", model.SizeMedium, true}},
		"the middle":                 {memory("", ""), model.SizeMedium, want{"512Mi", "2Gi", model.SizeLarge, true}},
		"the greatest":               {memory("", ""), model.SizeLarge, want{"1Gi", "4Gi", model.SizeLarge, false}},
		"up to the bound":            {memory("3Gi", "3Gi"), model.SizeLarge, want{"8Gi", "8Gi", model.SizeLarge, false}},
		"at the bound in the middle": {memory("", "5Gi"), model.SizeMedium, want{"512Mi", "8Gi", model.SizeLarge, false}},
		"more than the bound stays":  {memory("16Gi", "16Gi"), model.SizeSmall, want{"16Gi", "16Gi", model.SizeMedium, false}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := DefaultOptions()
			r := opts.Memory(tt.wanted, tt.class)
			got := want{request: r.Requests.Memory().String(), limit: r.Limits.Memory().String()}
			got.next, got.grows = opts.Grow(tt.wanted, tt.class)
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if limits := opts.Resources.Limits; limits.Memory().String() != "1Gi" {
				t.Error("the defaults were changed")
			}
		})
	}
	job := build(func(r *Request) { r.SizeClass = model.SizeMedium })
	if SizeClass(job) != model.SizeMedium || SizeClass(&batchv1.Job{}) != model.SizeSmall {
		t.Errorf("the Job has class %q", SizeClass(job))
	}
	c := job.Spec.Template.Spec.Containers[0]
	if !slices.Contains(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "1932735276"}) {
		t.Errorf("%+v does not bound the heap to nine tenths of 2 GiB", c.Env)
	}
}

func TestBuildPriority(t *testing.T) {
	opts := DefaultOptions()
	opts.PriorityClassName = "low"
	for wanted, want := range map[string]string{"": "low", "mine": "mine"} {
		job := Build(Request{Name: "scan-x", PriorityClassName: wanted}, opts)
		if got := job.Spec.Template.Spec.PriorityClassName; got != want {
			t.Errorf("asked for %q, got %q, want %q", wanted, got, want)
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

func TestBuildLooksUpNewerTags(t *testing.T) {
	known := make([]string, MaxKnown+1)
	for i := range known {
		known[i] = "sha256:" + strconv.Itoa(i)
	}
	job := build(func(r *Request) {
		r.PullSecrets, r.Lookup = []string{"pull"}, &Lookup{Reference: "r.example/app:1.0", Limit: 2, Known: known}
	})
	args := job.Spec.Template.Spec.Containers[0].Args
	if want := []string{"catalog-newer-tags", "r.example/app:1.0", "--limit=2", "--known-digest=sha256:0"}; !slices.Equal(args[:4], want) {
		t.Errorf("%v, want %v first", args, want)
	}
	for _, want := range []string{"--image-id=" + key.ImageID, "--platform=linux/arm64", "--docker-config=" + credentialsPath + "/pull/config.json", "--known-digest=sha256:" + strconv.Itoa(MaxKnown-1)} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among the arguments %v", want, args)
		}
	}
	if slices.Contains(args, "--known-digest="+known[MaxKnown]) || slices.Contains(args, key.ImageID) {
		t.Errorf("too many digests, or an image to catalog: %v", args)
	}
}
