package kube

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// long is a text of this length in memory of its own, as those of decoded objects are.
func long(bytes int) string { return strings.Repeat("a", bytes) }

// hostilePods make pods that the API server accepts and that take much memory.
func hostilePods() map[string]func() *corev1.Pod {
	containers := func(count, image int) (all []corev1.Container) {
		for n := range count {
			all = append(all, corev1.Container{Name: fmt.Sprint("c", n), Image: long(image), Env: []corev1.EnvVar{{Name: "A", Value: "b"}}})
		}
		return all
	}
	pod := func(change func(*corev1.Pod)) func() *corev1.Pod {
		return func() *corev1.Pod {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "uid"}, Spec: corev1.PodSpec{Containers: containers(1, 10)}}
			change(pod)
			return pod
		}
	}
	return map[string]func() *corev1.Pod{
		"an image of 1 MB": pod(func(pod *corev1.Pod) { pod.Spec.Containers = containers(1, 1_000_000) }),
		"the image of an init container": pod(func(pod *corev1.Pod) {
			pod.Spec.InitContainers = containers(1, 1_000_000)
		}),
		"the image of an ephemeral container": pod(func(pod *corev1.Pod) {
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: long(1_000_000)}}}
		}),
		"many containers": pod(func(pod *corev1.Pod) { pod.Spec.Containers = containers(2_000, 10) }),
		"many containers with statuses": pod(func(pod *corev1.Pod) {
			pod.Spec.Containers = containers(2_000, 10)
			for n := range pod.Spec.Containers {
				pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: pod.Spec.Containers[n].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
				})
			}
		}),
		"many containers with long images": pod(func(pod *corev1.Pod) {
			all := containers(600, 2000)
			pod.Spec.Containers, pod.Spec.InitContainers = all[:300], all[300:]
		}),
		"messages about an image": pod(func(pod *corev1.Pod) {
			pod.Status.Message, pod.Status.Reason = long(100_000), long(100_000)
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: long(100_000), Message: long(100_000)}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c0", ImageID: long(100_000), State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "InvalidImageName", Message: long(400_000)}},
			}}
		}),
		"many labels": pod(func(pod *corev1.Pod) {
			pod.Labels = map[string]string{}
			for n := range 2_000 {
				pod.Labels[fmt.Sprintf("example.com/label-%d", n)] = long(63)
			}
		}),
		"many owners": pod(func(pod *corev1.Pod) {
			for n := range 2_000 {
				pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: long(50), UID: types.UID(fmt.Sprint(n))})
			}
		}),
		"a long controller": pod(func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: long(250_000), Kind: long(250_000), Name: long(250_000), UID: types.UID(long(250_000)), Controller: new(true),
			}}
		}),
		"many image volumes": pod(func(pod *corev1.Pod) {
			pod.Labels = map[string]string{scanjob.LabelScan: "x"}
			for n := range 2_000 {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(n), VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}}})
			}
		}),
		"a long image volume": pod(func(pod *corev1.Pod) {
			pod.Labels = map[string]string{scanjob.LabelScan: "x"}
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: long(1_000_000)}}}}
		}),
		"long pull secrets": pod(func(pod *corev1.Pod) {
			for range 2_000 {
				pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: long(100)})
			}
		}),
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestTrimmedPodsAreBounded measures how much memory pods take that are meant to fill it, with all that they refer to.
func TestTrimmedPodsAreBounded(t *testing.T) {
	// A container takes some 400 bytes, its status 200.
	const most = 100 * (400 + 200) * 3 / 2
	for name, hostile := range hostilePods() {
		limit := uint64(10 << 10)
		switch name {
		case "many containers", "many containers with statuses":
			limit = most
		case "many containers with long images", "many labels", "long pull secrets", "messages about an image":
			limit = 32 << 10
		}
		t.Run(name, func(t *testing.T) {
			kept := make([]any, 8)
			before := heap()
			for n := range kept {
				trimmed, err := trimPod(hostile())
				if err != nil {
					t.Fatal(err)
				}
				kept[n] = trimmed
			}
			after := heap()
			if taken := (max(after, before) - before) / uint64(len(kept)); taken > limit {
				t.Errorf("a pod takes %d bytes of memory, want at most %d", taken, limit)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// TestTrimmedPodsLoseNoContainer counts what is left out, so that coverage has the gap.
func TestTrimmedPodsLoseNoContainer(t *testing.T) {
	for name, hostile := range hostilePods() {
		trimmed, err := trimPod(hostile())
		if err != nil {
			t.Fatal(err)
		}
		full, pod := hostile(), trimmed.(*corev1.Pod)
		before, after := inventory.Containers(full, inventory.Options{}), inventory.Containers(pod, inventory.Options{})
		if got, want := len(after)+inventory.Omitted(pod, after), len(before)+inventory.Omitted(full, before); got != want || len(after) == 0 {
			t.Errorf("%s: %d containers, %d of them left out, want %d", name, got, inventory.Omitted(pod, after), want)
		}
		for i := range after {
			if result := coverage.Of(coverage.Container{Key: after[i].Key}, coverage.Image{}, "build"); result.State != coverage.Pending && result.State != coverage.Failed {
				t.Errorf("%s: container %s is %s", name, after[i].Name, result.State)
			}
		}
	}
}

// TestRunningContainersAreKept has more containers than count without an image, and those that run are the last ones.
func TestRunningContainersAreKept(t *testing.T) {
	pod := hostilePods()["many containers"]()
	for n := 1_800; n < 2_000; n++ {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint("c", n), ImageID: fmt.Sprint("sha256:", n)})
	}
	trimmed, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	found := inventory.Containers(trimmed.(*corev1.Pod), inventory.Options{})
	for i := range found {
		if found[i].Key.ImageID != "" {
			running++
		}
	}
	if omitted := inventory.Omitted(trimmed.(*corev1.Pod), found); running != 200 || omitted != 1_700 {
		t.Errorf("%d containers run and %d are left out, want 200 and 1700", running, omitted)
	}
}

// TestCutTextsNameNothingElse cuts in the middle of texts whose beginnings are valid.
func TestCutTextsNameNothingElse(t *testing.T) {
	image := "registry.example/" + strings.Repeat("a/", 200) + "app:1.0.0-" + long(5000)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{Kind: "ConfigMap", Name: "other"}, {APIVersion: "apps/v1", Kind: "ReplicaSet", Name: long(500), UID: types.UID(long(500)), Controller: new(true)},
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ImageID: "registry.example/app@sha256:" + strings.Repeat("a", 64) + long(model.MaxImageIDLength),
		}}},
	}
	transformed, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	trimmed := transformed.(*corev1.Pod)
	if cut := trimmed.Spec.Containers[0].Image; model.RepositoryOf(cut) != model.RepositoryOf(image) || !strings.HasSuffix(cut, "…") {
		t.Errorf("an image that was cut has the repository %q: %s", model.RepositoryOf(cut), cut)
	}
	key := inventory.Containers(trimmed, inventory.Options{})[0].Key
	if key.Validate() == nil || key.Pullable() || coverage.Of(coverage.Container{Key: key}, coverage.Image{}, "").State != coverage.Failed {
		t.Errorf("an image ID that was cut can be scanned: %s", key.ImageID)
	}
	if owners := trimmed.OwnerReferences; len(owners) != 1 || !strings.HasSuffix(owners[0].Name, "…") || !strings.HasSuffix(string(owners[0].UID), "…") || owners[0].Kind != "ReplicaSet" {
		t.Errorf("owners = %+v", owners)
	}
}

