package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of a search, as the specification states them. A text is no longer than the shortest of those that the lists take.
const (
	minSearchText     = 2
	maxSearchText     = store.MaxOwner
	defaultSearchHits = 5
	maxSearchHits     = 20
	// searchReads is how many lists a search reads at the same time.
	searchReads = 3
)

// Search answers what contains a text: some of each kind, worst first where there are findings.
func (o operations) Search(ctx context.Context, request api.SearchRequestObject) (api.SearchResponseObject, error) {
	var p parameters
	text := strings.TrimSpace(p.text("text", &request.Params.Text, maxSearchText))
	limit := defaultSearchHits
	if request.Params.Limit != nil {
		limit = *request.Params.Limit
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case len(text) < minSearchText:
		return nil, problem.BadRequest("text is shorter than %d bytes", minSearchText)
	case limit < 1 || limit > maxSearchHits:
		return nil, problem.BadRequest("limit is not in the range 1 to %d", maxSearchHits)
	}
	page := store.Page{Size: limit}
	answer := api.Search200JSONResponse{
		Vulnerabilities: []api.VulnerabilitySummary{}, Packages: []api.PackageSummary{}, Images: []api.Image{}, Containers: []api.ContainerCoverage{},
		Workloads: []api.WorkloadSummary{}, Namespaces: []string{}, Owners: []api.OwnerSummary{},
	}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(searchReads)
	var gaps searchGaps
	read := func(kind api.SearchGapKind, list func() error) {
		reads.Go(func() error { return gaps.note(kind, list()) })
	}
	read(api.Vulnerabilities, func() error {
		found, err := o.s.store.ListVulnerabilities(ctx, visible(ctx), store.VulnerabilityQuery{Text: text, Sort: store.SortVulnerabilityRisk, Page: page})
		for _, one := range found.Vulnerabilities {
			answer.Vulnerabilities = append(answer.Vulnerabilities, toVulnerabilitySummary(one))
		}
		return err
	})
	read(api.Packages, func() error {
		found, version, err := o.s.searchPackages(ctx, text, page)
		for _, one := range found {
			answer.Packages = append(answer.Packages, toPackageSummary(one))
		}
		answer.PackageVersion = optional(version)
		return err
	})
	read(api.Images, func() error {
		found, err := o.s.store.ListImages(ctx, visible(ctx), store.ImageQuery{Text: text, Sort: store.SortSeverity, Page: page})
		for _, one := range found.Images {
			answer.Images = append(answer.Images, o.s.toImage(one))
		}
		return err
	})
	read(api.Containers, func() error {
		found, err := o.s.store.ListCoverage(ctx, visible(ctx), store.CoverageQuery{Text: text, Page: page})
		for _, one := range found.Containers {
			answer.Containers = append(answer.Containers, toContainerCoverage(one))
		}
		return err
	})
	read(api.Workloads, func() error {
		found, err := o.s.store.ListWorkloads(ctx, visible(ctx), store.WorkloadQuery{Text: text, Sort: store.SortWorkloadSeverity, Page: page})
		for _, one := range found.Workloads {
			answer.Workloads = append(answer.Workloads, toWorkloadSummary(one))
		}
		return err
	})
	read(api.Owners, func() error {
		found, err := o.s.store.ListGroups(ctx, visible(ctx), store.GroupQuery{Text: text, Sort: store.SortGroupSeverity, Page: page})
		for _, one := range found.Groups {
			answer.Owners = append(answer.Owners, toOwnerSummary(one))
		}
		return err
	})
	read(api.Namespaces, func() error {
		names, err := o.s.namespacesNamed(ctx, text, limit)
		answer.Namespaces = append(answer.Namespaces, names...)
		return err
	})
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	answer.Partial = gaps.list()
	return answer, nil
}

// searchGaps are the kinds that a search leaves out, because the store looks at less than they need.
type searchGaps struct {
	mu   sync.Mutex
	gaps []api.SearchGap
}

// note keeps that a kind is left out if this is why it could not be listed, and returns every other error.
func (g *searchGaps) note(kind api.SearchGapKind, err error) error {
	limit, ok := errors.AsType[*store.LimitError](err)
	if !ok {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, api.SearchGap{Kind: kind, Detail: limit.Detail})
	return nil
}

// list returns the kinds by name, nil if there are none.
func (g *searchGaps) list() *[]api.SearchGap {
	slices.SortFunc(g.gaps, func(a, b api.SearchGap) int { return cmp.Compare(a.Kind, b.Kind) })
	return optionalList(g.gaps)
}

// searchPackages lists packages whose name contains a text. A text of a whole name and the beginning of a version, as in "openssl 3.0" and "openssl@3.0", lists
// these versions of the package, and returns what the versions begin with: names can have spaces, so that this is only done if it finds packages, or if nothing
// has the whole text in its name. Neither regards ASCII case.
func (s *Server) searchPackages(ctx context.Context, text string, page store.Page) (found []store.PackageSummary, version string, err error) {
	versioned := versionsNamed(text, page)
	if versioned != nil {
		listed, listErr := s.store.ListPackages(ctx, visible(ctx), *versioned)
		_, limited := errors.AsType[*store.LimitError](listErr)
		if len(listed.Packages) > 0 || listErr != nil && !limited {
			return listed.Packages, versioned.VersionText, listErr
		}
		version, err = versioned.VersionText, listErr
	}
	listed, listErr := s.store.ListPackages(ctx, visible(ctx), store.PackageQuery{Text: text, Sort: store.SortPackageSeverity, Page: page})
	if len(listed.Packages) > 0 || listErr != nil {
		return listed.Packages, "", listErr
	}
	return nil, version, err
}

// versionsNamed asks for the versions of a package that a text names, nil if it names none.
func versionsNamed(text string, page store.Page) *store.PackageQuery {
	// The name of an npm package may begin with an at sign.
	at := strings.LastIndexAny(text, " @")
	if at <= 0 || at == len(text)-1 {
		return nil
	}
	name, version := strings.TrimSpace(text[:at]), text[at+1:]
	begins := strings.ToLower(version)
	return &store.PackageQuery{
		Name: name, AnyCase: true, VersionText: version, Sort: store.SortPackageSeverity, Page: page,
		Version: func(_, candidate string) bool { return strings.HasPrefix(strings.ToLower(candidate), begins) },
	}
}

// namespacesNamed lists visible namespaces whose name contains a text, at most limit, by name.
func (s *Server) namespacesNamed(ctx context.Context, text string, limit int) ([]string, error) {
	names := visible(ctx).Names()
	if visible(ctx).All() {
		var err error
		if names, err = s.config.namespaces(ctx); err != nil {
			return nil, err
		}
	}
	var named []string
	for _, name := range names {
		if len(named) < limit && strings.Contains(name, strings.ToLower(text)) {
			named = append(named, name)
		}
	}
	return named, nil
}
