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
	// firstPause is how long a slot stays empty when two of its pods have ended soon one after the other; the pause doubles with each more,
	// up to maxPause. These are the figures of a kubelet that restarts containers.
	firstPause = 10 * time.Second
	maxPause   = 5 * time.Minute
	// longLife is how long a pod has to live for its end to be none of a row.
	longLife = 10 * time.Minute
)

// look is what decisions are made from: what is wanted and what is there.
type look struct {
	replicas int
	// hash is that of the current template.
	hash string
	// noTemplate says that the template cannot be read: nothing is created, and no pod is replaced.
	noTemplate bool
	// pods are those that the PodSet controls.
	pods []*corev1.Pod
	// births are the last pods that were made.
	births births
	// last are the incarnations that were seen.
	last incarnations
	now  time.Time
}

// vacancy is a slot without an active pod.
type vacancy struct {
	slot, incarnation, failures int
	// predecessor is the last pod of the slot that is still there; nil when there is none.
	predecessor *corev1.Pod
	// due is when the slot may be filled.
	due time.Time
}

// active says of a pod that it counts: it runs or is going to, and is not being deleted.
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

// outdated says of a pod that it was made from another template than the current one. Adopted pods were made from none and stay.
func (l *look) outdated(pod *corev1.Pod) bool {
	hash, made := pod.Labels[appv1alpha1.LabelTemplateHash]
	return made && !l.noTemplate && hash != l.hash
}

func (l *look) active() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range l.pods {
		if active(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// unsettled reports whether there is something to do now.
func (l *look) unsettled() bool {
	return len(surplus(l))+len(replaceable(l))+len(fillable(l))+len(spent(l)) > 0
}

// surplus returns the active pods that are too many.
func surplus(l *look) []*corev1.Pod {
	pods := ranked(l)
	return pods[:max(0, len(pods)-l.replicas)]
}

// replaceable returns the active pods that go because the template has changed: those that are not ready, or else one, as long as none is
// missing and all are ready.
func replaceable(l *look) []*corev1.Pod {
	pods := ranked(l)
	var idle, serving []*corev1.Pod
	allReady := len(pods) >= l.replicas
	for _, pod := range pods {
		switch {
		case !ready(pod):
			allReady = false
			if l.outdated(pod) {
				idle = append(idle, pod)
			}
		case l.outdated(pod):
			serving = append(serving, pod)
		}
	}
	if allReady && len(serving) > 0 {
		return serving[:1]
	}
	return idle
}

// ranked sorts the active pods, those that go first in front: as a ReplicaSet sorts them, and outdated ones before current ones.
func ranked(l *look) []*corev1.Pod {
	pods := l.active()
	crowd := map[string]int{}
	for _, pod := range pods {
		crowd[pod.Spec.NodeName]++
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			falseFirst(a.Spec.NodeName != "", b.Spec.NodeName != ""),
			cmp.Compare(progress(a), progress(b)),
			falseFirst(ready(a), ready(b)),
			cmp.Compare(cost(a), cost(b)),
			falseFirst(!l.outdated(a), !l.outdated(b)),
			cmp.Compare(crowd[b.Spec.NodeName], crowd[a.Spec.NodeName]),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			// Pods that were made within a second: the last slots go first.
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

// progress says how far a pod has come.
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

// cost is what the user says that the deletion of a pod costs, 0 when he says nothing that is a number.
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

// missing returns a vacancy for each pod that is too few, of the lowest slots that are free.
func missing(l *look) []vacancy {
	taken, last := map[int]bool{}, map[int]*corev1.Pod{}
	count := 0
	for _, pod := range l.pods {
		slot, has := slotOf(pod)
		if active(pod) {
			count++
			taken[slot] = taken[slot] || has
		}
		if before := last[slot]; has && (before == nil || incarnationOf(before) < incarnationOf(pod)) {
			last[slot] = pod
		}
	}
	var vacancies []vacancy
	for slot := 0; count+len(vacancies) < l.replicas; slot++ {
		if !taken[slot] {
			vacancies = append(vacancies, vacancyAfter(l, slot, last[slot]))
		}
	}
	return vacancies
}

// fillable returns the vacancies to fill now.
func fillable(l *look) []vacancy {
	if l.noTemplate {
		return nil
	}
	return slices.DeleteFunc(missing(l), func(v vacancy) bool { return v.due.After(l.now) })
}

// vacancyAfter tells which pod comes after a pod, and when. How many have ended one after the other is told by the pods themselves: so it
// survives the process, and is forgotten when the user deletes the last one that has ended, or changes the template.
func vacancyAfter(l *look, slot int, predecessor *corev1.Pod) vacancy {
	v := vacancy{slot: slot, incarnation: l.last.next(slot), predecessor: predecessor, due: l.now}
	if predecessor != nil {
		v.incarnation = max(v.incarnation, incarnationOf(predecessor)+1)
	}
	if last := l.births.lostIn(slot, l.hash); last != nil {
		v.failures = last.failures + 1
		v.due = last.lost.Add(pause(last.failures))
		return v
	}
	if predecessor == nil || !finished(predecessor) || l.outdated(predecessor) {
		return v
	}
	end := endOf(predecessor, l.now)
	if end.Sub(predecessor.CreationTimestamp.Time) >= longLife {
		return v
	}
	v.failures = failuresOf(predecessor) + 1
	v.due = end.Add(pause(failuresOf(predecessor)))
	return v
}

// pause is how long a slot stays empty after a pod that has ended soon, with so many before it.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	const doublings = 6 // More are beyond maxPause.
	return min(firstPause<<min(failures-1, doublings), maxPause)
}

// endOf is when a pod has ended: the latest time that it tells, without those in the future, which come from a clock that goes wrong.
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

// spent returns the pods that have ended and that tell nothing any more: their slots are filled or not wanted.
func spent(l *look) []*corev1.Pod {
	keep := map[*corev1.Pod]bool{}
	for _, v := range missing(l) {
		keep[v.predecessor] = true
	}
	var pods []*corev1.Pod
	for _, pod := range l.pods {
		if finished(pod) && pod.DeletionTimestamp.IsZero() && !keep[pod] {
			pods = append(pods, pod)
		}
	}
	return pods
}
