package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListOwners answers a page of the owners of workloads that run images.
func (o operations) ListOwners(ctx context.Context, request api.ListOwnersRequestObject) (api.ListOwnersResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.GroupQuery{
		Where: store.Where{Namespace: p.text("namespace", params.Namespace, maxName)}, Text: p.text("text", params.Text, store.MaxOwner),
		Due:  value(params.Due),
		Sort: choice(&p, "sort", params.Sort, store.SortGroupName, store.SortGroupSeverity),
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
		return o.s.exportGroups(ctx, "owners", "owner", query)
	}
	found, err := o.s.groups(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListOwners200JSONResponse{
		Items: make([]api.OwnerSummary, 0, len(found.Groups)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, one := range found.Groups {
		answer.Items = append(answer.Items, toOwnerSummary(one))
	}
	return answer, nil
}

// ListNamespaces answers a page of the namespaces of workloads that run images.
func (o operations) ListNamespaces(ctx context.Context, request api.ListNamespacesRequestObject) (api.ListNamespacesResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.GroupQuery{
		By:    store.ByNamespace,
		Where: store.Where{Ownership: p.ownership(params.Owner, params.NoOwner)}, Text: p.text("text", params.Text, maxName),
		Due:  value(params.Due),
		Sort: choice(&p, "sort", params.Sort, store.SortGroupName, store.SortGroupSeverity),
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
		return o.s.exportGroups(ctx, "namespaces", "namespace", query)
	}
	found, err := o.s.groups(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListNamespaces200JSONResponse{
		Items: make([]api.NamespaceSummary, 0, len(found.Groups)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, one := range found.Groups {
		answer.Items = append(answer.Items, api.NamespaceSummary{
			Namespace: one.Name, Workloads: one.Workloads, Images: one.Images, Scanned: one.Scanned, Counts: toCounts(one.Counts),
			Due: optional(one.Due), Overdue: optional(one.Overdue),
		})
	}
	return answer, nil
}

// groups lists groups; with what is due, the answer is at most dueTTL old.
func (s *Server) groups(ctx context.Context, in store.Namespaces, query store.GroupQuery) (store.GroupPage, error) {
	if !query.Due {
		return s.store.ListGroups(ctx, in, query)
	}
	return s.dueGroups.get(ctx, fmt.Sprintf("%s %#v", in.Digest(), query), func(ctx context.Context) (store.GroupPage, error) {
		return s.store.ListGroups(ctx, in, query)
	})
}

func toOwnerSummary(o store.Group) api.OwnerSummary {
	return api.OwnerSummary{
		Owner: optional(o.Name), Workloads: o.Workloads, Images: o.Images, Scanned: o.Scanned, Counts: toCounts(o.Counts),
		Due: optional(o.Due), Overdue: optional(o.Overdue),
	}
}

// exportGroups is a table with a name, whose first column has the names of the groups.
func (s *Server) exportGroups(ctx context.Context, name, column string, query store.GroupQuery) (*export, error) {
	query.Due = true
	return csvExport(ctx, s, csvList[store.Group]{
		name:    name,
		columns: slices.Concat([]string{column, "workloads", "images", "scanned"}, countColumns, []string{"due", "overdue"}),
		page: func(ctx context.Context, page store.Page) ([]store.Group, string, int, error) {
			query.Page = page
			found, err := s.store.ListGroups(ctx, visible(ctx), query)
			return found.Groups, found.NextToken, found.Total, err
		},
		row: func(g store.Group) []string {
			cells := []string{g.Name, strconv.Itoa(g.Workloads), strconv.Itoa(g.Images), strconv.Itoa(g.Scanned)}
			return append(append(cells, countCells(g.Counts)...), strconv.Itoa(g.Due), strconv.Itoa(g.Overdue))
		},
	})
}

// ownersCell lists owners, whose names may contain spaces.
func ownersCell(owners []string) string { return strings.Join(owners, ", ") }
