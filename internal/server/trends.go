package server

import (
	"context"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// defaultTrendDays is how many days are answered when none are asked for.
const defaultTrendDays = 30

// GetTrends answers sums by day.
func (o operations) GetTrends(ctx context.Context, request api.GetTrendsRequestObject) (api.GetTrendsResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.TrendQuery{From: day(params.From), To: day(params.To), Namespace: p.text("namespace", params.Namespace, maxName)}
	if params.To == nil {
		query.To = o.s.clock().UTC().Truncate(24 * time.Hour)
	}
	if params.From == nil {
		query.From = query.To.AddDate(0, 0, 1-defaultTrendDays)
	}
	switch days := int(query.To.Sub(query.From)/(24*time.Hour)) + 1; {
	case days < 1:
		p.refuse("from is later than to")
	case days > store.MaxTrendDays:
		p.refuse("the range has %d days, which exceeds the limit of %d", days, store.MaxTrendDays)
	}
	if p.err != nil {
		return nil, p.err
	}
	found, err := o.s.store.Trend(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.GetTrends200JSONResponse{
		From: openapi_types.Date{Time: query.From}, To: openapi_types.Date{Time: query.To}, Items: make([]api.TrendDay, 0, len(found)),
	}
	for _, d := range found {
		answer.Items = append(answer.Items, api.TrendDay{
			Day: openapi_types.Date{Time: d.Day}, Images: d.Images, Scanned: d.Scanned, Counts: toCounts(d.Counts),
			Opened: toSeverityCounts(d.Opened), Closed: toSeverityCounts(d.Closed), Databases: d.Databases, Rollouts: d.Rollouts,
		})
	}
	return answer, nil
}

func toSeverityCounts(c model.SeverityCounts) api.SeverityCounts {
	return api.SeverityCounts{
		Critical: c.Critical, High: c.High, Medium: c.Medium, Low: c.Low, Negligible: c.Negligible, Unknown: c.Unknown,
	}
}
