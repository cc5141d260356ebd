//go:build faults

package faults

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// sqlWay is the way of an operator to its database server.
type sqlWay struct {
	net.Listener
	target string

	mu sync.Mutex
	// open are the connections of both sides.
	open map[net.Conn]bool
	// silent says that the next answer is not passed on, and all connections end instead.
	silent bool
	// paused is until when answers are late.
	paused time.Time
}

func newSQLWay(t *testing.T, target string) *sqlWay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &sqlWay{Listener: listener, target: target, open: map[net.Conn]bool{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { w.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
		group.Wait()
	})
	return w
}

func (w *sqlWay) serve(client net.Conn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = client.Close()
		return
	}
	w.mu.Lock()
	w.open[client], w.open[server] = true, true
	w.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(&answers{client, w}, server)
	_ = client.Close()
	_ = server.Close()
	group.Wait()
	w.mu.Lock()
	delete(w.open, client)
	delete(w.open, server)
	w.mu.Unlock()
}

// cut ends all connections.
func (w *sqlWay) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.open {
		_ = conn.Close()
	}
}

func (w *sqlWay) swallow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (w *sqlWay) pause(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = time.Now().Add(d)
}

// answers passes on what a server answers.
type answers struct {
	client net.Conn
	way    *sqlWay
}

func (a *answers) Write(content []byte) (int, error) {
	a.way.mu.Lock()
	silent, wait := a.way.silent, time.Until(a.way.paused)
	a.way.silent = false
	a.way.mu.Unlock()
	if silent {
		a.way.cut()
		return 0, io.ErrClosedPipe
	}
	if wait > 0 {
		time.Sleep(wait)
	}
	return a.client.Write(content)
}
