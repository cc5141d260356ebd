package podset

import (
	corev1 "k8s.io/api/core/v1"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// incarnations are the last ones that the process has seen in each slot of a PodSet. The name of a pod must not depend on whether the one
// before it is still there: of two leaders at the same moment, one may see it being deleted and the other one nothing any more.
type incarnations map[int]int

// see remembers pods, but not those with labels that somebody has edited: they do not fit the name.
func (i incarnations) see(ps *appv1alpha1.PodSet, pods []*corev1.Pod) {
	for _, pod := range pods {
		slot, has := slotOf(pod)
		incarnation := incarnationOf(pod)
		if has && pod.Name == podName(ps, slot, incarnation) {
			i[slot] = max(i[slot], incarnation)
		}
	}
}

// next returns the incarnation after the last one of a slot, 0 when none was seen.
func (i incarnations) next(slot int) int {
	last, seen := i[slot]
	if !seen {
		return 0
	}
	return last + 1
}
