package scanjob

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// LabelSource is the label of scan pods that names how they read the image: SourceImageVolume, or absent for its registry. Network policies
// select pods by it.
const (
	LabelSource       = prefix + "source"
	SourceImageVolume = "ImageVolume"
)

const (
	imagePath = "/image"
	rootFSArg = "--rootfs=" + imagePath
)

// MaxNodes bounds the nodes that a scan of an image volume names.
const MaxNodes = 20

// ImageVolume has the kubelet mount the image read-only, with the credentials of the node and the pull secrets of the pod. The scan needs no
// registry then: it only asks for the layers of the image, without credentials.
type ImageVolume struct {
	// Nodes are the values of the label kubernetes.io/hostname of nodes that have the image, of which the first MaxNodes count. The pod prefers
	// them; if Required, it runs on no others. Until the pod has a node, the scan counts as one of the first.
	Nodes    []string
	Required bool
	// UserNamespace has the scan run as root in a user namespace of its own (hostUsers: false), without capabilities, so that it can read files
	// that only root can read. All nodes on which the pod may run must support it.
	UserNamespace bool
	// Auto: the operator chose the volume, and the next attempt may read the image from its registry. Build does not read it.
	Auto bool
}

// volumes returns the volumes of a scan pod beside those of every scan, and where it mounts them.
func (req *Request) volumes() ([]corev1.Volume, []corev1.VolumeMount) {
	switch {
	case req.Volume != nil:
		policy := corev1.PullIfNotPresent
		if req.Key.Repository() == "" {
			// A container runtime takes the digest of a configuration that it does not have for a tag of docker.io/library/sha256.
			policy = corev1.PullNever
		}
		source := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: req.Key.ImageID, PullPolicy: policy}}
		return []corev1.Volume{{Name: sourceVolume, VolumeSource: source}}, []corev1.VolumeMount{{Name: sourceVolume, MountPath: imagePath, ReadOnly: true}}
	case len(req.PullSecrets) > 0:
		return []corev1.Volume{{Name: "credentials", VolumeSource: credentials(req.PullSecrets)}},
			[]corev1.VolumeMount{{Name: "credentials", MountPath: credentialsPath, ReadOnly: true}}
	}
	return nil, nil
}

// pullSecrets are those with which the kubelet pulls the operator's image and, for an image volume, the image.
func (req *Request) pullSecrets() []corev1.LocalObjectReference {
	if req.Volume == nil {
		return req.OperatorPullSecrets
	}
	secrets := slices.Clone(req.OperatorPullSecrets)
	for _, name := range req.PullSecrets {
		if ref := (corev1.LocalObjectReference{Name: name}); !slices.Contains(secrets, ref) {
			secrets = append(secrets, ref)
		}
	}
	return secrets
}

// affinity selects nodes that have the image of an image volume.
func (req *Request) affinity() *corev1.Affinity {
	if req.Volume == nil || len(req.Volume.Nodes) == 0 {
		return nil
	}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: req.Volume.Nodes[:min(len(req.Volume.Nodes), MaxNodes)],
	}}}
	if req.Volume.Required {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
	}}
}

// Hosts returns the nodes that a Job of an image volume names, in the order of ImageVolume.Nodes.
func Hosts(job *batchv1.Job) []string {
	affinity := job.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}
	var terms []corev1.NodeSelectorTerm
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		terms = required.NodeSelectorTerms
	}
	for i := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	for i := range terms {
		for _, expression := range terms[i].MatchExpressions {
			if expression.Key == corev1.LabelHostname && expression.Operator == corev1.NodeSelectorOpIn {
				return expression.Values
			}
		}
	}
	return nil
}

// securityContext returns that of the pod, and whether the pod is in the user namespace of the node; nil is the default, that it is.
func (req *Request) securityContext() (pod *corev1.PodSecurityContext, hostUsers *bool) {
	pod = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if req.Volume != nil && req.Volume.UserNamespace {
		// Root of the user namespace is nobody on the node. Pod Security "restricted" permits it there since Kubernetes 1.35.
		pod.RunAsUser, pod.RunAsGroup = new(int64(0)), new(int64(0))
		return pod, new(false)
	}
	// The image names the user. OpenShift assigns another one in each namespace, and admits no fixed one.
	pod.RunAsNonRoot = new(true)
	return pod, nil
}

// concernsVolume reports whether a message of the kubelet names the image that a pod mounts. The kubelet reports errors of all images of a pod in
// the same way.
func concernsVolume(pod *corev1.Pod, message string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		if volume.Image == nil {
			return false
		}
		_, digest, found := strings.Cut(volume.Image.Reference, "@")
		if !found {
			digest = volume.Image.Reference
		}
		return strings.Contains(message, digest)
	})
}
