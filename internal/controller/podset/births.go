package podset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// briefLife is how long a pod has to live to be replaced at once when it is deleted, however many were before it.
const briefLife = 10 * time.Second

// births are what the process remembers of the last pods that it made for a PodSet, by slot. A pod that has ended tells so; one that is
// deleted may be gone at the next look. Whatever deletes them all, such as a taint of their node, must not have them made in a hot loop. A
// process that starts remembers nothing, which costs two pods for each slot at most.
type births map[int]*birth

// birth is what is remembered of a pod.
type birth struct {
	uid      types.UID
	hash     string
	failures int
	at       time.Time
	// lost is when the pod was seen to be deleted by others soon after it was made; zero as long as it was not.
	lost time.Time
}

// family is what the process remembers of a PodSet with this UID.
type family struct {
	of     types.UID
	births births
	last   incarnations
}

// familyOf returns the memory of a PodSet, which is that of no other of its name. Only one worker at a time asks for it.
func (r *Reconciler) familyOf(ps *appv1alpha1.PodSet) family {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}
	if known, has := r.families[key]; has && known.of == ps.UID {
		return known
	}
	if r.families == nil {
		r.families = map[types.NamespacedName]family{}
	}
	r.families[key] = family{of: ps.UID, births: births{}, last: incarnations{}}
	return r.families[key]
}

// forgetFamily forgets a PodSet that is gone.
func (r *Reconciler) forgetFamily(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.families, key)
}

// add remembers pods that were made at a time.
func (b births) add(pods []*corev1.Pod, at time.Time) {
	for _, pod := range pods {
		if slot, has := slotOf(pod); has {
			b[slot] = &birth{uid: pod.UID, hash: pod.Labels[appv1alpha1.LabelTemplateHash], failures: failuresOf(pod), at: at}
		}
	}
}

// forget forgets a pod that this process deletes: its successor need not wait.
func (b births) forget(pod *corev1.Pod) {
	if slot, has := slotOf(pod); has && b[slot] != nil && b[slot].uid == pod.UID {
		delete(b, slot)
	}
}

// see notes which pods were deleted, from those that the API server has just listed: a cache may not show the last ones yet.
func (b births) see(pods []*corev1.Pod, now time.Time) {
	kept := map[types.UID]bool{}
	for _, pod := range pods {
		kept[pod.UID] = pod.DeletionTimestamp.IsZero()
	}
	for slot, last := range b {
		switch {
		case kept[last.uid] || !last.lost.IsZero():
		case now.Sub(last.at) < briefLife:
			last.lost = now
		default:
			delete(b, slot)
		}
	}
}

// lostIn returns the last pod of a slot when it was made from a template and others deleted it soon; nil otherwise.
func (b births) lostIn(slot int, hash string) *birth {
	last := b[slot]
	if last == nil || last.lost.IsZero() || last.hash != hash {
		return nil
	}
	return last
}
