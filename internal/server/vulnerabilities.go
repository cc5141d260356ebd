package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListVulnerabilities answers a page of the vulnerabilities that some image has.
func (o operations) ListVulnerabilities(ctx context.Context, request api.ListVulnerabilitiesRequestObject) (api.ListVulnerabilitiesResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.VulnerabilityQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		Text:  p.text("text", params.Text, maxText), MinSeverity: p.severity(params.Severity), MinEPSS: p.probability("epss", params.Epss),
		Fixable: value(params.Fixable), KEV: value(params.Kev),
		Suppressed: value(params.Suppressed), Overdue: value(params.Overdue), DueBefore: value(params.DueBefore),
		Sort: choice(&p, "sort", params.Sort, store.SortVulnerabilityRisk, store.SortVulnerabilitySeverity, store.SortVulnerabilityEPSS, store.SortVulnerabilityID),
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
		return o.s.exportVulnerabilities(ctx, query)
	}
	found, err := o.s.store.ListVulnerabilities(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListVulnerabilities200JSONResponse{
		Items: make([]api.VulnerabilitySummary, 0, len(found.Vulnerabilities)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, v := range found.Vulnerabilities {
		answer.Items = append(answer.Items, toVulnerabilitySummary(v))
	}
	return answer, nil
}

func (s *Server) exportVulnerabilities(ctx context.Context, query store.VulnerabilityQuery) (*export, error) {
	query.Owners = true
	return csvExport(ctx, s, csvList[store.VulnerabilitySummary]{
		name:    "vulnerabilities",
		columns: []string{"vulnerability", "severity", "epss", "risk", "kev", "fixable", "images", "workloads", "packages", "first_seen", "owners"},
		page: func(ctx context.Context, page store.Page) ([]store.VulnerabilitySummary, string, int, error) {
			query.Page = page
			found, err := s.store.ListVulnerabilities(ctx, visible(ctx), query)
			return found.Vulnerabilities, found.NextToken, found.Total, err
		},
		row: func(v store.VulnerabilitySummary) []string {
			return []string{
				v.ID, v.Severity.String(), decimal(v.EPSS), decimal(v.Risk), yes(v.KEV), yes(v.Fixable),
				strconv.Itoa(v.Images), strconv.Itoa(v.Workloads), strconv.Itoa(v.Packages), timeCell(v.FirstSeen), ownersCell(v.Owners),
			}
		},
	})
}

// GetVulnerability answers what is known of one vulnerability.
func (o operations) GetVulnerability(ctx context.Context, request api.GetVulnerabilityRequestObject) (api.GetVulnerabilityResponseObject, error) {
	var p parameters
	id := p.identifier("vulnerability ID", request.Id, maxVulnerabilityID)
	if p.err != nil {
		return nil, p.err
	}
	records, err := o.s.store.VulnerabilityRecords(ctx, visible(ctx), id)
	if err != nil {
		return nil, unknownVulnerability(err)
	}
	affected, err := o.s.store.Affected(ctx, visible(ctx), store.AffectedQuery{ID: id, Page: store.Page{Size: 1}})
	if err != nil {
		return nil, unknownVulnerability(err)
	}
	answer := api.GetVulnerability200JSONResponse{
		Id: id, Records: make([]api.Vulnerability, 0, len(records)), Images: affected.Images, Workloads: affected.Workloads, Affected: affected.Total,
	}
	for _, record := range records {
		answer.Records = append(answer.Records, toVulnerability(record))
	}
	summary, found, err := o.s.vulnerabilitySummary(ctx, records)
	if err != nil {
		return nil, err
	}
	if found {
		summary.ID, summary.Images, summary.Workloads = id, affected.Images, affected.Workloads
		shown := toVulnerabilitySummary(summary)
		answer.Summary = &shown
	}
	return answer, nil
}

// vulnerabilitySummary sums up records of one vulnerability, which may have several IDs: those that are its aliases too.
func (s *Server) vulnerabilitySummary(ctx context.Context, records []model.Vulnerability) (store.VulnerabilitySummary, bool, error) {
	var sum store.VulnerabilitySummary
	found := false
	// They are ordered by ID.
	for i := range records {
		if i > 0 && records[i].ID == records[i-1].ID {
			continue
		}
		page, err := s.store.ListVulnerabilities(ctx, visible(ctx), store.VulnerabilityQuery{ID: records[i].ID, Page: store.Page{Size: 1}})
		if err != nil {
			return store.VulnerabilitySummary{}, false, err
		}
		for _, one := range page.Vulnerabilities {
			sum.Severity, sum.EPSS, sum.Risk = max(sum.Severity, one.Severity), max(sum.EPSS, one.EPSS), max(sum.Risk, one.Risk)
			sum.KEV, sum.Fixable = sum.KEV || one.KEV, sum.Fixable || one.Fixable
			sum.Packages += one.Packages
			if !found || one.FirstSeen.Before(sum.FirstSeen) {
				sum.FirstSeen = one.FirstSeen
			}
			found = true
		}
	}
	return sum, found, nil
}

// ListAffected answers a page of what has or had a vulnerability.
func (o operations) ListAffected(ctx context.Context, request api.ListAffectedRequestObject) (api.ListAffectedResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.AffectedQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)), ID: p.identifier("vulnerability ID", request.Id, maxVulnerabilityID),
		On: day(params.On), Closed: value(params.Closed), Suppressed: value(params.Suppressed), Page: p.page(params.PageToken, params.PageSize),
	}
	if query.Closed && params.On != nil {
		p.refuse("closed and on are mutually exclusive")
	}
	if p.err != nil {
		return nil, p.err
	}
	asCSV, err := wantsCSV(requestOf(ctx), params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportAffected(ctx, query)
	}
	found, err := o.s.store.Affected(ctx, visible(ctx), query)
	if err != nil {
		return nil, unknownVulnerability(err)
	}
	answer := api.ListAffected200JSONResponse{
		Items: make([]api.Affected, 0, len(found.Affected)), Total: found.Total, NextPageToken: optional(found.NextToken),
		Images: found.Images, Workloads: found.Workloads,
	}
	for _, a := range found.Affected {
		answer.Items = append(answer.Items, toAffected(a))
	}
	return answer, nil
}

