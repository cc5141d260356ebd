package setup_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// operatorOfTheChart installs the rights and the admission policies of the chart, and returns a client with the operator's own account.
func operatorOfTheChart(t *testing.T, admin client.Client, ns string) client.Client {
	t.Helper()
	config, _ := installRights(t, controllertest.Config(t), admin, ns, "")
	for _, object := range renderChart(t, ns, "") {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			create(t, admin, object)
			t.Cleanup(func() { _ = admin.Delete(t.Context(), object) })
		}
	}
	own, err := client.New(rest.CopyConfig(config), client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func ownedBy(apiVersion, kind string) []metav1.OwnerReference {
	if kind == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "uid", Controller: new(true)}}
}

// TestTheOperatorLeavesTheObjectsOfOthersAlone uses the rights of the operator as somebody would who has taken it over.
func TestTheOperatorLeavesTheObjectsOfOthersAlone(t *testing.T) {
	admin, g := needCluster(t), gomega.NewWithT(t)
	ns := namespace(t, admin)
	own := operatorOfTheChart(t, admin, ns)
	podSet, replicaSet := ownedBy("app.example.com/v1alpha1", "PodSet"), ownedBy("apps/v1", "ReplicaSet")
	pod := func(name string, owners []metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: owners},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		// Whoever refused it, it must have been the policy.
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("%s: got %v, want that the policy refuses it", what, err)
		}
	}
	allowed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	// The API server takes a moment to know a new policy.
	g.Eventually(func() error {
		return own.Create(t.Context(), pod("early", nil), client.DryRunAll)
	}, patience, tick).Should(gomega.MatchError(gomega.ContainSubstring("the operator may create only objects that belong to a PodSet")))

	refused("a pod of somebody else", own.Create(t.Context(), pod("other", replicaSet)))
	mine := pod("mine", podSet)
	allowed("a pod of a PodSet", own.Create(t.Context(), mine))
	allowed("its deletion", own.Delete(t.Context(), mine))

	for what, mutate := range map[string]func(*corev1.PodSpec){
		"the processes of its node": func(p *corev1.PodSpec) { p.HostPID = true },
		"a path of its node": func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"a port of its node": func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		},
		"privileges": func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "i", Image: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		},
		"a capability": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
		},
	} {
		wide := pod("wide", podSet)
		mutate(&wide.Spec)
		refused("a pod of a PodSet with "+what, own.Create(t.Context(), wide))
	}

	theirs, nobodys, stranger := pod("theirs", replicaSet), pod("nobodys", nil), pod("stranger", nil)
	nobodys.Labels = map[string]string{"app": "owner", "version": "v0.1"}
	stranger.Labels = map[string]string{"app": "another", "version": "v0.1"}
	for _, p := range []*corev1.Pod{theirs, nobodys, stranger} {
		create(t, admin, p)
	}
	refused("the deletion of a pod of a ReplicaSet", own.Delete(t.Context(), theirs))
	refused("the deletion of a pod of nobody", own.Delete(t.Context(), nobodys))
	steal := func(p *corev1.Pod) error {
		patch := client.MergeFrom(p.DeepCopy())
		p.OwnerReferences = podSet
		return own.Patch(t.Context(), p, patch)
	}
	refused("the theft of a pod", steal(theirs))
	refused("the adoption of a pod without the labels", steal(stranger))
	allowed("the adoption of a pod of nobody", steal(nobodys))
	changed := client.MergeFrom(nobodys.DeepCopy())
	nobodys.Spec.Containers[0].Image = "evil"
	refused("another image in an adopted pod", own.Patch(t.Context(), nobodys, changed))

	shero := ownedBy("stable.simple-bellerophon.io/v444beta989", "BellerophonSimple")
	set := func(name string, owners []metav1.OwnerReference, mutate func(*corev1.PodSpec)) *appsv1.StatefulSet {
		labels := map[string]string{"app": name}
		hardened := corev1.PodSpec{
			AutomountServiceAccountToken: new(false), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			Containers: []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}}},
		}
		if mutate != nil {
			mutate(&hardened)
		}
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: owners},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: hardened},
			},
		}
	}
	allowed("the StatefulSet of a shero", own.Create(t.Context(), set("shero", shero, nil)))
	refused("a StatefulSet of nobody", own.Create(t.Context(), set("nobody", nil, nil)))
	for what, mutate := range map[string]func(*corev1.PodSpec){
		"a token":      func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil },
		"an account":   func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" },
		"root":         func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil },
		"root inside":  func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsNonRoot = new(false) },
		"the network":  func(p *corev1.PodSpec) { p.HostNetwork = true },
		"escalation":   func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil },
		"an init root": func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "i", Image: "i"}} },
		"the node": func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"a chosen node": func(p *corev1.PodSpec) { p.NodeName = "control-plane" },
	} {
		refused("a StatefulSet with "+what, own.Create(t.Context(), set("bad", shero, mutate)))
	}
	extended := set("extended", shero, func(p *corev1.PodSpec) {
		p.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
		p.Containers = append(p.Containers, corev1.Container{Name: "sidecar", Image: "i"})
		p.ServiceAccountName, p.HostPID = "app", true
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
	})
	create(t, admin, extended)
	extend := func(mutate func(*appsv1.StatefulSet)) error {
		next := extended.DeepCopy()
		mutate(next)
		return own.Patch(t.Context(), next, client.MergeFrom(extended))
	}
	allowed("a new image beside what people added", extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "i:2" }))
	refused("another image in what people added", extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[1].Image = "evil" }))
	refused("another init container", extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.InitContainers[0].Image = "evil" }))
	refused("another account", extend(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.ServiceAccountName = "admin" }))
	refused("another volume", extend(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{Name: "w", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
	}))
	foreign := set("foreign", nil, nil)
	create(t, admin, foreign)
	patch := client.MergeFrom(foreign.DeepCopy())
	foreign.OwnerReferences = shero
	refused("the theft of a StatefulSet", own.Patch(t.Context(), foreign, patch))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "s"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	refused("a Service of nobody", own.Create(t.Context(), service.DeepCopy()))
	service.OwnerReferences = shero
	allowed("the Service of a shero", own.Create(t.Context(), service))
}
