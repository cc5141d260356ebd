package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// GetOverview answers the totals over all images.
func (o operations) GetOverview(ctx context.Context, _ api.GetOverviewRequestObject) (api.GetOverviewResponseObject, error) {
	overview, err := o.s.store.Overview(ctx, visible(ctx))
	if err != nil {
		return nil, err
	}
	current, found, err := o.s.store.ShownResultSet(ctx, visible(ctx))
	if err != nil {
		return nil, err
	}
	containers, err := o.s.store.ListCoverage(ctx, visible(ctx), store.CoverageQuery{Page: store.Page{Size: 1}})
	if err != nil {
		return nil, err
	}
	answer := api.GetOverview200JSONResponse{
		Counts: toCounts(overview.Counts), Suppressed: &overview.Suppressed, Packages: overview.Packages, Running: &overview.Running,
	}
	answer.Images.Pending = overview.Images[store.StatePending]
	answer.Images.Failed = overview.Images[store.StateFailed]
	answer.Images.Cataloged = overview.Images[store.StateCataloged]
	answer.Images.Scanned = overview.Images[store.StateScanned]
	answer.Images.Reported = overview.Images[store.StateReported]
	if len(containers.Counts) > 0 {
		summary := toCoverageSummary(coverage.SummaryOf(containers.Counts))
		answer.Coverage = &summary
	}
	if found {
		answer.Database = toBuild(&current.Build)
	}
	if found && current.PreviousBuild != "" {
		changes := toChangeCounts(current.Changes)
		answer.Changes = &changes
	}
	if update := o.s.databaseUpdate(); update != nil {
		answer.DatabaseStale = &update.Stale
	}
	return answer, nil
}
