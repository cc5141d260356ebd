package admission_test

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

func hero() *stablev444beta989.BellerophonSimple {
	return &stablev444beta989.BellerophonSimple{
		ObjectMeta: metav1.ObjectMeta{Name: "hero"},
		Spec: stablev444beta989.BellerophonSimpleSpec{
			Image: "app:1", Replicas: new(int32(2)), WingedHorseName: "pegasus",
			Storage: &stablev444beta989.BellerophonSimpleStorage{Size: resource.MustParse("1Gi"), MountPath: "/data"},
		},
	}
}

// meta returns the metadata of an object of hero.
func (i *installation) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: i.shop, Name: "hero", Labels: map[string]string{stablev444beta989.LabelShero: "hero"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: stablev444beta989.GroupVersion.String(), Kind: "BellerophonSimple", Name: "hero", UID: types.UID(i.uids["hero"]), Controller: new(true),
		}},
	}
}

func selectHero() map[string]string { return map[string]string{stablev444beta989.LabelShero: "hero"} }

func (i *installation) service(mutate func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: i.meta(), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: selectHero(), PublishNotReadyAddresses: true}}
	if mutate != nil {
		mutate(service)
	}
	return service
}

func (i *installation) disruptionBudget(mutate func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: i.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selectHero()},
	}}
	if mutate != nil {
		mutate(budget)
	}
	return budget
}

func (i *installation) statefulSet(mutate ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: i.meta(), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), ServiceName: "hero", Selector: &metav1.LabelSelector{MatchLabels: selectHero()},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: selectHero()},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(60)),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), FSGroup: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "app", Image: "app:1", Env: []corev1.EnvVar{{Name: "WINGED_HORSE_NAME", Value: "pegasus"}},
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}},
			},
		},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}},
	}}
	for _, m := range mutate {
		m(set)
	}
	return set
}

// harmfulInstances are pods of a StatefulSet that the operator must not create for any BellerophonSimple.
var harmfulInstances = map[string]func(*corev1.PodSpec){
	"a token":      func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil },
	"an account":   func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" },
	"root":         func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
	"root inside":  func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsNonRoot = new(false) },
	"another user": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsUser = new(int64(0)) },
	"the network":  func(p *corev1.PodSpec) { p.HostNetwork = true },
	"host aliases": func(p *corev1.PodSpec) {
		p.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"db"}}}
	},
	"escalation":   func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
	"capabilities": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities.Drop = nil },
	"an added capability": func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	},
	"no seccomp profile": func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
	"sysctls": func(p *corev1.PodSpec) {
		p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
	},
	"an init container":  func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "i", Image: "i"}} },
	"a second container": func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "i", Image: "i"}) },
	"a command":          func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} },
	"arguments":          func(p *corev1.PodSpec) { p.Containers[0].Args = []string{"-c"} },
	"a hook": func(p *corev1.PodSpec) {
		p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	},
	"a port of the node": func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	},
	"a variable": func(p *corev1.PodSpec) {
		p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "x"})
	},
	"variables from a Secret": func(p *corev1.PodSpec) {
		p.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret("s")}}}
	},
	"a variable from a Secret": func(p *corev1.PodSpec) {
		p.Containers[0].Env[0] = corev1.EnvVar{Name: "WINGED_HORSE_NAME", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret("s"), Key: "k"}}}
	},
	"a Secret":           volumeOf(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
	"a path of the node": volumeOf(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
	"a volume claim":     volumeOf(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db"}}),
	"a chosen node":      func(p *corev1.PodSpec) { p.NodeName = "control-plane" },
	"a priority":         func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" },
}

func TestObjectsOfSheroes(t *testing.T) {
	i := install(t, "", hero())
	g := gomega.NewWithT(t)
	g.Expect(i.try(t, i.statefulSet())).To(gomega.Succeed())
	g.Expect(i.try(t, i.service(nil))).To(gomega.Succeed())
	g.Expect(i.try(t, i.disruptionBudget(nil))).To(gomega.Succeed())

	invented := func(s *appsv1.StatefulSet) {
		s.Name, s.OwnerReferences[0].Name, s.OwnerReferences[0].UID, s.Labels[stablev444beta989.LabelShero] = "invented", "invented", "uid", "invented"
	}
	for _, name := range sorted(harmfulInstances) {
		spoil := func(s *appsv1.StatefulSet) { harmfulInstances[name](&s.Spec.Template.Spec) }
		g.Expect(i.try(t, i.statefulSet(spoil))).To(denied("shero-objects"), name)
		g.Expect(i.try(t, i.statefulSet(invented, spoil))).To(denied("shero-objects"), name)
	}
	for name, spoil := range map[string]func(*appsv1.StatefulSet){
		"nobody's":       func(s *appsv1.StatefulSet) { s.OwnerReferences = nil },
		"a Deployment's": func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Kind = "Deployment" },
		"another name":   func(s *appsv1.StatefulSet) { s.Name = "another" },
		"another label":  func(s *appsv1.StatefulSet) { s.Labels = nil },
		"a copied volume": func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "db"}
		},
		"a certain volume": func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Spec.VolumeName = "pv" },
		"kube-system":      func(s *appsv1.StatefulSet) { s.Namespace = "kube-system" },
		"our namespace":    func(s *appsv1.StatefulSet) { s.Namespace = i.release },
	} {
		g.Expect(i.try(t, i.statefulSet(spoil))).To(denied("shero-"), name)
	}
	for name, spoil := range map[string]func(*appsv1.StatefulSet){
		"another image":          func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "evil" },
		"more replicas":          func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(100)) },
		"another UID":            func(s *appsv1.StatefulSet) { s.OwnerReferences[0].UID = "another" },
		"no shero anywhere near": func(s *appsv1.StatefulSet) { s.Namespace = i.empty },
	} {
		g.Expect(i.try(t, i.statefulSet(spoil))).To(denied("shero-specs"), name)
	}
	for name, spoil := range map[string]func(*corev1.Service){
		"nobody's":       func(s *corev1.Service) { s.OwnerReferences = nil },
		"an address":     func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.Ports = "", []corev1.ServicePort{{Port: 80}} },
		"an external IP": func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"1.2.3.4"} },
		"an external name": func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "evil.example", Selector: selectHero()}
		},
		"a load balancer": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ClusterIP, s.Spec.Ports = corev1.ServiceTypeLoadBalancer, "", []corev1.ServicePort{{Port: 80}}
		},
		"the pods of others": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} },
		"ports":              func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 80}} },
	} {
		g.Expect(i.try(t, i.service(spoil))).To(denied("shero-"), name)
	}
	for name, spoil := range map[string]func(*policyv1.PodDisruptionBudget){
		"all pods":           func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} },
		"the pods of others": func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"app": "db"} },
		"no evictions":       func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(0)) },
		"at least one": func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, new(intstr.FromInt32(1))
		},
	} {
		g.Expect(i.try(t, i.disruptionBudget(spoil))).To(denied("shero-objects"), name)
	}
	// The limit of parameters, see docs/decisions/0035-parents-as-parameters.md.
	g.Expect(i.try(t, i.statefulSet(invented))).To(gomega.Succeed())
}

