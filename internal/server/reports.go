package server

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
)

// formatHTML is the format of pages for people.
const formatHTML report.Format = "html"

// maxSince bounds the text of a period.
const maxSince = 40

// reportAnswer is a report in one of its formats: a page, or data.
type reportAnswer struct {
	s      *Server
	report *summary.Report
	html   bool
}

// GetClusterReport answers a report about all that the caller may see.
func (o operations) GetClusterReport(ctx context.Context, request api.GetClusterReportRequestObject) (api.GetClusterReportResponseObject, error) {
	return o.s.summaryReport(ctx, summary.Scope{Kind: summary.Cluster}, request.Params.Since, request.Params.Format)
}

// GetNamespaceReport answers a report about a namespace.
func (o operations) GetNamespaceReport(ctx context.Context, request api.GetNamespaceReportRequestObject) (api.GetNamespaceReportResponseObject, error) {
	var p parameters
	scope := summary.Scope{Kind: summary.Namespace, Name: p.text("namespace", &request.Namespace, maxName)}
	if p.err != nil {
		return nil, p.err
	}
	return o.s.summaryReport(ctx, scope, request.Params.Since, (*api.GetClusterReportParamsFormat)(request.Params.Format))
}

// GetOwnerReport answers a report about the workloads of an owner.
func (o operations) GetOwnerReport(ctx context.Context, request api.GetOwnerReportRequestObject) (api.GetOwnerReportResponseObject, error) {
	var p parameters
	scope := summary.Scope{Kind: summary.Owner, Name: p.text("owner", &request.Owner, store.MaxOwner)}
	if p.err != nil {
		return nil, p.err
	}
	return o.s.summaryReport(ctx, scope, request.Params.Since, (*api.GetClusterReportParamsFormat)(request.Params.Format))
}

// summaryReport makes a report. Who asks for a namespace or an owner of which nothing is visible learns nothing else.
func (s *Server) summaryReport(ctx context.Context, scope summary.Scope, since *string, explicit *api.GetClusterReportParamsFormat) (*reportAnswer, error) {
	var p parameters
	now := s.clock()
	start, err := summary.ParseSince(p.text("since", since, maxSince), now)
	if err != nil {
		p.refuse("since %v", err)
	}
	if p.err != nil {
		return nil, p.err
	}
	format, err := formatOf(requestOf(ctx), explicit, report.FormatJSON, formatHTML)
	if err != nil {
		return nil, err
	}
	made, err := summary.Collect(ctx, s.store, visible(ctx), scope, start, now)
	if err != nil {
		return nil, err
	}
	if scope.Kind != summary.Cluster && made.Empty() {
		return nil, problem.New(http.StatusNotFound, "nothing is known of this %s, or you may not see it", strings.ToLower(string(scope.Kind)))
	}
	return &reportAnswer{s, made, format == formatHTML}, nil
}

// VisitGetClusterReportResponse writes the answer.
func (a *reportAnswer) VisitGetClusterReportResponse(w http.ResponseWriter) error { return a.answer(w) }

// VisitGetNamespaceReportResponse writes the answer.
func (a *reportAnswer) VisitGetNamespaceReportResponse(w http.ResponseWriter) error {
	return a.answer(w)
}

// VisitGetOwnerReportResponse writes the answer.
func (a *reportAnswer) VisitGetOwnerReportResponse(w http.ResponseWriter) error { return a.answer(w) }

func (a *reportAnswer) answer(w http.ResponseWriter) error {
	if !a.html {
		return api.GetClusterReport200JSONResponse(a.s.toSummaryReport(a.report)).VisitGetClusterReportResponse(w)
	}
	options := summary.PageOptions{Version: a.s.config.Version, Versions: a.s.config.Versions}
	if a.s.config.Origin != "" {
		options.URL = a.s.config.Origin + strings.TrimSuffix(a.s.config.BasePath, "/")
	}
	var page bytes.Buffer
	if err := summary.WritePage(&page, a.report, options); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", summary.Policy+"; frame-ancestors 'none'; sandbox allow-popups")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(page.Len()))
	h.Set("Content-Disposition", `inline; filename="`+a.report.FileName()+`"`)
	w.WriteHeader(http.StatusOK)
	_, err := page.WriteTo(w)
	return err
}

