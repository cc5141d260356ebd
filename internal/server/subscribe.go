package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// maxIncoming bounds a message from a subscriber; nothing that it says is looked at.
const maxIncoming = 1 << 10

// writeBuffers are shared by all WebSockets: a buffer is needed only while a message is written.
var writeBuffers sync.Pool

// Subscribe opens a WebSocket that names each new result.
func (o operations) Subscribe(ctx context.Context, _ api.SubscribeRequestObject) (api.SubscribeResponseObject, error) {
	r := requestOf(ctx)
	if err := checkUpgrade(r); err != nil {
		return nil, err
	}
	return upgrade{o.s, r, resultView, nil}, nil
}

// checkUpgrade refuses what does not open a WebSocket, or may not.
func checkUpgrade(r *http.Request) error {
	if !websocket.IsWebSocketUpgrade(r) {
		return problemf(http.StatusUpgradeRequired, "this is a WebSocket: connect with ws:// or wss://")
	}
	return checkOrigin(r)
}

// resultView shows new results, as JSON strings with the image ID.
func resultView(i *item) (*websocket.PreparedMessage, error) {
	if i.Kind != store.EventImageMatched && i.Kind != store.EventImageReported || i.ImageID == "" {
		return nil, nil //nolint:nilnil // no error: the view leaves it out
	}
	return i.result.get(func() ([]byte, error) { return json.Marshal(i.ImageID) })
}

// checkOrigin refuses a WebSocket that a page of another site opens.
func checkOrigin(r *http.Request) error {
	if !sameHost(r) {
		return problemf(http.StatusForbidden, "a WebSocket from another site: the Origin header names another host than the Host header")
	}
	return nil
}

// sameHost reports whether the page that opens a WebSocket comes from the host that it asks. Programs send no Origin.
func sameHost(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// upgrade is the answer that turns a request into a WebSocket. Without a view the opening is all that is sent.
type upgrade struct {
	s       *Server
	r       *http.Request
	view    view
	opening opening
}

// VisitSubscribeResponse serves the WebSocket until it ends.
func (u upgrade) VisitSubscribeResponse(w http.ResponseWriter) error { return u.serve(w) }

// VisitFollowDeploymentsResponse serves the WebSocket until it ends.
func (u upgrade) VisitFollowDeploymentsResponse(w http.ResponseWriter) error { return u.serve(w) }

// VisitListEventsResponse serves the WebSocket until it ends.
func (u upgrade) VisitListEventsResponse(w http.ResponseWriter) error { return u.serve(w) }

func (u upgrade) serve(w http.ResponseWriter) error {
	rec, start := recorderOf(w), u.s.clock()
	upgrader := &websocket.Upgrader{
		HandshakeTimeout: u.s.limits.MessageTimeout,
		ReadBufferSize:   maxIncoming,
		WriteBufferSize:  maxIncoming,
		WriteBufferPool:  &writeBuffers,
		CheckOrigin:      sameHost,
		Error: func(w http.ResponseWriter, r *http.Request, status int, reason error) {
			u.s.writeProblem(w, r, problemf(status, "%v", reason))
		},
	}
	admitted, guarded := admissionOf(u.r.Context())
	subscriber, err := u.s.hub.add(u.view, u.opening, admitted.caller)
	if err != nil {
		return err
	}
	if guarded {
		subscriber.readmit = func(ctx context.Context) error { return u.s.readmit(ctx, admitted) }
	}
	u.s.hub.serve(w, u.r, subscriber, upgrader, func() {
		if rec != nil {
			rec.status = http.StatusSwitchingProtocols
			u.s.measure(rec, u.r, u.s.clock().Sub(start))
		}
	})
	return nil
}
