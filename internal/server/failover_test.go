package server_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// A server that lacked the newest events takes over, and uses their numbers again. Who has seen events that are lost is told to reload, not
// given what comes behind their numbers; who has not goes on.
func TestFailoverThatLosesEvents(t *testing.T) {
	t.Parallel()
	open := func(path string) store.Store {
		t.Helper()
		s, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: "sqlite", DSN: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	primary, standby := newDatabase(t), filepath.Join(t.TempDir(), "standby.db")
	f, away := awayFixture(t, func() store.Store { return open(primary) })
	common := f.want("common", 3)
	// What the standby has.
	f.must(away.Close())
	// SQLite copies it. It waits for the reader that closes last, which moves the log of the database into its file meanwhile.
	database, err := sql.Open("sqlite", "file:"+primary+"?_pragma=busy_timeout(5000)")
	f.must(err)
	_, err = database.ExecContext(t.Context(), "VACUUM INTO ?", standby)
	f.must(errors.Join(err, database.Close()))
	before := open(primary)
	away.become(before)

	type position struct {
		Sequence int64
		LogID    string
		Items    []told
	}
	read := func(since position, status int) position {
		t.Helper()
		a := f.do(http.MethodGet, fmt.Sprintf("%s?since=%d&logId=%s", eventsPath, since.Sequence, since.LogID), "")
		if a.status != status {
			t.Fatalf("since %+v: %d %s", since, a.status, a.body)
		}
		p := position{}
		f.must(json.Unmarshal([]byte(a.body), &p))
		return p
	}
	shared := read(position{}, http.StatusOK)
	lost := f.want("lost", 2)
	ahead := read(shared, http.StatusOK)
	connection, _ := f.dialPath(fmt.Sprintf("%s?since=%d&logId=%s", eventsPath, ahead.Sequence, ahead.LogID))
	expectMessage(t, connection, told{Type: "hello", Sequence: lost})
	if shared.Sequence != common || ahead.Sequence != lost || len(ahead.Items) != 2 || ahead.LogID == "" || ahead.LogID == shared.LogID {
		t.Fatalf("got %+v, then %+v", shared, ahead)
	}

	after := open(standby)
	var keys []model.ImageKey
	for n := range 4 {
		keys = append(keys, model.ImageKey{ImageID: fmt.Sprintf("new%d", n), Platform: linux})
	}
	_, err = after.WantImages(t.Context(), keys)
	f.must(err)
	away.become(after)
	f.must(before.Close())
	last := f.last()
	if last <= lost {
		t.Fatalf("the log ends at %d, want more than %d", last, lost)
	}
	if code := closed(t, connection); code != websocket.CloseServiceRestart {
		t.Errorf("an open WebSocket was closed with %d", code)
	}
	gone := read(ahead, http.StatusGone)
	if gone.Sequence != last || gone.LogID == "" {
		t.Errorf("got %+v, want a reset to %d", gone, last)
	}
	if p := read(gone, http.StatusOK); len(p.Items) != 0 || p.Sequence != last || p.LogID != gone.LogID {
		t.Errorf("behind the reset: %+v", p)
	}
	if p := read(shared, http.StatusOK); len(p.Items) != 4 || p.Sequence != last {
		t.Errorf("a client that saw nothing that is lost got %+v", p)
	}
	connection, _ = f.dialPath(fmt.Sprintf("%s?since=%d&logId=%s", eventsPath, ahead.Sequence, ahead.LogID))
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	expectMessage(t, connection, told{Type: "reset", Sequence: last})
}

// The feed was behind a client when the log lost the events that the client saw: the feed goes on, and the client must come back.
func TestFeedBehindALostEvent(t *testing.T) {
	t.Parallel()
	hand, log := newHandFeed(), &readLog{reads: make(chan struct{}, 10)}
	f := newFixture(t, func(c *server.Config) { log.Store, c.Store, c.Feed = c.Store, log, hand.subscribe })
	first := <-hand.subscriptions
	last := f.want("a", 2)
	connection, _ := f.dialPath(eventsPath + "?since=0")
	expectMessage(t, connection, told{Type: "hello", Sequence: last})
	// The second read is after the client has joined the hub; it finds nothing.
	for range 2 {
		<-log.reads
	}
	for sequence := int64(1); sequence <= last+1; sequence++ {
		first.events <- store.Event{Sequence: sequence, LogID: "other", Kind: store.EventImageDiscovered, ImageID: "b", Data: []byte("{}")}
	}
	for {
		_, data, err := connection.ReadMessage()
		if err != nil {
			if !websocket.IsCloseError(err, websocket.CloseServiceRestart) || !strings.Contains(err.Error(), "reconnect with since=2") {
				t.Errorf("got %v", err)
			}
			return
		}
		if got := decode(t, data); got.ImageID == "b" {
			t.Fatalf("got %+v, an event behind a lost one", got)
		}
	}
}

// readLog tells when events have been read.
type readLog struct {
	store.Store
	reads chan struct{}
}

func (l *readLog) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	events, err := l.Store.EventsSince(ctx, in, since, limit)
	l.reads <- struct{}{}
	return events, err
}
