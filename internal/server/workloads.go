package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListWorkloads answers a page of the workloads that run images.
func (o operations) ListWorkloads(ctx context.Context, request api.ListWorkloadsRequestObject) (api.ListWorkloadsResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.WorkloadQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		Text:  p.text("text", params.Text, maxText), MinSeverity: p.severity(params.Severity), KEV: value(params.Kev), Fixable: value(params.Fixable),
		Overdue: value(params.Overdue), Base: p.chainID("base", params.Base), BaseLayers: p.baseLayers(params.Base, params.BaseLayers),
		Sort: choice(&p, "sort", params.Sort, store.SortWorkloadName, store.SortWorkloadSeverity),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if p.err != nil {
		return nil, p.err
	}
	asCSV, err := wantsCSV(requestOf(ctx), params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportWorkloads(ctx, query)
	}
	found, err := o.s.store.ListWorkloads(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListWorkloads200JSONResponse{
		Items: make([]api.WorkloadSummary, 0, len(found.Workloads)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, w := range found.Workloads {
		answer.Items = append(answer.Items, toWorkloadSummary(w))
	}
	return answer, nil
}

func (s *Server) exportWorkloads(ctx context.Context, query store.WorkloadQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.WorkloadSummary]{
		name:    "workloads",
		columns: slices.Concat([]string{"namespace", "kind", "name", "images", "scanned", "containers"}, countColumns, []string{"since", "owner", "overdue"}),
		page: func(ctx context.Context, page store.Page) ([]store.WorkloadSummary, string, int, error) {
			query.Page = page
			found, err := s.store.ListWorkloads(ctx, visible(ctx), query)
			return found.Workloads, found.NextToken, found.Total, err
		},
		row: func(w store.WorkloadSummary) []string {
			cells := []string{
				w.Workload.Namespace, w.Workload.Kind, w.Workload.Name, strconv.Itoa(w.ImageCount), strconv.Itoa(w.Scanned), strconv.Itoa(w.Containers),
			}
			return append(append(cells, countCells(w.Counts)...), timeCell(w.Since), w.Workload.Owner, strconv.Itoa(w.Overdue))
		},
	})
}

func toWorkloadSummary(w store.WorkloadSummary) api.WorkloadSummary {
	out := api.WorkloadSummary{
		Workload: toWorkload(w.Workload), Images: make([]api.ImageName, 0, len(w.Images)), ImageCount: w.ImageCount, Scanned: w.Scanned,
		Containers: w.Containers, Counts: toCounts(w.Counts), Overdue: optional(w.Overdue), Since: optionalTime(w.Since),
	}
	for _, key := range w.Images {
		out.Images = append(out.Images, api.ImageName{ImageId: key.ImageID, Platform: key.Platform.String()})
	}
	return out
}

func toWorkload(w store.Workload) api.Workload {
	return api.Workload{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Owner: optional(w.Owner)}
}

func toWorkloads(list []store.Workload) []api.Workload {
	out := make([]api.Workload, 0, len(list))
	for _, w := range list {
		out = append(out, toWorkload(w))
	}
	return out
}
