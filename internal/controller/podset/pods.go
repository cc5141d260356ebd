package podset

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// maxPodName is the maximum length of the name of a pod that is also its host name.
const maxPodName = 63

// selectorOf returns the labels that select the pods of a PodSet.
func selectorOf(ps *appv1alpha1.PodSet) map[string]string {
	return map[string]string{appv1alpha1.LabelApp: ps.Name, appv1alpha1.LabelVersion: appv1alpha1.Version}
}

// hashOf returns the hash of a template. It does not depend on the PodSet: one that adopts the orphans of another PodSet with the same template
// does not replace them.
func hashOf(template *corev1.PodTemplateSpec) (string, error) {
	used := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations, Finalizers: template.Finalizers},
		Spec:       template.Spec,
	}
	text, err := json.Marshal(used)
	if err != nil {
		return "", fmt.Errorf("encode the pod template: %w", err)
	}
	sum := fnv.New32a()
	_, _ = sum.Write(text) // It never fails.
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10)), nil
}

// podName returns the name of a pod, which only depends on its arguments: whoever creates the pod, and however often, there is one pod.
func podName(ps *appv1alpha1.PodSet, slot, replacement int) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s/%d/%d", ps.UID, slot, replacement) // It never fails.
	suffix := "-pod-" + rand.SafeEncodeString(fmt.Sprintf("%08d", sum.Sum64()%100_000_000))
	prefix := ps.Name
	if limit := maxPodName - len(suffix); len(prefix) > limit {
		// No label of a DNS name ends with one of these.
		prefix = strings.TrimRight(prefix[:limit], "-.")
	}
	return prefix + suffix
}

// newPod returns the pod for a vacancy. The name, namespace and owners in the template are ignored, as in a ReplicaSet.
func newPod(ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, hash string, v vacancy) *corev1.Pod {
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, selectorOf(ps))
	labels[appsv1.PodIndexLabel] = strconv.Itoa(v.slot)
	labels[appv1alpha1.LabelTemplateHash] = hash
	labels[appv1alpha1.LabelReplacement] = strconv.Itoa(v.replacement)
	labels[appv1alpha1.LabelFailures] = strconv.Itoa(v.failures)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(ps, v.slot, v.replacement), Namespace: ps.Namespace,
			Labels: labels, Annotations: maps.Clone(template.Annotations), Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*ownerReference(ps)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

func ownerReference(ps *appv1alpha1.PodSet) *metav1.OwnerReference {
	return metav1.NewControllerRef(ps, appv1alpha1.GroupVersion.WithKind(kind))
}

// controllerOf returns the name and the UID of the PodSet that controls a pod.
func controllerOf(pod metav1.Object) (name string, uid types.UID, ok bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != kind || !strings.HasPrefix(ref.APIVersion, appv1alpha1.GroupVersion.Group+"/") {
		return "", "", false
	}
	return ref.Name, ref.UID, true
}

// slotOf returns the slot of a pod, false for adopted pods, which have none.
func slotOf(pod *corev1.Pod) (int, bool) {
	return number(pod, appsv1.PodIndexLabel)
}

func replacementOf(pod *corev1.Pod) int {
	n, _ := number(pod, appv1alpha1.LabelReplacement)
	return n
}

func failuresOf(pod *corev1.Pod) int {
	n, _ := number(pod, appv1alpha1.LabelFailures)
	return n
}

// number returns the value of a label that holds a number. Users may edit labels, so any value is possible.
func number(pod *corev1.Pod, label string) (int, bool) {
	n, err := strconv.ParseInt(pod.Labels[label], 10, 32)
	if err != nil || n < 0 {
		return 0, false
	}
	return int(n), true
}
