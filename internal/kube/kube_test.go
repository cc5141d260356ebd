package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// fullPod sets every field that decisions read, and some that only take memory.
func fullPod() *corev1.Pod {
	controller := true
	status := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{
			Name: name, ImageID: "r.example/" + name, Image: "x", ContainerID: "y", LastTerminationState: corev1.ContainerState{},
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "m"}},
		}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"ignore": "true"},
			Annotations: map[string]string{"big": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: &controller}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}},
			Containers:     []corev1.Container{{Name: "a", Image: "a:1", Env: []corev1.EnvVar{{Name: "X", Value: "y"}}}},
			InitContainers: []corev1.Container{{Name: "b", Image: "b:1"}},
			EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "c", Image: "c:1"},
			}},
			Volumes: []corev1.Volume{{Name: "v"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: status("a"), InitContainerStatuses: status("b"), EphemeralContainerStatuses: status("c"),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse},
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler},
			},
		},
	}
}

func TestTrimmedPodsGiveTheSameInventory(t *testing.T) {
	trimmed, err := trimPod(fullPod())
	if err != nil {
		t.Fatal(err)
	}
	opts := inventory.Options{IgnoreLabel: "ignore"}
	if diff := cmp.Diff(inventory.Containers(fullPod(), opts), inventory.Containers(trimmed.(*corev1.Pod), opts)); diff != "" {
		t.Errorf("inventory (-full +trimmed):\n%s", diff)
	}
	pod := trimmed.(*corev1.Pod)
	if pod.Annotations != nil || pod.ManagedFields != nil || pod.Spec.Volumes != nil || pod.Spec.Containers[0].Env != nil {
		t.Error("fields that nobody reads are kept")
	}
	if len(pod.Status.Conditions) != 2 || pod.Status.Conditions[0].Message != "0/3 nodes" || pod.Status.Conditions[1].Reason == "" {
		t.Errorf("conditions = %+v, want why the pod was not scheduled and why it had to go", pod.Status.Conditions)
	}
	if pod.UID != "uid" || pod.ResourceVersion != "7" {
		t.Error("identity and version are lost")
	}
}

// What the kubelet says about the image that a scan pod mounts is recognized by that image.
func TestTrimmedScanPodsKeepImageVolumes(t *testing.T) {
	image := corev1.Volume{Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r.example/a@sha256:b"}}}
	for scan, want := range map[bool]int{true: 1, false: 0} {
		pod := fullPod()
		pod.Spec.Volumes = append(pod.Spec.Volumes, image)
		if scan {
			pod.Labels[scanjob.LabelScan] = "scan-x"
		}
		trimmed, err := trimPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if volumes := trimmed.(*corev1.Pod).Spec.Volumes; len(volumes) != want || want == 1 && volumes[0].Image == nil {
			t.Errorf("a scan pod: %t: volumes %+v", scan, volumes)
		}
	}
}

func TestTrimmedNodes(t *testing.T) {
	taints := []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	handlers := []corev1.NodeRuntimeHandler{{Name: "kata"}}
	full := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"big": "x"},
		},
		Spec: corev1.NodeSpec{Taints: taints, ProviderID: "x"},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", ContainerRuntimeVersion: "containerd://2.4.2", MachineID: "x"}, RuntimeHandlers: handlers,
			Images: []corev1.ContainerImage{{Names: []string{"r.example/a"}}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}},
		},
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", ContainerRuntimeVersion: "containerd://2.4.2"}, RuntimeHandlers: handlers,
		},
	}
	got, err := trimNode(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}

func TestTrimmedDeployments(t *testing.T) {
	containers := func(name string) []corev1.Container {
		return []corev1.Container{{Name: name, Image: name + ":1", Env: []corev1.EnvVar{{Name: "X", Value: "y"}}}}
	}
	full := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"big": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: containers("a"), InitContainers: containers("b"), Volumes: []corev1.Volume{{Name: "v"}},
			}},
		},
		Status: appsv1.DeploymentStatus{Replicas: 3},
	}
	want := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid", ResourceVersion: "7"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers:     []corev1.Container{{Name: "a", Image: "a:1"}},
				InitContainers: []corev1.Container{{Name: "b", Image: "b:1"}},
			}},
		},
	}
	got, err := trimDeployment(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}

