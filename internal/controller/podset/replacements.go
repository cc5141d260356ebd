package podset

import (
	corev1 "k8s.io/api/core/v1"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// replacements are the highest replacement numbers that this process has observed, by slot. The name of a pod must not depend on whether its
// predecessor still exists: of two leaders at the same moment, one may observe a terminating pod and the other one no pod. The
// watch observes every pod, also those that come and go while the PodSet waits for its turn.
type replacements map[int]int

// observe adds pods, but not those whose labels do not match their name, because somebody has edited them.
func (r replacements) observe(ps *appv1alpha1.PodSet, pods ...*corev1.Pod) {
	for _, pod := range pods {
		slot, found := slotOf(pod)
		replacement := replacementOf(pod)
		if found && pod.Name == podName(ps, slot, replacement) {
			r[slot] = max(r[slot], replacement)
		}
	}
}

// next returns the next replacement number of a slot, 0 for the first pod.
func (r replacements) next(slot int) int {
	last, found := r[slot]
	if !found {
		return 0
	}
	return last + 1
}
