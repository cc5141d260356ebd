package policies

import (
	"context"
	"fmt"
	"maps"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// maxWorkloadSelectors is the most different selectors of workloads: each is compared with the labels of all pods.
const maxWorkloadSelectors = 100

// plan is what is to be applied.
type plan struct {
	policies []store.Policy
	// problems says why policies cannot be applied.
	problems map[string]store.PolicyProblem
	// places are those where the policies apply.
	places *places.Resolved
}

// plan resolves where policies apply, and leaves out those whose selectors cannot be resolved: without them, they would apply everywhere.
func (r *Reconciler) plan(ctx context.Context, policies []scannerv1alpha1.VulnerabilityPolicy) (plan, error) {
	p := plan{problems: map[string]store.PolicyProblem{}}
	selections, selectors := make([]*places.Selection, len(policies)), map[string]bool{}
	for i := range policies {
		name := policies[i].Name
		selection, err := places.OfPolicy(&policies[i].Spec)
		if err != nil {
			p.problems[name] = store.PolicyProblem{Reason: store.PolicyInvalid, Message: err.Error()}
			continue
		}
		if selection != nil && selection.SelectsWorkloads() && !selectors[selection.Text] {
			if len(selectors) == maxWorkloadSelectors {
				p.problems[name] = store.PolicyProblem{Reason: store.PolicyTooMany, Message: fmt.Sprintf(
					"%d different selectors of workloads apply at most; use the same ones, or delete other policies", maxWorkloadSelectors)}
				continue
			}
			selectors[selection.Text] = true
		}
		selections[i] = selection
	}
	var err error
	if p.places, err = r.Places.Resolve(ctx, selections); err != nil {
		return plan{}, fmt.Errorf("resolve where policies apply: %w", err)
	}
	for i := range policies {
		if _, refused := p.problems[policies[i].Name]; !refused {
			p.policies = append(p.policies, policyOf(&policies[i], p.places.Of(selections[i])))
		}
	}
	return p, nil
}

// apply makes the policies of a plan those that apply. It returns why policies do not apply, or not everywhere.
func (r *Reconciler) apply(ctx context.Context, planned plan) (map[string]store.PolicyProblem, error) {
	problems, err := r.store.SyncPolicies(ctx, planned.policies)
	if err != nil {
		return nil, fmt.Errorf("apply the policies: %w", err)
	}
	r.Places.Keep(planned.places)
	all := maps.Clone(planned.problems)
	maps.Copy(all, problems)
	return all, nil
}

// policyOf is what the store is told of a policy that applies in places, nil for everywhere.
func policyOf(p *scannerv1alpha1.VulnerabilityPolicy, at *store.DecisionPlaces) store.Policy {
	spec := &p.Spec
	return store.Policy{
		Name: p.Name, Select: spec.Select, Places: at, From: model.DueFrom(spec.From),
		DueIn: model.DueIn{
			Critical: days(spec.DueIn.Critical), High: days(spec.DueIn.High), Medium: days(spec.DueIn.Medium), Low: days(spec.DueIn.Low), KEV: days(spec.DueIn.KEV),
		},
	}
}

func days(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}
