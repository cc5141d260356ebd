package admission_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/podset"
)

// webSpec is the pod of the PodSet web.
func webSpec() corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "web", Image: "web:1", Command: []string{"serve"}, Args: []string{"--port=80"},
			Env: []corev1.EnvVar{
				{Name: "MODE", Value: "production"},
				{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			EnvFrom:        []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ready"}}}},
			VolumeMounts:   []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}},
		}},
		InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}},
		Volumes:        []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}

func podSet(t *testing.T, name string, spec *corev1.PodSpec) *appv1alpha1.PodSet {
	t.Helper()
	ps := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appv1alpha1.PodSetSpec{Replicas: 1}}
	if spec != nil {
		ps.Spec.Template = rawTemplate(t, spec)
	}
	return ps
}

// pod returns a pod of a PodSet, as the operator creates it, with the template of web.
func (i *installation) pod(namespace, owner, uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "pod",
			Labels: map[string]string{appv1alpha1.LabelApp: owner, appv1alpha1.LabelVersion: appv1alpha1.Version, appv1alpha1.LabelReplacement: "0"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appv1alpha1.GroupVersion.String(), Kind: "PodSet", Name: owner, UID: types.UID(uid), Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: webSpec(),
	}
}

// podOf returns a pod of a PodSet in shop.
func (i *installation) podOf(owner string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	pod := i.pod(i.shop, owner, i.uids[owner])
	for _, m := range mutate {
		m(pod)
	}
	return pod
}

func volumeOf(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Volumes = append(p.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
	}
}

func secret(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// harmful are pods that the operator must not create for any PodSet, and the policy that denies them.
var harmful = map[string]func(*corev1.PodSpec){
	"the network of the node":   func(p *corev1.PodSpec) { p.HostNetwork = true },
	"the processes of the node": func(p *corev1.PodSpec) { p.HostPID = true },
	"a path of the node":        volumeOf(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	"a port of the node": func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	},
	"privileges": func(p *corev1.PodSpec) {
		p.InitContainers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	},
	"a capability": func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
	},
	"no seccomp profile": func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
	},
	"another SELinux type": func(p *corev1.PodSpec) {
		p.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}
	},
	"a priority of the system": func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" },
	"another ServiceAccount":   func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" },
	"a chosen node":            func(p *corev1.PodSpec) { p.NodeName = "control-plane" },
	"a Secret":                 volumeOf(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
	"a volume claim":           volumeOf(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db"}}),
	"a projected Secret": volumeOf(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: secret("s")}}},
	}}),
	"a projected token": func(p *corev1.PodSpec) {
		p.ServiceAccountName = "default"
		volumeOf(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}}},
		}})(p)
	},
	"a variable from a Secret": func(p *corev1.PodSpec) {
		p.InitContainers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret("s"), Key: "k"},
		}}}
	},
	"variables from a Secret": func(p *corev1.PodSpec) {
		p.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret("s")}}}
	},
}

// different are pods that are harmless, and not those of the PodSet web.
var different = map[string]func(*corev1.PodSpec){
	"another image":         func(p *corev1.PodSpec) { p.Containers[0].Image = "evil" },
	"another initial image": func(p *corev1.PodSpec) { p.InitContainers[0].Image = "evil" },
	"another command":       func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} },
	"other arguments":       func(p *corev1.PodSpec) { p.Containers[0].Args = []string{"-c"} },
	"another variable":      func(p *corev1.PodSpec) { p.Containers[0].Env[0].Value = "debug" },
	"one variable more": func(p *corev1.PodSpec) {
		p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "LD_PRELOAD"})
	},
	"another ConfigMap": func(p *corev1.PodSpec) { p.Containers[0].EnvFrom[0].ConfigMapRef.Name = "other" },
	"another probe":     func(p *corev1.PodSpec) { p.Containers[0].ReadinessProbe.Exec.Command = []string{"sh"} },
	"a hook": func(p *corev1.PodSpec) {
		p.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	},
	"one container more": func(p *corev1.PodSpec) {
		p.Containers = append(p.Containers, corev1.Container{Name: "more", Image: "web:1"})
	},
	"no second container": func(p *corev1.PodSpec) { p.InitContainers = nil },
	"another mount":       func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts[0].MountPath = "/etc" },
	"one volume more":     volumeOf(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: secret("c")}}),
}

