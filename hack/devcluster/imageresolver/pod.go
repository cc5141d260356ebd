package imageresolver

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations that stages.yaml reads.
const (
	imageIDPrefix       = "devcluster/image-id."
	pullErrorAnnotation = "devcluster/pull-error"
)

// container is what the resolver reads of a container of any kind.
type container struct {
	name, image string
	policy      corev1.PullPolicy
}

// pending returns the containers of a pod that need an image ID: their image has no digest, and no annotation gives one.
func pending(pod *corev1.Pod) []container {
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Annotations[pullErrorAnnotation] != "" ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var out []container
	add := func(name, image string, policy corev1.PullPolicy) {
		if _, given := pod.Annotations[imageIDPrefix+name]; !given && !strings.Contains(image, "@sha256:") {
			out = append(out, container{name, image, policy})
		}
	}
	for _, c := range pod.Spec.InitContainers {
		add(c.Name, c.Image, c.ImagePullPolicy)
	}
	for _, c := range pod.Spec.Containers {
		add(c.Name, c.Image, c.ImagePullPolicy)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		add(c.Name, c.Image, c.ImagePullPolicy)
	}
	return out
}

// waitingStatus returns the status of a pod whose images could not be pulled, with the errors by name of the container. A pod that runs
// waits for ephemeral containers alone.
func waitingStatus(pod *corev1.Pod, failures map[string]*pullError, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	statusOf := func(name, image, otherwise string) corev1.ContainerStatus {
		waiting := &corev1.ContainerStateWaiting{Reason: otherwise}
		if failure := failures[name]; failure != nil {
			waiting = &corev1.ContainerStateWaiting{Reason: failure.reason, Message: failure.message}
		}
		return corev1.ContainerStatus{Name: name, Image: image, State: corev1.ContainerState{Waiting: waiting}}
	}
	if status.Phase == corev1.PodRunning {
		for _, c := range pod.Spec.EphemeralContainers {
			if failures[c.Name] != nil {
				status.EphemeralContainerStatuses = replaceStatus(status.EphemeralContainerStatuses, statusOf(c.Name, c.Image, ""))
			}
		}
		return status
	}
	status.Phase = corev1.PodPending
	status.StartTime = cmp.Or(status.StartTime, &now)
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, c := range pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, statusOf(c.Name, c.Image, "PodInitializing"))
	}
	var names []string
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, statusOf(c.Name, c.Image, "ContainerCreating"))
		names = append(names, c.Name)
	}
	message := "containers with unready status: [" + strings.Join(names, " ") + "]"
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&status, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: message, LastTransitionTime: now,
		})
	}
	return status
}

func replaceStatus(statuses []corev1.ContainerStatus, status corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == status.Name {
			statuses[i] = status
			return statuses
		}
	}
	return append(statuses, status)
}

func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	for i, old := range status.Conditions {
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[i] = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}
