package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// The API server bounds the size of a pod, 1.5 MiB, and few of its fields. These are the bounds of what the cache keeps of one, in bytes if they are of texts.
const (
	// maxImage is more than the longest reference that can be pulled.
	maxImage = 1024
	// maxImageID leaves room for the end of what was cut: an image ID that is too long stays too long.
	maxImageID = model.MaxImageIDLength + utf8.UTFMax
	// maxLabels is for the keys and values of all labels.
	maxLabels = 8 << 10
	// maxMessage is for a message about a pod, maxWaiting for one about a container, which may name its image several times.
	maxMessage = MaxNote
	maxWaiting = 4 * MaxNote
	// maxReferences is the maximum number of references to pull secrets, the first ones.
	maxReferences = 100
	// maxVolumes is the maximum number of image volumes of a scan pod. The operator creates one.
	maxVolumes = 4
	// The rest is for the reference to a controller, as objects have them.
	maxOwnerName    = validation.DNS1123SubdomainMaxLength
	maxOwnerKind    = validation.DNS1035LabelMaxLength
	maxOwnerVersion = maxOwnerName + 1 + validation.DNS1035LabelMaxLength
	maxOwnerUID     = 128
)

// keptLabels are the labels that the operator reads. They are kept however many others there are.
var keptLabels = []string{
	scanjob.LabelScan, stablev444beta989.LabelShero, appv1alpha1.LabelApp, appv1alpha1.LabelVersion, appv1alpha1.LabelTemplateHash,
	appv1alpha1.LabelReplacement, appv1alpha1.LabelFailures, appsv1.PodIndexLabel, appsv1.DefaultDeploymentUniqueLabelKey,
}

// trimPod keeps the fields of a pod that inventory and scanjob read, and whether and why not a pod of a PodSet or of a BellerophonSimple is ready. A
// full pod takes five times the memory, and one that is meant to do harm up to a thousand times.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		// A tombstone.
		return obj, nil
	}
	_, instance := pod.Labels[stablev444beta989.LabelShero]
	controller := metav1.GetControllerOfNoCopy(pod)
	kept := containers{readiness: instance || controller != nil && controller.Kind == KindPodSet.Kind}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Labels: trimLabels(pod.Labels), OwnerReferences: trimOwners(controller), DeletionTimestamp: pod.DeletionTimestamp,
			CreationTimestamp: pod.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: pod.Spec.NodeName, ImagePullSecrets: trimReferences(pod.Spec.ImagePullSecrets),
			Containers:          kept.trim(pod.Spec.Containers, pod.Status.ContainerStatuses),
			InitContainers:      kept.trim(pod.Spec.InitContainers, pod.Status.InitContainerStatuses),
			EphemeralContainers: kept.trimEphemeral(pod.Spec.EphemeralContainers, pod.Status.EphemeralContainerStatuses),
		},
	}
	// After the containers: those that are left out have no status.
	trimmed.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: trimText(pod.Status.Reason, maxMessage), Message: trimText(pod.Status.Message, maxMessage),
		Conditions:                 kept.conditions(pod.Status.Conditions),
		ContainerStatuses:          kept.statuses(pod.Status.ContainerStatuses),
		InitContainerStatuses:      kept.statuses(pod.Status.InitContainerStatuses),
		EphemeralContainerStatuses: kept.statuses(pod.Status.EphemeralContainerStatuses),
	}
	if len(kept.omitted) > 0 {
		trimmed.Annotations = map[string]string{inventory.AnnotationOmitted: strconv.Itoa(len(kept.omitted))}
	}
	if _, scan := pod.Labels[scanjob.LabelScan]; scan {
		trimmed.Spec.Volumes = imageVolumes(pod.Spec.Volumes)
	}
	return trimmed, nil
}

// trimText cuts a text that is too long, and ends it with "…", which is no part of a reference or a name. What is kept takes no memory for the rest.
func trimText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.Clone(truncate.Ellipsis(text, limit))
}

// containers are those of one pod: how many without an image that was pulled are kept, and the size of their images; and the names of those that are left out.
type containers struct {
	waiting, images int
	omitted         map[string]bool
	// readiness: whether the pod is ready is kept, since when, and how its containers terminated last. These fields change often, so other pods lack them.
	readiness bool
}

// keep reports whether a container is kept: if it has pulled its image, as there cannot be many on a node, or is one of the first of the others.
func (k *containers) keep(name, image string, pulled bool) bool {
	if pulled {
		return true
	}
	size := min(len(image), maxImage)
	if k.waiting == inventory.MaxWaiting || k.images+size > inventory.MaxImages {
		if k.omitted == nil {
			k.omitted = map[string]bool{}
		}
		k.omitted[name] = true
		return false
	}
	k.waiting++
	k.images += size
	return true
}

