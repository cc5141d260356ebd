package podset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

const (
	// initialBackoff is the time until a pod is replaced when it and its predecessor finished soon after their start. It doubles with each further
	// such pod, up to maxBackoff. The kubelet restarts containers with the same times.
	initialBackoff = 10 * time.Second
	maxBackoff     = 5 * time.Minute
	// backoffReset is the age of a finished pod that resets the backoff.
	backoffReset = 10 * time.Minute
)

// state is the desired and the observed state of a PodSet. All decisions are made from it.
type state struct {
	// replicas is the number of desired pods.
	replicas int
	// hash is the hash of the current template.
	hash string
	// invalidTemplate means that the template cannot be read: no pod is created or replaced.
	invalidTemplate bool
	// pods are the pods that the PodSet controls.
	pods []*corev1.Pod
	// creations are the last pods that this process created.
	creations creations
	// replacements are the highest replacement numbers that were observed up to the list of pods.
	replacements replacements
	now          time.Time
}

// vacancy is a slot without an active pod.
type vacancy struct {
	slot, replacement, failures int
	// predecessor is the last pod of the slot that still exists; nil when there is none.
	predecessor *corev1.Pod
	// due is when the next pod may be created.
	due time.Time
}

// active returns whether a pod counts as a replica: it is pending or running, and not terminating.
func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && !finished(pod)
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// outdated returns whether a pod was created from a previous template. Adopted pods were created from none and are not replaced.
func (s *state) outdated(pod *corev1.Pod) bool {
	hash, made := pod.Labels[appv1alpha1.LabelTemplateHash]
	return made && !s.invalidTemplate && hash != s.hash
}

func (s *state) active() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.pods {
		if active(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// needsSync returns whether there are pods to create or to delete now.
func (s *state) needsSync() bool {
	return len(surplus(s))+len(replaceable(s))+len(due(s))+len(finishedToDelete(s)) > 0
}

// surplus returns the active pods beyond the desired number.
func surplus(s *state) []*corev1.Pod {
	pods := ranked(s)
	return pods[:max(0, len(pods)-s.replicas)]
}

// replaceable returns the active pods to delete because the template has changed: those that are not ready, or else one, as long as no pod is
// missing and all are ready.
func replaceable(s *state) []*corev1.Pod {
	pods := ranked(s)
	var idle, serving []*corev1.Pod
	allReady := len(pods) >= s.replicas
	for _, pod := range pods {
		switch {
		case !ready(pod):
			allReady = false
			if s.outdated(pod) {
				idle = append(idle, pod)
			}
		case s.outdated(pod):
			serving = append(serving, pod)
		}
	}
	if allReady && len(serving) > 0 {
		return serving[:1]
	}
	return idle
}

// ranked sorts the active pods in the order of deletion: as a ReplicaSet does, and outdated pods before current ones.
func ranked(s *state) []*corev1.Pod {
	pods := s.active()
	podsOnNode := map[string]int{}
	for _, pod := range pods {
		podsOnNode[pod.Spec.NodeName]++
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(progress(a), progress(b)),
			falseFirst(ready(a), ready(b)),
			cmp.Compare(cost(a), cost(b)),
			falseFirst(!s.outdated(a), !s.outdated(b)),
			cmp.Compare(podsOnNode[b.Spec.NodeName], podsOnNode[a.Spec.NodeName]),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			// Of pods that were created within a second, the highest slot is first.
			compareSlots(b, a),
			strings.Compare(a.Name, b.Name),
		)
	})
	return pods
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// progress ranks the phases of a pod.
func progress(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	default:
		return 0
	}
}

// cost returns the deletion cost of a pod, 0 when the annotation is not a number.
func cost(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func compareSlots(a, b *corev1.Pod) int {
	slotA, _ := slotOf(a)
	slotB, _ := slotOf(b)
	return cmp.Compare(slotA, slotB)
}

// missing returns a vacancy for each missing pod, in the lowest free slots.
func missing(s *state) []vacancy {
	taken, last := map[int]bool{}, map[int]*corev1.Pod{}
	count := 0
	for _, pod := range s.pods {
		slot, has := slotOf(pod)
		if active(pod) {
			count++
			taken[slot] = taken[slot] || has
		}
		if before := last[slot]; has && (before == nil || replacementOf(before) < replacementOf(pod)) {
			last[slot] = pod
		}
	}
	var vacancies []vacancy
	for slot := 0; count+len(vacancies) < s.replicas; slot++ {
		if !taken[slot] {
			vacancies = append(vacancies, vacancyAfter(s, slot, last[slot]))
		}
	}
	return vacancies
}

// due returns the vacancies to fill now.
func due(s *state) []vacancy {
	if s.invalidTemplate {
		return nil
	}
	return slices.DeleteFunc(missing(s), func(v vacancy) bool { return v.due.After(s.now) })
}

// vacancyAfter returns the vacancy of a slot. A label of the pods counts their failures, so that the count survives a restart of the operator, and is
// reset when the user deletes the last finished pod, or changes the template.
func vacancyAfter(s *state, slot int, predecessor *corev1.Pod) vacancy {
	v := vacancy{slot: slot, replacement: s.replacements.next(slot), predecessor: predecessor, due: s.now}
	if predecessor != nil {
		v.replacement = max(v.replacement, replacementOf(predecessor)+1)
	}
	if last := s.creations.deletedEarly(slot, s.hash); last != nil {
		v.failures = last.failures + 1
		v.due = last.deletedAt.Add(backoff(last.failures))
		return v
	}
	if predecessor == nil || !finished(predecessor) || s.outdated(predecessor) {
		return v
	}
	end := endOf(predecessor, s.now)
	if end.Sub(predecessor.CreationTimestamp.Time) >= backoffReset {
		return v
	}
	v.failures = failuresOf(predecessor) + 1
	v.due = end.Add(backoff(failuresOf(predecessor)))
	return v
}

// backoff returns the time until a failed pod is replaced, after a number of failures before it.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	const doublings = 6 // More would exceed maxBackoff.
	return min(initialBackoff<<min(failures-1, doublings), maxBackoff)
}

// endOf returns when a pod finished: the latest time in its status. Times in the future are ignored: they come from a wrong clock.
func endOf(pod *corev1.Pod, now time.Time) time.Time {
	end := pod.CreationTimestamp.Time
	later := func(at time.Time) {
		if at.After(end) && !at.After(now) {
			end = at
		}
	}
	for i := range pod.Status.ContainerStatuses {
		if state := pod.Status.ContainerStatuses[i].State.Terminated; state != nil {
			later(state.FinishedAt.Time)
		}
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			later(c.LastTransitionTime.Time)
		}
	}
	return end
}

// finishedToDelete returns the finished pods that are not needed any more: their slots are filled or not desired.
func finishedToDelete(s *state) []*corev1.Pod {
	needed := map[*corev1.Pod]bool{}
	for _, v := range missing(s) {
		needed[v.predecessor] = true
	}
	var pods []*corev1.Pod
	for _, pod := range s.pods {
		if finished(pod) && pod.DeletionTimestamp.IsZero() && !needed[pod] {
			pods = append(pods, pod)
		}
	}
	return pods
}
