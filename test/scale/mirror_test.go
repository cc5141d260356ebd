//go:build scale

package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// maxReplicas is the most that the schema of a PodSet takes.
const maxReplicas = 10

// mirror is the state of PodSets and their pods according to watch events.
type mirror struct {
	mu   sync.Mutex
	sets map[client.ObjectKey]*appv1alpha1.PodSet
	// pods are those that a PodSet controls, by its UID and their own.
	pods map[types.UID]map[types.UID]*corev1.Pod
	// most is how many active pods a PodSet may have now, by its UID; maxReplicas where it has no entry.
	most map[types.UID]int
	// history lists, by PodSet, the events of its pods.
	history map[types.UID][]string
	// excess describes each pod beyond the replicas of its PodSet.
	excess           []string
	created, deleted int
	// changes counts, by PodSet, the events of pods that say more than that labels have changed.
	changes map[client.ObjectKey]int
}

// newMirror follows all PodSets, and all pods with the label of their pods, until the test ends.
func newMirror(t *testing.T) *mirror {
	t.Helper()
	m := &mirror{
		sets: map[client.ObjectKey]*appv1alpha1.PodSet{}, pods: map[types.UID]map[types.UID]*corev1.Pod{}, most: map[types.UID]int{},
		changes: map[client.ObjectKey]int{}, history: map[types.UID][]string{},
	}
	follow(t, &appv1alpha1.PodSetList{}, func(event watch.Event) error {
		set, is := event.Object.(*appv1alpha1.PodSet)
		if !is {
			return fmt.Errorf("the watch of PodSets said %v", event.Object)
		}
		m.seeSet(event.Type, set)
		return nil
	})
	follow(t, &corev1.PodList{}, func(event watch.Event) error {
		pod, is := event.Object.(*corev1.Pod)
		if !is {
			return fmt.Errorf("the watch of pods said %v", event.Object)
		}
		m.seePod(event.Type, pod)
		return nil
	}, client.MatchingLabels{appv1alpha1.LabelVersion: appv1alpha1.Version})
	return m
}

func (m *mirror) seeSet(kind watch.EventType, set *appv1alpha1.PodSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind == watch.Deleted {
		delete(m.sets, client.ObjectKeyFromObject(set))
		return
	}
	m.sets[client.ObjectKeyFromObject(set)] = set
}

func (m *mirror) seePod(kind watch.EventType, pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pods := m.pods[owner.UID]
	if pods == nil {
		pods = map[types.UID]*corev1.Pod{}
		m.pods[owner.UID] = pods
	}
	before, had := pods[pod.UID], len(namesOf(pods))
	if before == nil || active(before) != active(pod) || !equality.Semantic.DeepEqual(before.Status, pod.Status) {
		m.changes[client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}]++
	}
	pods[pod.UID] = pod
	switch {
	case kind == watch.Deleted:
		m.deleted++
		delete(pods, pod.UID)
		m.note(owner.UID, pod, "gone")
	case before == nil:
		m.created++
		m.note(owner.UID, pod, "made")
	case active(before) && !active(pod):
		m.note(owner.UID, pod, "ending")
	}
	if now, most := len(namesOf(pods)), m.allowed(owner.UID); now > max(had, most) {
		m.excess = append(m.excess, fmt.Sprintf("PodSet %s/%s had %d pods when %d were allowed, after %s",
			pod.Namespace, owner.Name, now, most, strings.Join(m.history[owner.UID], "; ")))
	}
}

// note remembers the last things that came to the pods of a PodSet.
func (m *mirror) note(set types.UID, pod *corev1.Pod, what string) {
	const remembered = 20
	m.history[set] = append(m.history[set], fmt.Sprintf("%s %s (slot %s, replacement %s, revision %s)", what, pod.Name,
		pod.Labels[appsv1.PodIndexLabel], pod.Labels[appv1alpha1.LabelReplacement], pod.ResourceVersion))
	m.history[set] = m.history[set][max(0, len(m.history[set])-remembered):]
}

func (m *mirror) allowed(set types.UID) int {
	if most, known := m.most[set]; known {
		return most
	}
	return maxReplicas
}

// allow raises what a PodSet may have, before it is scaled up.
func (m *mirror) allow(set types.UID, replicas int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most[set] = max(replicas, m.allowed(set))
}

// limit sets what a PodSet may have, when no more is there and nobody is about to make more.
func (m *mirror) limit(set types.UID, replicas int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most[set] = replicas
}

// of returns a PodSet as it is now, nil when it is not there, and all pods that it controls, by name.
func (m *mirror) of(key client.ObjectKey) (*appv1alpha1.PodSet, []*corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set := m.sets[key]
	if set == nil {
		return nil, nil
	}
	pods := slices.Collect(maps.Values(m.pods[set.UID]))
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return set, pods
}

// checkLimits returns an error about each pod beyond the replicas of its PodSet.
func (m *mirror) checkLimits() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.excess) == 0 {
		return nil
	}
	const shown = 10
	return fmt.Errorf("%d pods were too many:\n%s", len(m.excess), strings.Join(m.excess[:min(shown, len(m.excess))], "\n"))
}

func (m *mirror) changesSoFar() map[client.ObjectKey]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.changes)
}

// counts are what a mirror has seen so far.
type counts struct {
	created, deleted, active, unready int
}

func (m *mirror) counts() counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := counts{created: m.created, deleted: m.deleted}
	for _, pods := range m.pods {
		n.active += len(namesOf(pods))
		for _, pod := range pods {
			if active(pod) && !isReady(pod) {
				n.unready++
			}
		}
	}
	return n
}

// namesOf returns the names of those pods that are active, sorted.
func namesOf(pods map[types.UID]*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if active(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// active says of a pod that it runs or is going to, and is not being deleted.
func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}
