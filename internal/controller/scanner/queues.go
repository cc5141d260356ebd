package scanner

import (
	"maps"
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// limit names something with a limited number of slots.
type limit string

// limitOperator is that of all scans.
const limitOperator limit = "operator"

func limitOfScanner(scanner types.NamespacedName) limit { return limit("scanner " + scanner.String()) }

func limitOfRegistry(host string) limit { return limit("registry " + host) }

// nodePrefix begins the limits of nodes.
const nodePrefix = "node "

func limitOfNode(host string) limit { return limit(nodePrefix + host) }

// demand counts the images that wait for a slot, by limit and by the namespace that they run in.
type demand map[limit]map[string]int

func (d demand) add(l limit, namespace string) {
	if d[l] == nil {
		d[l] = map[string]int{}
	}
	d[l][namespace]++
}

// queue is what waits for the slots of one limit, by namespace.
type queue map[string]turn

// turn says how many images of a namespace wait, and its place in the order of namespaces: a lower one waits for longer.
type turn struct {
	images int
	place  int64
}

// noTurn is the place of a namespace that did not wait before.
const noTurn int64 = math.MaxInt64

// queues knows what waits for slots, so that namespaces share them. The zero value is ready.
type queues struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]demand
	// places are those of the namespaces that wait, last the newest of them.
	places map[string]int64
	last   int64
}

// set replaces what waits for a Scanner. Namespaces that were served go to the end of the order.
func (q *queues) set(scanner types.NamespacedName, waiting demand, served ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting, q.places = map[types.NamespacedName]demand{}, map[string]int64{}
	}
	q.waiting[scanner] = waiting
	if len(waiting) == 0 {
		delete(q.waiting, scanner)
	}
	for _, namespace := range served {
		delete(q.places, namespace)
	}
	waits := map[string]bool{}
	for _, demand := range q.waiting {
		for _, namespaces := range demand {
			for namespace := range namespaces {
				waits[namespace] = true
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(waits)) {
		if _, known := q.places[namespace]; !known {
			q.last++
			q.places[namespace] = q.last
		}
	}
	maps.DeleteFunc(q.places, func(namespace string, _ int64) bool { return !waits[namespace] })
}

// waitsFor reports whether an image waits for a slot of one of the limits.
func (d demand) waitsFor(limits []limit) bool {
	return slices.ContainsFunc(limits, func(l limit) bool { return len(d[l]) > 0 })
}

// waits reports whether an image of a Scanner waits for a slot.
func (q *queues) waits(scanner types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[scanner]) > 0
}

// waitsFor reports whether an image of a Scanner waits for a slot of one of the limits.
func (q *queues) waitsFor(scanner types.NamespacedName, limits ...limit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[scanner].waitsFor(limits)
}

// othersWait reports whether an image of another Scanner waits for a slot of one of the limits.
func (q *queues) othersWait(scanner limit, limits []limit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, demand := range q.waiting {
		if limitOfScanner(name) != scanner && demand.waitsFor(limits) {
			return true
		}
	}
	return false
}

// get returns what waits by limit. Of what a Scanner itself had waiting, no more than the images of each namespace that are due now is left.
func (q *queues) get(scanner types.NamespacedName, due map[string]int) (waiting map[limit]queue, places map[string]int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, places = map[limit]queue{}, maps.Clone(q.places)
	for name, demand := range q.waiting {
		for l, namespaces := range demand {
			for namespace, images := range namespaces {
				if name == scanner {
					images = min(images, due[namespace])
				}
				if images == 0 {
					continue
				}
				if waiting[l] == nil {
					waiting[l] = queue{}
				}
				// Two Scanners may wait for the same images.
				waiting[l][namespace] = turn{max(images, waiting[l][namespace].images), places[namespace]}
			}
		}
	}
	return waiting, places
}
