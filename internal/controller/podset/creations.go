package podset

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// earlyDeletion is the age up to which the deletion of a pod by others counts as a failure of the pod.
const earlyDeletion = 10 * time.Second

// creations are the last pods that this process created for a PodSet, by slot. A pod that has finished shows its failures; a deleted pod may not
// exist any more at the next reconcile. Without this memory, pods that others delete at once, as the taint of a node does, would be created again
// in a hot loop. A new process remembers nothing, which costs at most two pods per slot.
type creations map[int]*creation

// creation is the creation of a pod.
type creation struct {
	uid      types.UID
	hash     string
	failures int
	at       time.Time
	// deletedAt is when others were observed to have deleted the pod early; zero if they did not.
	deletedAt time.Time
}

// history is what this process remembers of a PodSet.
type history struct {
	uid          types.UID
	creations    creations
	replacements replacements
}

// creationsOf returns the creations of a PodSet. Only one worker at a time uses them.
func (r *Reconciler) creationsOf(ps *appv1alpha1.PodSet) creations {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.historyOf(ps).creations
}

// replacementsOf returns the replacements of a PodSet that were observed so far.
func (r *Reconciler) replacementsOf(ps *appv1alpha1.PodSet) replacements {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.historyOf(ps).replacements)
}

// observe remembers the replacement numbers of pods.
func (r *Reconciler) observe(ps *appv1alpha1.PodSet, pods ...*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.historyOf(ps).replacements.observe(ps, pods...)
}

// historyOf returns the history of a PodSet, but not that of a previous PodSet with the same name. The caller holds r.mu.
func (r *Reconciler) historyOf(ps *appv1alpha1.PodSet) history {
	key := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}
	if known, found := r.histories[key]; found && known.uid == ps.UID {
		return known
	}
	if r.histories == nil {
		r.histories = map[types.NamespacedName]history{}
	}
	r.histories[key] = history{uid: ps.UID, creations: creations{}, replacements: replacements{}}
	return r.histories[key]
}

// deleteHistory deletes the history of a PodSet that does not exist any more.
func (r *Reconciler) deleteHistory(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.histories, key)
}

// add adds pods that were created at a time.
func (c creations) add(pods []*corev1.Pod, at time.Time) {
	for _, pod := range pods {
		if slot, found := slotOf(pod); found {
			c[slot] = &creation{uid: pod.UID, hash: pod.Labels[appv1alpha1.LabelTemplateHash], failures: failuresOf(pod), at: at}
		}
	}
}

// remove removes a pod that this process deletes: its successor does not wait.
func (c creations) remove(pod *corev1.Pod) {
	if slot, found := slotOf(pod); found && c[slot] != nil && c[slot].uid == pod.UID {
		delete(c, slot)
	}
}

// observe finds out which pods others have deleted. pods must be listed from the API server: a cache may not show the last ones yet.
func (c creations) observe(pods []*corev1.Pod, now time.Time) {
	exists := map[types.UID]bool{}
	for _, pod := range pods {
		exists[pod.UID] = pod.DeletionTimestamp.IsZero()
	}
	for slot, last := range c {
		switch {
		case exists[last.uid] || !last.deletedAt.IsZero():
		case now.Sub(last.at) < earlyDeletion:
			last.deletedAt = now
		default:
			delete(c, slot)
		}
	}
}

// deletedEarly returns the last pod of a slot if it was created from a template and others deleted it early; nil otherwise.
func (c creations) deletedEarly(slot int, hash string) *creation {
	last := c[slot]
	if last == nil || last.deletedAt.IsZero() || last.hash != hash {
		return nil
	}
	return last
}
