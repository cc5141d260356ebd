package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

const (
	// takeAtOnce is how many items a subscriber takes from the hub at a time.
	takeAtOnce = 32
	// notJoined is the next item of a subscriber that does not follow the hub yet: it cannot be behind.
	notJoined = math.MaxInt64
	// eventsMissing is why a WebSocket ends whose events may not be followed by those that come next.
	eventsMissing = "events may be missing"
	// pingsPerCheck is how many pings apart at most it is asked whether a caller may still have a WebSocket: 20 seconds.
	pingsPerCheck = 4
	// namespacesChanged is why a WebSocket ends whose caller sees other namespaces than before.
	namespacesChanged = "the namespaces that you may see have changed"
	// identityAged is why a WebSocket ends whose caller the front proxy has to authenticate again.
	identityAged = "connect again, so that the front proxy authenticates you again"
	// notReadmitted is why a WebSocket ends of whose caller nobody can say any more what it may see.
	notReadmitted = "your permissions cannot be checked at the moment"
)

// refusals are why a WebSocket ends whose caller would not be let in any more, by status. A frame has room for 123 bytes.
var refusals = map[int]string{
	http.StatusUnauthorized: "the token, the session or the certificate of the front proxy is no longer valid",
	http.StatusForbidden:    "the permission to list scanresults was revoked",
}

// subscriber is one WebSocket.
type subscriber struct {
	hub    *Hub
	stream Stream
	caller string
	// next is the number of the item of the hub that comes next.
	next atomic.Int64
	// passed is up to where the subscriber was sent all that its stream shows, told the last sequence number that it
	// knows of. Only the goroutine that writes uses them, and only a subscriber with an opening is told of numbers.
	passed feed.Position
	told   int64
	// numbers are those of a caller that does not see all namespaces, nil of others.
	numbers *numbers
	// connection is set when the handshake is over.
	connection atomic.Pointer[websocket.Conn]

	// done is closed when the WebSocket is to end; code and reason are set before.
	once   sync.Once
	done   chan struct{}
	code   int
	reason string
}

func newSubscriber(h *Hub, stream Stream, caller string) *subscriber {
	return &subscriber{hub: h, stream: stream, caller: caller, done: make(chan struct{})}
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

// watch asks from time to time whether the caller may still have the WebSocket, and stops it otherwise. While nobody can be asked, it asks more
// often, and stops the WebSocket when the last answer is older than ReadmitTimeout: a permission may have been revoked since. It ends with ctx.
func (s *subscriber) watch(ctx context.Context, readmit func(context.Context) error) {
	limits := s.hub.limits
	confirmed, longest := time.Now(), pingsPerCheck*limits.PingInterval
	// Those who came together do not ask together.
	pause := jittered(longest)
	for {
		next := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		}
		asked, until := time.Now(), confirmed.Add(limits.ReadmitTimeout)
		bounded, cancel := context.WithDeadline(ctx, until)
		err := readmit(bounded)
		cancel()
		p, _ := problem.As(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			confirmed, pause = asked, jittered(longest)
			continue
		case errors.Is(err, ErrNamespacesChanged):
			s.stop(websocket.CloseServiceRestart, namespacesChanged)
			return
		case errors.Is(err, ErrIdentityAged):
			s.stop(websocket.CloseServiceRestart, identityAged)
			return
		case p != nil && refusals[p.Status] != "":
			s.stop(websocket.ClosePolicyViolation, refusals[p.Status])
			return
		}
		left := time.Until(until)
		if left <= 0 {
			s.stop(websocket.CloseTryAgainLater, notReadmitted)
			return
		}
		pause = min(jittered(limits.PingInterval), left)
	}
}

// jittered returns a random duration between the half and the whole of one.
func jittered(longest time.Duration) time.Duration { return longest/2 + rand.N(longest/2) }

// read notices when the other side closes or falls silent. What it says is dropped.
func (s *subscriber) read(connection *websocket.Conn) {
	alive := func(string) error { return connection.SetReadDeadline(time.Now().Add(s.hub.limits.PongTimeout)) }
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
	if s.stream.open != nil && s.open(connection) != nil {
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
		ping := time.NewTicker(s.hub.limits.PingInterval)
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
	return s.stream.open(ctx, s, connection)
}

// follow writes what the hub publishes, and pings. It returns nil when the WebSocket is to end, and why it cannot be written to
// otherwise.
func (s *subscriber) follow(connection *websocket.Conn) error {
	ping := time.NewTicker(s.hub.limits.PingInterval)
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

// deliver writes an item if the stream shows it.
func (s *subscriber) deliver(connection *websocket.Conn, i *item) error {
	message, err := s.stream.encode(i)
	if errors.Is(err, feed.ErrReset) {
		s.stop(websocket.CloseServiceRestart, eventsMissing)
		return nil
	}
	if err != nil {
		s.hub.log.Error(err, "Cannot encode an event", "sequence", i.Sequence)
	}
	if message != nil {
		if err := connection.SetWriteDeadline(time.Now().Add(s.hub.limits.MessageTimeout)); err != nil {
			return err
		}
		if err := connection.WritePreparedMessage(message); err != nil {
			return err
		}
		s.told = i.Sequence
	}
	if i.Sequence > s.passed.Sequence {
		s.passed = feed.Of(i.Event)
	}
	return nil
}

func (s *subscriber) ping(connection *websocket.Conn) error {
	return connection.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.hub.limits.MessageTimeout))
}

// pingAndTell tells a subscriber how far it has come, too, unless it knows.
func (s *subscriber) pingAndTell(connection *websocket.Conn) error {
	if err := s.ping(connection); err != nil {
		return err
	}
	// Callers that do not see all namespaces are told at each ping: when they are must not tell when something happens elsewhere.
	if s.stream.open != nil && (s.passed.Sequence > s.told || s.numbers != nil) {
		return s.note(connection, api.Position, s.passed)
	}
	return nil
}

// note tells a subscriber a position.
func (s *subscriber) note(connection *websocket.Conn, kind api.EventNoteType, at feed.Position) error {
	if kind != api.Hello {
		s.told = at.Sequence
	}
	if s.numbers != nil {
		at = s.numbers.shown(at)
	}
	data, err := json.Marshal(api.EventNote{Type: kind, Sequence: at.Sequence, LogId: at.LogID})
	if err != nil {
		return err
	}
	return s.send(connection, data)
}

// send writes a text message.
func (s *subscriber) send(connection *websocket.Conn, data []byte) error {
	if err := connection.SetWriteDeadline(time.Now().Add(s.hub.limits.MessageTimeout)); err != nil {
		return err
	}
	return connection.WriteMessage(websocket.TextMessage, data)
}

// farewell is why the WebSocket ends, and where the client should reconnect if it should.
func (s *subscriber) farewell() string {
	switch {
	case s.code != websocket.CloseTryAgainLater && s.code != websocket.CloseServiceRestart:
		return s.reason
	case s.stream.open == nil || s.stream.encode == nil:
		return s.reason + "; reconnect"
	default:
		at := s.passed
		if s.numbers != nil {
			at = s.numbers.shown(at)
		}
		return fmt.Sprintf("%s; reconnect with since=%d", s.reason, at.Sequence)
	}
}

// bye says why the WebSocket ends.
func (s *subscriber) bye(connection *websocket.Conn) {
	s.stop(websocket.CloseInternalServerErr, "")
	message := websocket.FormatCloseMessage(s.code, s.farewell())
	_ = connection.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeGrace)) // the connection is closed next
}