func TestPodsOfPodSets(t *testing.T) {
	web := webSpec()
	i := install(t, "", podSet(t, "web", &web), podSet(t, "plain", nil))
	g := gomega.NewWithT(t)

	plain, err := podset.Template(&appv1alpha1.PodSet{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(i.try(t, i.podOf("web"))).To(gomega.Succeed())
	g.Expect(i.try(t, i.podOf("web", func(p *corev1.Pod) { p.Spec.Containers[0].Image += "@sha256:0" }))).To(gomega.Succeed(), "an image with a digest")
	g.Expect(i.try(t, i.podOf("plain", func(p *corev1.Pod) { p.Spec = plain.Spec }))).To(gomega.Succeed(), "the default template")

	for _, name := range sorted(different) {
		spoil := func(p *corev1.Pod) { different[name](&p.Spec) }
		g.Expect(i.try(t, i.podOf("web", spoil))).To(denied("podset-templates"), name)
	}
	// Nobody has to own the pod for this.
	for _, name := range sorted(harmful) {
		spoil := func(p *corev1.Pod) { harmful[name](&p.Spec) }
		g.Expect(i.try(t, i.podOf("web", spoil))).To(denied("podset-"), name)
		pod := i.pod(i.shop, "invented", "uid")
		spoil(pod)
		g.Expect(i.try(t, pod)).To(denied("podset-"), name)
	}

	for name, spoil := range map[string]func(*corev1.Pod){
		"the label of a Service": func(p *corev1.Pod) { p.Labels["tier"] = "db" },
		"an annotation": func(p *corev1.Pod) {
			p.Annotations = map[string]string{"vault.hashicorp.com/agent-inject": "true"}
		},
	} {
		g.Expect(i.try(t, i.podOf("web", spoil))).To(denied("podset-templates"), name)
	}

	g.Expect(i.try(t, i.pod(i.shop, "web", "another"))).To(denied("the UID of the PodSet"))
	g.Expect(i.try(t, i.pod(i.empty, "invented", "uid"))).To(denied("no params found"))
	for _, ns := range []string{"kube-system", "kube-public", "kube-node-lease", i.release} {
		g.Expect(i.try(t, i.pod(ns, "web", i.uids["web"]))).To(denied("podset-"), ns)
	}
	for name, spoil := range map[string]func(*corev1.Pod){
		"no owner": func(p *corev1.Pod) { p.OwnerReferences = nil },
		"a ReplicaSet": func(p *corev1.Pod) {
			p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "ReplicaSet", "apps/v1"
		},
		"another group": func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "app.example.org/v1" },
		"a second owner": func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"})
		},
		"no controller":     func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"labels of another": func(p *corev1.Pod) { p.Labels[appv1alpha1.LabelApp] = "db" },
		"no slot":           func(p *corev1.Pod) { delete(p.Labels, appv1alpha1.LabelReplacement) },
	} {
		g.Expect(i.try(t, i.podOf("web", spoil))).To(denied("only pods that belong to a PodSet"), name)
	}
	// The limit of parameters, see docs/decisions/0035-parents-as-parameters.md: with another PodSet in the namespace, an owner can be invented.
	g.Expect(i.try(t, i.pod(i.shop, "invented", "uid"))).To(gomega.Succeed())
	// Others create what they like.
	g.Expect(i.admin.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: i.empty, Name: "other"}, Spec: webSpec()}, client.DryRunAll)).To(gomega.Succeed())
}

func TestPodsOfTheOnlyPodSet(t *testing.T) {
	web := webSpec()
	i := install(t, "admissionPolicy: {singleParent: true}", podSet(t, "web", &web))
	g := gomega.NewWithT(t)
	g.Expect(i.try(t, i.podOf("web"))).To(gomega.Succeed())
	g.Expect(i.try(t, i.pod(i.shop, "invented", "uid"))).To(denied("the only PodSet"))
}

