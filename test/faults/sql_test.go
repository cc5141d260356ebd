//go:build faults

package faults

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// watchPrefix begins the kinds of watch events.
const watchPrefix = "watch-"

// sqlPrefix begins the kinds of points in transactions: sql-begin, sql-statement, sql-commit and sql-committed.
const sqlPrefix = "sql-"

// outage is how long a database is locked, full, slow or read-only.
const outage = 3 * time.Second

// sqlFaults are what can happen at each stage of a transaction that writes, and with which databases.
var sqlFaults = map[string][]sqlFault{
	"begin": {
		{"kill", killed, all3, ""}, {"error", refused, all3, ""}, {"reset", disconnected, servers, ""}, {"locked", locked, all3, ""},
		{becomesReadOnly, readOnly, servers, ""},
	},
	// An operator that is killed in a transaction, or whose disk is full, is to leave the same at each of its statements: the transaction is rolled back. One scenario
	// shows that. Nobody else gets a lock that an open transaction holds, and servers that become read-only end open transactions: both begin with one.
	"statement": {
		{"kill", killed, all3, "new-image"}, {"error", refused, all3, ""}, {"reset", disconnected, servers, ""}, {"slow", slow, servers, "new-image"},
		{diskFull, full, []string{sqldb.TypeSQLite}, "new-image"},
	},
	"commit": {
		{"kill", killed, all3, ""}, {"error", refused, all3, ""}, {"reset", disconnected, servers, ""}, {"lose-answer", unanswered, servers, ""}, {"slow", slow, servers, ""},
		{diskFull, full, []string{sqldb.TypeSQLite}, ""},
	},
	"committed": {{"kill", killed, all3, ""}, {"error", refused, all3, ""}},
}

