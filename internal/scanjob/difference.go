package scanjob

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Difference returns the path of the first field in which the spec of a pod, or of a Job's pod template, differs from the one that was
// Recorded, such as "containers[0].image", and "" when they are equal. It ignores the defaults of the API server, and the fields that
// the Job controller, the scheduler, the kubelet and admission controllers set and that do not change what runs (decision record 34).
func Difference(recorded json.RawMessage, actual *corev1.PodSpec) (string, error) {
	var spec corev1.PodSpec
	if err := json.Unmarshal(recorded, &spec); err != nil {
		return "", fmt.Errorf("decode a pod spec: %w", err)
	}
	// An older version may have recorded fields that may differ now.
	built, err := tree(&spec)
	if err != nil {
		return "", err
	}
	found, err := tree(actual)
	if err != nil {
		return "", err
	}
	return differs("", built, found), nil
}

// tree returns what Difference compares of a spec as decoded JSON.
func tree(spec *corev1.PodSpec) (any, error) {
	content, err := json.Marshal(compared(spec))
	if err != nil {
		return nil, fmt.Errorf("encode a pod spec: %w", err)
	}
	var decoded any
	if err := json.Unmarshal(content, &decoded); err != nil {
		return nil, fmt.Errorf("decode a pod spec: %w", err)
	}
	return decoded, nil
}

// compared returns what Difference compares: a spec with the defaults of the API server, without the fields that may differ.
func compared(spec *corev1.PodSpec) *corev1.PodSpec {
	c := spec.DeepCopy()
	// Where, when and with which priority a pod runs, and with which credentials the kubelet pulls the image.
	c.NodeName, c.NodeSelector, c.Affinity, c.Tolerations, c.TopologySpreadConstraints = "", nil, nil, nil, nil
	c.SchedulerName, c.SchedulingGates, c.SchedulingGroup, c.PriorityClassName, c.Priority, c.PreemptionPolicy = "", nil, nil, "", nil, nil
	c.RuntimeClassName, c.Overhead, c.Resources, c.ReadinessGates = nil, nil, nil, nil
	c.ActiveDeadlineSeconds, c.TerminationGracePeriodSeconds, c.ImagePullSecrets = nil, nil, nil
	// The API server writes the ServiceAccount under two names.
	if c.DeprecatedServiceAccount == c.ServiceAccountName {
		c.DeprecatedServiceAccount = ""
	}
	if c.ServiceAccountName == "default" {
		c.ServiceAccountName = ""
	}
	if c.DNSPolicy == corev1.DNSClusterFirst {
		c.DNSPolicy = ""
	}
	// The user that a namespace assigns; runAsNonRoot stays.
	if security := c.SecurityContext; security != nil {
		security.SELinuxOptions, security.RunAsUser, security.RunAsGroup = nil, nil, nil
		security.FSGroup, security.FSGroupChangePolicy, security.SupplementalGroups = nil, nil, nil
	}
	for i := range c.InitContainers {
		comparedContainer(&c.InitContainers[i])
	}
	for i := range c.Containers {
		comparedContainer(&c.Containers[i])
	}
	for i := range c.Volumes {
		// AlwaysPullImages changes it. What may not be pulled at all is not to be pulled from somewhere else.
		if image := c.Volumes[i].Image; image != nil && image.PullPolicy != corev1.PullNever {
			image.PullPolicy = ""
		}
		if projected := c.Volumes[i].Projected; projected != nil && projected.DefaultMode == nil {
			projected.DefaultMode = new(corev1.ProjectedVolumeSourceDefaultMode)
		}
	}
	return c
}

func comparedContainer(c *corev1.Container) {
	c.Resources, c.ResizePolicy, c.ImagePullPolicy = corev1.ResourceRequirements{}, nil, ""
	if c.TerminationMessagePath == corev1.TerminationMessagePathDefault {
		c.TerminationMessagePath = ""
	}
	if security := c.SecurityContext; security != nil {
		security.SELinuxOptions, security.RunAsUser, security.RunAsGroup = nil, nil, nil
		if security.ProcMount != nil && *security.ProcMount == corev1.DefaultProcMount {
			security.ProcMount = nil
		}
	}
}

// recordedSpec is what is recorded of a Job.
type recordedSpec struct {
	*corev1.PodSpec
	// JobSpec is Request.JobSpec. Users can edit that in the annotations of the Job.
	JobSpec string `json:"scannerJobSpec,omitempty"`
}

// Recorded returns, in JSON, what Difference compares of the pods that a Job was built with, and Request.JobSpec.
func Recorded(job *batchv1.Job) (json.RawMessage, error) {
	content, err := json.Marshal(recordedSpec{compared(&job.Spec.Template.Spec), job.Annotations[AnnotationJobSpec]})
	if err != nil {
		return nil, fmt.Errorf("encode the pod spec of Job %s: %w", job.Name, err)
	}
	return content, nil
}

// JobSpec returns the Request.JobSpec of a Recorded Job, "" if it is not known: an older version did not record it.
func JobSpec(recorded json.RawMessage) string {
	var spec recordedSpec
	if err := json.Unmarshal(recorded, &spec); err != nil {
		return ""
	}
	return spec.JobSpec
}

// Image returns the image that the pods of a Recorded Job run, "" if there is none.
func Image(recorded json.RawMessage) string {
	var spec corev1.PodSpec
	if err := json.Unmarshal(recorded, &spec); err != nil || len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}

// RunsOnly reports whether a pod runs the scan container with an image, and nothing else.
func RunsOnly(pod *corev1.Pod, image string) bool {
	spec := &pod.Spec
	return image != "" && len(spec.Containers) == 1 && len(spec.InitContainers) == 0 && len(spec.EphemeralContainers) == 0 &&
		spec.Containers[0].Name == ContainerName && spec.Containers[0].Image == image
}

// differs returns the path of the first difference between two trees, "" for none.
func differs(path string, built, actual any) string {
	switch b := built.(type) {
	case map[string]any:
		a, same := actual.(map[string]any)
		if !same {
			return path
		}
		keys := slices.AppendSeq(slices.Collect(maps.Keys(b)), maps.Keys(a))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			below := key
			if path != "" {
				below = path + "." + key
			}
			inBuilt, has := b[key]
			inActual, hasToo := a[key]
			if has != hasToo {
				return below
			}
			if found := differs(below, inBuilt, inActual); found != "" {
				return found
			}
		}
		return ""
	case []any:
		a, same := actual.([]any)
		if !same {
			return path
		}
		for i := range max(len(b), len(a)) {
			below := fmt.Sprintf("%s[%d]", path, i)
			if i >= len(b) || i >= len(a) {
				return below
			}
			if found := differs(below, b[i], a[i]); found != "" {
				return found
			}
		}
		return ""
	default:
		if !reflect.DeepEqual(built, actual) {
			return path
		}
		return ""
	}
}
