package scanner

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// volumePause is how long a node is not used for image volumes after it could not start a scan of one.
	volumePause = time.Hour
	// volumeStart is how long a scan of an image volume may take to start, if its image can be read from the registry instead.
	volumeStart = 3 * time.Minute
	// maxFallbacks bounds the nodes and the images that are remembered, each. The oldest are forgotten first.
	maxFallbacks = 10_000
)

// fallback remembers where image volumes failed, so that Auto reads images from their registries instead. It is kept in memory: after a restart,
// image volumes are tried again. It is safe for concurrent use.
type fallback struct {
	mu     sync.Mutex
	nodes  map[nodeOf]time.Time
	images map[model.ImageKey]fromRegistry
}

// nodeOf is a node with the software that it runs, as the images of a namespace see it: who makes an image that cannot be mounted decides for no
// other namespace.
type nodeOf struct{ name, kubelet, runtime, namespace string }

func nodeFor(node *corev1.Node, namespace string) nodeOf {
	info := &node.Status.NodeInfo
	return nodeOf{node.Name, info.KubeletVersion, info.ContainerRuntimeVersion, namespace}
}

// fromRegistry is the number of the attempt that reads an image from its registry, and since when that is known.
type fromRegistry struct {
	attempt int
	since   time.Time
}

// pauseNode does not use a node for volumes with the images of a namespace for volumePause.
func (f *fallback) pauseNode(node *corev1.Node, namespace string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[nodeOf]time.Time{}
	}
	f.nodes[nodeFor(node, namespace)] = now
	forgetOldest(f.nodes, func(since time.Time) time.Time { return since })
}

// paused reports whether a node could not start a scan of an image volume with an image of a namespace not long ago.
func (f *fallback) paused(node *corev1.Node, namespace string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, known := f.nodes[nodeFor(node, namespace)]
	return known && now.Sub(since) < volumePause
}

// useRegistry has an attempt at an image read it from its registry. The attempt after it tries a volume again.
func (f *fallback) useRegistry(key model.ImageKey, attempt int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.images == nil {
		f.images = map[model.ImageKey]fromRegistry{}
	}
	f.images[key] = fromRegistry{attempt, now}
	forgetOldest(f.images, func(image fromRegistry) time.Time { return image.since })
}

// usesRegistry reports whether an attempt at an image reads it from its registry because a volume failed before.
func (f *fallback) usesRegistry(key model.ImageKey, attempt int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	image, known := f.images[key]
	return known && image.attempt == attempt
}

// forgetOldest removes the older half of what is remembered, if that is more than maxFallbacks.
func forgetOldest[K comparable, V any](remembered map[K]V, since func(V) time.Time) {
	if len(remembered) <= maxFallbacks {
		return
	}
	times := slices.SortedFunc(maps.Values(remembered), func(a, b V) int { return since(a).Compare(since(b)) })
	oldest := since(times[len(times)/2])
	maps.DeleteFunc(remembered, func(_ K, v V) bool { return !since(v).After(oldest) })
}

// fallsBack reports whether the next attempt at an image is made at its registry, without the failure of this one being one of the image: a scan
// of an image volume could not start or could not read the volume, and its Scanner lets the operator choose.
func (v *observed) fallsBack(key model.ImageKey, attempt *Attempt) bool {
	return attempt.Volume && v.reads.source() == scannerv1.SourceAuto && key.Pullable() && (!attempt.Started || attempt.Outcome.Reason == model.ReasonCatalogFailed)
}

// learn remembers what a failed scan of an image volume says about its node.
func (v *observed) learn(attempt *Attempt, now time.Time) {
	if node, known := v.nodes[attempt.Node]; known && attempt.Volume && !attempt.Started && !attempt.Outdated {
		v.fallback.pauseNode(node, cmp.Or(attempt.For, attempt.Namespace), now)
	}
}
