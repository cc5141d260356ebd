package dbserver

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// postgres keeps text in a collation that sorts unlike bytes, to show that the store does not depend on it.
type postgres struct{}

func (postgres) name() string          { return "PostgreSQL" }
func (postgres) debianPackage() string { return "postgresql" }
func (postgres) account() string       { return "postgres" }

func (p postgres) binary() string { return p.program("postgres") }

// program is the path of the newest version of a program of the server; Debian does not put them into PATH.
func (postgres) program(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return postgresVersion(a) - postgresVersion(b) })
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func postgresVersion(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return version
}

func (p postgres) create(dir string) []string {
	return []string{
		p.program("initdb"), "--pgdata=" + filepath.Join(dir, "data"), "--username=postgres", "--auth=trust", "--no-sync",
		"--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en",
	}
}

func (p postgres) serve(dir string, port int) []string {
	return []string{
		p.program("postgres"), "-D", filepath.Join(dir, "data"), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir,
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=1500",
		"-c", "timezone=Asia/Kathmandu", "-c", "autovacuum=off", "-c", "jit=off",
	}
}

func (postgres) dsn(port int, database string) string {
	return (&url.URL{
		Scheme: "postgres", User: url.User("postgres"), Host: "127.0.0.1:" + strconv.Itoa(port), Path: "/" + database, RawQuery: "sslmode=disable",
	}).String()
}

func (p postgres) ping(ctx context.Context, port int) error { return p.run(ctx, port, "SELECT 1") }

func (p postgres) createDatabase(ctx context.Context, port int, name string) (string, error) {
	return p.dsn(port, name), p.run(ctx, port, "CREATE DATABASE "+name)
}

func (p postgres) copier(_ context.Context, port int, template string) (copier, error) {
	return func(ctx context.Context, name string) (string, error) {
		return p.dsn(port, name), p.run(ctx, port, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY file_copy")
	}, nil
}

func (p postgres) dropDatabase(ctx context.Context, port int, name string) error {
	return p.run(ctx, port, "DROP DATABASE "+name+" WITH (FORCE)")
}

// overSocket is the DSN of a database by way of the server's Unix socket.
func (postgres) overSocket(dir, dsn string) (string, error) {
	parsed, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	query := parsed.Query()
	query.Set("host", dir)
	query.Set("port", parsed.Port())
	parsed.Host, parsed.RawQuery = "", query.Encode()
	return parsed.String(), nil
}

// stopSignal is that of the fast shutdown.
func (postgres) stopSignal() syscall.Signal { return syscall.SIGINT }

// killSignal is that of the immediate shutdown: SIGKILL ends one process of many, and the others live on for a moment.
func (postgres) killSignal() syscall.Signal { return syscall.SIGQUIT }

func (p postgres) run(ctx context.Context, port int, statement string) error {
	conn, err := pgx.Connect(ctx, p.dsn(port, "postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(ctx); err == nil && closeErr != nil {
		err = fmt.Errorf("close the connection: %w", closeErr)
	}
	return err
}