// TestLabelsOfPodSetsAreKept: a PodSet that does not see its labels would release its pods and create others.
func TestLabelsOfPodSetsAreKept(t *testing.T) {
	pod := hostilePods()["many labels"]()
	read := map[string]string{
		appv1alpha1.LabelApp: "set", appv1alpha1.LabelVersion: appv1alpha1.Version, appv1alpha1.LabelTemplateHash: "h", "team": "a", "example.com/label-0": long(63),
	}
	maps.Copy(pod.Labels, read)
	pod.Annotations = map[string]string{"team": "b", inventory.AnnotationOmitted: "7"}
	pod.Spec.Containers = hostilePods()["many containers"]().Spec.Containers
	opts, err := CacheOptions(nil, []string{"team"})
	if err != nil {
		t.Fatal(err)
	}
	for obj, by := range opts.ByObject {
		if _, isPod := obj.(*corev1.Pod); !isPod {
			continue
		}
		trimmed, err := by.Transform(pod)
		if err != nil {
			t.Fatal(err)
		}
		kept := trimmed.(client.Object)
		for key, value := range read {
			if kept.GetLabels()[key] != value {
				t.Errorf("label %s = %q, want %q", key, kept.GetLabels()[key], value)
			}
		}
		if got := kept.GetAnnotations(); got["team"] != "b" || got[inventory.AnnotationOmitted] != "1900" {
			t.Errorf("annotations = %v", got)
		}
	}
}

func TestTrimmedDeploymentsAreBounded(t *testing.T) {
	template := hostilePods()["many containers with long images"]().Spec
	trimmed, err := trimDeployment(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: template}}})
	if err != nil {
		t.Fatal(err)
	}
	size, kept := 0, trimmed.(*appsv1.Deployment).Spec.Template.Spec
	for _, c := range slices.Concat(kept.Containers, kept.InitContainers) {
		size += len(c.Image)
	}
	if size == 0 || size > inventory.MaxImages {
		t.Errorf("a Deployment keeps %d bytes of images", size)
	}
}
