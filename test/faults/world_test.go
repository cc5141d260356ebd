//go:build faults

package faults

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	tick = 100 * time.Millisecond
	// recovery is how long the operator may take to reach the state of an undisturbed run.
	recovery = 30 * time.Second
	// calm is how long nothing must be written before something counts as done: Events come late.
	calm = 500 * time.Millisecond
)

// world is a namespace with one or two operators in it.
type world struct {
	scenario  *scenario
	namespace string
	dir       string
	trace     *trace
	// dsn is that of the database server, "" without one.
	dsn      string
	managers []*manager
	// acted is closed when what happens in the scenario has happened, ended when the run has ended.
	acted, ended chan struct{}
	end          func()
	// installed is the data that operators begin with, "" for none.
	installed string
	// slot is its share of the processors.
	slot *slot
	// lists are the objects as they were listed last, by kind.
	lists map[string]listed
	mu    sync.Mutex
	// problems are why the run failed.
	problems []string
	*plane
}

// listed are the objects of a kind.
type listed struct {
	objects snapshot
	at      time.Time
	// version is the number of changes that were known before.
	version int
}

// maxAge is how long a list is used as long as no change of it is known.
const maxAge = 15 * time.Second

// errorf fails a run, and keeps why for the results.
func (w *world) errorf(t *testing.T, format string, args ...any) {
	t.Helper()
	w.keep(fmt.Sprintf(format, args...))
	t.Errorf(format, args...)
}

// fatalf is like errorf, and ends the run.
func (w *world) fatalf(t *testing.T, format string, args ...any) {
	t.Helper()
	w.keep(fmt.Sprintf(format, args...))
	t.Fatalf(format, args...)
}

func (w *world) keep(problem string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, problem)
}

// maxReason bounds what is kept of why a run failed.
const maxReason = 8000

// reason is why a run failed. A world that did not come into being is nil.
func (w *world) reason() string {
	if w == nil {
		return "The run did not begin; the output of the test says why."
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := strings.Join(w.problems, "\n")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "") + "\nThe data and the logs of the operator are in " + w.dir
}

// planeFor returns the control plane for the runs of a test, which is its own if faults disturb the servers or the scenario what is outside of its namespace.
func planeFor(t *testing.T, s *scenario, at point) *plane {
	t.Helper()
	if s.cluster || disturbsServers(at.fault) {
		return own.take(t)
	}
	return common
}

// newWorld makes a namespace and starts the operators of a scenario in it.
func newWorld(t *testing.T, s *scenario, at point, on *plane) *world {
	t.Helper()
	w := &world{scenario: s, trace: newTrace(at), acted: make(chan struct{}), ended: make(chan struct{}), plane: on}
	if !s.installs {
		w.installed = installedData(t)
	}
	// Not before the control plane: a run that waits for a control plane needs no processor.
	w.slot = takeSlot()
	t.Cleanup(w.slot.free)
	w.end = sync.OnceFunc(func() { close(w.ended) })
	t.Cleanup(w.end)
	var err error
	//nolint:usetesting // The log of a failed run must remain.
	if w.dir, err = os.MkdirTemp("", "faults-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data and the logs of the operator are in %s", w.dir)
			for _, m := range w.managers {
				t.Logf("end of the log of %s:\n%s", filepath.Base(m.dir), m.logged())
			}
			return
		}
		_ = os.RemoveAll(w.dir)
	})
	w.dsn = serverDSN(t, s.database, at.fault)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	w.create(t, namespace)
	w.namespace, w.lists = namespace.Name, w.nothing()
	w.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	for i := range max(1, s.replicas) {
		w.managers = append(w.managers, startManager(t, w, fmt.Sprintf("operator-%d", i)))
	}
	return w
}

