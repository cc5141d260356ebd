package server

import (
	"context"
	"net/http"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// maxResultSets bounds the entries of the list of databases.
	maxResultSets = 50
	// maxStatusText bounds the texts of a DatabaseStatus in bytes.
	maxStatusText = 1024
)

// DatabaseStatus says how up to date the vulnerability database is, and what is being done about it.
type DatabaseStatus struct {
	// LastCheck is when an update was last looked for, NextCheck when it is looked for again; zero when never.
	LastCheck, NextCheck time.Time
	// LastError is why the last check failed, "" when it did not. Callers see it: it must hold no secret.
	LastError string
	// Stage is what is under way, "" when nothing is. Done and Total are bytes of it; Total is 0 while it is not known.
	Stage       string
	Done, Total int64
	// Stale says that the newest build is older than MaxAge.
	Stale  bool
	MaxAge time.Duration
}

// DatabaseStatusProvider tells how up to date the vulnerability database is. It answers at once.
type DatabaseStatusProvider interface {
	Status() DatabaseStatus
}

// Rematcher has packages matched again: all of them, or those only that may have another answer. It returns as soon as the
// request is remembered.
type Rematcher interface {
	RequestRematch(full bool) error
}

// ListDatabases answers the vulnerability database builds and the state of updates.
func (o operations) ListDatabases(ctx context.Context, _ api.ListDatabasesRequestObject) (api.ListDatabasesResponseObject, error) {
	resultSets, err := o.s.store.ListResultSets(ctx, visible(ctx), maxResultSets)
	if err != nil {
		return nil, err
	}
	overview, err := o.s.store.Overview(ctx, visible(ctx))
	if err != nil {
		return nil, err
	}
	answer := api.ListDatabases200JSONResponse{Items: make([]api.Database, 0, len(resultSets)), Update: o.s.databaseUpdate()}
	now := o.s.clock()
	for _, g := range resultSets {
		database := toDatabase(g, now)
		if g.State == store.ResultSetCurrent {
			database.Images = overview.Images[store.StateScanned]
		}
		answer.Items = append(answer.Items, database)
	}
	return answer, nil
}

// Rematch has everything matched again.
func (o operations) Rematch(_ context.Context, request api.RematchRequestObject) (api.RematchResponseObject, error) {
	if o.s.config.Rematcher == nil {
		return nil, problem.New(http.StatusNotImplemented, "matching is not available in this process")
	}
	if request.Body == nil {
		return nil, problem.BadRequest("the request body is missing")
	}
	if !o.s.leads() {
		return nil, problem.Unavailable(nil, "this replica is not the leader, which manages vulnerability databases; try again")
	}
	if err := o.s.config.Rematcher.RequestRematch(value(request.Body.Full)); err != nil {
		return nil, err
	}
	return api.Rematch202Response{}, nil
}

// leads says whether the databases of this process are those that are in use.
func (s *Server) leads() bool { return s.config.Leads == nil || s.config.Leads() }

// databaseUpdate is nil when this process does not look after databases.
func (s *Server) databaseUpdate() *api.DatabaseUpdate {
	if s.config.Databases == nil || !s.leads() {
		return nil
	}
	status := s.config.Databases.Status()
	update := &api.DatabaseUpdate{
		Stale: status.Stale, MaxAge: int64(status.MaxAge / time.Second),
		LastCheck: optionalTime(status.LastCheck), NextCheck: optionalTime(status.NextCheck),
		LastError: optional(truncate.Text(status.LastError, maxStatusText)), Stage: optional(truncate.Text(status.Stage, maxStatusText)),
	}
	if status.Stage != "" {
		update.Done, update.Total = optional(status.Done), optional(status.Total)
	}
	return update
}

func toDatabase(g store.ResultSet, now time.Time) api.Database {
	return api.Database{
		Id: g.Build.ID, SchemaVersion: g.Build.SchemaVersion, Built: g.Build.Built.UTC(), Source: api.DatabaseSource(g.Build.Source),
		Age: int64(max(now.Sub(g.Build.Built), 0) / time.Second), Generation: g.Number, State: api.DatabaseState(g.State),
		Engine: g.Engine, Full: g.Full, PreviousBuild: optional(g.PreviousBuild),
		StartedAt: g.StartedAt.UTC(), CurrentSince: optionalTime(g.CurrentSince),
		Queued: g.Queued, Matched: g.Matched, Changes: toChangeCounts(g.Changes),
	}
}

func toChangeCounts(c store.ChangeCounts) api.ChangeCounts {
	return api.ChangeCounts{
		Opened: c.Opened, Closed: c.Closed, Changed: c.Changed, Images: c.Images,
		OpenedCritical: c.OpenedCritical, NewKev: c.NewKEV,
	}
}