func TestPodsWithSecrets(t *testing.T) {
	web := webSpec()
	allowed := []string{"a Secret", "a volume claim", "a projected Secret", "a variable from a Secret", "variables from a Secret", "another ServiceAccount", "a chosen node"}
	for _, name := range allowed {
		if name != "a volume claim" && name != "a projected Secret" { // They have the same name as another volume.
			harmful[name](&web)
		}
	}
	i := install(t, "admissionPolicy: {podSetAccess: template}", podSet(t, "web", &web))
	g := gomega.NewWithT(t)
	withSecrets := func(p *corev1.Pod) { p.Spec = *web.DeepCopy() }
	g.Expect(i.try(t, i.podOf("web", withSecrets))).To(gomega.Succeed())
	for name, spoil := range map[string]func(*corev1.PodSpec){
		"another Secret":         func(p *corev1.PodSpec) { p.Volumes[1].Secret.SecretName = "other" },
		"another key":            func(p *corev1.PodSpec) { p.InitContainers[0].Env[0].ValueFrom.SecretKeyRef.Key = "other" },
		"variables of another":   func(p *corev1.PodSpec) { p.Containers[0].EnvFrom[0].SecretRef.Name = "other" },
		"another ServiceAccount": func(p *corev1.PodSpec) { p.ServiceAccountName = "other" },
		"another node":           func(p *corev1.PodSpec) { p.NodeName = "other" },
		"a claim instead": func(p *corev1.PodSpec) {
			p.Volumes[1].VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db"}}
		},
		"the network of the node": harmful["the network of the node"],
	} {
		pod := i.podOf("web", withSecrets)
		spoil(&pod.Spec)
		g.Expect(i.try(t, pod)).To(denied(""), name)
		pod = i.pod(i.shop, "invented", "uid")
		withSecrets(pod)
		spoil(&pod.Spec)
		g.Expect(i.try(t, pod)).To(denied(""), name)
	}
	// As long as every PodSet has them: an invented owner must not give access.
	g.Expect(i.admin.Create(t.Context(), podSetIn(t, i.shop, "plain"))).To(gomega.Succeed())
	g.Eventually(func() error { return i.try(t, i.podOf("web", withSecrets)) }, patience, tick).Should(denied("every PodSet in the namespace"))
}

func podSetIn(t *testing.T, namespace, name string) *appv1alpha1.PodSet {
	t.Helper()
	ps := podSet(t, name, nil)
	ps.Namespace = namespace
	return ps
}

func TestPrivilegedPodsOfPodSets(t *testing.T) {
	web := webSpec()
	harmful["the network of the node"](&web)
	harmful["a path of the node"](&web)
	i := install(t, "admissionPolicy: {podSets: privileged}", podSet(t, "web", &web))
	g := gomega.NewWithT(t)
	privileged := func(p *corev1.Pod) { p.Spec = *web.DeepCopy() }
	g.Expect(i.try(t, i.podOf("web", privileged))).To(gomega.Succeed())
	g.Expect(i.try(t, i.podOf("web", privileged, func(p *corev1.Pod) { p.Spec.Volumes[1].HostPath.Path = "/etc" }))).To(denied("podset-templates"))
	g.Expect(i.try(t, i.podOf("web", privileged, func(p *corev1.Pod) { p.Spec.HostPID = true }))).To(denied("podset-templates"))
}

// TestAdoption changes and deletes pods of others.
func TestAdoption(t *testing.T) {
	web := webSpec()
	i := install(t, "", podSet(t, "web", &web))
	g := gomega.NewWithT(t)
	owner := i.podOf("web").OwnerReferences
	stored := func(name string, labels map[string]string, owners []metav1.OwnerReference) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: i.shop, Name: name, Labels: labels, OwnerReferences: owners}, Spec: webSpec()}
		g.Expect(i.admin.Create(t.Context(), pod)).To(gomega.Succeed())
		return pod
	}
	change := func(pod *corev1.Pod, mutate func(*corev1.Pod)) error {
		next := pod.DeepCopy()
		mutate(next)
		return i.own.Patch(t.Context(), next, client.MergeFrom(pod), client.DryRunAll)
	}
	adopt := func(p *corev1.Pod) { p.OwnerReferences = owner }
	matching := map[string]string{appv1alpha1.LabelApp: "web", appv1alpha1.LabelVersion: appv1alpha1.Version}
	replicaSet := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	orphan, stranger, theirs, mine := stored("orphan", matching, nil), stored("stranger", map[string]string{"app": "db"}, nil), stored("theirs", matching, replicaSet), stored("mine", matching, owner)

	g.Expect(change(orphan, adopt)).To(gomega.Succeed(), "adoption")
	g.Expect(change(mine, func(p *corev1.Pod) { p.OwnerReferences = nil })).To(gomega.Succeed(), "release")
	g.Expect(i.own.Delete(t.Context(), mine, client.DryRunAll)).To(gomega.Succeed(), "deletion")

	for name, err := range map[string]error{
		"the adoption of a stranger": change(stranger, adopt),
		"the theft of a pod":         change(theirs, adopt),
		"its release":                change(theirs, func(p *corev1.Pod) { p.OwnerReferences = nil }),
		"another image":              change(mine, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil" }),
		"the labels of a Service":    change(mine, func(p *corev1.Pod) { p.Labels["app"] = "db" }),
		"an annotation":              change(mine, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }),
		"a finalizer":                change(mine, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/f"} }),
		"another owner beside it": change(mine, func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"})
		}),
		"the deletion of an orphan":    i.own.Delete(t.Context(), orphan, client.DryRunAll),
		"the deletion of a stranger's": i.own.Delete(t.Context(), theirs, client.DryRunAll),
	} {
		g.Expect(err).To(denied("podset-pods"), name)
	}
}
