package server

import (
	"context"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListExposures answers a page of the workloads that run or ran images with a vulnerability.
func (o operations) ListExposures(ctx context.Context, request api.ListExposuresRequestObject) (api.ListExposuresResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.ExposureQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)), ID: p.identifier("vulnerability ID", request.Id, maxVulnerabilityID),
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
		return o.s.exportExposures(ctx, query)
	}
	found, err := o.s.store.Exposures(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListExposures200JSONResponse{
		Items: make([]api.WorkloadExposures, 0, len(found.Workloads)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Workloads {
		answer.Items = append(answer.Items, toWorkloadExposures(&found.Workloads[i]))
	}
	return answer, nil
}

func toWorkloadExposures(w *store.WorkloadExposures) api.WorkloadExposures {
	out := api.WorkloadExposures{
		Workload: toWorkload(w.Workload), Since: w.Since.UTC(), Exposures: make([]api.Exposure, len(w.Exposures)), ExposureCount: w.ExposureCount,
		Images: make([]api.ImageName, len(w.Images)), ImageCount: w.ImageCount, Packages: w.Packages, PackageCount: w.PackageCount, Suppressed: optional(w.Suppressed),
	}
	for i, one := range w.Exposures {
		out.Exposures[i] = api.Exposure{Since: one.Since.UTC(), Until: optionalTime(one.Until), End: optional(api.ExposureEnd(one.End))}
	}
	for i, key := range w.Images {
		out.Images[i] = api.ImageName{ImageId: key.ImageID, Platform: key.Platform.String()}
	}
	return out
}

// exportExposures writes a row per workload, with the end of its last exposure.
func (s *Server) exportExposures(ctx context.Context, query store.ExposureQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.WorkloadExposures]{
		name: "exposures",
		columns: []string{
			"vulnerability", "namespace", "kind", "workload", "owner", "since", "until", "end", "exposure_count", "image_count", "images", "package_count", "packages", "suppressed",
		},
		page: func(ctx context.Context, page store.Page) ([]store.WorkloadExposures, string, int, error) {
			query.Page = page
			found, err := s.store.Exposures(ctx, visible(ctx), query)
			return found.Workloads, found.NextToken, found.Total, err
		},
		row: func(e store.WorkloadExposures) []string {
			images := make([]string, len(e.Images))
			for i := range e.Images {
				images[i] = e.Images[i].ImageID
			}
			var last store.Exposure
			if n := len(e.Exposures); n > 0 {
				last = e.Exposures[n-1]
			}
			w := &e.Workload
			return []string{
				query.ID, w.Namespace, w.Kind, w.Name, w.Owner, timeCell(e.Since), timeCell(last.Until), string(last.End), strconv.Itoa(e.ExposureCount),
				strconv.Itoa(e.ImageCount), strings.Join(images, " "), strconv.Itoa(e.PackageCount), strings.Join(e.Packages, " "), yes(e.Suppressed),
			}
		},
	})
}
