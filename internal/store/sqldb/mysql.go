package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// mysqlDialect keeps everything in a database of MySQL or MariaDB, for any number of processes.
type mysqlDialect struct{}

func (mysqlDialect) Type() string { return TypeMySQL }

func (mysqlDialect) open(ctx context.Context, config Config) (connection, error) {
	parsed, err := parseMySQLDSN(config.DSN)
	if err != nil {
		return connection{}, err
	}
	connector, err := mysql.NewConnector(parsed)
	if err != nil {
		return connection{}, badDSN("it cannot be used: %s", mysqlForm)
	}
	return checked(ctx, serverPools(connector, connector, config), func(ctx context.Context, pool *sql.DB) error {
		var version string
		if err := pool.QueryRowContext(ctx, "SELECT @@version").Scan(&version); err != nil {
			return err
		}
		return checkMySQLVersion(version)
	})
}

func checkMySQLVersion(version string) error {
	if strings.Contains(version, "MariaDB") {
		if versionBelow(version, 10, 6) {
			return fmt.Errorf("the server is MariaDB %s; at least 10.6 is needed", version)
		}
		return nil
	}
	if versionBelow(version, 8, 0) {
		return fmt.Errorf("the server is MySQL %s; at least 8.0 is needed", version)
	}
	return nil
}

const mysqlForm = `use "user:password@tcp(host:3306)/database"; parameters may follow behind "?"`

// parseMySQLDSN keeps the host, the account, the database and TLS of a DSN, and settles the rest.
func parseMySQLDSN(dsn string) (*mysql.Config, error) {
	if strings.TrimSpace(dsn) == "" {
		return nil, fmt.Errorf("the DSN is empty: %s", mysqlForm)
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		detail := "it cannot be read"
		// Other errors hold a part of it.
		if rest, known := strings.CutPrefix(err.Error(), "invalid DSN: "); known {
			detail = rest
		}
		return nil, badDSN("%s: %s", detail, mysqlForm)
	}
	if !strings.HasPrefix(config.Net, "tcp") && config.Net != "unix" {
		return nil, badDSN("its network is neither tcp nor unix: %s", mysqlForm)
	}
	if config.DBName == "" {
		return nil, badDSN("it names no database: %s", mysqlForm)
	}
	if err := config.Apply(mysql.Charset("utf8mb4", "utf8mb4_bin")); err != nil {
		return nil, badDSN("it cannot be used: %s", mysqlForm)
	}
	config.InterpolateParams, config.ClientFoundRows, config.CheckConnLiveness, config.RejectReadOnly = true, true, true, true
	config.MultiStatements, config.ColumnsWithAlias, config.AllowAllFiles = false, false, false
	// The server is asked for its limit, so that a statement above it has a clear error.
	config.MaxAllowedPacket = 0
	if config.Timeout <= 0 || config.Timeout > connectTimeout {
		config.Timeout = connectTimeout
	}
	// Statements may take long; a peer that is gone is noticed by the dialer.
	config.ReadTimeout, config.WriteTimeout = 0, 0
	config.Logger = &mysql.NopLogger{}
	if strings.HasPrefix(config.Net, "tcp") {
		config.DialFunc = dialer().DialContext
	}
	params := map[string]string{}
	for name, value := range config.Params {
		params[strings.ToLower(name)] = value
	}
	seconds := strconv.Itoa(int(lockWait.Seconds()))
	maps.Copy(params, map[string]string{
		"time_zone": "'+00:00'", "sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", "foreign_key_checks": "1", "autocommit": "1",
		"innodb_lock_wait_timeout": seconds, "lock_wait_timeout": seconds, "group_concat_max_len": "1073741824",
	})
	config.Params = params
	return config, nil
}

func (mysqlDialect) gorm(pool *sql.DB) gorm.Dialector {
	return gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true})
}

func (mysqlDialect) goose() goose.Dialect { return goose.DialectMySQL }

