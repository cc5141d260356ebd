package inventory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func pod(mutate func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"},
		Spec: corev1.PodSpec{
			NodeName:         "arm",
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}, {Name: ""}},
			Containers:       []corev1.Container{{Name: "web", Image: "web:1"}},
		},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "web", ImageID: "docker-pullable://r.example/web@" + digest}},
		},
	}
	mutate(p)
	return p
}

func TestContainers(t *testing.T) {
	arm := model.Platform{OS: "linux", Architecture: "arm64"}
	web := Container{
		Namespace: "shop", Pod: "web-1", Name: "web", Kind: KindRegular, Image: "web:1", PullSecrets: []string{"registry"}, Node: "arm",
		Key: model.ImageKey{ImageID: "r.example/web@" + digest, Platform: arm},
	}
	with := func(c Container, mutate func(*Container)) Container { mutate(&c); return c }

	tests := map[string]struct {
		mutate func(*corev1.Pod)
		want   []Container
	}{
		"a running container": {mutate: func(*corev1.Pod) {}, want: []Container{web}},
		"init and ephemeral containers count": {
			mutate: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "init:1"}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", ImageID: "r.example/init@" + digest}}
				p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
					EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "debug:1"},
				}}
				p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", ImageID: "r.example/debug@" + digest}}
			},
			want: []Container{
				web,
				with(web, func(c *Container) {
					c.Name, c.Kind, c.Image, c.Key.ImageID = "prepare", KindInit, "init:1", "r.example/init@"+digest
				}),
				with(web, func(c *Container) {
					c.Name, c.Kind, c.Image, c.Key.ImageID = "debug", KindEphemeral, "debug:1", "r.example/debug@"+digest
				}),
			},
		},
		"an image that is not pulled yet has no ID": {
			mutate: func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodPending
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
				}}
			},
			want: []Container{with(web, func(c *Container) {
				c.Key.ImageID, c.WaitingReason, c.WaitingMessage = "", "ImagePullBackOff", "not found"
			})},
		},
		"no status at all yet": {
			mutate: func(p *corev1.Pod) { p.Status.ContainerStatuses = nil },
			want:   []Container{with(web, func(c *Container) { c.Key.ImageID = "" })},
		},
		"the ignore label skips": {
			mutate: func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "true"} },
			want:   []Container{with(web, func(c *Container) { c.Skip = SkipIgnoreLabel })},
		},
		"another value of the ignore label does not": {
			mutate: func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "yes"} },
			want:   []Container{web},
		},
		"the owner is the controller": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "x"}, {Kind: "ReplicaSet", Name: "web", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "ReplicaSet", Name: "web"} })},
		},
		"for the ReplicaSet of a Deployment it is the Deployment": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.Labels = map[string]string{"pod-template-hash": "5d4f"}
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d4f", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "Deployment", Name: "web"} })},
		},
		"a ReplicaSet that does not end in the hash is nobody's": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.Labels = map[string]string{"pod-template-hash": "5d4f"}
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "ReplicaSet", Name: "web"} })},
		},
		"for the Job of a CronJob it is the CronJob": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "night-backup-29384756", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "CronJob", Name: "night-backup"} })},
		},
		"a Job with a date is its own": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "backup-20261121", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "Job", Name: "backup-20261121"} })},
		},
		"a Job with another number is its own": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "backup-3", Controller: &controller}}
			},
			want: []Container{with(web, func(c *Container) { c.Owner = Owner{Kind: "Job", Name: "backup-3"} })},
		},
		"a static pod, whose mirror pod the node controls, is its own": {
			mutate: func(p *corev1.Pod) {
				controller := true
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", Controller: &controller}}
			},
			want: []Container{web},
		},
		"a node that is not known yet": {
			mutate: func(p *corev1.Pod) { p.Spec.NodeName = "new" },
			want:   []Container{with(web, func(c *Container) { c.Key, c.NodeUnknown, c.Node = model.ImageKey{}, true, "new" })},
		},
		"a pod that has ended runs nothing": {mutate: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"a scan pod is left out":            {mutate: func(p *corev1.Pod) { p.UID = "scan" }},
	}
	opts := Options{IgnoreLabel: "ignore", ScanPod: func(p *corev1.Pod) bool { return p.UID == "scan" }, Platform: func(node string) (model.Platform, bool) {
		if node == "arm" {
			return arm, true
		}
		return model.Platform{}, false
	}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Containers(pod(tt.mutate), opts)); diff != "" {
				t.Errorf("Containers (-want +got):\n%s", diff)
			}
		})
	}
}

// Kubernetes validates neither the form nor the length nor the number of the names of pull secrets in a pod.
func TestPullSecretsAreBounded(t *testing.T) {
	many := func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = nil
		for i := range 1000 {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("registry-", i)})
		}
	}
	all := Containers(pod(many), Options{})[0].PullSecrets
	if len(all) != MaxPullSecrets || all[0] != "registry-0" {
		t.Errorf("%d of 1000 pull secrets, the first is %q; want the first %d", len(all), all[0], MaxPullSecrets)
	}
	hostile := func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{
			{Name: strings.Repeat("x", 300<<10)}, {Name: "../x"}, {Name: "a/b"}, {Name: "Registry"}, {Name: "a b"}, {Name: "registry.example"}, {Name: "registry.example"},
		}
	}
	if diff := cmp.Diff([]string{"registry.example"}, Containers(pod(hostile), Options{})[0].PullSecrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Containers that do not run cost their creator nothing, and a pod can name thousands. What runs is never left out.
func TestWaitingContainersAreBounded(t *testing.T) {
	many := func(p *corev1.Pod) {
		p.Spec.Containers, p.Status.ContainerStatuses = nil, nil
		for i := range 2500 {
			name := fmt.Sprint("c", i)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
			if i >= 2490 {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ImageID: "r.example/web@" + digest})
			}
		}
	}
	found := Containers(pod(many), Options{})
	if len(found) != MaxWaiting+10 || found[0].Name != "c0" || found[MaxWaiting].Name != "c2490" {
		t.Errorf("%d containers, want the first %d and the 10 with an image", len(found), MaxWaiting)
	}
}
