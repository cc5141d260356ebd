package scanner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// startGrace is how long the pod of an attempt may take to start until the attempt counts as late.
const startGrace = time.Minute

// late reports whether the pod of an attempt is blocked, or should have started by now.
func (a *Attempt) late(now time.Time) bool {
	return a.Blocked || !a.Started && !a.Created.IsZero() && now.Sub(a.Created) > startGrace
}

// slots counts who holds the slots of one limit, and who waits for them.
//
// A late attempt holds a slot of its own namespace only: whoever has rights there can keep a Job from starting, and could take the slots
// of all others that way. So that a cluster without room does not fill with pods that wait, no more late attempts than there are slots are
// left out.
//
// A free slot belongs to the namespace that holds the fewest, and among equals to the one that waits for longest. Who asks for a slot gets
// it if enough are free for all that come first, whichever Scanner asks for those.
type slots struct {
	size            int
	running, late   map[string]int
	allRunning, all int
	waiting         queue
}

func newSlots(size int, waiting queue) *slots {
	if waiting == nil {
		waiting = queue{}
	}
	return &slots{size: size, running: map[string]int{}, late: map[string]int{}, waiting: waiting}
}

// add counts an attempt of a namespace that is under way.
func (s *slots) add(namespace string, late bool) {
	s.all++
	if late {
		s.late[namespace]++
		return
	}
	s.running[namespace]++
	s.allRunning++
}

func (s *slots) held(namespace string) int { return s.running[namespace] + s.late[namespace] }

// free counts the slots that are free as a namespace sees it.
func (s *slots) free(namespace string) int {
	lateElsewhere := s.all - s.allRunning - s.late[namespace]
	return s.size - s.allRunning - s.late[namespace] - max(0, lateElsewhere-s.size)
}

// admits reports whether a namespace may take a slot now.
func (s *slots) admits(namespace string, place int64) bool {
	free := s.free(namespace)
	if free <= 0 {
		return false
	}
	first := 0
	for other, turn := range s.waiting {
		if other == namespace {
			continue
		}
		before := s.held(namespace) - s.held(other)
		if turn.place < place {
			before++
		}
		first += max(0, min(before, turn.images))
	}
	return first < free
}

// take gives a slot to a namespace.
func (s *slots) take(namespace string) {
	s.add(namespace, false)
	if waiting, waits := s.waiting[namespace]; waits {
		s.waiting[namespace] = turn{max(0, waiting.images-1), noTurn}
	}
}

// limited has the slots of everything that limits scans, as one plan sees them.
type limited struct {
	limits  Limits
	scanner limit
	slots   map[limit]*slots
	waiting map[limit]queue
	places  map[string]int64
}

// newLimited counts the attempts under way, for a Scanner that wants to catalog images. Of its own slots, all these images want one.
func newLimited(scanner *scannerv1.Scanner, v *observed, limits Limits, due []model.ImageKey, now time.Time) *limited {
	first := map[string]int{}
	for _, key := range due {
		namespaces, _ := v.places(key)
		if n := slices.IndexFunc(namespaces, func(namespace string) bool { return !v.waitsFor(v.jobNamespace(key, namespace)) }); n >= 0 {
			first[namespaces[n]]++
		}
	}
	l := &limited{limits: limits, scanner: limitOfScanner(client.ObjectKeyFromObject(scanner)), slots: map[limit]*slots{}}
	l.waiting, l.places = v.queues.get(client.ObjectKeyFromObject(scanner), first)
	own := queue{}
	for namespace, images := range first {
		own[namespace] = turn{images, l.place(namespace)}
	}
	l.slots[l.scanner] = newSlots(concurrency(scanner), own)
	for i := range v.active {
		attempt := &v.active[i]
		if attempt.Lookup != "" {
			continue // No scan waits for one: maxLookups run beside the scans.
		}
		namespace, late := cmp.Or(attempt.For, attempt.Namespace), attempt.late(now)
		for _, name := range append(l.of(attempt.Key, attempt.Volume), v.nodes.of(attempt)...) {
			if name != l.scanner || attempt.ScannerUID == string(scanner.UID) {
				l.slotsOf(name).add(namespace, late)
			}
		}
	}
	return l
}

