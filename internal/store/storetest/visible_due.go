package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const day24 = 24 * time.Hour

// visiblePolicies are what random policies of both stores are.
func visiblePolicies() []store.Policy {
	one, two, four := 1, 2, 4
	return []store.Policy{
		{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, High: &two, Medium: &four, KEV: &one}},
		{Name: "fixable", From: model.DueFromFixAvailable, DueIn: model.DueIn{Critical: &one, High: &two, Medium: &two}},
		{Name: "owned", Select: `workload.owner == "red"`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, Medium: &one}},
		{Name: "placed", Select: `workload.namespace == "a" || workload.namespace == "b"`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, Medium: &two}},
		{Name: "selected", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, Medium: &one}},
	}
}

// due changes the policies of both stores.
func (h *history) due() string {
	var policies []store.Policy
	text := []string{"policies"}
	for _, p := range visiblePolicies() {
		if h.chance(2) {
			continue
		}
		if p.Name == "selected" {
			p.Places = &store.DecisionPlaces{Selector: "team"}
			for _, namespace := range []string{"a", "b", "c", "d"} {
				switch h.random.IntN(3) {
				case 0:
					p.Places.Namespaces = append(p.Places.Namespaces, namespace)
				case 1:
					p.Places.Workloads = append(p.Places.Workloads, store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"})
				}
			}
		}
		policies = append(policies, p)
		text = append(text, p.Name)
	}
	h.both(true, func(f *fixture) {
		if problems := f.due(h.t, policies...); len(problems) > 0 {
			h.t.Errorf("policies: %+v", problems)
		}
	})
	return strings.Join(text, " ")
}

// readSums adds the reads that sum up.
func (h *history) readSums(reads map[string]func(f *fixture) (any, error)) {
	ctx, in := h.t.Context(), h.in
	reads["ListPolicies"] = func(f *fixture) (any, error) { return f.ListPolicies(ctx, in) }
	query := store.SummaryQuery{
		Ownership: []store.Ownership{{}, {}, {Owner: "red"}, {None: true}}[h.random.IntN(4)], DueWithin: 2 * day24, EndOfLifeWithin: 10 * day24, Limit: store.MaxSummaryRows,
		Since: h.clock.Now().Add(-2 * day24),
	}
	reads[fmt.Sprintf("Summary %+v", query)] = func(f *fixture) (any, error) { return f.Summary(ctx, in, query) }
}
