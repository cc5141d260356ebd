package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

const (
	// postgresWriterLock and postgresMigrationLock are the advisory locks of a database; they mean nothing but this.
	postgresWriterLock    = 7_263_510_001
	postgresMigrationLock = 7_263_510_002
	// postgresStatements bounds the prepared statements of a connection.
	postgresStatements = 128
	// postgresChannel is the channel of NOTIFY. Replicas of different versions share it.
	postgresChannel = "scanner_operator_events"
)

// postgresSession is what every connection relies on, whatever the DSN, the role or the database say. The last settings let
// the server notice a client that is gone, and free the lock of the writer. A commit waits until it is on disk, also on the synchronous
// standbys: what was acknowledged survives a crash. Only remote_apply waits for more.
var postgresSession = fmt.Sprintf(`SET client_encoding = 'UTF8'; SET timezone = 'UTC'; SET standard_conforming_strings = on;
	SET lock_timeout = %[1]d; SET idle_in_transaction_session_timeout = '5min';
	SET tcp_keepalives_idle = %[2]d; SET tcp_keepalives_interval = %[3]d; SET tcp_keepalives_count = 3;
	SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> 'remote_apply'`,
	lockWait.Milliseconds(), int((deadAfter / 2).Seconds()), int((deadAfter / 6).Seconds()))

// postgresReading is what connections for reading rely on, too: a plan for the values of each query (docs/decisions/0154-plans-for-the-values-of-a-query.md). Any value but "auto" that a
// DSN, role or database sets prevails.
const postgresReading = "SELECT set_config('plan_cache_mode', 'force_custom_plan', false) WHERE current_setting('plan_cache_mode') = 'auto'"

// postgresDialect keeps everything in a PostgreSQL database, for any number of processes.
type postgresDialect struct{}

func (postgresDialect) Type() string { return TypePostgres }

func (postgresDialect) open(ctx context.Context, config Config) (connection, error) {
	parsed, err := parsePostgresDSN(config.DSN)
	if err != nil {
		return connection{}, err
	}
	writing := stdlib.GetConnector(*parsed, stdlib.OptionAfterConnect(preparePostgres(postgresSession)))
	reading := stdlib.GetConnector(*parsed, stdlib.OptionAfterConnect(preparePostgres(postgresSession+"; "+postgresReading)))
	conn, err := checked(ctx, serverPools(writing, reading, config), func(ctx context.Context, pool *sql.DB) error {
		var encoding, version string
		err := pool.QueryRowContext(ctx, "SELECT current_setting('server_encoding'), current_setting('server_version')").Scan(&encoding, &version)
		if err != nil {
			return err
		}
		if versionBelow(version, 14, 0) {
			return fmt.Errorf("the server is PostgreSQL %s; at least 14 is needed", version)
		}
		if encoding != "UTF8" {
			return fmt.Errorf("the database has the encoding %s; create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
		}
		return nil
	})
	if err != nil {
		return connection{}, err
	}
	conn.listen = (&postgresListener{config: parsed, self: config.Self, log: config.Log}).run
	return conn, nil
}

func preparePostgres(settings string) func(ctx context.Context, conn *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, settings).ReadAll()
		return err
	}
}

// parsePostgresDSN reads a URL or a list of keyword=value.
func parsePostgresDSN(dsn string) (*pgx.ConnConfig, error) {
	const forms = `use "postgres://user:password@host:5432/database" with special characters of the password as %xx, or ` +
		`"host=... user=... password=... dbname=..."`
	if strings.TrimSpace(dsn) == "" {
		return nil, fmt.Errorf("the DSN is empty: %s", forms)
	}
	if strings.Contains(dsn, "://") {
		// What url.Parse says holds a part of it.
		parsed, err := url.Parse(dsn)
		// Without these checks a password with "#" or "?" is taken for a host.
		if err != nil || parsed.Fragment != "" || parsed.User == nil && strings.Contains(dsn, "@") {
			return nil, badDSN("it is no URL: %s", forms)
		}
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		detail := "it cannot be read"
		var refused *pgconn.ParseConfigError
		if errors.As(err, &refused) && errors.Unwrap(refused) != nil && !strings.ContainsAny(errors.Unwrap(refused).Error(), "\"'`") {
			detail = errors.Unwrap(refused).Error() // Without the DSN, and what is quoted may be a part of it.
		}
		return nil, badDSN("%s: %s", detail, forms)
	}
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > connectTimeout {
		config.ConnectTimeout = connectTimeout
	}
	config.DialFunc = dialer().DialContext
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "scanner-operator"
	}
	// The server keeps parsed statements and, for the writer, plans: to make these is most of the work of many statements. The bound is on what each connection keeps.
	config.DefaultQueryExecMode, config.StatementCacheCapacity = pgx.QueryExecModeCacheStatement, postgresStatements
	return config, nil
}

