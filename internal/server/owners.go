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
	query := store.OwnerQuery{
		Where: store.Where{Namespace: p.text("namespace", params.Namespace, maxName)}, Text: p.text("text", params.Text, store.MaxOwner),
		Due:  value(params.Due),
		Sort: choice(&p, "sort", params.Sort, store.SortOwnerName, store.SortOwnerSeverity),
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
		return o.s.exportOwners(ctx, query)
	}
	found, err := o.s.owners(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListOwners200JSONResponse{
		Items: make([]api.OwnerSummary, 0, len(found.Owners)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, one := range found.Owners {
		answer.Items = append(answer.Items, toOwnerSummary(one))
	}
	return answer, nil
}

// owners lists owners; with what is due, the answer is at most dueTTL old.
func (s *Server) owners(ctx context.Context, in store.Namespaces, query store.OwnerQuery) (store.OwnerPage, error) {
	if !query.Due {
		return s.store.ListOwners(ctx, in, query)
	}
	return s.dueOwners.get(ctx, fmt.Sprintf("%s %#v", in.Digest(), query), func(ctx context.Context) (store.OwnerPage, error) {
		return s.store.ListOwners(ctx, in, query)
	})
}

func toOwnerSummary(o store.OwnerSummary) api.OwnerSummary {
	return api.OwnerSummary{
		Owner: optional(o.Owner), Workloads: o.Workloads, Images: o.Images, Scanned: o.Scanned, Counts: toCounts(o.Counts),
		Due: optional(o.Due), Overdue: optional(o.Overdue),
	}
}

func (s *Server) exportOwners(ctx context.Context, query store.OwnerQuery) (*export, error) {
	query.Due = true
	return csvExport(ctx, s, csvList[store.OwnerSummary]{
		name:    "owners",
		columns: slices.Concat([]string{"owner", "workloads", "images", "scanned"}, countColumns, []string{"due", "overdue"}),
		page: func(ctx context.Context, page store.Page) ([]store.OwnerSummary, string, int, error) {
			query.Page = page
			found, err := s.store.ListOwners(ctx, visible(ctx), query)
			return found.Owners, found.NextToken, found.Total, err
		},
		row: func(o store.OwnerSummary) []string {
			cells := []string{o.Owner, strconv.Itoa(o.Workloads), strconv.Itoa(o.Images), strconv.Itoa(o.Scanned)}
			return append(append(cells, countCells(o.Counts)...), strconv.Itoa(o.Due), strconv.Itoa(o.Overdue))
		},
	})
}

// ownersCell lists owners, whose names may contain spaces.
func ownersCell(owners []string) string { return strings.Join(owners, ", ") }