func TestObjectsOfTheOnlyShero(t *testing.T) {
	i := install(t, "admissionPolicy: {singleParent: true}", hero())
	g := gomega.NewWithT(t)
	g.Expect(i.try(t, i.statefulSet())).To(gomega.Succeed())
	g.Expect(i.try(t, i.statefulSet(func(s *appsv1.StatefulSet) {
		s.Name, s.OwnerReferences[0].Name, s.OwnerReferences[0].UID, s.Labels[stablev444beta989.LabelShero] = "invented", "invented", "uid", "invented"
	}))).To(denied("the only BellerophonSimple"))
}

// TestExtendedStatefulSet changes a StatefulSet to which people have added fields of their own.
func TestExtendedStatefulSet(t *testing.T) {
	i := install(t, "", hero())
	g := gomega.NewWithT(t)
	extended := i.statefulSet(func(s *appsv1.StatefulSet) {
		p := &s.Spec.Template.Spec
		p.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		p.Containers = append(p.Containers, corev1.Container{Name: "sidecar", Image: "i"})
		p.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret("s")}}}
		p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "MODE", Value: "debug"})
		p.ServiceAccountName, p.HostPID = "app", true
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
	})
	g.Expect(i.admin.Create(t.Context(), extended)).To(gomega.Succeed())
	extend := func(mutate func(*appsv1.StatefulSet)) error {
		next := extended.DeepCopy()
		mutate(next)
		return i.own.Patch(t.Context(), next, client.MergeFrom(extended), client.DryRunAll)
	}
	g.Expect(extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Env[0].Value = "other" })).To(gomega.Succeed(), "another horse")
	g.Expect(extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "evil" })).To(denied("shero-specs"))
	pod := func(mutate func(*corev1.PodSpec)) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { mutate(&s.Spec.Template.Spec) }
	}
	for name, mutate := range map[string]func(*appsv1.StatefulSet){
		"another image in what people added": pod(func(p *corev1.PodSpec) { p.Containers[1].Image = "evil" }),
		"another init container":             pod(func(p *corev1.PodSpec) { p.InitContainers[0].Image = "evil" }),
		"another account":                    pod(func(p *corev1.PodSpec) { p.ServiceAccountName, p.DeprecatedServiceAccount = "admin", "admin" }),
		"another volume":                     pod(harmful["a path of the node"]),
		"another Secret":                     pod(func(p *corev1.PodSpec) { p.Containers[0].EnvFrom[0].SecretRef.Name = "other" }),
		"another variable":                   pod(func(p *corev1.PodSpec) { p.Containers[0].Env[1].Value = "other" }),
		"a command":                          pod(func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }),
		"a mount of the Secret": pod(func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = append(p.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/v"})
		}),
		"no label": func(s *appsv1.StatefulSet) { delete(s.Labels, stablev444beta989.LabelShero) },
		"no owner": func(s *appsv1.StatefulSet) { s.OwnerReferences = nil; s.Labels = nil },
	} {
		g.Expect(extend(mutate)).To(denied("shero-"), name)
	}
	foreign := i.statefulSet(func(s *appsv1.StatefulSet) { s.Name, s.OwnerReferences = "foreign", nil })
	g.Expect(i.admin.Create(t.Context(), foreign)).To(gomega.Succeed())
	stolen := foreign.DeepCopy()
	stolen.OwnerReferences = i.meta().OwnerReferences
	g.Expect(i.own.Patch(t.Context(), stolen, client.MergeFrom(foreign), client.DryRunAll)).To(denied("shero-"))
}
