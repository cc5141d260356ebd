package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// ListDatabases answers the vulnerability database builds in use.
func (o operations) ListDatabases(ctx context.Context, _ api.ListDatabasesRequestObject) (api.ListDatabasesResponseObject, error) {
	databases, err := o.s.config.Store.Databases(ctx)
	if err != nil {
		return nil, err
	}
	answer := api.ListDatabases200JSONResponse{Items: make([]api.Database, 0, len(databases))}
	for _, d := range databases {
		answer.Items = append(answer.Items, api.Database{
			Id: d.ID, SchemaVersion: d.SchemaVersion, Built: d.Built.UTC(), Source: api.DatabaseSource(d.Source), Images: d.Images,
		})
	}
	return answer, nil
}