// create creates an object in the namespace of the world.
func (w *world) create(t *testing.T, object client.Object) {
	t.Helper()
	if w.namespace != "" {
		object.SetNamespace(w.namespace)
	}
	if err := w.c.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// createInCluster creates an object of the whole cluster.
func (w *world) createInCluster(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.c.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// patch changes an object in the namespace of the world.
func (w *world) patch(t *testing.T, object client.Object, name, patch string) {
	t.Helper()
	object.SetNamespace(w.namespace)
	object.SetName(name)
	if err := w.c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		t.Fatalf("patch %T %s: %v", object, name, err)
	}
}

// remove deletes an object in the namespace of the world.
func (w *world) remove(t *testing.T, object client.Object, name string) {
	t.Helper()
	object.SetNamespace(w.namespace)
	object.SetName(name)
	if err := w.c.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatalf("delete %T %s: %v", object, name, err)
	}
}

// kinds are the kinds of objects that the operator, its users or the controllers of Kubernetes make.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Service"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "scanner.zoltankerezsi.xyz", Version: "v1", Kind: "Scanner"},
	{Group: "app.example.com", Version: "v1alpha1", Kind: "PodSet"},
	{Group: "poc.test.domain", Version: "v1", Kind: "MyCustomResource"},
	{Group: "stable.simple-bellerophon.io", Version: "v444beta989", Kind: "BellerophonSimple"},
	{Group: "scanner.zoltankerezsi.xyz", Version: "v1alpha1", Kind: "VulnerabilityException"},
	{Group: "scanner.zoltankerezsi.xyz", Version: "v1alpha1", Kind: "NotificationRule"},
	{Group: "openreports.io", Version: "v1alpha1", Kind: "Report"},
}

// clusterKinds are those of objects of the whole cluster.
var clusterKinds = []schema.GroupVersionKind{
	{Group: "scanner.zoltankerezsi.xyz", Version: "v1alpha1", Kind: "ReportSink"},
	{Group: "scanner.zoltankerezsi.xyz", Version: "v1alpha1", Kind: "VulnerabilityPolicy"},
}

// kinds are those of the objects that belong to a world.
func (w *world) kinds() []schema.GroupVersionKind {
	if w.scenario.cluster {
		return slices.Concat(kinds, clusterKinds)
	}
	return kinds
}

// snapshot holds the objects of a namespace.
type snapshot []*unstructured.Unstructured

// nothing is what is in a new namespace.
func (w *world) nothing() map[string]listed {
	lists := map[string]listed{}
	for _, kind := range kinds {
		lists[kind.Kind] = listed{at: time.Now()}
	}
	return lists
}

func (w *world) snapshot(ctx context.Context) (snapshot, error) {
	var s snapshot
	if w.lists == nil {
		w.lists = map[string]listed{}
	}
	for _, kind := range w.kinds() {
		version, observed := w.version(w.namespace, kind.Kind)
		if last, found := w.lists[kind.Kind]; found && observed && last.version == version && time.Since(last.at) < maxAge {
			s = append(s, last.objects...)
			continue
		}
		now := listed{at: time.Now(), version: version}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := w.c.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			now.objects = append(now.objects, &list.Items[i])
		}
		w.lists[kind.Kind] = now
		s = append(s, now.objects...)
	}
	return s, nil
}

