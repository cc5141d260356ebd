package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Versions compares versions of packages by the rules of their type.
type Versions interface {
	// Constraint says what is wrong with a constraint such as "<2.17" or ">=1.0, <2.17", nil when nothing is.
	Constraint(text string) error
	// Satisfies reports whether a version satisfies a constraint. An error says that the two cannot be compared.
	Satisfies(packageType, version, constraint string) (bool, error)
	// Compare orders versions. An error says that the two cannot be compared.
	Compare(packageType, a, b string) (int, error)
}

// ListPackages answers a page of the distinct packages that images hold.
func (o operations) ListPackages(ctx context.Context, request api.ListPackagesRequestObject) (api.ListPackagesResponseObject, error) {
	query, err := o.s.packageQuery(request.Params)
	if err != nil {
		return nil, err
	}
	asCSV, err := wantsCSV(requestOf(ctx), request.Params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportPackages(ctx, query)
	}
	found, err := o.s.store.ListPackages(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListPackages200JSONResponse{
		Items: make([]api.PackageSummary, 0, len(found.Packages)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, p := range found.Packages {
		answer.Items = append(answer.Items, toPackageSummary(p))
	}
	return answer, nil
}

func toPackageSummary(p store.PackageSummary) api.PackageSummary {
	return api.PackageSummary{
		Package: toPackage(p.Package), Counts: toCounts(p.Counts), Images: p.Images, ImageIds: append([]string{}, p.ImageIDs...), Workloads: p.Workloads,
	}
}

// packageQuery reads the parameters of a list of packages.
func (s *Server) packageQuery(params api.ListPackagesParams) (store.PackageQuery, error) {
	var p parameters
	query := store.PackageQuery{
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		Name:  p.text("name", params.Name, maxPackageName), Text: p.text("text", params.Text, maxText), Type: p.text("type", params.Type, maxWord),
		VersionText: p.text("version", params.Version, maxConstraint), ImageID: p.imageID(params.ImageId),
		MinSeverity: p.severity(params.Severity), Vulnerable: value(params.Vulnerable),
		Overdue: value(params.Overdue), DueBefore: value(params.DueBefore),
		Sort: choice(&p, "sort", params.Sort, store.SortPackageName, store.SortPackageSeverity),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if p.err != nil || params.Version == nil {
		return query, p.err
	}
	versions := s.config.Versions
	switch {
	case versions == nil:
		return query, problem.New(http.StatusNotImplemented, "comparing versions is not available in this process")
	case query.Name == "":
		return query, problem.BadRequest("version requires name, the full name of the package")
	}
	if err := versions.Constraint(query.VersionText); err != nil {
		return query, problem.BadRequest("version: %v", err)
	}
	query.Version = func(packageType, version string) bool {
		satisfied, err := versions.Satisfies(packageType, version, query.VersionText)
		return err == nil && satisfied // what cannot be compared does not satisfy
	}
	return query, nil
}

func (s *Server) exportPackages(ctx context.Context, query store.PackageQuery) (*export, error) {
	query.Owners = true
	return csvExport(ctx, s, csvList[store.PackageSummary]{
		name: "packages",
		columns: slices.Concat([]string{"package", "version", "type", "language", "purl", "distro", "licenses"},
			countColumns, []string{"images", "workloads", "image_ids", "owners"}),
		page: func(ctx context.Context, page store.Page) ([]store.PackageSummary, string, int, error) {
			query.Page = page
			found, err := s.store.ListPackages(ctx, visible(ctx), query)
			return found.Packages, found.NextToken, found.Total, err
		},
		row: func(p store.PackageSummary) []string {
			cells := []string{
				p.Package.Name, p.Package.Version, p.Package.Type, p.Package.Language, p.Package.PURL, p.Package.Distro, strings.Join(p.Package.Licenses, " "),
			}
			return append(append(cells, countCells(p.Counts)...), strconv.Itoa(p.Images), strconv.Itoa(p.Workloads), strings.Join(p.ImageIDs, " "), ownersCell(p.Owners))
		},
	})
}