// locker also sees to the table of versions: goose makes it and its first row in two steps, and a process that is killed
// between them would leave a table that goose does not accept.
func (mysqlDialect) locker() lock.SessionLocker {
	// The names of locks are those of the server, and have 64 characters at most.
	const name = "CONCAT('scanner-operator:', LEFT(SHA2(DATABASE(), 256), 40))"
	return sessionLock{
		try:     "SELECT GET_LOCK(" + name + ", 0)",
		release: "SELECT RELEASE_LOCK(" + name + ")",
		prepare: []string{
			"CREATE TABLE IF NOT EXISTS " + MigrationTable + ` (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, version_id BIGINT NOT NULL,
				is_applied BOOLEAN NOT NULL, tstamp TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (id))`,
			"INSERT INTO " + MigrationTable + " (version_id, is_applied) SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " +
				MigrationTable + " v WHERE v.version_id = 0)",
		},
	}
}

func (mysqlDialect) lock(tx *gorm.DB) error {
	var id int64
	return tx.Raw("SELECT id FROM writer_lock WHERE id = 1 FOR UPDATE").Scan(&id).Error
}

// writeOptions: InnoDB looks at the data first when the lock is held, so the view is that of the transaction before.
func (mysqlDialect) writeOptions() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead}
}

func (mysqlDialect) readOptions() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

func (mysqlDialect) notify(*gorm.DB, string) error { return nil }

// List: the session has a limit that lists of IDs do not reach. A list that is cut all the same is not as long as its group.
func (mysqlDialect) List(column string) string { return "GROUP_CONCAT(" + column + ")" }

// Among: a set that is sent as text would have characters in place of bytes.
func (mysqlDialect) Among(column string, numbers []int64) clause.Expr {
	return among("CASE WHEN %[1]s >= ? AND %[1]s <= ? THEN ORD(SUBSTRING(CAST(? AS BINARY), (%[1]s - ?) DIV 8 + 1, 1)) >> ((%[1]s - ?) %% 8) & 1 ELSE 0 END = 1", column, numbers, bitSet, func(column, list string) clause.Expr {
		// CASE hides the list: MariaDB makes a table of one with a thousand numbers, in which it looks up each value several times slower.
		return gorm.Expr("CASE WHEN " + column + " IN (" + list + ") THEN 1 ELSE 0 END = 1")
	})
}

func (mysqlDialect) IgnoreConflict(unique ...string) string {
	return " ON DUPLICATE KEY UPDATE " + unique[0] + " = " + unique[0]
}

// Lower: LOWER would change more than ASCII. TIS-620 is the character set of one byte that has no other letters with case, so
// the bytes of UTF-8 pass through it unchanged.
func (mysqlDialect) Lower(column string) string {
	return "CAST(LOWER(CONVERT(CAST(" + column + " AS BINARY) USING tis620)) AS BINARY)"
}

func (mysqlDialect) Position(text, part string) string { return "INSTR(" + text + ", " + part + ")" }

// Size: MySQL computes the sizes of tables once a day, MariaDB each time.
func (mysqlDialect) Size() string {
	return "SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS SIGNED) FROM information_schema.tables WHERE table_schema = DATABASE()"
}

func (mysqlDialect) reset(*sql.DB) {}

// classify looks at the numbers of errors (https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html).
func (mysqlDialect) classify(err error) errorClass {
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) {
		if errors.Is(err, mysql.ErrInvalidConn) {
			return errorLost
		}
		return errorOther
	}
	switch refused.Number {
	case 1213, 1205, 1020: // Deadlock, lock wait timeout, record changed since it was read.
		return errorBusy
	case 1040, 1203, 1226, // Too many connections.
		1053, 1077, 1079, 1080, 1317, 1927, 3169, 4031, // Shutdown, killed, idle for too long.
		1047, 1152, 1158, 1159, 1160, 1161, 1184: // Network, and a cluster node that is not ready.
		return errorLost
	case 1021, 1114, 1041, 1037, 1038, 1030, // Full, out of memory, storage engine.
		1290, 1792, 1836, // Read-only.
		1044, 1045, 1049, 1129, 1130, 3024, 1969: // Not let in, no such database, statement took too long.
		return errorUnavailable
	}
	return errorOther
}

// unsent: that is what the driver promises with ErrBadConn.
func (mysqlDialect) unsent(err error) bool { return errors.Is(err, driver.ErrBadConn) }
