//go:build scale

package scale

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	images      = 200
	namespaces  = 5
	registries  = 3
	amd64Nodes  = 18
	arm64Nodes  = 6
	creators    = 8
	ignoreLabel = "ignore"
)

// What is particular about some of the images, by number. The others run on amd64 nodes and are scanned.
const (
	// onBoth run on nodes of both platforms, so that each gives two results.
	onBothFrom, onBothTo = 0, 10
	// initOnly run in init containers alone.
	initOnlyFrom, initOnlyTo = 170, 180
	// flaky fail at the first attempt.
	flakyFrom, flakyTo = 180, 183
	// ignored run in pods with the ignore label alone.
	ignoredFrom, ignoredTo = 190, 195
	// broken fail for good.
	brokenFrom, brokenTo = 195, 200
)

// brokenReasons are those of the broken images, in order. Only a registry requests a delay: with other reasons, how many attempts there are
// would depend on time.
var brokenReasons = [brokenTo - brokenFrom]model.Reason{
	model.ReasonRegistryRateLimited, model.ReasonRegistryUnavailable, model.ReasonRegistryRateLimited, model.ReasonRegistryUnavailable,
	model.ReasonRegistryRateLimited,
}

// cell is a container in a pod, as a row of /api/v1/coverage names it.
type cell struct{ Namespace, Pod, Container string }

// world is what runs in the cluster, and what has to come of it.
type world struct {
	pods []*corev1.Pod
	// want is state/reason of each container.
	want map[cell]string
	// attempts is how many attempts it takes to know all of an image; scanned are those of them that end with an SBOM.
	attempts map[model.ImageKey]int
	scanned  map[model.ImageKey]int
}

// numberOf returns the number of an image ID.
func numberOf(imageID string) int {
	_, digest, _ := strings.Cut(imageID, "@sha256:")
	n, err := strconv.ParseInt(digest, 16, 0)
	if err != nil {
		return -1
	}
	return int(n)
}

// imageID has the first registry hold half of the images.
func imageID(n int) string {
	registry := fmt.Sprintf("r%d.example", max(0, n%(registries+1)-1))
	if in(n, brokenFrom, brokenTo) {
		// They want to be left alone for long, and that goes for a whole registry.
		registry = fmt.Sprintf("broken-%d.example", n)
	}
	return fmt.Sprintf("%s/team/app-%d@sha256:%064x", registry, n, n)
}

func in(n, from, to int) bool { return from <= n && n < to }

// outcome is how an attempt at an image ends, counted from zero.
func outcome(n, attempt int) model.Outcome {
	switch {
	case in(n, brokenFrom, brokenTo):
		return model.Outcome{Reason: brokenReasons[n-brokenFrom], Message: "as this test wants it", RetryAfter: model.MaxRetryAfter}
	case in(n, flakyFrom, flakyTo) && attempt == 0:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: "better luck next time"}
	}
	return model.Outcome{}
}

// newWorld describes all pods. Each image runs, and so do some containers that cannot be scanned.
func newWorld() *world {
	w := &world{want: map[cell]string{}, attempts: map[model.ImageKey]int{}, scanned: map[model.ImageKey]int{}}
	for i := range pods {
		n, arch := i%images, "amd64"
		if in(n, onBothFrom, onBothTo) && i/images%2 == 1 {
			arch = "arm64"
		}
		w.add(i, n, arch)
	}
	return w
}

// add makes pod i, which runs image n.
func (w *world) add(i, n int, arch string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace((i + i/images) % namespaces), Name: fmt.Sprint("app-", i)},
		Spec: corev1.PodSpec{
			NodeName:   nodeFor(arch, i),
			Containers: []corev1.Container{{Name: "app", Image: imageID(n)}},
		},
	}
	w.pods = append(w.pods, pod)
	key := model.ImageKey{ImageID: imageID(n), Platform: model.Platform{OS: "linux", Architecture: arch}}
	app := cell{pod.Namespace, pod.Name, "app"}
	switch {
	case in(n, ignoredFrom, ignoredTo):
		pod.Labels = map[string]string{ignoreLabel: "true"}
		w.want[app] = "Skipped/IgnoreLabel"
		return
	case in(n, initOnlyFrom, initOnlyTo):
		// The pod itself runs what was built on its node: nobody can pull that.
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: imageID(n)}}
		pod.Spec.Containers[0].Image = "built-here:1"
		pod.Annotations = map[string]string{"devcluster/image-id.app": fmt.Sprintf("sha256:%064x", i)}
		w.want[app] = "Failed/" + string(model.ReasonNotPullable)
		app.Container = "init"
	}
	for attempt := 0; ; attempt++ {
		ends := outcome(n, attempt)
		if ends.Succeeded() {
			w.want[app], w.attempts[key], w.scanned[key] = "Scanned/", attempt+1, 1
			return
		}
		if ends.RetryAfter > 0 {
			w.want[app], w.attempts[key] = "Failed/"+string(ends.Reason), attempt+1
			return
		}
	}
}

func namespace(i int) string { return fmt.Sprint("team-", i) }

// teams returns the names of all namespaces of the world.
func teams() []string {
	names := make([]string, namespaces)
	for i := range names {
		names[i] = namespace(i)
	}
	return names
}

func nodeFor(arch string, i int) string {
	if arch == "arm64" {
		return fmt.Sprint("scale-arm64-", i%arm64Nodes)
	}
	return fmt.Sprint("scale-amd64-", i%amd64Nodes)
}

// createNamespaces makes namespaces with labels, and waits for the ServiceAccounts that pods need.
func createNamespaces(t *testing.T, labels map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for _, name := range names {
		eventually(t, func() error {
			return c.Get(t.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		})
	}
}

// createNodes makes the nodes of the world. Pods of Jobs with scanNode in their node selector stay as they are until somebody says that they
// have ended.
func createNodes(t *testing.T) {
	t.Helper()
	for arch, count := range map[string]int{"amd64": amd64Nodes, "arm64": arm64Nodes} {
		for i := range count {
			createNode(t, nodeFor(arch, i), arch, scanNode)
		}
	}
}

// createNode makes a node that kwok looks after.
func createNode(t *testing.T, name, arch string, more map[string]string) {
	t.Helper()
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	labels := map[string]string{corev1.LabelArchStable: arch, corev1.LabelOSStable: "linux", corev1.LabelHostname: name}
	maps.Copy(labels, more)
	create(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	})
}

// createPods makes all pods, as fast as it goes.
func (w *world) createPods(t *testing.T) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(creators)
	for _, pod := range w.pods {
		group.Go(func() error { return c.Create(ctx, pod.DeepCopy()) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// running counts the pods that kwok has started.
func running(ctx context.Context) (int, error) {
	count := 0
	for i := range namespaces {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := c.List(ctx, &list, client.InNamespace(namespace(i)), client.MatchingFields{"status.phase": string(corev1.PodRunning)}); err != nil {
			return 0, err
		}
		count += len(list.Items)
	}
	return count, nil
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T: %v", obj, err)
	}
}
