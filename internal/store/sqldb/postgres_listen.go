package sqldb

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
)

// Pauses before the listening connection is made again.
const (
	listenFirst = 250 * time.Millisecond
	listenMost  = 30 * time.Second
)

// postgresListener receives notifications of other processes. It has a connection of its own.
type postgresListener struct {
	config *pgx.ConnConfig
	// self is the payload of this process's own notifications, which are ignored.
	self string
	log  logr.Logger
}

// run connects again whenever the connection is lost, until the context ends.
func (l *postgresListener) run(ctx context.Context, notified func()) {
	begun := func() {}
	for pause := listenFirst; ctx.Err() == nil; pause = min(2*pause, listenMost) {
		listened, err := l.listen(ctx, begun, notified)
		if ctx.Err() != nil {
			return
		}
		if listened {
			pause = listenFirst
		}
		begun = notified // Notifications may have been lost meanwhile.
		l.log.V(1).Info("Lost the connection that receives notifications from the database; connecting again", "error", err.Error())
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// listen calls begun when it has begun to listen. It returns when the connection is lost, and whether there was one.
func (l *postgresListener) listen(ctx context.Context, begun, notified func()) (bool, error) {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // It is lost, or given up.
	}()
	if err := preparePostgres(postgresSession)(ctx, conn); err != nil {
		return false, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+postgresChannel); err != nil {
		return false, err
	}
	begun()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		if notification.Payload != l.self {
			notified()
		}
	}
}
