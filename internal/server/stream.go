package server

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// takeAtOnce is how many items a subscriber takes from the hub at a time.
	takeAtOnce = 32
	// notJoined is the next item of a subscriber that does not follow the hub yet: it cannot be behind.
	notJoined = math.MaxInt64
	// pingsPerCheck is how many pings apart at most it is asked whether a caller may still have a WebSocket: a minute.
	pingsPerCheck = 12
)

// refusals are why a WebSocket ends whose caller would not be let in any more, by status. A frame has room for 123 bytes.
var refusals = map[int]string{
	http.StatusUnauthorized: "the token is not valid any more",
	http.StatusForbidden:    "the right to list " + resourceName + " was taken away",
}

// item is an event, with the messages that tell it. Each message is made once, for all subscribers with the same view.
type item struct {
	store.Event
	event, result sharedMessage
}

// sharedMessage is a message that is made when it is needed for the first time.
type sharedMessage struct {
	once    sync.Once
	message *websocket.PreparedMessage
	err     error
}

func (m *sharedMessage) get(encode func() ([]byte, error)) (*websocket.PreparedMessage, error) {
	m.once.Do(func() {
		var data []byte
		if data, m.err = encode(); m.err == nil {
			m.message, m.err = websocket.NewPreparedMessage(websocket.TextMessage, data)
		}
	})
	return m.message, m.err
}

// view turns an item into what a subscriber is sent, nil for nothing.
type view func(*item) (*websocket.PreparedMessage, error)

// opening sends what a subscriber gets before it follows the hub, and has it join the hub. That of a subscriber without a view goes on
// until its context ends.
type opening func(ctx context.Context, s *subscriber, connection *websocket.Conn) error

// subscriber is one WebSocket.
type subscriber struct {
	hub     *hub
	limits  Limits
	view    view
	opening opening
	// caller is whose WebSocket it is, "" when anybody may have any number; readmit fails when the caller may not have it any more.
	// It is nil when nobody is asked.
	caller  string
	readmit func(ctx context.Context) error
	// next is the number of the item of the hub that comes next.
	next atomic.Int64
	// passed is the sequence number up to which the subscriber was sent all that its view shows, told the last one that it
	// knows of. Only the goroutine that writes uses them, and only a subscriber with an opening is told of numbers.
	passed, told int64
	// connection is set when the handshake is over.
	connection atomic.Pointer[websocket.Conn]

	// done is closed when the WebSocket is to end; code and reason are set before.
	once   sync.Once
	done   chan struct{}
	code   int
	reason string
}

func newSubscriber(h *hub, v view, o opening, caller string) *subscriber {
	return &subscriber{hub: h, limits: h.limits, view: v, opening: o, caller: caller, done: make(chan struct{})}
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

// watch asks from time to time whether the caller may still have the WebSocket, and stops it otherwise. While nobody can be asked,
// it goes on. It ends with ctx.
func (s *subscriber) watch(ctx context.Context) {
	longest := pingsPerCheck * s.limits.PingInterval
	for {
		// Those who came together do not ask together.
		pause := time.NewTimer(longest/2 + rand.N(longest/2))
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		if p, ok := asProblem(s.readmit(ctx)); ok && refusals[p.status] != "" {
			s.stop(websocket.ClosePolicyViolation, refusals[p.status])
			return
		}
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

// write writes what the subscriber is to get until the WebSocket is to end or the other side does not take it. It closes the
// connection, which ends read as well.
func (s *subscriber) write(connection *websocket.Conn) {
	s.connection.Store(connection)
	defer func() { _ = connection.Close() }() // nobody is left to tell
	if s.opening != nil && s.open(connection) != nil {
		s.bye(connection)
		return
	}
	if s.follow(connection) == nil {
		s.bye(connection)
	}
}

// open runs the opening, and pings meanwhile.
func (s *subscriber) open(connection *websocket.Conn) error {
	ctx, cancel := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() {
		defer cancel()
		ping := time.NewTicker(s.limits.PingInterval)
		defer ping.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.done:
				return
			case <-ping.C:
				if s.ping(connection) != nil {
					return
				}
			}
		}
	})
	return s.opening(ctx, s, connection)
}

// follow writes what the hub publishes, and pings. It returns nil when the WebSocket is to end, and why it cannot be written to
// otherwise.
func (s *subscriber) follow(connection *websocket.Conn) error {
	ping := time.NewTicker(s.limits.PingInterval)
	defer ping.Stop()
	buffer := make([]*item, 0, takeAtOnce)
	busy := make(chan struct{})
	close(busy)
	for !s.stopped() {
		items, grown := s.hub.take(s, buffer)
		for _, i := range items {
			if s.stopped() {
				return nil
			}
			if err := s.deliver(connection, i); err != nil {
				return err
			}
			s.next.Add(1)
		}
		var more <-chan struct{} = busy
		if len(items) == 0 {
			more = grown
		}
		select {
		case <-s.done:
		case <-ping.C:
			if err := s.pingAndTell(connection); err != nil {
				return err
			}
		case <-more:
		}
	}
	return nil
}

// deliver writes an item if the view shows it.
func (s *subscriber) deliver(connection *websocket.Conn, i *item) error {
	message, err := s.view(i)
	if err != nil {
		s.hub.log.Error(err, "Event cannot be told", "sequence", i.Sequence)
	}
	if message != nil {
		if err := connection.SetWriteDeadline(time.Now().Add(s.limits.MessageTimeout)); err != nil {
			return err
		}
		if err := connection.WritePreparedMessage(message); err != nil {
			return err
		}
		s.told = i.Sequence
	}
	s.passed = max(s.passed, i.Sequence)
	return nil
}

func (s *subscriber) ping(connection *websocket.Conn) error {
	return connection.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.limits.MessageTimeout))
}

// pingAndTell tells a subscriber how far it has come, too, unless it knows.
func (s *subscriber) pingAndTell(connection *websocket.Conn) error {
	if err := s.ping(connection); err != nil {
		return err
	}
	if s.opening != nil && s.passed > s.told {
		return s.note(connection, api.Position, s.passed)
	}
	return nil
}

// note tells a subscriber a sequence number.
func (s *subscriber) note(connection *websocket.Conn, kind api.EventNoteType, sequence int64) error {
	data, err := json.Marshal(api.EventNote{Type: kind, Sequence: sequence})
	if err != nil {
		return err
	}
	if kind != api.Hello {
		s.told = sequence
	}
	return s.send(connection, data)
}

// send writes a text message.
func (s *subscriber) send(connection *websocket.Conn, data []byte) error {
	if err := connection.SetWriteDeadline(time.Now().Add(s.limits.MessageTimeout)); err != nil {
		return err
	}
	return connection.WriteMessage(websocket.TextMessage, data)
}

// farewell is why the WebSocket ends, and where the client should connect again if it should.
func (s *subscriber) farewell() string {
	switch {
	case s.code != websocket.CloseTryAgainLater && s.code != websocket.CloseServiceRestart:
		return s.reason
	case s.opening == nil || s.view == nil:
		return s.reason + "; connect again"
	default:
		return fmt.Sprintf("%s; connect again with since=%d", s.reason, s.passed)
	}
}

// bye says why the WebSocket ends.
func (s *subscriber) bye(connection *websocket.Conn) {
	s.stop(websocket.CloseInternalServerErr, "")
	message := websocket.FormatCloseMessage(s.code, s.farewell())
	_ = connection.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeGrace)) // the connection is closed next
}
