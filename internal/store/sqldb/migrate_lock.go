package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Bounds of the wait for another process that migrates.
const (
	migrationWait  = 5 * time.Minute
	migrationProbe = 100 * time.Millisecond
)

// sessionLock is a lock that a connection holds until it releases it or ends. It implements lock.SessionLocker.
type sessionLock struct {
	// try returns 1 when the connection has the lock now; release frees it. prepare runs under the lock and may run again.
	try, release string
	prepare      []string
	// wait bounds the wait for another process, migrationWait when it is 0.
	wait time.Duration
}

var errMigrating = errors.New("another process is migrating the database")

// SessionLock implements lock.SessionLocker.
func (l sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	wait := cmp.Or(l.wait, migrationWait)
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ticker := time.NewTicker(migrationProbe)
	defer ticker.Stop()
	for {
		var taken sql.NullInt64
		if err := conn.QueryRowContext(ctx, l.try).Scan(&taken); err != nil {
			return fmt.Errorf("acquire the migration lock: %w", err)
		}
		if taken.Int64 == 1 {
			break
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %w and has not finished after %s; check the logs of the other replicas", ErrUnavailable, errMigrating, wait)
		}
	}
	for _, statement := range l.prepare {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return errors.Join(err, l.SessionUnlock(context.WithoutCancel(ctx), conn))
		}
	}
	return nil
}

// SessionUnlock implements lock.SessionLocker. The lock of a connection that is lost is free already.
func (l sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var released any
	err := conn.QueryRowContext(ctx, l.release).Scan(&released)
	if isNetworkError(err) {
		return nil
	}
	return err
}
