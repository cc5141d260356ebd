package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// toBase is nil for an image that shares no layers with another one and states no base image.
func toBase(base store.Base) *api.BaseImage {
	if base == (store.Base{}) {
		return nil
	}
	id, platform := toBaseKey(base.Image)
	return &api.BaseImage{
		Layers: optional(base.Layers), ChainId: optional(base.ChainID), Source: optional(api.BaseSource(base.Source)), ImageId: id, Platform: platform,
		StatedName: optional(base.Stated.Name), StatedDigest: optional(base.Stated.Digest),
	}
}

// toBaseKey is nil for a base image that is no known image.
func toBaseKey(key model.ImageKey) (id, platform *string) {
	if key == (model.ImageKey{}) {
		return nil, nil
	}
	return optional(key.ImageID), optional(key.Platform.String())
}

// ListBases answers a page of the base images of images.
func (o operations) ListBases(ctx context.Context, request api.ListBasesRequestObject) (api.ListBasesResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.BaseQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		Sort:  choice(&p, "sort", params.Sort, store.SortBaseImages, store.SortBaseSeverity),
		Page:  p.page(params.PageToken, params.PageSize),
	}
	if p.err != nil {
		return nil, p.err
	}
	asCSV, err := wantsCSV(requestOf(ctx), params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportBases(ctx, query)
	}
	found, err := o.s.store.ListBases(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListBases200JSONResponse{
		Items: make([]api.BaseSummary, 0, len(found.Bases)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Bases {
		answer.Items = append(answer.Items, toBaseSummary(&found.Bases[i]))
	}
	listed := make([]api.ListedBase, len(found.Listed))
	for i, entry := range found.Listed {
		listed[i] = api.ListedBase{Pattern: entry.Pattern, Images: entry.Images}
	}
	answer.Listed = optionalList(listed)
	return answer, nil
}

func toBaseSummary(base *store.BaseSummary) api.BaseSummary {
	out := api.BaseSummary{
		ChainId: base.ChainID, Layers: base.Layers, Source: api.BaseSource(base.Source), StatedName: optional(base.StatedName),
		Images: base.Images, Scanned: base.Scanned, Workloads: base.Workloads, Counts: toCounts(base.Counts),
	}
	out.ImageId, out.Platform = toBaseKey(base.Image)
	if base.Matched {
		out.ImageCounts = new(toCounts(base.ImageCounts))
	}
	return out
}

func (s *Server) exportBases(ctx context.Context, query store.BaseQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.BaseSummary]{
		name:    "base-images",
		columns: slices.Concat([]string{"chain_id", "layers", "image_id", "platform", "stated_name", "images", "scanned"}, countColumns, []string{"workloads", "source"}),
		page: func(ctx context.Context, page store.Page) ([]store.BaseSummary, string, int, error) {
			query.Page = page
			found, err := s.store.ListBases(ctx, visible(ctx), query)
			return found.Bases, found.NextToken, found.Total, err
		},
		row: func(base store.BaseSummary) []string {
			id, platform := toBaseKey(base.Image)
			cells := []string{base.ChainID, strconv.Itoa(base.Layers), value(id), value(platform), base.StatedName, strconv.Itoa(base.Images), strconv.Itoa(base.Scanned)}
			return append(append(cells, countCells(base.Counts)...), strconv.Itoa(base.Workloads), string(base.Source))
		},
	})
}