// TestKeptValuesAreCutBetweenCharacters: a value that is too long for an owner is valid and stays too long.
func TestKeptValuesAreCutBetweenCharacters(t *testing.T) {
	for n := range utf8.UTFMax {
		value := withKeys(map[string]string{"team": strings.Repeat("x", n) + strings.Repeat("😀", model.MaxOwner)}, []string{"team"})["team"]
		if !utf8.ValidString(value) || len(value) <= model.MaxOwner || len(value) > maxKept {
			t.Errorf("%d bytes, valid %t: %q", len(value), utf8.ValidString(value), value)
		}
	}
}

func controlledBy(kind string) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: kind, Name: "s", Controller: new(true)}
}

func TestTrimmedPodsOfControllersKeepReadiness(t *testing.T) {
	pod, since := fullPod(), metav1.Unix(1000, 0)
	pod.OwnerReferences = []metav1.OwnerReference{controlledBy("PodSet")}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since, LastProbeTime: since, Message: "long",
	}}
	instance := pod.DeepCopy()
	instance.OwnerReferences, instance.Labels = []metav1.OwnerReference{controlledBy("StatefulSet")}, map[string]string{stablev444beta989.LabelShero: "s"}
	other := pod.DeepCopy()
	other.OwnerReferences = []metav1.OwnerReference{controlledBy("StatefulSet")}
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []corev1.PodCondition
	}{"a PodSet": {pod, ready}, "a BellerophonSimple": {instance, ready}, "others": {other, nil}} {
		test.pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 7}
		trimmed, err := trimPod(test.pod)
		if err != nil {
			t.Fatal(err)
		}
		status := trimmed.(*corev1.Pod).Status
		if diff := cmp.Diff(test.want, status.Conditions); diff != "" {
			t.Errorf("conditions of a pod of %s (-want +got):\n%s", name, diff)
		}
		if kept := status.ContainerStatuses[0].LastTerminationState.Terminated != nil; kept != (test.want != nil) {
			t.Errorf("the last termination of a pod of %s is kept: %t", name, kept)
		}
	}
}

func TestTrimLeavesTombstones(t *testing.T) {
	tombstone := cache.DeletedFinalStateUnknown{Key: "ns/pod"}
	for _, trim := range []cache.TransformFunc{trimPod, trimDeployment} {
		if got, err := trim(tombstone); err != nil || got != any(tombstone) {
			t.Errorf("a tombstone is trimmed to %v, %v", got, err)
		}
	}
}

func TestDeploymentsAreTrimmed(t *testing.T) {
	opts, err := CacheOptions(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for obj, by := range opts.ByObject {
		if _, deployment := obj.(*appsv1.Deployment); deployment && by.Transform != nil {
			return
		}
	}
	t.Error("Deployments are cached as they are")
}

func TestOwnerKeysAreKept(t *testing.T) {
	opts, err := CacheOptions(nil, []string{"team", "absent", "long"})
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{"team": "label", "app": "web"},
		Annotations: map[string]string{"team": "annotation", "long": strings.Repeat("a", 1<<18), "other": "x"},
	}
	kept := map[string]string{"team": "annotation", "long": strings.Repeat("a", maxKept)}
	for obj, by := range opts.ByObject {
		var full client.Object
		labels := map[string]string{"team": "label"}
		switch obj.(type) {
		case *corev1.Pod:
			full, labels = &corev1.Pod{ObjectMeta: meta}, meta.Labels
		case *appsv1.Deployment:
			full = &appsv1.Deployment{ObjectMeta: meta}
		case *corev1.Node:
			full, labels, kept = &corev1.Node{ObjectMeta: meta}, meta.Labels, nil
		default:
			continue
		}
		trimmed, err := by.Transform(full)
		got, isObject := trimmed.(client.Object)
		if err != nil || !isObject {
			t.Fatalf("%T: %v", full, err)
		}
		if diff := cmp.Diff(labels, got.GetLabels()); diff != "" {
			t.Errorf("labels of %T (-want +got):\n%s", full, diff)
		}
		if diff := cmp.Diff(kept, got.GetAnnotations()); diff != "" {
			t.Errorf("annotations of %T (-want +got):\n%s", full, diff)
		}
		kept = map[string]string{"team": "annotation", "long": strings.Repeat("a", maxKept)}
		tombstone := cache.DeletedFinalStateUnknown{Key: "ns/pod"}
		if got, err := by.Transform(tombstone); err != nil || got != any(tombstone) {
			t.Errorf("a tombstone is trimmed to %v, %v", got, err)
		}
	}
}

