package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// GetOverview answers the totals over all images.
func (o operations) GetOverview(ctx context.Context, _ api.GetOverviewRequestObject) (api.GetOverviewResponseObject, error) {
	overview, err := o.s.config.Store.Overview(ctx)
	if err != nil {
		return nil, err
	}
	databases, err := o.s.config.Store.Databases(ctx)
	if err != nil {
		return nil, err
	}
	answer := api.GetOverview200JSONResponse{Counts: toCounts(overview.Counts), Packages: overview.Packages}
	answer.Images.Pending = overview.Images[store.StatePending]
	answer.Images.Failed = overview.Images[store.StateFailed]
	answer.Images.Catalogued = overview.Images[store.StateCatalogued]
	answer.Images.Scanned = overview.Images[store.StateScanned]
	answer.Images.Reported = overview.Images[store.StateReported]
	if len(databases) > 0 {
		answer.Database = toBuild(&databases[0].DatabaseBuild)
	}
	return answer, nil
}