func allSQLFaults() (names []string) {
	for _, faults := range sqlFaults {
		for _, f := range faults {
			if !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// diskFull needs a file system of its own, becomesReadOnly a server of its own with MariaDB.
const (
	diskFull        = "disk-full"
	becomesReadOnly = "read-only"
)

// sqlScenarios are the scenarios with scans, with each kind of SQL database, and one with two operators that share one.
func sqlScenarios() (found []scenario) {
	for _, database := range all3 {
		for _, s := range scenarios {
			// The sample has one of them, with the databases that differ most.
			if !s.scans || s.requestsOnly || testing.Short() && (s.name != "new-image" || database == sqldb.TypeMySQL) {
				continue
			}
			first := s.name == "new-image" && database != sqldb.TypeSQLite
			s.name, s.database = s.name+"-"+database, database
			found = append(found, s)
			if first && !testing.Short() {
				s.name, s.replicas, s.mayExit, s.args = "failover-"+database, 2, true, append(slices.Clone(s.args), "--leader-elect")
				found = append(found, s)
			}
		}
	}
	return found
}

// smallDisk puts a directory on a file system of 384 MiB.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=384m"); err != nil {
		t.Fatalf("mount a file system, which requires root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

type sqlFault struct {
	name string
	// inject lets it happen, and returns what the operator is told as an error, "" for none.
	inject    func(*sqlDatabase) (string, error)
	databases []string
	// scenario is the one in which it happens, "" for all.
	scenario string
}

var (
	servers = []string{sqldb.TypePostgres, sqldb.TypeMySQL}
	all3    = append([]string{sqldb.TypeSQLite}, servers...)
)

// cuts says whether a fault happens on the way to a database server. Without one, nothing is to come between.
func cuts(fault string) bool {
	return slices.Contains([]string{"reset", "lose-answer", "slow", becomesReadOnly}, fault)
}

// sqlFaultsAt returns the names of the faults of a stage in a scenario.
func sqlFaultsAt(kind string, s *scenario) (names []string) {
	for _, f := range sqlFaults[strings.TrimPrefix(kind, sqlPrefix)] {
		if slices.Contains(f.databases, s.database) && (f.scenario == "" || s.name == f.scenario+"-"+s.database) {
			names = append(names, f.name)
		}
	}
	return names
}

// sqlDatabase is the SQL database of an operator. The operator asks it at each stage of its transactions, and waits for the answer.
type sqlDatabase struct {
	kind string
	// dsn is past the proxy, address that of the socket on which the operator asks.
	dsn, address string
	dir          string
	trace        *trace
	kill         func()
	// rest gives the share of the processors back while something waits, ended is closed when the run has ended.
	rest  func(func())
	ended <-chan struct{}
	// way is nil for SQLite, and where no fault disturbs connections.
	way *sqlWay
	// restore ends what a fault brought about.
	mu      sync.Mutex
	restore []func()
}

// newSQLDatabase returns a database of the kind of the scenario, nil if it does not say one. dsn is that of the server, which the operators of
// a world share.
func newSQLDatabase(t *testing.T, w *world, m *manager, dsn string) *sqlDatabase {
	t.Helper()
	kind := w.scenario.database
	if kind == "" {
		return nil
	}
	d := &sqlDatabase{kind: kind, dsn: dsn, dir: m.dir, address: m.dir + ".sock", trace: w.trace, kill: m.kill, rest: w.slot.rest, ended: w.ended}
	if kind == sqldb.TypeSQLite {
		d.dsn = filepath.Join(m.dir, "scanner-operator.db")
	} else if cuts(w.trace.point.fault) {
		d.way = newSQLWay(t, addressIn(dsn))
	}
	listener, err := net.Listen("unix", d.address)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { d.decide(t, conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
		d.end()
	})
	return d
}

// migrated makes databases with the newest schema: migrations take longer than most runs, and no fault happens in them.
var migrated = dbserver.Template{Prepare: func(ctx context.Context, dsn string) error {
	kind := sqldb.TypeMySQL
	if strings.HasPrefix(dsn, "postgres") {
		kind = sqldb.TypePostgres
	}
	s, err := sqlstore.Open(ctx, sqlstore.Config{Type: kind, DSN: dsn})
	if err != nil {
		return err
	}
	return s.Close()
}}

// serverDSN returns the DSN of a new database for a scenario and a fault, "" for SQLite.
func serverDSN(t *testing.T, kind, fault string) string {
	t.Helper()
	switch {
	case kind == sqldb.TypePostgres:
		return migrated.PostgreSQL(t)
	case kind == sqldb.TypeMySQL && fault == becomesReadOnly:
		return unprivileged(t, dbserver.OwnMariaDB(t).DSN)
	case kind == sqldb.TypeMySQL:
		return migrated.MariaDB(t)
	}
	return ""
}

// The accounts of a MariaDB server: an administrator may write to it while it is read-only.
const (
	administrator = "root@"
	user          = "operator@"
)

// unprivileged returns the DSN of the same MariaDB database for an account that may do everything there, and nothing else.
func unprivileged(t *testing.T, dsn string) string {
	t.Helper()
	if err := execute("mysql", dsn, "CREATE USER operator", "GRANT ALL ON test.* TO operator"); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(dsn, administrator, user, 1)
}

// execute executes statements in a session of their own.
func execute(driver, dsn string, statements ...string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err == nil {
			_, err = db.ExecContext(context.Background(), statement)
		}
	}
	return errors.Join(err, db.Close())
}

// addressIn returns the address in a DSN.
func addressIn(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "127.0.0.1:")
	return "127.0.0.1:" + rest[:max(0, strings.IndexAny(rest, ")/"))]
}

// environment is what the operator finds the database with.
func (d *sqlDatabase) environment() []string {
	if d == nil {
		return nil
	}
	env := []string{"SCANNER_FAULTS=" + d.address}
	if d.kind == sqldb.TypeSQLite {
		return env
	}
	dsn := d.dsn
	if d.way != nil {
		dsn = strings.Replace(dsn, d.way.target, d.way.Addr().String(), 1)
	}
	return append(env, "DATABASE_TYPE="+d.kind, "DSN="+dsn)
}

// decide answers one question.
func (d *sqlDatabase) decide(t *testing.T, conn net.Conn) {
	defer conn.Close() //nolint:errcheck // The operator may have been killed.
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return
	}
	stage, _, _ := strings.Cut(line, " ")
	name := d.trace.take(sqlPrefix + stage)
	for _, f := range sqlFaults[stage] {
		if f.name != name {
			continue
		}
		answer, err := f.inject(d)
		if err != nil {
			t.Errorf("inject %s: %v", name, err)
		}
		_, _ = io.WriteString(conn, answer)
	}
}

// later ends a fault after the outage, or with the run.
func (d *sqlDatabase) later(end func()) {
	once := sync.OnceFunc(end)
	d.mu.Lock()
	d.restore = append(d.restore, once)
	d.mu.Unlock()
	go d.rest(func() {
		select {
		case <-time.After(outage):
		case <-d.ended:
		}
		once()
	})
}

func (d *sqlDatabase) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, end := range d.restore {
		end()
	}
}

