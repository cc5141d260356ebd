package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// item is one life of a Deployment in the work queue: one that was deleted and made again is another item.
type item struct {
	types.NamespacedName
	uid types.UID
}

// message is a text about a Deployment.
type message struct {
	about types.NamespacedName
	text  string
	// change is the number of the change that it tells of.
	change int64
}

// board keeps what is known of Deployments and the newest messages about them, each once for all clients. Everything happens in memory
// and nobody is waited for. Changes are numbered: a client is told of those that came after it did, and of the others by what is known.
type board struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// known holds the Deployments that there are, sorted their names; it is nil when it has to be made.
	known  map[types.NamespacedName]types.UID
	sorted []types.NamespacedName
	// changes is the number of the last change, pending those of Deployments that are in the queue.
	changes int64
	pending map[item]int64
	// recent is a ring: the message number n is at n modulo its length. head is the number of the next one.
	recent []message
	head   int64
	// grown is closed when there is another message.
	grown chan struct{}
}

func newBoard(size int, clock clock.PassiveClock) *board {
	return &board{
		clock: clock, known: map[types.NamespacedName]types.UID{}, pending: map[item]int64{}, recent: make([]message, size), grown: make(chan struct{}),
	}
}

// added notes a Deployment and returns what has to be processed.
func (b *board) added(d *appsv1.Deployment) item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(d)
}

// updated tells what changed in a Deployment and returns what has to be processed. A resync changes nothing. One that was deleted and
// made again while nobody watched is told as such.
func (b *board) updated(before, after *appsv1.Deployment) ([]item, error) {
	if before.ResourceVersion == after.ResourceVersion {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if before.UID != after.UID {
		return []item{b.remove(before), b.add(after)}, nil
	}
	texts, err := updateTexts(before, after, b.clock.Now())
	i := b.note(after)
	for _, text := range texts {
		b.publish(i.NamespacedName, b.changes, text)
	}
	return []item{i}, err
}

// deleted tells that a Deployment is gone and returns what has to be processed.
func (b *board) deleted(d *appsv1.Deployment) item {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.remove(d)
}

// processed tells what became of a Deployment that was in the queue.
func (b *board) processed(i item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change, found := b.pending[i]
	if !found {
		// It came into the queue again before it was taken out, and was told at once.
		return
	}
	delete(b.pending, i)
	if b.known[i.NamespacedName] == i.uid {
		b.publish(i.NamespacedName, change, processedText(i.Name))
		return
	}
	b.publish(i.NamespacedName, change, goneText(i.NamespacedName))
}

func (b *board) add(d *appsv1.Deployment) item {
	i := b.note(d)
	if _, found := b.known[i.NamespacedName]; !found {
		b.sorted = nil
	}
	b.known[i.NamespacedName] = i.uid
	return i
}

func (b *board) remove(d *appsv1.Deployment) item {
	i := b.note(d)
	delete(b.known, i.NamespacedName)
	b.sorted = nil
	b.publish(i.NamespacedName, b.changes, deletedText(i.Name))
	return i
}

// note counts a change of a Deployment.
func (b *board) note(d *appsv1.Deployment) item {
	i := item{types.NamespacedName{Namespace: d.Namespace, Name: d.Name}, d.UID}
	b.changes++
	b.pending[i] = b.changes
	return i
}

func (b *board) publish(about types.NamespacedName, change int64, text string) {
	b.recent[b.head%int64(len(b.recent))] = message{about, text, change}
	b.head++
	close(b.grown)
	b.grown = make(chan struct{})
}

// join returns where a client begins that comes now: the Deployments that there are, the number of the last change, and of the next
// message.
func (b *board) join() (known []types.NamespacedName, changes, next int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sorted == nil {
		b.sorted = make([]types.NamespacedName, 0, len(b.known))
		for key := range b.known {
			b.sorted = append(b.sorted, key)
		}
		slices.SortFunc(b.sorted, func(x, y types.NamespacedName) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	return b.sorted, b.changes, b.head
}

// take copies the messages from number next on as far as there is room, and returns a channel that is closed when there is more.
func (b *board) take(next int64, buffer []message) ([]message, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := int64(len(b.recent))
	if behind := b.head - next; behind > size {
		return nil, nil, fmt.Errorf("%w: it is %d messages behind, and %d are kept", ErrSlow, behind, size)
	}
	for ; next < b.head && len(buffer) < cap(buffer); next++ {
		buffer = append(buffer, b.recent[next%size])
	}
	return buffer, b.grown, nil
}