type statusClient struct {
	client.SubResourceWriter
	patches int
	err     error
}

func (c *statusClient) Status() client.SubResourceWriter { return c }

func (c *statusClient) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	c.patches++
	return c.err
}

// writingClient gives each object that it writes the next resource version.
type writingClient struct {
	client.SubResourceWriter
	version int
}

func (c *writingClient) Status() client.SubResourceWriter { return c }

func (c *writingClient) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	c.version++
	obj.SetResourceVersion(strconv.Itoa(c.version))
	return nil
}

// TestPatchStatusKnowsThatTheCacheIsBehind writes a status, and then finds that the one before is right while the cache still has that one.
func TestPatchStatusKnowsThatTheCacheIsBehind(t *testing.T) {
	c := &writingClient{version: 7}
	before := fullPod()
	before.UID, before.ResourceVersion = "behind", "7"
	after := before.DeepCopy()
	after.Status.Phase = corev1.PodFailed
	if err := PatchStatus(t.Context(), c, before, after); err != nil {
		t.Fatal(err)
	}
	if err := PatchStatus(t.Context(), c, before, before.DeepCopy()); !IsConflict(err) {
		t.Errorf("the status before is right again, and the cache does not show the one that was written: %v", err)
	}
	if err := PatchStatus(t.Context(), c, after, after.DeepCopy()); err != nil {
		t.Errorf("the cache shows what was written: %v", err)
	}
	again := after.DeepCopy()
	again.Status.Phase = before.Status.Phase
	if err := PatchStatus(t.Context(), c, after, again); err != nil || c.version != 9 {
		t.Errorf("the status before is written: %v, version %d", err, c.version)
	}
}

func TestPatchStatusWritesOnlyChanges(t *testing.T) {
	c := &statusClient{}
	before := fullPod()
	if err := PatchStatus(t.Context(), c, before, before.DeepCopy()); err != nil || c.patches != 0 {
		t.Errorf("an equal status: %v, %d patches", err, c.patches)
	}
	after := before.DeepCopy()
	after.Status.Phase = corev1.PodFailed
	if err := PatchStatus(t.Context(), c, before, after); err != nil || c.patches != 1 {
		t.Errorf("a changed status: %v, %d patches", err, c.patches)
	}
	c.err = errors.New("conflict")
	if err := PatchStatus(t.Context(), c, before, after); !errors.Is(err, c.err) {
		t.Errorf("a failed patch: %v", err)
	}
}

// TestReferencesToPullSecretsAreBounded: the API server bounds neither the number of references in a pod nor the length of the names.
func TestReferencesToPullSecretsAreBounded(t *testing.T) {
	pod := fullPod()
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: strings.Repeat("l", 254)}, {Name: strings.Repeat("k", 300<<10)}, {Name: strings.Repeat("m", 253)}}
	for i := range 10 * maxReferences {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint("s", i)})
	}
	trimmed, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := trimmed.(*corev1.Pod).Spec.ImagePullSecrets
	if len(kept) != maxReferences-2 || len(kept[0].Name) != 253 || kept[1].Name != "s0" || kept[len(kept)-1].Name != fmt.Sprint("s", maxReferences-4) {
		t.Errorf("%d references, want those of the first %d whose names a Secret can have", len(kept), maxReferences)
	}
	pod.Spec.ImagePullSecrets = nil
	if trimmed, err := trimPod(pod); err != nil || trimmed.(*corev1.Pod).Spec.ImagePullSecrets != nil {
		t.Errorf("%+v, %v of a pod without", trimmed, err)
	}
}
