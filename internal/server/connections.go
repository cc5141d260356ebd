package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
)

// connections is a listener that keeps connections of clients that have not authenticated from taking the place of others. A connection
// counts as authenticated from its first request on that was admitted with a permission. Of the others, an address has at most
// perAddress at a time, all addresses together as many as others leave; where one more comes, the least recently used is closed. A
// new connection waits only while limit connections are authenticated.
type connections struct {
	net.Listener
	metrics metrics
	// perAddress is 0 for no limit; idle is how long an unauthenticated connection is kept without a request.
	perAddress int
	idle       time.Duration
	// slots has an entry for each open connection; done is closed with the listener.
	slots chan struct{}
	done  chan struct{}
	end   sync.Once

	mu sync.Mutex
	// strangers are the unauthenticated connections, the least recently used first; byAddress are the same by address.
	strangers *list.List
	byAddress map[string]*list.List
}

// connection is an open connection. The mutex of its listener guards what changes.
type connection struct {
	net.Conn
	of      *connections
	address string
	release sync.Once
	// places are the entries in strangers and in byAddress, nil once the connection is authenticated or closed.
	places [2]*list.Element
	// expiry closes the connection; it runs while the connection is idle and unauthenticated.
	expiry *time.Timer
}

func (s *Server) limitConnections(listener net.Listener) *connections {
	return &connections{
		Listener: listener, metrics: s.metrics, perAddress: s.limits.AddressConnections, idle: s.limits.UnauthenticatedIdleTimeout,
		slots: make(chan struct{}, s.limits.Connections), done: make(chan struct{}),
		strangers: list.New(), byAddress: map[string]*list.List{},
	}
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, of: l, address: auth.Address(accepted.RemoteAddr().String())}
	if l.perAddress > 0 {
		l.drop(c.address, l.perAddress)
	}
	select {
	case l.slots <- struct{}{}:
	default:
		l.drop("", 1)
		select {
		case l.slots <- struct{}{}:
		case <-l.done:
			return nil, closing(accepted)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	same := l.byAddress[c.address]
	if same == nil {
		same = list.New()
		l.byAddress[c.address] = same
	}
	c.places = [2]*list.Element{l.strangers.PushBack(c), same.PushBack(c)}
	return c, nil
}

// closing closes a connection that came too late.
func closing(c net.Conn) error {
	if err := c.Close(); err != nil {
		return err
	}
	return net.ErrClosed
}

// drop closes the least recently used unauthenticated connection of an address, or of all for "", if there are that many.
func (l *connections) drop(address string, many int) {
	l.mu.Lock()
	candidates, reason := l.strangers, "total"
	if address != "" {
		candidates, reason = l.byAddress[address], "address"
	}
	var oldest *connection
	if candidates != nil && candidates.Len() >= many {
		oldest, _ = candidates.Front().Value.(*connection)
	}
	l.mu.Unlock()
	if oldest == nil {
		return
	}
	l.metrics.dropped.WithLabelValues(reason).Inc()
	_ = oldest.Close() // Its client is told nothing in any case.
}

// Close implements net.Listener.
func (l *connections) Close() error {
	l.end.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	err := c.Conn.Close()
	c.release.Do(func() {
		c.of.mu.Lock()
		c.leave()
		c.of.mu.Unlock()
		<-c.of.slots
	})
	return err
}

// leave takes the connection off the unauthenticated ones.
func (c *connection) leave() {
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.places[0] == nil {
		return
	}
	same := c.of.byAddress[c.address]
	c.of.strangers.Remove(c.places[0])
	same.Remove(c.places[1])
	if same.Len() == 0 {
		delete(c.of.byAddress, c.address)
	}
	c.places = [2]*list.Element{}
}

// authenticated says that the client was admitted.
func (c *connection) authenticated() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.leave()
}

// enter follows the state of an unauthenticated connection.
func (c *connection) enter(state http.ConnState) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.places[0] == nil {
		return
	}
	c.of.strangers.MoveToBack(c.places[0])
	c.of.byAddress[c.address].MoveToBack(c.places[1])
	switch {
	case state != http.StateIdle:
		if c.expiry != nil {
			c.expiry.Stop()
		}
	case c.expiry == nil:
		c.expiry = time.AfterFunc(c.of.idle, func() { _ = c.Close() })
	default:
		c.expiry.Reset(c.of.idle)
	}
}

// connectionOf finds the connection below those that wrap it, as TLS does; nil when there is none.
func connectionOf(c net.Conn) *connection {
	for {
		switch inner := c.(type) {
		case *connection:
			return inner
		case interface{ NetConn() net.Conn }:
			c = inner.NetConn()
		default:
			return nil
		}
	}
}

// follow has a server tell connections their state, and requests their connection.
func follow(server *http.Server) {
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if own := connectionOf(c); own != nil {
			own.enter(state)
		}
	}
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, connectionOf(c))
	}
}

// connectionKey finds the connection in the context of a request.
type connectionKey struct{}

// keepConnection says that the client of a request was admitted.
func keepConnection(ctx context.Context) {
	if own, _ := ctx.Value(connectionKey{}).(*connection); own != nil {
		own.authenticated()
	}
}