func killed(d *sqlDatabase) (string, error)       { d.kill(); return "", nil }
func refused(*sqlDatabase) (string, error)        { return "injected by the fault test", nil }
func disconnected(d *sqlDatabase) (string, error) { d.way.cut(); return "", nil }
func unanswered(d *sqlDatabase) (string, error)   { d.way.swallow(); return "", nil }
func slow(d *sqlDatabase) (string, error)         { d.way.pause(outage); return "", nil }

// locked has another program hold the lock that writing needs.
func locked(d *sqlDatabase) (string, error) {
	driver, statements := map[string]string{sqldb.TypeSQLite: "sqlite", sqldb.TypePostgres: "pgx", sqldb.TypeMySQL: "mysql"}[d.kind], map[string][]string{
		sqldb.TypeSQLite:   {"BEGIN IMMEDIATE"},
		sqldb.TypePostgres: {"BEGIN", "LOCK TABLE images, packages IN ACCESS EXCLUSIVE MODE"},
		sqldb.TypeMySQL:    {"LOCK TABLES images WRITE, packages WRITE"},
	}[d.kind]
	ctx, dsn := context.Background(), d.dsn
	if d.kind == sqldb.TypeSQLite {
		dsn += "?_pragma=busy_timeout(5000)" // The operator may be writing.
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return "", err
	}
	conn, err := db.Conn(ctx)
	for _, statement := range statements {
		if err == nil {
			_, err = conn.ExecContext(ctx, statement)
		}
	}
	if err != nil {
		return "", errors.Join(err, db.Close())
	}
	// What the session holds ends with it.
	d.later(func() { _, _ = conn.Close(), db.Close() })
	return "", nil
}

// readOnly makes a PostgreSQL database or a MariaDB server read-only, as an administrator does before maintenance.
func readOnly(d *sqlDatabase) (string, error) {
	if d.kind == sqldb.TypeMySQL {
		dsn := strings.Replace(d.dsn, user, administrator, 1)
		d.later(func() { _ = execute("mysql", dsn, "SET GLOBAL read_only = OFF") })
		return "", execute("mysql", dsn, "SET GLOBAL read_only = ON")
	}
	parsed, err := url.Parse(d.dsn)
	if err != nil {
		return "", err
	}
	name := strings.TrimPrefix(parsed.Path, "/")
	d.later(func() {
		// The session that ends it must be able to write.
		_ = execute("pgx", d.dsn+separator(d.dsn)+"default_transaction_read_only=off",
			fmt.Sprintf("ALTER DATABASE %q RESET default_transaction_read_only", name))
		d.way.cut()
	})
	return "", execute("pgx", d.dsn, fmt.Sprintf("ALTER DATABASE %q SET default_transaction_read_only = on", name),
		fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s' AND pid <> pg_backend_pid()", name))
}

func separator(dsn string) string {
	if strings.Contains(dsn, "?") {
		return "&"
	}
	return "?"
}

// full fills the file system of the operator, which newWorld has made small.
func full(d *sqlDatabase) (string, error) {
	name := filepath.Join(d.dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, zeros{})
	_ = f.Close()
	if err == nil {
		return "", errors.New("the file system has no bound")
	}
	d.later(func() { _ = os.Remove(name) })
	return "", nil
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
