package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
)

// Previewer matches packages in versions that no image has.
type Previewer interface {
	// MatchVersions finds the vulnerabilities that packages would have in other versions, versions[i] being that of packages[i]. A package of which that
	// cannot be said has a Failure. A *problem.Error says that there is no database to match with.
	MatchVersions(ctx context.Context, packages []model.Package, versions []string) ([]model.PackageAnswer, model.DatabaseBuild, error)
}

// Bounds of a preview.
const (
	// maxPreviewedFindings is how many findings of the image are read.
	maxPreviewedFindings = 20_000
	// maxPreviewedPackages is how many packages are matched, and maxPreviewListed how many findings a list has.
	maxPreviewedPackages = 200
	maxPreviewListed     = 100
	// maxPackageText is the longest name or version of a package, in bytes.
	maxPackageText = 1024
	// maxFixVersion is the longest version that can be asked for, in bytes.
	maxFixVersion = 255
)

// previewQuery says what is previewed.
type previewQuery struct {
	image model.ImageKey
	kind  store.FixKind
	// name, version and packageType are those of the package of an update, fixVersion what it is updated to, "" for the lowest version that closes what can
	// be closed.
	name, version, packageType, fixVersion string
	// packageID is the ID of one of the packages of the name, version and type, "" for all of them.
	packageID string
}

func readPreviewQuery(params *api.PreviewFixParams) (previewQuery, error) {
	var p parameters
	query := previewQuery{
		image: p.image(params.ImageId, params.Platform), kind: choice(&p, "action", &params.Action, store.FixUpdate, store.FixRebuild),
		name: p.text("packageName", params.PackageName, maxPackageText), version: p.text("packageVersion", params.PackageVersion, maxPackageText),
		packageType: p.text("packageType", params.PackageType, maxName), packageID: p.text("packageId", params.PackageId, maxName),
		fixVersion: p.text("fixVersion", params.FixVersion, maxFixVersion),
	}
	if query.kind == store.FixUpdate && (query.name == "" || query.packageType == "" || params.PackageVersion == nil) {
		p.refuse("packageName, packageVersion and packageType are required with the action update")
	}
	named := params.PackageName != nil || params.PackageVersion != nil || params.PackageType != nil || params.PackageId != nil
	if query.kind == store.FixRebuild && (named || params.FixVersion != nil) {
		p.refuse("packageName, packageVersion, packageType, packageId and fixVersion are parameters of the action update")
	}
	return query, p.err
}

// names reports whether an update is about a package.
func (q *previewQuery) names(p *model.Package) bool {
	return p.Name == q.name && p.Version == q.version && p.Type == q.packageType && (q.packageID == "" || p.Fingerprint == q.packageID)
}