func (s *Server) exportAffected(ctx context.Context, query store.AffectedQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.Affected]{
		name: "affected",
		columns: slices.Concat([]string{
			"vulnerability", "severity", "image_id", "platform", "package", "version", "type", "purl", "fix_state", "fixed_in", "first_seen", "fixed_at",
			"running", "exposed_since", "exposed_until", "workload_count", "workloads", "namespace", "suppressed",
		}, report.DecisionColumns, []string{"owners"}, report.DeadlineColumns),
		page: func(ctx context.Context, page store.Page) ([]store.Affected, string, int, error) {
			query.Page = page
			found, err := s.store.Affected(ctx, visible(ctx), query)
			return found.Affected, found.NextToken, found.Total, unknownVulnerability(err)
		},
		row: func(a store.Affected) []string {
			return slices.Concat([]string{
				a.VulnerabilityID, a.Severity.String(), a.Image.ImageID, a.Image.Platform.String(), a.Package.Name, a.Package.Version,
				a.Package.Type, a.Package.PURL, string(a.Fix.State), strings.Join(a.Fix.Versions, " "), timeCell(a.FirstSeen), timeCell(a.FixedAt),
				yes(a.Running), timeCell(a.ExposedSince), timeCell(a.ExposedUntil), strconv.Itoa(a.WorkloadCount), workloadsCell(a.Workloads), a.Namespace,
				yes(a.Suppressed),
			}, report.DecisionCells(a.Decisions), []string{ownersCell(a.Owners)}, report.DeadlineCells(a.Deadline))
		},
	})
}

func toVulnerabilitySummary(v store.VulnerabilitySummary) api.VulnerabilitySummary {
	return api.VulnerabilitySummary{
		Id: v.ID, Severity: api.Severity(v.Severity.String()), Epss: v.EPSS, Risk: v.Risk, Kev: v.KEV, Fixable: v.Fixable,
		Images: v.Images, Workloads: v.Workloads, Packages: v.Packages, FirstSeen: optionalTime(v.FirstSeen),
	}
}

func toAffected(a store.Affected) api.Affected {
	return api.Affected{
		ImageId: a.Image.ImageID, Platform: a.Image.Platform.String(), Package: toPackage(a.Package),
		VulnerabilityId: a.VulnerabilityID, Namespace: a.Namespace, Severity: api.Severity(a.Severity.String()), Fix: toFix(a.Fix),
		FirstSeen: optionalTime(a.FirstSeen), FixedAt: optionalTime(a.FixedAt), Running: a.Running,
		ExposedSince: optionalTime(a.ExposedSince), ExposedUntil: optionalTime(a.ExposedUntil),
		Workloads: toWorkloads(a.Workloads), WorkloadCount: a.WorkloadCount, Suppressed: optional(a.Suppressed), Decisions: toDecisions(a.Decisions),
		Due: toDeadline(a.Deadline), Owners: optionalList(a.Owners),
	}
}

// exportFormats are those of what tells of findings.
var exportFormats = []report.Format{
	report.FormatJSON, report.FormatCycloneDX, report.FormatSPDX, report.FormatSARIF, report.FormatCSV, report.FormatOpenVEX, report.FormatCycloneDXVEX,
}

// unknownVulnerability says what was not found.
func unknownVulnerability(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return problem.New(http.StatusNotFound, "no current or past finding has a vulnerability with this ID or alias")
	}
	return err
}
