package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// enough bounds what must come to an end by itself.
const enough = 60 * time.Second

func lostKey(n int) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprint("image-", n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

func wantOne(ctx context.Context, s *Store, n int) error {
	_, err := s.WantImages(ctx, []model.ImageKey{lostKey(n)})
	return err
}

// TestLostConnections cuts connections at certain requests.
func TestLostConnections(t *testing.T) {
	eachServer(t, func(t *testing.T, config Config) {
		config, p := throughProxy(t, config)
		s := openWith(t, config)
		says := map[string]map[string]string{
			sqldb.TypePostgres: {"begin": "begin", "insert": "insert into images", "select": "select i.id", "commit": "commit\x00"},
			sqldb.TypeMySQL:    {"begin": "start transaction", "insert": "insert into images", "select": "select i.id", "commit": "\x03commit"},
		}
		for n, c := range []struct {
			name, at    string
			how         action
			unavailable bool
			kept        bool
		}{
			{"before the transaction", "begin", cutBefore, false, true},
			{"before the insert", "insert", cutBefore, false, true},
			{"after the insert", "insert", cutAfter, false, true},
			{"at a select", "select", cutBefore, false, true},
			{"before the commit arrives", "commit", cutBefore, true, false},
			{"after the commit", "commit", cutAfter, true, true},
		} {
			p.decide(first(says[config.Type][c.at], c.how))
			err := wantOne(t.Context(), s, n)
			p.decide(nil)
			if unavailable := errors.Is(err, store.ErrUnavailable); unavailable != c.unavailable || err != nil && !unavailable {
				t.Errorf("%s: got %v", c.name, err)
			}
			if c.unavailable && (err == nil || !strings.Contains(err.Error(), "not known whether")) {
				t.Errorf("%s: the error does not say that the outcome is unknown: %v", c.name, err)
			}
			if _, err := s.Image(t.Context(), store.AllNamespaces(), lostKey(n)); errors.Is(err, store.ErrNotFound) == c.kept {
				t.Errorf("%s: got %v", c.name, err)
			}
			// The caller tries again; nothing happens twice.
			if err := wantOne(t.Context(), s, n); err != nil {
				t.Errorf("%s, again: %v", c.name, err)
			}
			if last, err := s.LastSequence(t.Context()); err != nil || last != int64(n+1) {
				t.Errorf("%s: %d events, %v", c.name, last, err)
			}
		}
	})
}

// TestUnavailableServer has calls fail while the server is away, and go on by themselves when it is there again.
func TestUnavailableServer(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := server.own(t)
			s := openWith(t, Config{Type: name, DSN: own.DSN})
			if err := wantOne(t.Context(), s, 0); err != nil {
				t.Fatal(err)
			}
			for round, end := range []func(testing.TB){own.Stop, own.Kill} {
				callsFailWhile(t, s, func() { end(t) }, func() { own.Start(t) })
				if err := wantOne(t.Context(), s, 1000+round); err != nil {
					t.Error(err)
				}
			}
			if err := s.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// callsFailWhile runs readers and a writer over the end and the start of the server. They see nothing but ErrUnavailable.
func callsFailWhile(t *testing.T, s *Store, end, start func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	var group sync.WaitGroup
	failed, again, done := make(chan int, 100), make(chan int, 100), make(chan struct{})
	calls := []func(n int) error{
		func(n int) error { return wantOne(ctx, s, n) },
		func(int) error { _, err := s.Image(ctx, store.AllNamespaces(), lostKey(0)); return err },
		func(int) error { _, err := s.EventsSince(ctx, store.AllNamespaces(), 0, 10); return err },
		func(int) error { return s.Ready(ctx) },
	}
	for i, call := range calls {
		group.Go(func() {
			wasLost := false
			for n := 1; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				err := call(n)
				switch {
				case err == nil && wasLost:
					wasLost = false
					again <- i
				case err != nil && !errors.Is(err, store.ErrUnavailable):
					t.Errorf("call %d: %v", i, err)
					return
				case err != nil && !wasLost:
					wasLost = true
					failed <- i
				}
			}
		})
	}
	defer group.Wait()
	defer close(done)
	end()
	await(ctx, t, failed, len(calls))
	start()
	await(ctx, t, again, len(calls))
}

// await waits until each of n senders has sent once.
func await(ctx context.Context, t *testing.T, from <-chan int, n int) {
	t.Helper()
	for seen := map[int]bool{}; len(seen) < n; {
		select {
		case i := <-from:
			seen[i] = true
		case <-ctx.Done():
			t.Fatalf("only %v came to it", seen)
		}
	}
}

// TestOpenWithoutServer fails within a bound and names what it could not reach.
func TestOpenWithoutServer(t *testing.T) {
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, p := throughProxy(t, Config{Type: name, DSN: server.empty(t)})
			p.decide(func([]byte) action { return cutBefore })
			if _, err := Open(t.Context(), config); err == nil {
				t.Error("no error")
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), p.Addr().String()) {
				t.Errorf("got %v", err)
			}
		})
	}
}
