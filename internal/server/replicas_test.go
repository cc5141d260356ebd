package server_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	// A connection beside the stores, to cut theirs.
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// replica starts a server with a feed and a store of its own on a PostgreSQL database.
func replica(t *testing.T, dsn string) *fixture {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: sqldb.TypePostgres, DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	hub := feed.New(db, feed.Config{PollInterval: 100 * time.Millisecond, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- hub.Run(ctx) }()
	<-hub.Started()
	f := newFixture(t, func(c *server.Config) {
		c.Store = db
		// The clients of these tests answer pings only when they read.
		c.Limits.PongTimeout = time.Hour
		c.Feed = func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) }
	})
	f.store = db
	t.Cleanup(func() {
		f.stop()
		_ = f.wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// write makes images known one by one. Being cut off is no failure: the next try finds out what was done.
func (f *fixture) write(prefix string, count int) {
	deadline := time.Now().Add(3 * patience)
	for i := range count {
		key := model.ImageKey{ImageID: fmt.Sprint(prefix, i), Platform: linux}
		for {
			_, err := f.store.WantImages(f.t.Context(), []model.ImageKey{key})
			if err == nil {
				break
			}
			if !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
				f.t.Error(err)
				return
			}
		}
	}
}

// hop reads events from one replica after the other, a few from each, until it has that many. It returns their numbers and image IDs.
func hop(t *testing.T, replicas []*fixture, count, each int) (numbers []int64, images []string) {
	var since int64
	deadline := time.Now().Add(3 * patience)
	for n := 0; len(numbers) < count; n++ {
		f := replicas[n%len(replicas)]
		url := fmt.Sprintf("ws%s%s?since=%d", strings.TrimPrefix(f.base, "http"), eventsPath, since)
		connection, response, err := websocket.DefaultDialer.DialContext(t.Context(), url, nil)
		if err != nil {
			if response == nil || response.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
				t.Errorf("replica %d behind %d: %v", n%len(replicas), since, err)
				return numbers, images
			}
			continue
		}
		if err := connection.SetReadDeadline(deadline); err != nil {
			t.Error(err)
		}
		for wanted := min(count, len(numbers)+each); len(numbers) < wanted; {
			_, data, err := connection.ReadMessage()
			if err != nil {
				t.Errorf("replica %d behind %d: %v", n%len(replicas), since, err)
				_ = connection.Close()
				return numbers, images
			}
			switch m := decode(t, data); m.Type {
			case "event":
				since = m.Sequence
				numbers, images = append(numbers, m.Sequence), append(images, m.ImageID)
			case "reset":
				t.Errorf("replica %d behind %d: reset", n%len(replicas), since)
			}
		}
		_ = connection.Close()
	}
	return numbers, images
}

// follow hops while two replicas write, and compares what each client saw with the log.
func follow(t *testing.T, replicas []*fixture, images int, meanwhile func()) {
	t.Helper()
	clients := []int{1, 7, 40, 1000}
	var group sync.WaitGroup
	for i, f := range replicas {
		group.Go(func() { f.write(fmt.Sprintf("replica%d-", i), images) })
	}
	total := images * len(replicas)
	numbers, ids := make([][]int64, len(clients)), make([][]string, len(clients))
	for i, each := range clients {
		group.Go(func() { numbers[i], ids[i] = hop(t, replicas, total, each) })
	}
	meanwhile()
	group.Wait()
	var want []int64
	log, err := replicas[0].store.EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range log {
		want = append(want, event.Sequence)
	}
	if len(want) != total {
		t.Errorf("the log has %d events, want %d", len(want), total)
	}
	for i, got := range numbers {
		if !slices.Equal(got, want) {
			t.Errorf("the client that hops after %d events saw %d numbers, not the %d of the log", clients[i], len(got), len(want))
		}
		slices.Sort(ids[i])
		if len(slices.Compact(ids[i])) != total {
			t.Errorf("the client that hops after %d events did not see every image", clients[i])
		}
	}
}

// A client that goes from replica to replica while both write sees every number once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	dsn := dbserver.PostgreSQL(t)
	follow(t, []*fixture{replica(t, dsn), replica(t, dsn)}, 60, func() {})
}

// The same while the connections to the database are cut again and again.
func TestReplicasWithoutSteadyConnections(t *testing.T) {
	t.Parallel()
	dsn := dbserver.PostgreSQL(t)
	replicas := []*fixture{replica(t, dsn), replica(t, dsn)}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	follow(t, replicas, 50, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
		defer cancel()
		// Whenever some more events are there, so that the cuts meet the work.
		for cuts := int64(1); cuts <= 15; cuts++ {
			for last := int64(0); last < 5*cuts; {
				if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&last); err != nil {
					t.Error(err)
					return
				}
			}
			var cut int
			err := db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()) c`).Scan(&cut)
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// A database server that stops and starts again: requests are told to come back, WebSockets stay and go on.
func TestDatabaseServerRestarts(t *testing.T) {
	t.Parallel()
	db := dbserver.OwnPostgreSQL(t)
	f := replica(t, db.DSN)
	connection, _ := f.dialPath(eventsPath)
	expectMessage(t, connection, told{Type: "hello"})
	f.want("a", 1)
	first := message(t, connection)
	check := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, end := range []func(testing.TB){db.Stop, db.Kill} {
		end(t)
		if err := f.server.Check(check); err == nil {
			t.Error("ready without the database")
		}
		for _, path := range []string{"/api/v1/overview", "/scan-results", eventsPath} {
			a := f.do(http.MethodGet, path, "")
			a.problem(t, http.StatusServiceUnavailable, "")
			if a.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", path)
			}
		}
		db.Start(t)
		if err := f.server.Check(check); err != nil {
			t.Errorf("not ready again: %v", err)
		}
		last := f.want("b"+first.ImageID, 1)
		expectMessage(t, connection, told{"event", last, "image.discovered", "b" + first.ImageID + "0"})
		first.ImageID += "x"
	}
}
