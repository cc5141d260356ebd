package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
)

// Subscribe opens a WebSocket that names each new result.
func (o operations) Subscribe(ctx context.Context, _ api.SubscribeRequestObject) (api.SubscribeResponseObject, error) {
	r := requestOf(ctx)
	if err := o.s.hub.CheckUpgrade(r); err != nil {
		return nil, err
	}
	return upgrade{o.s, r, live.Results(visible(ctx))}, nil
}

// upgrade is the answer that turns a request into a WebSocket.
type upgrade struct {
	s      *Server
	r      *http.Request
	stream live.Stream
}

// VisitSubscribeResponse serves the WebSocket until it ends.
func (u upgrade) VisitSubscribeResponse(w http.ResponseWriter) error { return u.serve(w) }

// VisitFollowDeploymentsResponse serves the WebSocket until it ends.
func (u upgrade) VisitFollowDeploymentsResponse(w http.ResponseWriter) error { return u.serve(w) }

// VisitListEventsResponse serves the WebSocket until it ends.
func (u upgrade) VisitListEventsResponse(w http.ResponseWriter) error { return u.serve(w) }

func (u upgrade) serve(w http.ResponseWriter) error {
	rec, start := recorderOf(w), u.s.clock()
	var client live.Client
	if admitted, found := auth.AdmissionOf(u.r.Context()); found {
		client.Caller = admitted.Caller
		client.Readmit = func(ctx context.Context) error {
			if u.s.guard.MustReconnect(admitted) {
				return live.ErrIdentityAged
			}
			err := u.s.guard.Readmit(ctx, admitted)
			if errors.Is(err, auth.ErrNamespacesChanged) {
				return live.ErrNamespacesChanged
			}
			return err
		}
	}
	return u.s.hub.Serve(w, u.r, u.stream, client, func() {
		if rec != nil {
			rec.status = http.StatusSwitchingProtocols
			u.s.measure(rec, u.r, u.s.clock().Sub(start))
		}
	})
}