// PreviewFix answers what an update or a rebuild closes and opens.
func (o operations) PreviewFix(ctx context.Context, request api.PreviewFixRequestObject) (api.PreviewFixResponseObject, error) {
	query, err := readPreviewQuery(&request.Params)
	if err != nil {
		return nil, err
	}
	if o.s.config.Previews == nil {
		return nil, problem.New(http.StatusNotImplemented, "this process has no vulnerability database to match packages with")
	}
	release, err := o.s.exportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var answer api.PreviewFix200JSONResponse
	_, err = o.s.steadily(ctx, query.image, func(image store.Image) ([]byte, error) {
		answer, err = o.s.previewFix(ctx, query, image)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// previewFix reads what an image has, matches packages in their other versions, and compares.
func (s *Server) previewFix(ctx context.Context, query previewQuery, image store.Image) (answer api.PreviewFix200JSONResponse, err error) {
	if image.MatchedAt.IsZero() || image.Database == nil {
		return answer, problem.New(http.StatusConflict, "the image has no findings yet: it is not scanned, or its packages are not matched")
	}
	query.image = image.Key
	present, err := s.presentFindings(ctx, &query)
	if err != nil {
		return answer, err
	}
	packages, count, err := s.previewedPackages(ctx, &query, present)
	if err != nil {
		return answer, err
	}
	if count == 0 {
		return answer, problem.New(http.StatusNotFound, "the image has no such package, or none that its distribution has fixed")
	}
	answer, build, err := s.matchPreviewed(ctx, packages, present)
	if err == nil && build.ID != image.Database.ID {
		// The image is matched with another database now, so that this is done again.
		err = problem.Unavailable(errChanged, "another vulnerability database came into use; try again")
	}
	answer.ImageId, answer.Platform, answer.Action = image.Key.ImageID, image.Key.Platform.String(), api.PreviewedAction(query.kind)
	answer.PackageCount, answer.DatabaseBuilt = count, build.Built
	return answer, err
}

// presentFindings reads the findings of the packages that may be previewed, by the fingerprint of the package.
func (s *Server) presentFindings(ctx context.Context, query *previewQuery) (map[string][]model.Finding, error) {
	findings := store.FindingQuery{Image: query.image, Text: query.name, Suppressed: true, Sort: store.SortFindingPackage}
	present, read := map[string][]model.Finding{}, 0
	err := s.eachFinding(ctx, findings, func(f model.Finding) error {
		if read++; read > maxPreviewedFindings {
			return problem.New(http.StatusUnprocessableEntity, "the image has more findings than the limit of %d for a preview", maxPreviewedFindings)
		}
		if query.kind == store.FixRebuild || query.names(&f.Package) {
			present[f.Package.Fingerprint] = append(present[f.Package.Fingerprint], compared(&f))
		}
		return nil
	})
	return present, err
}

// compared is what is needed of a finding in order to compare it.
func compared(f *model.Finding) model.Finding {
	v := &f.Vulnerability
	return model.Finding{
		PackageFinding: model.PackageFinding{Vulnerability: model.Vulnerability{ID: v.ID, Severity: v.Severity, Risk: v.Risk, KEV: v.KEV}, Fix: f.Fix},
		Package:        model.Package{Name: f.Package.Name}, Suppressed: f.Suppressed,
	}
}

// previewedPackage is a package, and the version that it gets, "" if it has none.
type previewedPackage struct {
	model.Package
	fixVersion string
}

// previewedPackages reads the packages that are previewed, at most maxPreviewedPackages, and counts all.
func (s *Server) previewedPackages(ctx context.Context, query *previewQuery, present map[string][]model.Finding) (packages []previewedPackage, count int, err error) {
	distribution := model.DistributionTypes()
	err = s.store.Packages(ctx, visible(ctx), query.image, func(held model.HeldPackage) error {
		one := previewedPackage{Package: held.Package, fixVersion: query.fixVersion}
		fixes := store.FixPackage{Package: held.Package}
		for _, f := range present[held.Package.Fingerprint] {
			if !f.Suppressed && f.Fix.State == model.FixStateFixed {
				fixes.Versions = append(fixes.Versions, f.Fix.Versions)
			}
		}
		switch {
		case held.Excluded, query.kind == store.FixUpdate && !query.names(&held.Package):
			return nil
		case query.kind == store.FixRebuild && (len(fixes.Versions) == 0 || !slices.Contains(distribution, held.Package.Type)):
			return nil
		case one.fixVersion == "":
			one.fixVersion = summary.FixVersion(&fixes, s.config.Versions)
		}
		if count++; len(packages) < maxPreviewedPackages {
			packages = append(packages, one)
		}
		return nil
	})
	return packages, count, err
}

// matchPreviewed matches the packages and compares their findings.
func (s *Server) matchPreviewed(ctx context.Context, packages []previewedPackage, present map[string][]model.Finding) (answer api.PreviewFix200JSONResponse, build model.DatabaseBuild, err error) {
	answer.Packages = make([]api.FixPreviewPackage, len(packages))
	var matched []model.Package
	var versions []string
	var places []int // Those of matched in packages.
	for i := range packages {
		p := &packages[i]
		answer.Packages[i] = api.FixPreviewPackage{Id: p.Fingerprint, Name: p.Name, Version: p.Version, Type: p.Type, Purl: optional(p.PURL), FixVersion: optional(p.fixVersion)}
		if p.fixVersion == "" {
			answer.Packages[i].Failure = optional("no version is known that closes all fixable findings of the package")
			continue
		}
		matched, versions, places = append(matched, p.Package), append(versions, p.fixVersion), append(places, i)
	}
	found, build, err := s.config.Previews.MatchVersions(ctx, matched, versions)
	if err != nil {
		return answer, build, err
	}
	var before, after []model.Finding
	for i := range found {
		p := &packages[places[i]]
		if found[i].Failure != "" {
			answer.Packages[places[i]].Failure = &found[i].Failure
			continue
		}
		before = append(before, present[p.Fingerprint]...)
		for _, f := range found[i].Findings {
			after = append(after, model.Finding{PackageFinding: f, Package: p.Package})
		}
	}
	outcome := advice.OutcomeOf(before, after)
	answer.Closed, answer.Remaining, answer.Opened = toSeverityCounts(advice.Count(outcome.Closed)), toSeverityCounts(advice.Count(outcome.Remaining)), toSeverityCounts(advice.Count(outcome.Opened))
	answer.RemainingFindings, answer.OpenedFindings = toChanges(outcome.Remaining), toChanges(outcome.Opened)
	return answer, build, nil
}

// toChanges makes a list of the first of some findings.
func toChanges(changes []advice.Change) []api.RolloutFinding {
	changes = changes[:min(len(changes), maxPreviewListed)]
	findings := make([]store.RolloutFinding, len(changes))
	for i, c := range changes {
		findings[i] = store.RolloutFinding(c)
	}
	return toRolloutFindings(findings)
}