func (s *Server) toSummaryReport(r *summary.Report) api.SummaryReport {
	out := api.SummaryReport{
		At: r.At.UTC(), Since: r.Since, KnownSince: optionalTime(r.KnownSince), Limited: r.Limited,
		Workloads: r.Workloads, Images: r.Images, Scanned: r.Scanned, Counts: toCounts(r.Counts),
		Opened: toReportVulnerabilities(r.Opened), Closed: toReportVulnerabilities(r.Closed), Exploited: toReportVulnerabilities(r.Exploited),
		Overdue: toReportDueFindings(r.Overdue), DueSoon: toReportDueFindings(r.DueSoon),
		Coverage: toCoverageSummary(r.Coverage), Uncovered: make([]api.ContainerCoverage, 0, len(r.Uncovered)), UncoveredTotal: r.UncoveredTotal,
		ExpiringExceptions: make([]api.ReportException, 0, len(r.Expiring)), ExpiringExceptionsTotal: r.ExpiringTotal,
		EndOfLife: make([]api.ReportEndOfLife, 0, len(r.EndOfLife)), EndOfLifeTotal: r.EndOfLifeTotal, Fixes: make([]api.FixItem, 0, len(r.Fixes)),
	}
	out.Scope.Kind, out.Scope.Name = api.SummaryReportScopeKind(r.Scope.Kind), optional(r.Scope.Name)
	if r.Database != nil {
		out.Database = toBuild(r.Database)
	}
	if b := r.Before; b != nil {
		out.Before = &struct {
			Counts api.Counts         `json:"counts"`
			Day    openapi_types.Date `json:"day"`
		}{toCounts(b.Counts), openapi_types.Date{Time: b.Day}}
	}
	for _, c := range r.Uncovered {
		out.Uncovered = append(out.Uncovered, toContainerCoverage(c))
	}
	for i := range r.Expiring {
		e := &r.Expiring[i]
		out.ExpiringExceptions = append(out.ExpiringExceptions, api.ReportException{
			Object: api.DecisionObject{Kind: e.Object.Kind, Namespace: optional(e.Object.Namespace), Name: e.Object.Name},
			Status: api.DecisionStatus(e.Status), Vulnerabilities: append([]string{}, e.Vulnerabilities...), ExpiresAt: e.ExpiresAt.UTC(), MatchedFindings: e.Matched,
		})
	}
	for _, i := range r.EndOfLife {
		out.EndOfLife = append(out.EndOfLife, api.ReportEndOfLife{
			ImageId: i.Image.ImageID, Platform: i.Image.Platform.String(), Distribution: i.Distro, EndOfLife: openapi_types.Date{Time: i.EndOfLife.Truncate(24 * time.Hour)},
		})
	}
	for i := range r.Fixes {
		out.Fixes = append(out.Fixes, s.toFixItem(&r.Fixes[i]))
	}
	return out
}

func toReportVulnerabilities(list store.ChangedVulnerabilities) api.ReportVulnerabilities {
	out := api.ReportVulnerabilities{Counts: toSeverityCounts(list.Counts), Worst: make([]api.ReportVulnerability, 0, len(list.Worst))}
	for _, v := range list.Worst {
		one := api.ReportVulnerability{Id: v.ID, Severity: api.Severity(v.Severity.String()), Kev: v.KEV}
		if v.Images > 0 {
			one.Fixable, one.Images, one.Workloads, one.Packages = &v.Fixable, &v.Images, &v.Workloads, optionalList(v.Packages)
		}
		out.Worst = append(out.Worst, one)
	}
	return out
}

func toReportDueFindings(list store.DueFindings) api.ReportDueFindings {
	out := api.ReportDueFindings{Counts: toSeverityCounts(list.Counts), First: make([]api.ReportDueFinding, 0, len(list.First))}
	for _, d := range list.First {
		out.First = append(out.First, api.ReportDueFinding{
			VulnerabilityId: d.VulnerabilityID, Severity: api.Severity(d.Severity.String()), Package: d.Package, Version: d.Version,
			FixVersions: append([]string{}, d.Fixes...), DueAt: d.DueAt.UTC(), Policy: d.Policy, Images: d.Images,
		})
	}
	return out
}
