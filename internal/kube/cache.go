// Package kube holds what all controllers share: how objects are cached, how status is written.
package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheOptions returns the options of the manager's cache: objects keep only the fields that the operator reads, and of Jobs
// only those with the label scanLabel are kept at all, of StatefulSets, Services and PodDisruptionBudgets those with LabelManagedBy. No
// namespaces means all.
func CacheOptions(namespaces []string, scanLabel string) (cache.Options, error) {
	scans, err := labels.Parse(scanLabel)
	if err != nil {
		return cache.Options{}, err
	}
	ours := labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy})
	opts := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:        {Transform: trimPod},
			&batchv1.Job{}:       {Label: scans, Transform: cache.TransformStripManagedFields()},
			&appsv1.Deployment{}: {Transform: trimDeployment},

			&appsv1.StatefulSet{}:           {Label: ours},
			&corev1.Service{}:               {Label: ours},
			&policyv1.PodDisruptionBudget{}: {Label: ours},
		},
	}
	if len(namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts, nil
}

// trimPod keeps of a pod what inventory and scanjob read, and of one that a PodSet controls whether it is ready. A full pod takes five times
// the memory.
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
			NodeName: pod.Spec.NodeName, ImagePullSecrets: pod.Spec.ImagePullSecrets,
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
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && ref.Kind == "PodSet" {
		keepReady(trimmed, pod)
	}
	return trimmed, nil
}

// keepReady keeps whether a pod is ready and since when. Of other pods nobody reads that, and it changes often.
func keepReady(trimmed, pod *corev1.Pod) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			trimmed.Status.Conditions = append(trimmed.Status.Conditions,
				corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
}

// trimDeployment keeps of a Deployment what its feed tells.
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

// trimConditions keeps why a pod was not scheduled, and why it had to go.
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