// of returns the objects of a kind.
func (s snapshot) of(kind string) (found snapshot) {
	for _, object := range s {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// until plays Kubernetes until something holds. The time during which servers were away does not count.
func (w *world) until(t *testing.T, limit time.Duration, holds condition) {
	t.Helper()
	begin, outage := time.Now(), w.outage()
	for ticker := time.NewTicker(tick); ; <-ticker.C {
		s, err := w.snapshot(t.Context())
		if err == nil {
			w.trace.resolve(s)
			err = w.play(t.Context(), s)
		}
		if err == nil {
			err = holds(t.Context(), w, s)
		}
		if err == nil {
			return
		}
		if time.Since(begin)-(w.outage()-outage) > limit {
			w.fatalf(t, "not within %s: %v", limit, err)
		}
	}
}

// settle waits until something holds and the operator writes nothing.
func (w *world) settle(t *testing.T, holds condition) {
	t.Helper()
	w.until(t, recovery, func(ctx context.Context, w *world, s snapshot) error {
		if err := holds(ctx, w, s); err != nil {
			return err
		}
		if w.slot.rests() {
			return errors.New("the fault is not over")
		}
		if _, last := w.trace.writesSoFar(); time.Since(last) < calm {
			return errors.New("the operator still writes")
		}
		return nil
	})
}

// ready waits until all operators are ready.
func (w *world) ready(t *testing.T) {
	t.Helper()
	w.until(t, 2*recovery, replaced)
}

// stop ends the operators. It returns what keeps their goroutines.
func (w *world) stop(t *testing.T) (goroutines []string) {
	t.Helper()
	// Before the end: then all watches end, and the goroutines that the program has meanwhile are others.
	ran := make([]bool, len(w.managers))
	for i, m := range w.managers {
		ran[i] = m.quit()
	}
	for i, m := range w.managers {
		if ran[i] {
			m.wait(t)
		}
	}
	w.end()
	for i, m := range w.managers {
		m.wait(t)
		goroutines = append(goroutines, m.stop(t, ran[i])...)
		if m.exits > 0 && !w.scenario.mayExit {
			w.errorf(t, "the operator ended %d times by itself", m.exits)
		}
	}
	return goroutines
}

// empty removes the objects of the namespace, and the namespace: operators that start later would list it.
func (w *world) empty(t *testing.T) {
	t.Helper()
	for _, kind := range w.kinds() {
		if changes, observed := w.version(w.namespace, kind.Kind); observed && changes == 0 {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		if err := w.c.DeleteAllOf(context.WithoutCancel(t.Context()), object, client.InNamespace(w.namespace), client.GracePeriodSeconds(0)); err != nil {
			t.Logf("delete all of kind %s: %v", kind.Kind, err)
		}
	}
	ctx, namespace := context.WithoutCancel(t.Context()), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	err := w.c.Delete(ctx, namespace)
	if err == nil {
		// No controller does this here.
		namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		err = w.c.SubResource("finalize").Update(ctx, namespace)
	}
	if err != nil {
		t.Logf("delete the namespace: %v", err)
	}
}

// condition is something that holds of a world, or an error that says why not.
type condition func(context.Context, *world, snapshot) error

// conditionOf returns "status/reason" of a condition of an object, if it is about its spec as it is now.
func conditionOf(object *unstructured.Unstructured, name string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	for _, entry := range conditions {
		if entry, is := entry.(map[string]any); is && entry["type"] == name && observed == object.GetGeneration() {
			return fmt.Sprint(entry["status"], "/", entry["reason"])
		}
	}
	return "none"
}

// is is the condition that an object has a condition Ready of this status and reason.
func is(kind, name, want string) condition { return has(kind, name, "Ready", want) }

// has is the condition that an object has a condition of this status and reason.
func has(kind, name, about, want string) condition {
	return func(_ context.Context, _ *world, s snapshot) error {
		for _, object := range s.of(kind) {
			if object.GetName() == name {
				if got := conditionOf(object, about); got != want {
					return fmt.Errorf("the condition %s of %s %s is %s, want %s", about, kind, name, got, want)
				}
				return nil
			}
		}
		return fmt.Errorf("there is no %s %s", kind, name)
	}
}

// all is the condition that all of some conditions hold.
func all(conditions ...condition) condition {
	return func(ctx context.Context, w *world, s snapshot) error {
		for _, holds := range conditions {
			if err := holds(ctx, w, s); err != nil {
				return err
			}
		}
		return nil
	}
}

// imageID is what the kubelet reports of an image.
func imageID(image string) string {
	name, _, _ := strings.Cut(image, ":")
	return fmt.Sprintf("%s@sha256:%x", name, sha256.Sum256([]byte(image)))
}
