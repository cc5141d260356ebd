package dbserver

import (
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

// mariaDB keeps text in another character set by default, to show that the store does not depend on it.
type mariaDB struct{}

func (mariaDB) name() string          { return "MariaDB" }
func (mariaDB) debianPackage() string { return "mariadb-server" }
func (mariaDB) account() string       { return "mysql" }

func (mariaDB) binary() string {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func (mariaDB) create(dir string) []string {
	return []string{
		"mariadb-install-db", "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--tmpdir=" + dir, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
	}
}

// serve has a folder of its own for temporary files too: a server that starts removes those of others.
func (m mariaDB) serve(dir string, port int) []string {
	return []string{
		m.binary(), "--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(port), "--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"), "--tmpdir=" + dir,
		"--skip-log-bin", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0",
		"--innodb-flush-method=nosync", "--innodb-file-per-table=0", "--max-connections=1500",
		"--character-set-server=latin1", "--collation-server=latin1_swedish_ci", "--default-time-zone=+05:45", "--innodb-fast-shutdown=2",
	}
}

func (mariaDB) config(port int, database string) *mysql.Config {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "tcp", "127.0.0.1:"+strconv.Itoa(port), database
	config.Logger = &mysql.NopLogger{}
	return config
}

func (m mariaDB) ping(ctx context.Context, port int) error { return m.run(ctx, port, "SELECT 1") }

func (m mariaDB) createDatabase(ctx context.Context, port int, name string) (string, error) {
	return m.config(port, name).FormatDSN(), m.run(ctx, port, "CREATE DATABASE "+name)
}

// overSocket is the DSN of a database by way of the server's Unix socket.
func (mariaDB) overSocket(dir, dsn string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.Net, config.Addr = "unix", filepath.Join(dir, "socket")
	return config.FormatDSN(), nil
}

// copier reads the statements that make a copy once: MariaDB has no templates. A copy sends all of them at once.
func (m mariaDB) copier(ctx context.Context, port int, template string) (copier, error) {
	source, err := m.open(port, template)
	if err != nil {
		return nil, err
	}
	statements, err := describe(ctx, source, template)
	if err = firstOf(err, source.Close()); err != nil {
		return nil, err
	}
	all := "SET foreign_key_checks = 0; " + strings.Join(statements, "; ") //nolint:gosec // Names of databases are ours.
	return func(ctx context.Context, name string) (string, error) {
		if err := m.run(ctx, port, "CREATE DATABASE "+name); err != nil {
			return "", err
		}
		target, err := m.open(port, name)
		if err != nil {
			return "", err
		}
		_, err = target.ExecContext(ctx, all)
		return m.config(port, name).FormatDSN(), firstOf(err, target.Close())
	}, nil
}

// describe returns the statements that make the tables, the views and the rows of a database in another one.
func describe(ctx context.Context, source *sql.DB, template string) (statements []string, err error) {
	rows, err := source.QueryContext(ctx, "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = ? ORDER BY table_type, create_time", template)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, rows.Close()) }()
	for rows.Next() {
		var name, kind, statement, ignored string
		if err := rows.Scan(&name, &kind); err != nil {
			return nil, err
		}
		if kind == "VIEW" {
			err = source.QueryRowContext(ctx, "SHOW CREATE VIEW "+name).Scan(&name, &statement, &ignored, &ignored)
		} else {
			err = source.QueryRowContext(ctx, "SHOW CREATE TABLE "+name).Scan(&name, &statement)
		}
		if err != nil {
			return nil, err
		}
		statements = append(statements, statement)
		if kind == "VIEW" {
			continue
		}
		var filled bool
		if err := source.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+name+")").Scan(&filled); err != nil {
			return nil, err
		}
		if filled {
			statements = append(statements, fmt.Sprintf("INSERT INTO %[1]s SELECT * FROM %[2]s.%[1]s", name, template))
		}
	}
	return statements, rows.Err()
}

func (m mariaDB) open(port int, database string) (*sql.DB, error) {
	config := m.config(port, database)
	config.MultiStatements = true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func (m mariaDB) dropDatabase(ctx context.Context, port int, name string) error {
	return m.run(ctx, port, "DROP DATABASE "+name)
}

func (mariaDB) stopSignal() syscall.Signal { return syscall.SIGTERM }

func (mariaDB) killSignal() syscall.Signal { return syscall.SIGKILL }

func (m mariaDB) run(ctx context.Context, port int, statement string) error {
	pool, err := m.open(port, "")
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, statement)
	return firstOf(err, pool.Close())
}
