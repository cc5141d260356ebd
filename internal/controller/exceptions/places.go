package exceptions

import (
	"context"
	"fmt"

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
	// refused are the exceptions that cannot be applied: the store tells them from those that are gone.
	refused []store.Decision
	// problems says why exceptions cannot be applied.
	problems map[store.DecisionObject]store.DecisionProblem
	// places are those where the exceptions apply.
	places *places.Resolved
}

// plan resolves where exceptions apply, and leaves out those that cannot be applied.
func (r *Reconciler) plan(ctx context.Context, exceptions []exception) (plan, error) {
	p := plan{problems: map[store.DecisionObject]store.DecisionProblem{}}
	selections, decisions := make([]*places.Selection, len(exceptions)), make([]store.Decision, len(exceptions))
	namespaced, selectors := 0, map[string]map[string]bool{}
	for i := range exceptions {
		e := exceptions[i]
		refuse := func(reason store.DecisionReason, format string, args ...any) {
			p.problems[e.name()] = store.DecisionProblem{Reason: reason, Message: fmt.Sprintf(format, args...)}
		}
		var err error
		if decisions[i], err = r.decision(e); err != nil {
			refuse(store.DecisionInvalid, "%v", err)
			continue
		}
		selection, err := places.Of(e.GetNamespace(), &e.spec.Match)
		if err != nil {
			refuse(store.DecisionInvalid, "%v", err)
			continue
		}
		if end := decisions[i].ExpiresAt; !end.IsZero() && !end.After(r.clock.Now()) {
			// It has ended, so it applies nowhere and takes no room. The store is told of it all the same, because it ends the decision before it, and
			// keeps nothing of it otherwise.
			if selection != nil {
				decisions[i].Places = &store.DecisionPlaces{Selector: selection.Text}
			}
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
	var err error
	if p.places, err = r.Places.Resolve(ctx, selections); err != nil {
		return plan{}, fmt.Errorf("resolve where exceptions apply: %w", err)
	}
	for i := range exceptions {
		e := exceptions[i]
		if _, refused := p.problems[e.name()]; refused {
			p.refused = append(p.refused, store.Decision{Object: e.name(), UID: string(e.GetUID()), Refused: true})
			continue
		}
		if places := p.places.Of(selections[i]); places != nil {
			decisions[i].Places = places
		}
		p.decisions = append(p.decisions, decisions[i])
	}
	return p, nil
}
