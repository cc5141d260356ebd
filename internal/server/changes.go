package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListChanges answers a page of what a database build changed.
func (o operations) ListChanges(ctx context.Context, request api.ListChangesRequestObject) (api.ListChangesResponseObject, error) {
	query, err := changeQuery(request.Build, request.Params)
	if err != nil {
		return nil, err
	}
	changes, err := o.s.store.Changes(ctx, visible(ctx), query)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if changes.Total == 0 {
		if err := o.s.knownBuild(ctx, query); err != nil {
			return nil, err
		}
	}
	answer := api.ListChanges200JSONResponse{
		Items: make([]api.Change, 0, len(changes.Changes)), Total: changes.Total, NextPageToken: optional(changes.NextToken),
	}
	for _, c := range changes.Changes {
		answer.Items = append(answer.Items, toChange(c))
	}
	return answer, nil
}

// knownBuild tells a build that changed nothing from one that nobody knows.
func (s *Server) knownBuild(ctx context.Context, query store.ChangeQuery) error {
	resultSets, err := s.store.ListResultSets(ctx, visible(ctx), maxResultSets)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(resultSets, func(g store.ResultSet) bool {
		return g.Build.ID == query.Build && (query.ResultSet == 0 || g.Number == query.ResultSet)
	})
	if !known {
		return problem.New(http.StatusNotFound, "database build not found, or its retention period has ended")
	}
	return nil
}

func toChange(c store.Change) api.Change {
	out := api.Change{
		Id: c.ID, Generation: c.ResultSet, Build: c.Build, PreviousBuild: c.PreviousBuild, At: c.At.UTC(),
		Kind: api.ChangeKind(c.Kind), Reasons: make([]api.ChangeReason, 0, len(c.Reasons)),
		Package: toPackage(c.Package), VulnerabilityId: c.VulnerabilityID, Namespace: c.Namespace,
		Before: toChangeSide(c.Before), After: toChangeSide(c.After),
		Images: c.Images, ImageIds: append([]string{}, c.ImageIDs...), Workloads: toWorkloads(c.Workloads),
	}
	for _, reason := range c.Reasons {
		out.Reasons = append(out.Reasons, api.ChangeReason(reason))
	}
	return out
}

func toChangeSide(side *store.ChangeSide) *api.ChangeSide {
	if side == nil {
		return nil
	}
	return &api.ChangeSide{
		Severity: api.Severity(side.Severity.String()), FixState: toFixState(side.FixState),
		FixVersions: optionalList(side.FixVersions), Epss: side.EPSS, Kev: side.KEV,
	}
}

// toFixState shows what the specification does not name as unknown.
func toFixState(state model.FixState) api.FixState {
	if out := api.FixState(state); out.Valid() {
		return out
	}
	return api.FixStateUnknown
}
