package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// ListPolicies answers the policies that apply, with what is due because of them.
func (o operations) ListPolicies(ctx context.Context, _ api.ListPoliciesRequestObject) (api.ListPoliciesResponseObject, error) {
	policies, err := o.s.store.ListPolicies(ctx, visible(ctx))
	if err != nil {
		return nil, err
	}
	answer := api.ListPolicies200JSONResponse{Items: make([]api.PolicySummary, 0, len(policies))}
	for i := range policies {
		p := &policies[i]
		answer.Items = append(answer.Items, api.PolicySummary{
			Name: p.Name, Select: optional(p.Select), From: api.PolicySummaryFrom(p.From),
			DueIn: api.DueIn{Critical: p.DueIn.Critical, High: p.DueIn.High, Medium: p.DueIn.Medium, Low: p.DueIn.Low, Kev: p.DueIn.KEV},
			Due:   toSeverityCounts(p.Due), Overdue: toSeverityCounts(p.Overdue), Next: optionalTime(p.Next),
		})
	}
	return answer, nil
}

// toDeadline is until when a finding is due, nil if it is not.
func toDeadline(d *model.Deadline) *api.Deadline {
	if d == nil {
		return nil
	}
	return &api.Deadline{At: d.At, Overdue: d.Overdue, Policy: d.Policy}
}
