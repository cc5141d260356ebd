package server

import (
	"context"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListCoverage answers a page of containers and how far their scan is.
func (o operations) ListCoverage(ctx context.Context, request api.ListCoverageRequestObject) (api.ListCoverageResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.CoverageQuery{
		Namespace: p.text("namespace", params.Namespace, maxName), Workload: p.text("workload", params.Workload, maxName),
		Ownership: p.ownership(params.Owner, params.NoOwner),
		Reason:    p.text("reason", params.Reason, maxWord), Text: p.text("text", params.Text, maxText),
		Page: p.page(params.PageToken, params.PageSize),
	}
	for _, state := range choices(&p, "state", params.State, maxCoverageStates,
		coverage.Scanned, coverage.Partial, coverage.Stale, coverage.Pending, coverage.Failed, coverage.Skipped) {
		query.States = append(query.States, string(state))
	}
	if p.err != nil {
		return nil, p.err
	}
	asCSV, err := wantsCSV(requestOf(ctx), params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportCoverage(ctx, query)
	}
	found, err := o.s.store.ListCoverage(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListCoverage200JSONResponse{
		Items: make([]api.ContainerCoverage, 0, len(found.Containers)), Total: found.Total, NextPageToken: optional(found.NextToken),
		Summary: toCoverageSummary(coverage.SummaryOf(found.Counts)),
	}
	for _, c := range found.Containers {
		answer.Items = append(answer.Items, toContainerCoverage(c))
	}
	return answer, nil
}

func (s *Server) exportCoverage(ctx context.Context, query store.CoverageQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.ContainerCoverage]{
		name: "coverage",
		columns: []string{
			"namespace", "kind", "name", "container", "state", "reason", "message", "reference", "image_id", "platform", "pods", "since", "next_attempt", "source",
			"owner",
		},
		page: func(ctx context.Context, page store.Page) ([]store.ContainerCoverage, string, int, error) {
			query.Page = page
			found, err := s.store.ListCoverage(ctx, visible(ctx), query)
			return found.Containers, found.NextToken, found.Total, err
		},
		row: func(c store.ContainerCoverage) []string {
			return []string{
				c.Workload.Namespace, c.Workload.Kind, c.Workload.Name, c.Container, c.State, c.Reason, c.Message, c.Reference,
				c.Image.ImageID, c.Image.Platform.String(), strconv.Itoa(c.Pods), timeCell(c.Since), timeCell(c.NextAttempt), string(c.Source),
				c.Workload.Owner,
			}
		},
	})
}

func toCoverageSummary(sum coverage.Summary) api.CoverageSummary {
	return api.CoverageSummary{
		Scanned: sum.Scanned, Partial: sum.Partial, Stale: sum.Stale, Pending: sum.Pending, Failed: sum.Failed, Skipped: sum.Skipped, Ratio: sum.Ratio(),
	}
}

func toContainerCoverage(c store.ContainerCoverage) api.ContainerCoverage {
	return api.ContainerCoverage{
		Workload: toWorkload(c.Workload), Container: c.Container, ImageId: c.Image.ImageID, Platform: c.Image.Platform.String(),
		Reference: c.Reference, Pods: c.Pods, State: api.CoverageState(c.State), Reason: optional(c.Reason), Message: optional(c.Message),
		NextAttempt: optionalTime(c.NextAttempt), Since: optionalTime(c.Since),
		Source: optional(api.ImageSource(c.Source)),
	}
}
