package exceptions

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxNamespaced is the most exceptions of all namespaces together that apply. VEX documents have half of all decisions at most, so that a quarter
	// is left for the exceptions of the cluster.
	maxNamespaced = store.MaxDecisions / 4
	// maxWorkloadSelectors is the most different selectors of workloads in one namespace, and of the exceptions of the cluster: each is compared with
	// the labels of all pods that it is about.
	maxWorkloadSelectors = 100
)

// plan is what is to be applied.
type plan struct {
	decisions []store.Decision
	// problems says why exceptions cannot be applied.
	problems map[store.DecisionObject]store.DecisionProblem
	// places are those of the decisions, by the text of their selection. moved says that some differ from those of the last reconcile.
	places map[string]*store.DecisionPlaces
	moved  bool
}

// plan resolves where exceptions apply, and leaves out those that cannot be applied.
func (r *Reconciler) plan(ctx context.Context, exceptions []exception) (plan, error) {
	p := plan{problems: map[store.DecisionObject]store.DecisionProblem{}, places: map[string]*store.DecisionPlaces{}}
	selections := make([]*places.Selection, len(exceptions))
	namespaced, selectors := 0, map[string]map[string]bool{}
	for i := range exceptions {
		e := exceptions[i]
		refuse := func(reason store.DecisionReason, format string, args ...any) {
			p.problems[e.name()] = store.DecisionProblem{Reason: reason, Message: fmt.Sprintf(format, args...)}
		}
		selection, err := places.Of(e.GetNamespace(), &e.spec.Match)
		if err != nil {
			refuse(store.DecisionInvalid, "%v", err)
			continue
		}
		if selection != nil && selection.SelectsWorkloads() {
			known := selectors[e.GetNamespace()]
			if !known[selection.Text] && len(known) == maxWorkloadSelectors {
				refuse(store.DecisionTooMany, "%d different selectors of workloads apply at most in a namespace, and as many of ClusterVulnerabilityExceptions; "+
					"use the same ones, or delete other exceptions", maxWorkloadSelectors)
				continue
			}
			if known == nil {
				known = map[string]bool{}
				selectors[e.GetNamespace()] = known
			}
			known[selection.Text] = true
		}
		if e.GetNamespace() != "" {
			if namespaced++; namespaced > maxNamespaced {
				refuse(store.DecisionTooMany, "%d VulnerabilityExceptions of all namespaces apply at most, the oldest ones of each namespace in turn; delete others first", maxNamespaced)
				continue
			}
		}
		selections[i] = selection
	}
	// Before anything is read: what changes afterwards causes another reconcile.
	r.watching.set(selections)
	resolver := &places.Resolver{Reader: r.client}
	if len(r.WatchNamespaces) > 0 {
		resolver.In = func(namespace string) bool { return slices.Contains(r.WatchNamespaces, namespace) }
	}
	for i := range exceptions {
		e := exceptions[i]
		if _, refused := p.problems[e.name()]; refused {
			continue
		}
		decision := r.decision(e)
		if selection := selections[i]; selection != nil {
			at, err := r.resolve(ctx, &p, resolver, selection)
			if err != nil {
				return plan{}, err
			}
			decision.Places = at
		}
		p.decisions = append(p.decisions, decision)
	}
	return p, nil
}

// resolve resolves a selection once for a plan.
func (r *Reconciler) resolve(ctx context.Context, p *plan, resolver *places.Resolver, selection *places.Selection) (*store.DecisionPlaces, error) {
	if known := p.places[selection.Text]; known != nil {
		return known, nil
	}
	found, err := resolver.Resolve(ctx, selection)
	if err != nil {
		return nil, fmt.Errorf("resolve where exceptions apply: %w", err)
	}
	if before := r.places[selection.Text]; before != nil && places.Equal(before, found) {
		found = before
	} else {
		p.moved = true
	}
	p.places[selection.Text] = found
	return found, nil
}

// watching says which events of namespaces and pods can change where exceptions apply. Predicates read it while the controller runs.
type watching struct {
	mu sync.RWMutex
	// namespaces says that labels of namespaces matter, allPods those of all pods, and pods those of the pods in some namespaces.
	namespaces, allPods bool
	pods                map[string]bool
}

func (w *watching) set(selections []*places.Selection) {
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

func (w *watching) podsIn(namespace string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.allPods || w.pods[namespace]
}

func (w *watching) allNamespaces() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.namespaces
}

// namespaceMoves passes namespaces that come, go or get other labels, while an exception selects namespaces.
func (r *Reconciler) namespaceMoves() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(client.Object) bool { return r.watching.allNamespaces() }),
		predicate.LabelChangedPredicate{},
	)
}

// podMoves passes pods that come, end, go, or belong to another workload or have other labels than before, while an exception selects workloads in
// their namespace.
func (r *Reconciler) podMoves() predicate.Predicate {
	return predicate.And(
		predicate.NewPredicateFuncs(func(pod client.Object) bool { return r.watching.podsIn(pod.GetNamespace()) }),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*corev1.Pod)
			after, okAfter := e.ObjectNew.(*corev1.Pod)
			return !okBefore || !okAfter || before.UID != after.UID || places.Ended(before) != places.Ended(after) ||
				!maps.Equal(before.Labels, after.Labels) || inventory.OwnerOf(before) != inventory.OwnerOf(after)
		}},
	)
}
