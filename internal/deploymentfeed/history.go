package deploymentfeed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/ring"
)

// item is a Deployment in the work queue. A Deployment that was deleted and created again is another item.
type item struct {
	types.NamespacedName
	uid types.UID
}

// message is a text about a Deployment.
type message struct {
	about types.NamespacedName
	text  string
	// change is the number of the change that the message is about.
	change int64
}

// history holds the Deployments that exist and the newest messages about them, once for all clients. Everything is in memory, and nothing
// blocks. Changes are numbered: a client gets the messages about changes after it joined, and the list of Deployments for those before.
type history struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// known holds the Deployments that exist, sorted their names in order. sorted is nil until a client joins after a change.
	known  map[types.NamespacedName]types.UID
	sorted []types.NamespacedName
	// changes is the number of the last change, pending the numbers of the changes whose Deployments are in the queue.
	changes int64
	pending map[item]int64
	// recent holds the newest messages.
	recent *ring.Buffer[message]
	// appended is closed when the next message is appended.
	appended chan struct{}
}

func newHistory(size int, clock clock.PassiveClock) *history {
	return &history{
		clock: clock, known: map[types.NamespacedName]types.UID{}, pending: map[item]int64{}, recent: ring.New[message](size), appended: make(chan struct{}),
	}
}

// added records a Deployment and returns the item to process.
func (h *history) added(d *appsv1.Deployment) item {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(d)
}

// updated appends messages about what changed in a Deployment and returns the items to process. A resync changes nothing. A Deployment that
// was deleted and created again while the watch was interrupted is reported as deleted and added.
func (h *history) updated(before, after *appsv1.Deployment) ([]item, error) {
	if before.ResourceVersion == after.ResourceVersion {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.UID != after.UID {
		return []item{h.remove(before), h.add(after)}, nil
	}
	texts, err := updateTexts(before, after, h.clock.Now())
	i := h.recordChange(after)
	for _, text := range texts {
		h.publish(i.NamespacedName, h.changes, text)
	}
	return []item{i}, err
}

// deleted appends the message that a Deployment was deleted and returns the item to process.
func (h *history) deleted(d *appsv1.Deployment) item {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(d)
}

// processed appends the message about an item that left the queue.
func (h *history) processed(i item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change, found := h.pending[i]
	if !found {
		// The Deployment changed twice while it was in the queue; the message covers both changes.
		return
	}
	delete(h.pending, i)
	if h.known[i.NamespacedName] == i.uid {
		h.publish(i.NamespacedName, change, processedText(i.Name))
		return
	}
	h.publish(i.NamespacedName, change, goneText(i.NamespacedName))
}

func (h *history) add(d *appsv1.Deployment) item {
	i := h.recordChange(d)
	if _, found := h.known[i.NamespacedName]; !found {
		h.sorted = nil
	}
	h.known[i.NamespacedName] = i.uid
	return i
}

func (h *history) remove(d *appsv1.Deployment) item {
	i := h.recordChange(d)
	delete(h.known, i.NamespacedName)
	h.sorted = nil
	h.publish(i.NamespacedName, h.changes, deletedText(i.Name))
	return i
}

// recordChange counts a change of a Deployment.
func (h *history) recordChange(d *appsv1.Deployment) item {
	i := item{types.NamespacedName{Namespace: d.Namespace, Name: d.Name}, d.UID}
	h.changes++
	h.pending[i] = h.changes
	return i
}

func (h *history) publish(about types.NamespacedName, change int64, text string) {
	h.recent.Add(message{about, text, change})
	close(h.appended)
	h.appended = make(chan struct{})
}

// join returns where a new client starts: the Deployments that exist, the number of the last change, and the number of the next message.
func (h *history) join() (known []types.NamespacedName, changes, next int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sorted == nil {
		h.sorted = make([]types.NamespacedName, 0, len(h.known))
		for key := range h.known {
			h.sorted = append(h.sorted, key)
		}
		slices.SortFunc(h.sorted, func(x, y types.NamespacedName) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	return h.sorted, h.changes, h.recent.Next()
}

// namespaces lists the namespaces of the Deployments that exist.
func (h *history) namespaces() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := map[string]bool{}
	for key := range h.known {
		names[key.Namespace] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// read copies messages, starting with number next, until buffer is full. It returns a channel that is closed when the next message is appended.
func (h *history) read(next int64, buffer []message) ([]message, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	buffer, ok := h.recent.Append(buffer, next)
	if !ok {
		return nil, nil, fmt.Errorf("%w: it is %d messages behind, and the feed keeps %d", ErrSlow, h.recent.Next()-next, h.recent.Next()-h.recent.First())
	}
	return buffer, h.appended, nil
}