// concurrency is the number of slots of a Scanner.
func concurrency(scanner *scannerv1.Scanner) int {
	if scanner.Spec.Concurrency != nil {
		return int(*scanner.Spec.Concurrency)
	}
	return int(scannerv1.DefaultConcurrency)
}

// of lists the limits for a scan of an image volume: that of its node or, until it has one, of the first that its Job names.
func (n nodes) of(attempt *Attempt) []limit {
	if node, known := n[attempt.RunsOn]; known && attempt.Volume {
		return []limit{limitOfNode(node.Labels[corev1.LabelHostname])}
	}
	if len(attempt.Hosts) > 0 {
		return []limit{limitOfNode(attempt.Hosts[0])}
	}
	return nil
}

// of lists the limits of a scan of an image, without those of nodes. One of an image volume asks no registry.
func (l *limited) of(key model.ImageKey, volume bool) []limit {
	if volume {
		return []limit{l.scanner, limitOperator}
	}
	return []limit{l.scanner, limitOperator, limitOfRegistry(key.Registry())}
}

func (l *limited) slotsOf(name limit) *slots {
	if l.slots[name] == nil {
		size := l.limits.PerRegistry
		switch {
		case name == limitOperator:
			size = l.limits.Scans
		case strings.HasPrefix(string(name), nodePrefix):
			size = l.limits.PerNode
		}
		l.slots[name] = newSlots(size, l.waiting[name])
	}
	return l.slots[name]
}

// place is that of a namespace in the order of those that wait.
func (l *limited) place(namespace string) int64 {
	if place, waits := l.places[namespace]; waits {
		return place
	}
	return noTurn
}

// admit takes the slots for a scan of an image that runs in a namespace. When it has to wait, it takes none and says what for. Of the nodes of an
// image volume, those with a free slot remain, the one with most free slots first.
func (l *limited) admit(key model.ImageKey, volume *scanjob.ImageVolume, namespace string) (wait, bool) {
	names := l.of(key, volume != nil)
	for _, name := range names {
		if !l.admits(name, namespace) {
			return wait{why: l.reason(name, key), limit: name, namespace: namespace}, false
		}
	}
	if volume != nil && len(volume.Nodes) > 0 {
		full := limitOfNode(volume.Nodes[0])
		volume.Nodes = slices.DeleteFunc(volume.Nodes, func(host string) bool { return !l.admits(limitOfNode(host), namespace) })
		if len(volume.Nodes) == 0 {
			return wait{why: l.reason(full, key), limit: full, namespace: namespace}, false
		}
		slices.SortStableFunc(volume.Nodes, func(a, b string) int {
			return cmp.Compare(l.slotsOf(limitOfNode(b)).free(namespace), l.slotsOf(limitOfNode(a)).free(namespace))
		})
		names = append(names, limitOfNode(volume.Nodes[0]))
	}
	for _, name := range names {
		l.slotsOf(name).take(namespace)
	}
	delete(l.places, namespace)
	return wait{}, true
}

// admits reports whether a limit has a free slot for a namespace.
func (l *limited) admits(name limit, namespace string) bool {
	return l.slotsOf(name).admits(namespace, l.place(namespace))
}

func (l *limited) reason(name limit, key model.ImageKey) string {
	switch {
	case name == l.scanner:
		return waitsScanner
	case name == limitOperator:
		return waitsOperator
	case strings.HasPrefix(string(name), nodePrefix):
		return fmt.Sprintf("waiting for one of the %d scan slots of each node that runs the image (--scan-node-concurrency)", l.limits.PerNode)
	default:
		return fmt.Sprintf("waiting for one of the %d scan slots of the registry %s (--scan-registry-concurrency)", l.limits.PerRegistry, key.Registry())
	}
}
