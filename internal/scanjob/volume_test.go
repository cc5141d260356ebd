package scanjob

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func byVolume(mutate func(*Request)) *corev1.PodSpec {
	job := build(func(r *Request) {
		r.Volume = &ImageVolume{Nodes: []string{"a", "b"}}
		r.PullSecrets, r.OperatorPullSecrets = []string{"registry", "shared"}, []corev1.LocalObjectReference{{Name: "shared"}}
		if mutate != nil {
			mutate(r)
		}
	})
	return &job.Spec.Template.Spec
}

func TestImageVolumesNeedNoCredentials(t *testing.T) {
	pod := byVolume(nil)
	want := []corev1.Volume{{Name: "image", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: key.ImageID, PullPolicy: corev1.PullIfNotPresent},
	}}}
	if diff := cmp.Diff(want, pod.Volumes[2:]); diff != "" {
		t.Errorf("volumes beside scratch and token (-want +got):\n%s", diff)
	}
	c := pod.Containers[0]
	if diff := cmp.Diff([]corev1.VolumeMount{{Name: "image", MountPath: "/image", ReadOnly: true}}, c.VolumeMounts[2:]); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--platform=linux/arm64", "--rootfs=/image"}, c.Args[7:]); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	// The kubelet pulls the image with them, if its node does not have it.
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "shared"}, {Name: "registry"}}, pod.ImagePullSecrets); diff != "" {
		t.Errorf("pull secrets (-want +got):\n%s", diff)
	}
	if pod.NodeSelector[corev1.LabelArchStable] != "arm64" || pod.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("nodes %v, want those of the platform of the image", pod.NodeSelector)
	}
	if pod.ServiceAccountName != "" || *pod.AutomountServiceAccountToken {
		t.Errorf("account %q with a token: %t", pod.ServiceAccountName, *pod.AutomountServiceAccountToken)
	}
	if pod.HostUsers != nil || !*pod.SecurityContext.RunAsNonRoot {
		t.Errorf("runs as root on the node: %+v", pod.SecurityContext)
	}
}

// What is not on the node cannot be pulled without a repository, and must not be asked for elsewhere.
func TestImagesWithoutRepositoryAreNotPulled(t *testing.T) {
	id := "sha256:" + strings.Repeat("a", 64)
	pod := byVolume(func(r *Request) { r.Key.ImageID = id })
	want := &corev1.ImageVolumeSource{Reference: id, PullPolicy: corev1.PullNever}
	if diff := cmp.Diff(want, pod.Volumes[2].Image); diff != "" {
		t.Errorf("image volume (-want +got):\n%s", diff)
	}
	recorded, err := Recorded(build(func(r *Request) { r.Key.ImageID, r.Volume = id, &ImageVolume{Nodes: []string{"a", "b"}} }))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Difference(recorded, pod); got != "" || err != nil {
		t.Errorf("as built: %q, %v", got, err)
	}
	pod.Volumes[2].Image.PullPolicy = corev1.PullAlways
	if got, err := Difference(recorded, pod); got != "volumes[2].image.pullPolicy" || err != nil {
		t.Errorf("pulled after all: %q, %v", got, err)
	}
}

func TestImageVolumesInUserNamespaces(t *testing.T) {
	pod := byVolume(func(r *Request) { r.Volume.UserNamespace = true })
	security := pod.SecurityContext
	if pod.HostUsers == nil || *pod.HostUsers || *security.RunAsUser != 0 || security.RunAsNonRoot != nil || security.SeccompProfile == nil {
		t.Errorf("hostUsers %v, %+v; want root of a user namespace", pod.HostUsers, security)
	}
	if c := pod.Containers[0].SecurityContext; !slices.Contains(c.Capabilities.Drop, "ALL") || *c.AllowPrivilegeEscalation {
		t.Errorf("%+v, want no capabilities", c)
	}
}

func TestImageVolumesPreferNodesWithTheImage(t *testing.T) {
	many := make([]string, MaxNodes+1)
	for name, tt := range map[string]struct {
		volume              *ImageVolume
		preferred, required int
	}{
		"from the registry": {nil, 0, 0},
		"on any node":       {&ImageVolume{}, 0, 0},
		"preferred":         {&ImageVolume{Nodes: many}, MaxNodes, 0},
		"required":          {&ImageVolume{Nodes: many[:2], Required: true}, 0, 2},
	} {
		preferred, required := 0, 0
		job := build(func(r *Request) { r.Volume = tt.volume })
		if hosts := Hosts(job); len(hosts) != tt.preferred+tt.required {
			t.Errorf("%s: the Job names the hosts %v", name, hosts)
		}
		if a := job.Spec.Template.Spec.Affinity; a != nil {
			for _, term := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				preferred += len(term.Preference.MatchExpressions[0].Values)
			}
			if a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				required = len(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values)
			}
		}
		if preferred != tt.preferred || required != tt.required {
			t.Errorf("%s: %d nodes preferred, %d required, want %d and %d", name, preferred, required, tt.preferred, tt.required)
		}
	}
}

