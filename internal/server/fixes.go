package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
)

// ListFixes answers a page of what people can do about findings.
func (o operations) ListFixes(ctx context.Context, request api.ListFixesRequestObject) (api.ListFixesResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.FixQuery{
		Where:   p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		ImageID: p.imageID(params.ImageId), KEV: value(params.Kev), Overdue: value(params.Overdue),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if params.Action != nil {
		query.Kind = choice(&p, "action", params.Action, store.FixUpdate, store.FixRebuild, store.FixNewerTag, store.FixNewerBase, store.FixWait)
	}
	if p.err != nil {
		return nil, p.err
	}
	asCSV, err := wantsCSV(requestOf(ctx), params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportFixes(ctx, query)
	}
	found, err := o.s.store.ListFixes(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListFixes200JSONResponse{
		Items: make([]api.FixItem, 0, len(found.Fixes)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Fixes {
		answer.Items = append(answer.Items, o.s.toFixItem(&found.Fixes[i]))
	}
	return answer, nil
}

func (s *Server) exportFixes(ctx context.Context, query store.FixQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.Fix]{
		name: "fixes",
		columns: slices.Concat([]string{"action", "summary", "image_id", "platform", "package", "version", "fix_version"}, countColumns,
			[]string{"overdue", "risk", "packages", "workloads", "owners", "tag", "newer_tag", "opened", "workload_count"}),
		page: func(ctx context.Context, page store.Page) ([]store.Fix, string, int, error) {
			query.Page = page
			found, err := s.store.ListFixes(ctx, visible(ctx), query)
			return found.Fixes, found.NextToken, found.Total, err
		},
		row: func(fix store.Fix) []string {
			item := s.toFixItem(&fix)
			cells := []string{string(item.Action), item.Summary, item.ImageId, item.Platform, "", "", ""}
			if fix.Kind == store.FixUpdate && len(item.Packages) > 0 {
				one := item.Packages[0]
				cells[4], cells[5], cells[6] = one.Name, one.Version, value(one.FixVersion)
			}
			cells = append(append(cells, countCells(fix.Counts)...), strconv.Itoa(fix.Overdue), decimal(fix.Risk), strconv.Itoa(fix.PackageCount),
				workloadsCell(fix.Workloads), ownersCell(fix.Owners))
			if item.NewerTag == nil {
				cells = append(cells, "", "", "")
			} else {
				cells = append(cells, item.NewerTag.From, item.NewerTag.To, strconv.Itoa(fix.NewerTag.Opened.Total()))
			}
			return append(cells, strconv.Itoa(fix.WorkloadCount))
		},
	})
}

func (s *Server) toFixItem(fix *store.Fix) api.FixItem {
	item := api.FixItem{
		Action: api.FixAction(fix.Kind), ImageId: fix.Image.ImageID, Platform: fix.Image.Platform.String(), Counts: toCounts(fix.Counts), Overdue: fix.Overdue,
		Risk: fix.Risk, Packages: make([]api.FixItemPackage, 0, len(fix.Packages)), PackageCount: fix.PackageCount,
		Workloads: toWorkloads(fix.Workloads), WorkloadCount: fix.WorkloadCount, Owners: optionalList(fix.Owners),
	}
	version := "" // That of the first package, which is the only one of an update.
	for i := range fix.Packages {
		one := &fix.Packages[i]
		fixed := summary.FixVersion(one, s.config.Versions)
		if i == 0 {
			version = fixed
		}
		item.Packages = append(item.Packages, api.FixItemPackage{
			Id: one.Package.Fingerprint, Name: one.Package.Name, Version: one.Package.Version, Type: one.Package.Type, Purl: optional(one.Package.PURL), FixVersion: optional(fixed),
			Counts: toCounts(one.Counts), Risk: one.Risk, Vulnerabilities: optionalList(one.Vulnerabilities),
		})
	}
	if tag := fix.NewerTag; tag != nil {
		item.NewerTag = &api.FixItemTag{
			Lookup: tag.Lookup, From: tag.Repository + ":" + tag.From, To: tag.Repository + ":" + tag.Tag, Kind: api.FixItemTagKind(tag.Kind), Digest: optional(tag.Digest),
			Opened: toSeverityCounts(tag.Opened), OpenedFindings: toRolloutFindings(tag.OpenedFindings),
		}
	}
	if fix.Kind == store.FixNewerBase {
		item.Base = &api.FixItemBase{ImageId: fix.Base.ImageID, Platform: fix.Base.Platform.String()}
	}
	item.Summary = summary.Action(fix, version)
	return item
}
