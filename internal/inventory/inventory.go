// Package inventory reads from a pod's status which containers it runs, from which images. It does no I/O.
package inventory

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Kind says which list of a pod a container is in.
type Kind string

// The kinds of containers.
const (
	KindRegular   Kind = "Regular"
	KindInit      Kind = "Init"
	KindEphemeral Kind = "Ephemeral"
)

// SkipIgnoreLabel is the reason why the containers of a pod with the ignore label are skipped.
const SkipIgnoreLabel = "IgnoreLabel"

// Container is one container of a pod that has not ended.
type Container struct {
	Namespace string
	Pod       string
	Name      string
	Kind      Kind
	// Image is the image as the pod's spec names it.
	Image string
	// Key says what runs. Its ImageID is empty until the image has been pulled.
	Key model.ImageKey
	// Skip is the reason why the container is left out on purpose, empty when it is not.
	Skip string
	// WaitingReason and WaitingMessage say why the container does not run, in the kubelet's words.
	WaitingReason  string
	WaitingMessage string
	// Owner is the controller of the pod, the zero value when it has none. For the ReplicaSet of a Deployment it is the
	// Deployment, for the Job of a CronJob the CronJob.
	Owner Owner
	// NodeUnknown: the node that runs the container is not known, yet or any more, so that it cannot be said which image of an index
	// runs. Its Key is empty then.
	NodeUnknown bool
	// PullSecrets are the names of the pod's image pull secrets, at most MaxPullSecrets.
	PullSecrets []string
	// Node is the node that the pod runs on, empty before it is scheduled.
	Node string
}

// Owner names the controller of a pod.
type Owner struct {
	Kind string
	Name string
}

// Options say how pods are read.
type Options struct {
	// IgnoreLabel is the key of the label that makes a pod skipped when its value is "true".
	IgnoreLabel string
	// ScanPod reports whether a pod is one of the operator's own scans; nil for none. These are left out altogether: they come and go with
	// the operator's own work.
	ScanPod func(pod *corev1.Pod) bool
	// Platform returns the platform of a node by its name, false for an unknown node.
	Platform func(node string) (model.Platform, bool)
}

// OwnerOf reads the controller from the metadata of a pod alone. A Deployment labels the pods of its ReplicaSets with the hash that ends the names of
// these; a CronJob is known by the names of its Jobs, each of which would be a workload of its own otherwise. A pod without a controller has no owner, nor has
// the mirror pod of a static pod: its controller is the node, which all static pods of a node have in common.
func OwnerOf(pod metav1.Object) Owner {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.APIVersion == "v1" && ref.Kind == "Node" {
		return Owner{}
	}
	if hash := pod.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]; ref.Kind == "ReplicaSet" && hash != "" {
		if deployment, cut := strings.CutSuffix(ref.Name, "-"+hash); cut && deployment != "" {
			return Owner{Kind: "Deployment", Name: deployment}
		}
	}
	if cronJob, minute, cut := cutLast(ref.Name, "-"); ref.Kind == "Job" && cut && isMinute(minute) {
		return Owner{Kind: "CronJob", Name: cronJob}
	}
	return Owner{Kind: ref.Kind, Name: ref.Name}
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i > 0 {
		return s[:i], s[i+len(separator):], true
	}
	return s, "", false
}

// isMinute reports whether text is a time of this century from 2020 on, in minutes since 1970. A CronJob ends the names of its Jobs
// with the minute that they were due; a date such as 20261231 is no such minute.
func isMinute(text string) bool {
	minute, err := strconv.Atoi(text)
	return err == nil && len(text) == 8 && 26_297_280 <= minute && minute < 68_374_080
}

// MaxPullSecrets is the maximum number of pull secrets that are read from a pod, the first ones.
const MaxPullSecrets = 32

// pullSecrets lists the pull secrets of a pod. Kubernetes does not validate their names there: those that no Secret can have are left out. Pods of the cache have a
// bounded number of references, of a bounded length.
func pullSecrets(pod *corev1.Pod) []string {
	var names []string
	for _, ref := range pod.Spec.ImagePullSecrets {
		if len(names) == MaxPullSecrets {
			break
		}
		if !slices.Contains(names, ref.Name) && len(validation.IsDNS1123Subdomain(ref.Name)) == 0 {
			names = append(names, ref.Name)
		}
	}
	return names
}

// MaxWaiting is the maximum number of containers of a pod that are listed without an image that was pulled, the first ones.
const MaxWaiting = 100

// MaxImages is the maximum size of the images of these containers in the cache, in bytes: the API server bounds the size of a pod, and not that of an image.
const MaxImages = 16 << 10

// AnnotationOmitted is an annotation of pods in the cache, and of no others: how many containers the cache leaves out, because of MaxWaiting or MaxImages.
const AnnotationOmitted = "scanner.zoltankerezsi.xyz/omitted-containers"

// Omitted returns how many containers of a pod of the cache Containers did not list.
func Omitted(pod *corev1.Pod, listed []Container) int {
	omitted, err := strconv.Atoi(pod.Annotations[AnnotationOmitted])
	if err != nil {
		omitted = 0
	}
	return omitted + len(pod.Spec.Containers) + len(pod.Spec.InitContainers) + len(pod.Spec.EphemeralContainers) - len(listed)
}

// Containers lists the containers of a pod: regular, init and ephemeral, in this order, without those beyond MaxWaiting. A pod that has ended has none.
func Containers(pod *corev1.Pod, opts Options) []Container {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	if opts.ScanPod != nil && opts.ScanPod(pod) {
		return nil
	}
	base := Container{Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName}
	if opts.IgnoreLabel != "" && pod.Labels[opts.IgnoreLabel] == "true" {
		base.Skip = SkipIgnoreLabel
	}
	base.Owner = OwnerOf(pod)
	base.PullSecrets = pullSecrets(pod)
	if pod.Spec.NodeName != "" && opts.Platform != nil {
		platform, known := opts.Platform(pod.Spec.NodeName)
		base.Key.Platform, base.NodeUnknown = platform, !known
	}

	containers := make([]Container, 0, min(len(pod.Spec.Containers)+len(pod.Spec.InitContainers), MaxWaiting))
	withoutImage := 0
	add := func(kind Kind, name, image string, statuses []corev1.ContainerStatus) {
		c := base
		c.Kind, c.Name, c.Image = kind, name, image
		for i := range statuses {
			if statuses[i].Name != name {
				continue
			}
			if !c.NodeUnknown {
				c.Key.ImageID = model.NormalizeImageID(statuses[i].ImageID)
			}
			if waiting := statuses[i].State.Waiting; waiting != nil {
				c.WaitingReason, c.WaitingMessage = waiting.Reason, waiting.Message
			}
		}
		if c.Key.ImageID == "" {
			if withoutImage++; withoutImage > MaxWaiting {
				return
			}
		}
		containers = append(containers, c)
	}
	for i := range pod.Spec.Containers {
		add(KindRegular, pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Image, pod.Status.ContainerStatuses)
	}
	for i := range pod.Spec.InitContainers {
		add(KindInit, pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Image, pod.Status.InitContainerStatuses)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(KindEphemeral, pod.Spec.EphemeralContainers[i].Name, pod.Spec.EphemeralContainers[i].Image,
			pod.Status.EphemeralContainerStatuses)
	}
	return containers
}
