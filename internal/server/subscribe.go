package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// maxIncoming bounds a message from a subscriber; nothing that it says is looked at.
const maxIncoming = 1 << 10

// writeBuffers are shared by all WebSockets: a buffer is needed only while a message is written.
var writeBuffers sync.Pool

// Subscribe opens a WebSocket that names each new result.
func (o operations) Subscribe(ctx context.Context, _ api.SubscribeRequestObject) (api.SubscribeResponseObject, error) {
	r := requestOf(ctx)
	if !websocket.IsWebSocketUpgrade(r) {
		return nil, problemf(http.StatusUpgradeRequired, "this is a WebSocket: connect with ws:// or wss://")
	}
	if !sameHost(r) {
		return nil, problemf(http.StatusForbidden, "a WebSocket from another site: the Origin header names another host than the Host header")
	}
	return upgrade{o.s, r}, nil
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

// upgrade is the answer that turns a request into a WebSocket.
type upgrade struct {
	s *Server
	r *http.Request
}

// VisitSubscribeResponse serves the WebSocket until it ends.
func (u upgrade) VisitSubscribeResponse(w http.ResponseWriter) error {
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
	return u.s.hub.serve(w, u.r, upgrader, func() {
		if rec != nil {
			rec.status = http.StatusSwitchingProtocols
			u.s.measure(rec, u.r, u.s.clock().Sub(start))
		}
	})
}

// subscriber is one WebSocket.
type subscriber struct {
	limits Limits
	queue  chan *websocket.PreparedMessage
	// connection is set when the handshake is over.
	connection atomic.Pointer[websocket.Conn]

	// done is closed when the WebSocket is to end; code and reason are set before.
	once   sync.Once
	done   chan struct{}
	code   int
	reason string
}

// stop ends the WebSocket. Only the first call counts. It does not wait.
func (s *subscriber) stop(code int, reason string) {
	s.once.Do(func() {
		s.code, s.reason = code, reason
		close(s.done)
		if connection := s.connection.Load(); connection != nil {
			// A write that is stuck must not hold up the end for as long as a message may take.
			_ = connection.NetConn().SetWriteDeadline(time.Now().Add(closeGrace)) // fails only when it is closed
		}
	})
}

func (s *subscriber) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// read notices when the other side closes or falls silent. What it says is dropped.
func (s *subscriber) read(connection *websocket.Conn) {
	alive := func(string) error { return connection.SetReadDeadline(time.Now().Add(s.limits.PongTimeout)) }
	connection.SetReadLimit(maxIncoming)
	connection.SetPongHandler(alive)
	if alive("") != nil {
		return
	}
	for {
		if _, _, err := connection.NextReader(); err != nil {
			return
		}
	}
}

// write writes what is queued, and pings, until the WebSocket is to end or the other side does not take it. It closes the
// connection, which ends read as well.
func (s *subscriber) write(connection *websocket.Conn) {
	s.connection.Store(connection)
	defer func() { _ = connection.Close() }() // nobody is left to tell
	ping := time.NewTicker(s.limits.PingInterval)
	defer ping.Stop()
	for {
		var err error
		if s.stopped() {
			s.bye(connection)
			return
		}
		select {
		case <-s.done:
			continue
		case message := <-s.queue:
			if err = connection.SetWriteDeadline(time.Now().Add(s.limits.MessageTimeout)); err == nil {
				err = connection.WritePreparedMessage(message)
			}
		case <-ping.C:
			err = connection.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.limits.MessageTimeout))
		}
		if err != nil {
			return
		}
	}
}

// bye says why the WebSocket ends.
func (s *subscriber) bye(connection *websocket.Conn) {
	message := websocket.FormatCloseMessage(s.code, s.reason)
	_ = connection.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeGrace)) // the connection is closed next
}
