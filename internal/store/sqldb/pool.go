package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Bounds of connections to a database server.
const (
	// defaultServerConns is how many connections a process has, besides one that listens.
	defaultServerConns = 16
	// connMaxLifetime and connMaxIdleTime let connections move to another server after a failover, and end before those in
	// between forget them.
	connMaxLifetime = 30 * time.Minute
	connMaxIdleTime = 4 * time.Minute
	// connectTimeout bounds the way to a usable connection, deadAfter how long a connection waits for a peer that is gone.
	connectTimeout = 10 * time.Second
	deadAfter      = 30 * time.Second
	// lockWait bounds the wait for a lock in the database.
	lockWait = 30 * time.Second
)

// serverPools are the pools of a database server. Transactions that write wait for each other anyway, so they have one
// connection: those of one process queue here instead of keeping connections that readers need.
func serverPools(writing, reading driver.Connector, config Config) connection {
	readers := config.MaxOpenConns - 1
	if config.MaxOpenConns <= 0 {
		readers = defaultServerConns - 1
	}
	return connection{writer: serverPool(writing, 1), reader: serverPool(reading, max(readers, 1)), guard: nothing{}}
}

func serverPool(connector driver.Connector, most int) *sql.DB {
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(most)
	pool.SetMaxIdleConns(most)
	pool.SetConnMaxLifetime(connMaxLifetime)
	pool.SetConnMaxIdleTime(connMaxIdleTime)
	return pool
}

// checked closes the pools again when the server cannot be used.
func checked(ctx context.Context, conn connection, check func(ctx context.Context, pool *sql.DB) error) (connection, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	if err := check(ctx, conn.reader); err != nil {
		return connection{}, errors.Join(err, conn.writer.Close(), conn.reader.Close())
	}
	return conn, nil
}

type nothing struct{}

func (nothing) Close() error { return nil }

// dialer notices a peer that is gone without a word.
func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         connectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: deadAfter / 2, Interval: deadAfter / 6, Count: 3},
		Control:         boundUnacknowledged,
	}
}

// isNetworkError reports whether a connection is gone or could not be made.
func isNetworkError(err error) bool {
	var network *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// versionBelow compares the first two numbers of a version. One that cannot be read is not below.
func versionBelow(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n == 0 {
		return false
	}
	return a < major || a == major && b < minor
}

// badDSN is an error about a DSN. It never holds any of it, since there is a password in it.
func badDSN(format string, values ...any) error {
	return fmt.Errorf("the DSN (its content is not shown): "+format, values...)
}
