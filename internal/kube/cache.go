// Package kube holds what all controllers share: the kinds of objects, how objects are cached, and how a reconcile ends.
package kube

import (
	"fmt"
	"strings"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// CacheOptions returns the options of the manager's cache: of each kind it holds the objects and the fields that Kinds says, without managed
// fields. No namespaces means all. Of Pods and Deployments it holds the labels and annotations with ownerKeys as well.
func CacheOptions(namespaces, ownerKeys []string) (cache.Options, error) {
	opts := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range Kinds() {
		if kind.Selector == nil && kind.Transform == nil {
			continue
		}
		by := cache.ByObject{Transform: kind.Transform}
		switch kind.Object.(type) {
		case *corev1.Pod, *appsv1.Deployment:
			by.Transform = keepOwnerKeys(by.Transform, ownerKeys)
		}
		if kind.Selector != nil {
			selector, err := kind.Selector()
			if err != nil {
				return cache.Options{}, fmt.Errorf("select the cached objects of kind %s: %w", kind.Kind, err)
			}
			by.Label = selector
		}
		opts.ByObject[kind.Object] = by
	}
	if len(namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts, nil
}

// maxKept bounds the kept values of labels and annotations, in bytes. It leaves room for one character more than owners have: a value that is too long stays
// too long.
const maxKept = model.MaxOwner + utf8.UTFMax

// trimPod keeps the fields of a pod that inventory and scanjob read, and whether and why not a pod of a PodSet or of a BellerophonSimple is ready. A
// full pod takes five times the memory.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		// A tombstone.
		return obj, nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: pod.Labels, OwnerReferences: pod.OwnerReferences, DeletionTimestamp: pod.DeletionTimestamp,
			CreationTimestamp: pod.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, ImagePullSecrets: trimReferences(pod.Spec.ImagePullSecrets),
			Containers: trimContainers(pod.Spec.Containers), InitContainers: trimContainers(pod.Spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message,
			Conditions:                 trimConditions(pod.Status.Conditions),
			ContainerStatuses:          trimStatuses(pod.Status.ContainerStatuses),
			InitContainerStatuses:      trimStatuses(pod.Status.InitContainerStatuses),
			EphemeralContainerStatuses: trimStatuses(pod.Status.EphemeralContainerStatuses),
		},
	}
	for i := range pod.Spec.EphemeralContainers {
		common := pod.Spec.EphemeralContainers[i].EphemeralContainerCommon
		trimmed.Spec.EphemeralContainers = append(trimmed.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: common.Name, Image: common.Image},
		})
	}
	if _, scan := pod.Labels[scanjob.LabelScan]; scan {
		trimmed.Spec.Volumes = imageVolumes(pod.Spec.Volumes)
	}
	_, instance := pod.Labels[stablev444beta989.LabelShero]
	if ref := metav1.GetControllerOfNoCopy(pod); instance || ref != nil && ref.Kind == KindPodSet.Kind {
		keepReadiness(trimmed, pod)
	}
	return trimmed, nil
}

// imageVolumes keeps the images that a scan pod mounts, which messages of the kubelet are about.
func imageVolumes(volumes []corev1.Volume) []corev1.Volume {
	var trimmed []corev1.Volume
	for i := range volumes {
		if volumes[i].Image != nil {
			trimmed = append(trimmed, volumes[i])
		}
	}
	return trimmed
}

// trimNode keeps what decides which pods can run on a node, and what they can mount there. A full node takes ten times the memory and more: it
// lists its images.
func trimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		// A tombstone.
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels},
		Spec:       corev1.NodeSpec{Taints: node.Spec.Taints},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: node.Status.NodeInfo.KubeletVersion, ContainerRuntimeVersion: node.Status.NodeInfo.ContainerRuntimeVersion,
			},
			RuntimeHandlers: node.Status.RuntimeHandlers,
		},
	}, nil
}

// keepReadiness keeps whether a pod is ready, since when, and how its containers terminated last. These fields change often, so other pods lack
// them.
func keepReadiness(trimmed, pod *corev1.Pod) {
	keepLastTerminations(trimmed.Status.ContainerStatuses, pod.Status.ContainerStatuses)
	keepLastTerminations(trimmed.Status.InitContainerStatuses, pod.Status.InitContainerStatuses)
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			trimmed.Status.Conditions = append(trimmed.Status.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
}

func keepLastTerminations(trimmed, statuses []corev1.ContainerStatus) {
	for i := range statuses {
		trimmed[i].LastTerminationState = statuses[i].LastTerminationState
	}
}

// trimDeployment keeps the fields of a Deployment that its feed reads.
func trimDeployment(obj any) (any, error) {
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		// A tombstone.
		return obj, nil
	}
	trimmed := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion},
		Spec:       appsv1.DeploymentSpec{Replicas: d.Spec.Replicas},
	}
	trimmed.Spec.Template.Spec.Containers = trimContainers(d.Spec.Template.Spec.Containers)
	trimmed.Spec.Template.Spec.InitContainers = trimContainers(d.Spec.Template.Spec.InitContainers)
	return trimmed, nil
}

// keepOwnerKeys is a transform that keeps the labels and annotations with some keys, too.
func keepOwnerKeys(transform toolscache.TransformFunc, keys []string) toolscache.TransformFunc {
	if len(keys) == 0 {
		return transform
	}
	return func(obj any) (any, error) {
		transformed, err := transform(obj)
		full, isObject := obj.(client.Object)
		trimmed, stillObject := transformed.(client.Object)
		if err != nil || !isObject || !stillObject {
			return transformed, err
		}
		if trimmed.GetLabels() == nil {
			trimmed.SetLabels(withKeys(full.GetLabels(), keys))
		}
		trimmed.SetAnnotations(withKeys(full.GetAnnotations(), keys))
		return trimmed, nil
	}
}

// withKeys is a copy of the values with some keys, nil if there are none. Longer values than those of owners stay too long, but are cut.
func withKeys(values map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		value, found := values[key]
		if !found {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = strings.Clone(truncate.Text(value, maxKept))
	}
	return kept
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	var trimmed []corev1.Container
	for i := range containers {
		trimmed = append(trimmed, corev1.Container{Name: containers[i].Name, Image: containers[i].Image})
	}
	return trimmed
}

func trimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var trimmed []corev1.ContainerStatus
	for i := range statuses {
		s := &statuses[i]
		trimmed = append(trimmed, corev1.ContainerStatus{Name: s.Name, ImageID: s.ImageID, State: s.State})
	}
	return trimmed
}

// trimConditions keeps why a pod was not scheduled, and why it was evicted.
func trimConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	var trimmed []corev1.PodCondition
	for i := range conditions {
		c := &conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			trimmed = append(trimmed, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return trimmed
}

// maxReferences is the maximum number of references to pull secrets of a pod that are kept, the first ones.
const maxReferences = 100

// trimReferences keeps the first references whose names a Secret can have. The API server bounds neither their number nor their length.
func trimReferences(references []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	var kept []corev1.LocalObjectReference
	for _, reference := range references[:min(len(references), maxReferences)] {
		if len(reference.Name) <= validation.DNS1123SubdomainMaxLength {
			kept = append(kept, reference)
		}
	}
	return kept
}
