package sqldb

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestBadDSNs(t *testing.T) {
	const secret = "s3cr3t"
	for name, dsns := range map[string][]string{
		TypePostgres: {
			"", " ", "postgres://user:" + secret + "%zz@host/db", "postgres://user:" + secret + "/x@host:1/db", "postgres://user:" + secret + "@host:port/db",
			"host=h password='" + secret, "host=h password=" + secret + " sslmode=perhaps", "postgres://user:" + secret + "@host/db?sslmode=" + secret,
			"user:" + secret + "@tcp(host:3306)/db", "postgres://user:" + secret + "@host/db?connect_timeout=" + secret,
			"postgres://user:" + secret + "@host:99999999/db", "postgres://user:x@" + secret + ":1:2/db",
			"postgres://user:12#" + secret + "@host/db", "postgres://user:12?" + secret + "@host/db", "postgres://user:12/" + secret + "@host/db",
		},
		TypeMySQL: {
			"", "user:" + secret + "@tcp(host:3306)", "user:" + secret + "@tcp(host:3306)/", "user:" + secret + "@tcp(host/db", secret + "/db",
			"postgres://user:" + secret + "@host:5432/db", "user:" + secret + "@what(host)/db", "user:x@tcp(host)/db?parseTime=" + secret,
			"user:" + secret + "@tcp(host)/db?tls=unknown-" + secret,
		},
	} {
		for _, dsn := range dsns {
			s, err := Open(t.Context(), Config{Type: name, DSN: dsn})
			if err == nil {
				t.Errorf("%s: %q is no error", name, dsn)
				_ = s.Close()
				continue
			}
			if !strings.Contains(err.Error(), "DSN") || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %q: %v", name, dsn, err)
			}
		}
	}
}

func TestServerVersions(t *testing.T) {
	for version, fine := range map[string]bool{
		"8.0.36": true, "8.4.0-1.el9": true, "9.1.0": true, "5.7.44-log": false, "10.6.1-MariaDB": true, "10.11.19-MariaDB-0+deb12u1": true,
		"11.4.2-MariaDB": true, "10.5.27-MariaDB": false, "strange": true,
	} {
		if err := checkMySQLVersion(version); (err == nil) != fine {
			t.Errorf("%s: %v", version, err)
		}
	}
	for version, below := range map[string]bool{"13.18 (Debian 13.18-0+deb11u1)": true, "14.0": false, "17.2": false, "18beta1": false} {
		if got := versionBelow(version, 14, 0); got != below {
			t.Errorf("%s: got %t", version, got)
		}
	}
}

func TestClassify(t *testing.T) {
	refusedByPostgres := func(code string) error { return fmt.Errorf("insert: %w", &pgconn.PgError{Code: code}) }
	refusedByMySQL := func(number uint16) error { return fmt.Errorf("insert: %w", &mysql.MySQLError{Number: number}) }
	for _, c := range []struct {
		name string
		err  error
		want errorClass
	}{
		{TypePostgres, refusedByPostgres("40001"), errorBusy}, {TypePostgres, refusedByPostgres("40P01"), errorBusy},
		{TypePostgres, refusedByPostgres("26000"), errorBusy}, {TypePostgres, refusedByPostgres("0A000"), errorOther},
		{TypePostgres, refusedByPostgres("55P03"), errorBusy}, {TypePostgres, refusedByPostgres("57P01"), errorLost},
		{TypePostgres, refusedByPostgres("57P03"), errorLost}, {TypePostgres, refusedByPostgres("53300"), errorLost},
		{TypePostgres, refusedByPostgres("08006"), errorLost}, {TypePostgres, refusedByPostgres("53100"), errorUnavailable},
		{TypePostgres, refusedByPostgres("25006"), errorUnavailable}, {TypePostgres, refusedByPostgres("28P01"), errorUnavailable},
		{TypePostgres, refusedByPostgres("23505"), errorOther}, {TypePostgres, errors.New("else"), errorOther},
		{TypeMySQL, refusedByMySQL(1213), errorBusy}, {TypeMySQL, refusedByMySQL(1205), errorBusy}, {TypeMySQL, refusedByMySQL(1020), errorBusy},
		{TypeMySQL, refusedByMySQL(1040), errorLost}, {TypeMySQL, refusedByMySQL(1053), errorLost}, {TypeMySQL, mysql.ErrInvalidConn, errorLost},
		{TypeMySQL, refusedByMySQL(1290), errorUnavailable}, {TypeMySQL, refusedByMySQL(1045), errorUnavailable},
		{TypeMySQL, refusedByMySQL(1062), errorOther}, {TypeMySQL, errors.New("else"), errorOther},
	} {
		if got := dialects[c.name].classify(c.err); got != c.want {
			t.Errorf("%s: %v: got %d, want %d", c.name, c.err, got, c.want)
		}
	}
}
