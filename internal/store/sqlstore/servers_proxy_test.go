package sqlstore

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// action is what a proxy does with what a client sent.
type action int

const (
	pass action = iota
	// cutBefore closes the connection instead of passing it on, cutAfter when the server has answered.
	cutBefore
	cutAfter
)

// proxy stands between a store and a server.
type proxy struct {
	net.Listener
	target   string
	mu       sync.Mutex
	decision func(request []byte) action
}

// throughProxy returns the config with the address of a proxy in the DSN.
func throughProxy(t *testing.T, config Config) (Config, *proxy) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(config.DSN, "127.0.0.1:")
	end := strings.IndexAny(rest, ")/")
	if !found || end < 0 {
		t.Fatalf("there is no address in %s", config.DSN)
	}
	p := &proxy{Listener: listener, target: "127.0.0.1:" + rest[:end]}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		group.Wait()
	})
	config.DSN = strings.Replace(config.DSN, p.target, listener.Addr().String(), 1)
	return config, p
}

// decide makes the proxy ask what to do with each request; nil passes all.
func (p *proxy) decide(decision func(request []byte) action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decision = decision
}

func (p *proxy) action(request []byte) action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decision == nil {
		return pass
	}
	return p.decision(request)
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // It may be closed.
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // It may be closed.
	var group sync.WaitGroup
	defer group.Wait()
	answers := &gate{to: client}
	group.Go(func() {
		_, _ = io.Copy(answers, server)
		_ = client.Close()
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			_ = server.Close()
			return
		}
		switch p.action(buffer[:n]) {
		case cutBefore:
			_ = server.Close()
			return
		case cutAfter:
			answers.swallow()
		case pass:
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// gate passes what is written to it, or closes the connection at the next write instead.
type gate struct {
	to     net.Conn
	mu     sync.Mutex
	closed bool
}

func (g *gate) swallow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) Write(content []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = g.to.Close()
		return 0, io.ErrClosedPipe
	}
	return g.to.Write(content)
}

// first decides on the first request with that text, without regard to case, and passes all others.
func first(text string, v action) func([]byte) action {
	done := false
	return func(request []byte) action {
		if done || !bytes.Contains(bytes.ToLower(request), []byte(strings.ToLower(text))) {
			return pass
		}
		done = true
		return v
	}
}