func (postgresDialect) gorm(pool *sql.DB) gorm.Dialector {
	return gormpostgres.New(gormpostgres.Config{Conn: pool})
}

func (postgresDialect) goose() goose.Dialect { return goose.DialectPostgres }

func (postgresDialect) locker() lock.SessionLocker {
	return sessionLock{
		try:     fmt.Sprintf("SELECT CASE WHEN pg_try_advisory_lock(%d) THEN 1 ELSE 0 END", int64(postgresMigrationLock)),
		release: fmt.Sprintf("SELECT pg_advisory_unlock(%d)", int64(postgresMigrationLock)),
	}
}

func (postgresDialect) lock(tx *gorm.DB) error {
	return tx.Exec("SELECT pg_advisory_xact_lock(?)", int64(postgresWriterLock)).Error
}

// writeOptions: in a stricter isolation the transaction would see what there was before it waited for the lock.
func (postgresDialect) writeOptions() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func (postgresDialect) readOptions() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

func (postgresDialect) notify(tx *gorm.DB, self string) error {
	return tx.Exec("SELECT pg_notify(?, ?)", postgresChannel, self).Error
}

func (postgresDialect) List(column string) string {
	return "STRING_AGG(CAST(" + column + " AS TEXT), ',')"
}

// Among: PostgreSQL expects nearly all rows from a comparison with <>, and few from one with =, for which it looks up what follows from each.
func (postgresDialect) Among(column string, numbers []int64) clause.Expr {
	return among("CASE WHEN %[1]s >= ? AND %[1]s <= ? THEN GET_BIT(CAST(? AS BYTEA), %[1]s - ?) ELSE 0 END <> 0", column, numbers, bitSet, func(column, list string) clause.Expr {
		// The list is a value, because statements are kept by their text. A plan that is kept, for the writer or because of the DSN, is one for ten numbers: without the addition, it looks up each number with an index.
		return gorm.Expr(column+" + 0 IN (SELECT n.id FROM UNNEST(CAST(? AS BIGINT[])) AS n (id))", "{"+list+"}")
	})
}

func (postgresDialect) IgnoreConflict(unique ...string) string {
	return " ON CONFLICT (" + strings.Join(unique, ", ") + ") DO NOTHING"
}

// Lower: the columns have the collation "C", in which only ASCII has case.
func (postgresDialect) Lower(column string) string { return "LOWER(" + column + ")" }

func (postgresDialect) Position(text, part string) string {
	return "STRPOS(" + text + ", " + part + ")"
}

// Size is that of the whole database, with what the server keeps in it.
func (postgresDialect) Size() string { return "SELECT pg_database_size(current_database())" }

func (postgresDialect) reset(*sql.DB) {}

// classify looks at SQLSTATEs (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func (postgresDialect) classify(err error) errorClass {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		var unreachable *pgconn.ConnectError
		if errors.As(err, &unreachable) || pgconn.SafeToRetry(err) {
			return errorLost
		}
		return errorOther
	}
	switch refused.Code {
	case "40001", "40P01", "55P03", "26000": // Serialization failure, deadlock, lock timeout, prepared statement that is gone.
		return errorBusy
	case "0A000":
		// Another replica has changed the schema; the statement is prepared anew the next time.
		if refused.Message == "cached plan must not change result type" {
			return errorBusy
		}
	case "57P01", "57P02", "57P03", "57P05", "53300": // Shutdown, crash, start, idle for too long, too many connections.
		return errorLost
	case "25006", "25P03", "57014", "3D000": // Read-only, idle in a transaction, cancelled, no such database.
		return errorUnavailable
	}
	switch refused.Code[:min(2, len(refused.Code))] {
	case "08": // Connection.
		return errorLost
	case "28", "53", "58": // Not let in, out of resources, system errors.
		return errorUnavailable
	}
	return errorOther
}

// unsent is never certain: pgx also calls an error safe to retry after a connection was lost during the commit.
func (postgresDialect) unsent(error) bool { return false }
