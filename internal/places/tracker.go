package places

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// debounce is how long changes of pods and namespaces are collected before a controller looks at them.
const debounce = time.Second

// Changed is the request to reconcile if selections select other places than before.
var Changed = reconcile.Request{NamespacedName: types.NamespacedName{Name: "places"}}

// Tracker resolves the selections of a controller each time it reconciles, and makes it reconcile when they may select something else.
type Tracker struct {
	// Reader reads namespaces and pods from the cache of the manager.
	Reader client.Reader
	// Namespaces are those that matter, none for all.
	Namespaces []string

	kept  map[string]*store.DecisionPlaces
	watch watch
}

// Resolved are the places of selections at one moment.
type Resolved struct {
	// Changed says that some differ from those that the Tracker was told to keep.
	Changed bool
	places  map[string]*store.DecisionPlaces
}

// Of returns the places of one of the selections, nil for everywhere.
func (r *Resolved) Of(s *Selection) *store.DecisionPlaces {
	if s == nil {
		return nil
	}
	return r.places[s.Text]
}

// Resolve resolves selections, each text once; nil among them selects everything. From now on, what changes about these causes a reconcile.
func (t *Tracker) Resolve(ctx context.Context, selections []*Selection) (*Resolved, error) {
	// Before anything is read: what changes afterwards causes another reconcile.
	t.watch.set(selections)
	resolver := &Resolver{Reader: t.Reader}
	if len(t.Namespaces) > 0 {
		resolver.In = func(namespace string) bool { return slices.Contains(t.Namespaces, namespace) }
	}
	resolved := &Resolved{places: map[string]*store.DecisionPlaces{}}
	for _, s := range selections {
		if s == nil || resolved.places[s.Text] != nil {
			continue
		}
		found, err := resolver.Resolve(ctx, s)
		if err != nil {
			return nil, err
		}
		if before := t.kept[s.Text]; before == nil || !Equal(before, found) {
			resolved.Changed = true
		}
		resolved.places[s.Text] = found
	}
	return resolved, nil
}

// Keep makes these the places that later ones are compared with. Call it when they have been applied.
func (t *Tracker) Keep(r *Resolved) { t.kept = r.places }

// Watch makes a controller reconcile Changed about a second after namespaces or pods have changed in a way that the selections depend on.
func (t *Tracker) Watch(b *builder.Builder) *builder.Builder {
	return b.
		Watches(&corev1.Namespace{}, kube.After(debounce, Changed), builder.OnlyMetadata, builder.WithPredicates(t.watch.ofNamespaces())).
		Watches(&corev1.Pod{}, kube.After(debounce, Changed), builder.WithPredicates(t.watch.ofPods()))
}

// watch says which events of namespaces and pods can change what selections select. Predicates read it while the controller runs.
type watch struct {
	mu sync.RWMutex
	// namespaces says that labels of namespaces matter, allPods those of all pods, and pods those of the pods in some namespaces.
	namespaces, allPods bool
	pods                map[string]bool
}

func (w *watch) set(selections []*Selection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.namespaces, w.allPods, w.pods = false, false, map[string]bool{}
	for _, s := range selections {
		if s == nil {
			continue
		}
		w.namespaces = w.namespaces || s.SelectsNamespaces()
		switch {
		case !s.SelectsWorkloads():
		case s.Namespace == "":
			w.allPods = true
		default:
			w.pods[s.Namespace] = true
		}
	}
}

func (w *watch) podsIn(namespace string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.allPods || w.pods[namespace]
}

func (w *watch) allNamespaces() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.namespaces
}

// ofNamespaces passes namespaces that come, go or get other labels, while a selection depends on namespaces.
func (w *watch) ofNamespaces() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(client.Object) bool { return w.allNamespaces() }),
		predicate.LabelChangedPredicate{},
	)
}

// ofPods passes pods that come, end, go, or belong to another workload or have other labels than before, while a selection depends on workloads in
// their namespace.
func (w *watch) ofPods() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(pod client.Object) bool { return w.podsIn(pod.GetNamespace()) }),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return !okBefore || !okAfter || before.UID != after.UID || Ended(before) != Ended(after) ||
				!maps.Equal(before.Labels, after.Labels) || inventory.OwnerOf(before) != inventory.OwnerOf(after)
		}},
	)
}