// trim keeps the names and images of containers.
func (k *containers) trim(all []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	if len(all) == 0 {
		return nil
	}
	pulled := make(map[string]bool, len(statuses))
	for i := range statuses {
		pulled[statuses[i].Name] = statuses[i].ImageID != ""
	}
	trimmed := make([]corev1.Container, 0, min(len(all), len(statuses)+inventory.MaxWaiting))
	for i := range all {
		if c := &all[i]; k.keep(c.Name, c.Image, pulled[c.Name]) {
			trimmed = append(trimmed, corev1.Container{Name: c.Name, Image: trimText(c.Image, maxImage)})
		}
	}
	return exact(trimmed)
}

func (k *containers) trimEphemeral(all []corev1.EphemeralContainer, statuses []corev1.ContainerStatus) []corev1.EphemeralContainer {
	if len(all) == 0 {
		return nil
	}
	common := make([]corev1.Container, len(all))
	for i := range all {
		common[i] = corev1.Container(all[i].EphemeralContainerCommon)
	}
	kept := k.trim(common, statuses)
	trimmed := make([]corev1.EphemeralContainer, len(kept))
	for i := range kept {
		trimmed[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(kept[i])
	}
	return trimmed
}

// exact returns a slice without unused capacity.
func exact[T any](all []T) []T {
	if len(all) == cap(all) {
		return all
	}
	return append(make([]T, 0, len(all)), all...)
}

// statuses keeps what the containers run, and why they do not.
func (k *containers) statuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(all) == 0 {
		return nil
	}
	trimmed := make([]corev1.ContainerStatus, 0, len(all))
	for i := range all {
		s := &all[i]
		if k.omitted[s.Name] {
			continue
		}
		kept := corev1.ContainerStatus{Name: s.Name, ImageID: trimText(s.ImageID, maxImageID), State: s.State}
		if waiting := s.State.Waiting; waiting != nil && len(waiting.Message) > maxWaiting {
			kept.State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting.Reason, Message: trimText(waiting.Message, maxWaiting)}
		}
		if k.readiness {
			kept.LastTerminationState = s.LastTerminationState
		}
		trimmed = append(trimmed, kept)
	}
	return exact(trimmed)
}

// conditions keeps why a pod was not scheduled, and why it was evicted.
func (k *containers) conditions(all []corev1.PodCondition) []corev1.PodCondition {
	var trimmed []corev1.PodCondition
	for i := range all {
		c := &all[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			trimmed = append(trimmed, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: trimText(c.Reason, maxMessage), Message: trimText(c.Message, maxMessage),
			})
		}
	}
	for i := range all {
		if c := &all[i]; k.readiness && c.Type == corev1.PodReady {
			trimmed = append(trimmed, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return exact(trimmed)
}

// trimLabels keeps all labels, unless they are longer than those of any pod that is not meant to do harm: then those that the operator reads, and the first
// others. Selectors of users may miss the rest.
func trimLabels(labels map[string]string) map[string]string {
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if size <= maxLabels {
		return labels
	}
	kept := map[string]string{}
	size = 0
	for _, key := range slices.Concat(keptLabels, slices.Sorted(maps.Keys(labels))) {
		value, found := labels[key]
		if _, known := kept[key]; !found || known {
			continue
		}
		if size += len(key) + len(value); size > maxLabels {
			break
		}
		kept[key] = value
	}
	return kept
}

// trimOwners keeps the controller of a pod, nil for none. Nothing reads other owners, and the API server bounds neither their number nor their length.
func trimOwners(controller *metav1.OwnerReference) []metav1.OwnerReference {
	if controller == nil {
		return nil
	}
	return []metav1.OwnerReference{{
		APIVersion: trimText(controller.APIVersion, maxOwnerVersion), Kind: trimText(controller.Kind, maxOwnerKind),
		Name: trimText(controller.Name, maxOwnerName), UID: types.UID(trimText(string(controller.UID), maxOwnerUID)), Controller: controller.Controller,
	}}
}

// imageVolumes keeps the images that a scan pod mounts, which messages of the kubelet are about.
func imageVolumes(volumes []corev1.Volume) []corev1.Volume {
	var trimmed []corev1.Volume
	for i := range volumes {
		if image := volumes[i].Image; image != nil && len(image.Reference) <= maxImage && len(trimmed) < maxVolumes {
			trimmed = append(trimmed, corev1.Volume{Name: volumes[i].Name, VolumeSource: corev1.VolumeSource{Image: image}})
		}
	}
	return exact(trimmed)
}

// trimReferences keeps the first references whose names a Secret can have. The API server bounds neither their number nor their length.
func trimReferences(references []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	var kept []corev1.LocalObjectReference
	for _, reference := range references[:min(len(references), maxReferences)] {
		if len(reference.Name) <= validation.DNS1123SubdomainMaxLength {
			kept = append(kept, reference)
		}
	}
	return exact(kept)
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

// trimDeployment keeps the fields of a Deployment that its feed reads, of as many containers as of a pod.
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
	var kept containers
	trimmed.Spec.Template.Spec.Containers = kept.trim(d.Spec.Template.Spec.Containers, nil)
	trimmed.Spec.Template.Spec.InitContainers = kept.trim(d.Spec.Template.Spec.InitContainers, nil)
	return trimmed, nil
}
