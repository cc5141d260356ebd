package live

import (
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// maxIncoming bounds a message from a subscriber; nothing that it says is looked at.
const maxIncoming = 1 << 10

// writeBuffers are shared by all WebSockets: a buffer is needed only while a message is written.
var writeBuffers sync.Pool

// IsUpgrade reports whether a request opens a WebSocket.
func IsUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// CheckUpgrade refuses a request that does not open a WebSocket, or may not.
func (h *Hub) CheckUpgrade(r *http.Request) error {
	if !IsUpgrade(r) {
		return problem.New(http.StatusUpgradeRequired, "this resource requires a WebSocket connection: use ws:// or wss://")
	}
	return h.CheckOrigin(r)
}

// CheckOrigin refuses a WebSocket that a page of another site opens.
func (h *Hub) CheckOrigin(r *http.Request) error {
	if !h.ownOrigin(r) {
		return problem.New(http.StatusForbidden, "cross-origin WebSocket refused: the hosts in the Origin and Host headers differ")
	}
	return nil
}

// ownOrigin reports whether the page that opens a WebSocket comes from the host that it asks, or from the address at which browsers are known
// to reach this server: a proxy may ask with another host. Programs send no Origin.
func (h *Hub) ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || origin == h.origin {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

func (h *Hub) upgrader() *websocket.Upgrader {
	return &websocket.Upgrader{
		HandshakeTimeout: h.limits.MessageTimeout,
		ReadBufferSize:   maxIncoming,
		WriteBufferSize:  maxIncoming,
		WriteBufferPool:  &writeBuffers,
		CheckOrigin:      h.ownOrigin,
		Error: func(w http.ResponseWriter, r *http.Request, status int, reason error) {
			h.refuse(w, r, problem.New(status, "%v", reason))
		},
	}
}