// A scan of an image volume asks the registry for the layers of the image, as it is configured for all scans.
func TestImageVolumesHaveTheConfigurationOfRegistries(t *testing.T) {
	opts := DefaultOptions()
	opts.Registries, opts.PlainHTTP = `{"caBundle": "PEM"}`, []string{"registry.local:5000"}
	container := Build(Request{Name: "scan-x", Key: key, Volume: &ImageVolume{}}, opts).Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Env, corev1.EnvVar{Name: RegistriesVariable, Value: opts.Registries}) {
		t.Errorf("environment: %+v", container.Env)
	}
	// The admission policy admits no argument about registries beside an image volume.
	if got := container.Args[len(container.Args)-1]; got != rootFSArg {
		t.Errorf("the last argument is %s, want %s", got, rootFSArg)
	}
	opts.Registries = ""
	env := Build(Request{Name: "scan-x", Key: key, Volume: &ImageVolume{}}, opts).Spec.Template.Spec.Containers[0].Env
	if slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return v.Name == RegistriesVariable }) {
		t.Errorf("without a configuration: %+v", env)
	}
}

func TestDifferenceOfImageVolumes(t *testing.T) {
	job := build(func(r *Request) { r.Volume = &ImageVolume{UserNamespace: true} })
	recorded, err := Recorded(job)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"as built":         {func(*corev1.PodSpec) {}, ""},
		"AlwaysPullImages": {func(p *corev1.PodSpec) { p.Volumes[2].Image.PullPolicy = corev1.PullAlways }, ""},
		"another image":    {func(p *corev1.PodSpec) { p.Volumes[2].Image.Reference = "evil" }, "volumes[2].image.reference"},
		"no image":         {func(p *corev1.PodSpec) { p.Volumes = p.Volumes[:2] }, "volumes[2]"},
		"two images":       {func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, p.Volumes[2]) }, "volumes[3]"},
		"a folder of the node": {func(p *corev1.PodSpec) {
			p.Volumes[2].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}, "volumes[2].emptyDir"},
		"a writable mount":               {func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts[2].ReadOnly = false }, "containers[0].volumeMounts[2].readOnly"},
		"a part of the image":            {func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts[2].SubPath = "etc" }, "containers[0].volumeMounts[2].subPath"},
		"another folder":                 {func(p *corev1.PodSpec) { p.Containers[0].Args[8] = "--rootfs=/" }, "containers[0].args[8]"},
		"root of the node":               {func(p *corev1.PodSpec) { p.HostUsers = nil }, "hostUsers"},
		"the user namespace of the node": {func(p *corev1.PodSpec) { p.HostUsers = new(true) }, "hostUsers"},
	} {
		pod := job.Spec.Template.Spec.DeepCopy()
		tt.change(pod)
		if got, err := Difference(recorded, pod); got != tt.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

// The kubelet reports in the same way that it cannot pull the operator's image and that it cannot pull the image of the volume.
func TestPullFailuresOfImageVolumes(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, tt := range map[string]struct {
		reason, message string
		want            model.Reason
		says            string
	}{
		"the image": {
			"ErrImagePull", `failed to pull and unpack image "r.example:5000/team/app@` + digest + `": 401 Unauthorized`,
			model.ReasonImagePullDenied, "cannot pull the image for the scan pod",
		},
		"again":                {"ImagePullBackOff", `Back-off pulling image "r.example:5000/team/app@` + digest + `": not found`, model.ReasonImageNotFound, "cannot pull the image"},
		"the operator's image": {"ErrImagePull", `failed to pull image "operator:1": 401 Unauthorized`, model.ReasonUnschedulable, "the operator's own image"},
		"the mount": {
			"CreateContainerError", "ImageVolumeMountFailed: failed to mount r.example:5000/team/app@" + digest, model.ReasonUnschedulable, "cannot start the scan pod",
		},
	} {
		pod := corev1.Pod{Spec: *byVolume(nil)}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: ContainerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: tt.reason, Message: tt.message}},
		}}
		outcome, known := startFailure([]corev1.Pod{pod})
		if !known || outcome.Reason != tt.want || !strings.Contains(outcome.Message, tt.says) {
			t.Errorf("%s: %+v, %t, want %s", name, outcome, known, tt.want)
		}
	}
}
