package setup

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestIdleConnections opens 10,000 connections from 100 addresses that ask for a page, without authentication, and then stay idle. A scan
// delivers its SBOM all the same.
func TestIdleConnections(t *testing.T) {
	const addresses, each = 100, 100
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < addresses*each+1000 {
		t.Fatalf("this test needs %d open files, not %d (%v): raise the limit with ulimit -n", addresses*each+1000, files.Cur, err)
	}
	p := startServer(t, 1<<30)
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	defer cancel()
	address := strings.TrimPrefix(p.base, "http://")

	var mu sync.Mutex
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	var opening sync.WaitGroup
	for i := range addresses {
		opening.Go(func() {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
			for range each {
				c, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
				if err := ask(c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	// A scan waits as long for an answer, which is less than it would take until idle connections expire.
	upload, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	status, answer, _, err := p.putSBOM(upload, 0, syftOf(1, likeReal))
	if err != nil || status != http.StatusNoContent {
		t.Errorf("%d %s %v", status, answer, err)
	}
}

// ask sends a request without authentication, and reads its answer.
func ask(c net.Conn) error {
	if _, err := fmt.Fprint(c, "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	return response.Body.Close()
}
