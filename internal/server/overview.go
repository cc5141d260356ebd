package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
)

// GetOverviewChanges answers how many vulnerabilities of what runs were opened and closed since a time.
func (o operations) GetOverviewChanges(ctx context.Context, request api.GetOverviewChangesRequestObject) (api.GetOverviewChangesResponseObject, error) {
	var p parameters
	since, err := summary.ParseSince(p.text("since", request.Params.Since, maxSince), o.s.clock())
	if err != nil {
		p.refuse("since %v", err)
	}
	if p.err != nil {
		return nil, p.err
	}
	release, err := o.s.reportSlot(ctx) // It reads what a report does.
	if err != nil {
		return nil, err
	}
	defer release()
	sums, err := o.s.store.ChangesSince(ctx, visible(ctx), since)
	if err != nil {
		return nil, err
	}
	answer := api.GetOverviewChanges200JSONResponse{Since: since, Opened: toSeverityCounts(sums.Opened), Closed: toSeverityCounts(sums.Closed)}
	if !sums.KnownSince.IsZero() {
		answer.KnownSince = &sums.KnownSince
	}
	return answer, nil
}

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
		Counts: toCounts(overview.Counts), RunningCounts: toCounts(overview.RunningCounts), Suppressed: &overview.Suppressed, Packages: overview.Packages, Running: &overview.Running,
	}
	answer.Images.Pending = overview.Images[store.StatePending]
	answer.Images.Failed = overview.Images[store.StateFailed]
	answer.Images.Cataloged = overview.Images[store.StateCataloged]
	answer.Images.Scanned = overview.Images[store.StateScanned]
	answer.Images.Reported = overview.Images[store.StateReported]
	if len(containers.Counts) > 0 {
		covered := toCoverageSummary(coverage.SummaryOf(containers.Counts))
		answer.Coverage = &covered
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
