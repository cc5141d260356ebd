package server

import (
	"context"
	"encoding/json"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// ListFindings answers a page of the findings of one image.
func (o operations) ListFindings(ctx context.Context, request api.ListFindingsRequestObject) (api.ListFindingsResponseObject, error) {
	query, err := findingQuery(request.ImageId, request.Params)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(requestOf(ctx), request.Params.Format, exportFormats...)
	if err != nil {
		return nil, err
	}
	if format != report.FormatJSON {
		return o.s.exportFindings(ctx, query, format)
	}
	query.Described = true
	findings, err := o.s.store.Findings(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListFindings200JSONResponse{
		Items: make([]api.Finding, 0, len(findings.Findings)), Total: findings.Total, NextPageToken: optional(findings.NextToken),
	}
	for _, f := range findings.Findings {
		item := toFinding(f)
		item.Owners = optionalList(findings.Owners)
		answer.Items = append(answer.Items, item)
	}
	return answer, nil
}

func toFinding(f model.Finding) api.Finding {
	out := api.Finding{
		Package:       toPackage(f.Package),
		Vulnerability: toVulnerability(f.Vulnerability),
		Fix:           toFix(f.Fix),
		Details:       make([]api.MatchDetail, 0, len(f.Details)),
		Locations:     toLocations(f.Locations),
		FirstSeen:     optionalTime(f.FirstSeen), FixedAt: optionalTime(f.FixedAt),
		Suppressed: optional(f.Suppressed), Decisions: toDecisions(f.Decisions), Due: toDeadline(f.Deadline),
		Origin: optional(api.Origin(f.Origin)),
	}
	for _, d := range f.Details {
		out.Details = append(out.Details, api.MatchDetail{
			Type: d.Type, Matcher: d.Matcher, SearchedBy: toObject(d.SearchedBy), Found: toObject(d.Found),
		})
	}
	return out
}

func toLocations(locations []model.Location) []api.Location {
	out := make([]api.Location, 0, len(locations))
	for _, l := range locations {
		out = append(out, api.Location{Path: l.Path, Layer: optional(l.Layer)})
	}
	return out
}

// toDecisions has the authors as far as the store tells them: of decisions of the whole cluster only to those who see all namespaces.
func toDecisions(decisions []model.Decision) *api.Decisions {
	out := make(api.Decisions, 0, len(decisions))
	for i := range decisions {
		d := &decisions[i]
		out = append(out, api.Decision{
			Status: api.DecisionStatus(d.Status), Suppresses: d.Suppresses, Justification: optional(d.Justification), Comment: optional(d.Comment),
			Author: optional(d.Author), Since: d.Since, ExpiresAt: optionalTime(d.ExpiresAt),
			Object: api.DecisionObject{Kind: d.Kind, Namespace: optional(d.Namespace), Name: d.Name},
		})
	}
	return optionalList(out)
}

func toFix(fix model.Fix) api.Fix {
	return api.Fix{State: toFixState(fix.State), Versions: optionalList(fix.Versions)}
}

func toPackage(p model.Package) api.Package {
	return api.Package{
		Id: p.Fingerprint, Name: p.Name, Version: p.Version, Type: p.Type,
		Language: optional(p.Language), Purl: optional(p.PURL), Distro: optional(p.Distro),
		Licenses: optionalList(p.Licenses), Cpes: optionalList(p.CPEs),
	}
}

// toObject leaves out what is not a JSON object.
func toObject(raw json.RawMessage) *json.RawMessage {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	return &raw
}

func toVulnerability(v model.Vulnerability) api.Vulnerability {
	out := api.Vulnerability{
		Id: v.ID, Namespace: v.Namespace, Severity: api.Severity(v.Severity.String()), Risk: v.Risk,
		Aliases: optionalList(v.Aliases), Description: optional(v.Description), DataSource: optional(v.DataSource),
		Urls: optionalList(v.URLs), Cwes: optionalList(v.CWEs),
	}
	cvss := make([]api.CVSS, 0, len(v.CVSS))
	for _, c := range v.CVSS {
		cvss = append(cvss, api.CVSS{Version: c.Version, Vector: c.Vector, Score: c.Score, Source: optional(c.Source), Type: optional(c.Type)})
	}
	out.Cvss = optionalList(cvss)
	if e := v.EPSS; e != nil {
		out.Epss = &api.EPSS{Cve: optional(e.CVE), Score: e.Score, Percentile: e.Percentile, Date: optional(e.Date)}
	}
	kev := make([]api.KnownExploited, 0, len(v.KEV))
	for _, k := range v.KEV {
		kev = append(kev, api.KnownExploited{
			Cve: optional(k.CVE), VendorProject: optional(k.VendorProject), Product: optional(k.Product),
			DateAdded: optional(k.DateAdded), DueDate: optional(k.DueDate),
			RequiredAction: optional(k.RequiredAction), KnownRansomwareUse: optional(k.KnownRansomwareUse),
		})
	}
	out.Kev = optionalList(kev)
	return out
}
