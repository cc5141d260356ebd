package scanner

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// queues knows which Scanners wait for a slot of the operator, so that one of them does not take all. The zero value is ready.
type queues struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]bool
}

// set says whether a Scanner waits.
func (q *queues) set(scanner types.NamespacedName, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !waits {
		delete(q.waiting, scanner)
		return
	}
	if q.waiting == nil {
		q.waiting = map[types.NamespacedName]bool{}
	}
	q.waiting[scanner] = true
}

// others counts the Scanners that wait, beside one.
func (q *queues) others(scanner types.NamespacedName) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[scanner] {
		return len(q.waiting) - 1
	}
	return len(q.waiting)
}
