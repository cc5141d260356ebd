// Package dbserver gives tests databases on real servers. A server is started once for a test process, on loopback in a
// directory of its own, and ends with the process, also when that is killed. Nothing waits for the disk, and the directory is in
// memory if there is room: what was committed survives when a test kills the server, but not the machine.
package dbserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limits of the wait for a server.
const (
	startTimeout   = 60 * time.Second
	stopTimeout    = 30 * time.Second
	prepareTimeout = 5 * time.Minute
	probePause     = 20 * time.Millisecond
)

// product is what differs between kinds of servers.
type product interface {
	// name and debianPackage say in messages what is missing.
	name() string
	debianPackage() string
	// binary is a program that must be there, "" when it is not.
	binary() string
	// account is who runs the server when the tests run as root.
	account() string
	// create is the command that makes the data in dir, serve the one that runs the server in the foreground.
	create(dir string) []string
	serve(dir string, port int) []string
	// ping reports whether the server answers.
	ping(ctx context.Context, port int) error
	// createDatabase makes an empty database and returns its DSN.
	createDatabase(ctx context.Context, port int, name string) (string, error)
	// copier returns a function that makes databases with the tables, views and rows that a template has now. Nobody is connected to the template.
	copier(ctx context.Context, port int, template string) (copier, error)
	dropDatabase(ctx context.Context, port int, name string) error
	// overSocket returns the DSN of the same database on the Unix socket of a server that has its files in dir.
	overSocket(dir, dsn string) (string, error)
	// stopSignal ends the server in an orderly way without waiting for clients.
	stopSignal() syscall.Signal
	// killSignal ends it at once, so that it has to recover.
	killSignal() syscall.Signal
}

// copier makes a database and returns its DSN.
type copier func(ctx context.Context, name string) (string, error)

// PostgreSQL returns the DSN of an empty database on the PostgreSQL server of this process. It is dropped after the test.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	return sharedPostgres.database(t)
}

// MariaDB is like PostgreSQL, on a MariaDB server.
func MariaDB(t testing.TB) string {
	t.Helper()
	return sharedMariaDB.database(t)
}

// Template makes databases with the same content, such as a migrated schema, on the servers of this process. Prepare fills the
// first one of each server; the others are copies of it, which takes far less time.
type Template struct {
	Prepare func(ctx context.Context, dsn string) error

	postgres, mariaDB template
}

// PostgreSQL returns the DSN of a copy on the PostgreSQL server of this process. It is dropped after the test.
func (c *Template) PostgreSQL(t testing.TB) string {
	t.Helper()
	return c.postgres.database(t, sharedPostgres, c.Prepare)
}

// MariaDB is like PostgreSQL, on a MariaDB server.
func (c *Template) MariaDB(t testing.TB) string {
	t.Helper()
	return c.mariaDB.database(t, sharedMariaDB, c.Prepare)
}

// template is that of one server.
type template struct {
	once sync.Once
	copy copier
	err  error
}

func (c *template) database(t testing.TB, s *shared, prepare func(ctx context.Context, dsn string) error) string {
	t.Helper()
	need(t, s.product)
	c.once.Do(func() {
		name, server, err := s.next()
		if err != nil {
			c.err = err
			return
		}
		// It outlives the first test.
		ctx, cancel := context.WithTimeout(context.Background(), prepareTimeout)
		defer cancel()
		dsn, err := s.createDatabase(ctx, server.port, name)
		if err == nil {
			err = prepare(ctx, dsn)
		}
		if err == nil {
			c.copy, err = s.copier(ctx, server.port, name)
		}
		c.err = err
	})
	if c.err != nil {
		t.Fatalf("prepare a database on %s: %v", s.name(), c.err)
	}
	return s.make(t, func(ctx context.Context, _ int, name string) (string, error) { return c.copy(ctx, name) })
}

// OverSocket returns the DSN of a database that PostgreSQL or MariaDB returned, by way of the server's Unix socket, where messages take less processor time
// than on loopback.
func OverSocket(dsn string) (string, error) {
	server := sharedMariaDB
	if strings.HasPrefix(dsn, "postgres:") {
		server = sharedPostgres
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.server == nil {
		return "", fmt.Errorf("no %s server of this process runs", server.name())
	}
	return server.overSocket(server.server.dir, dsn)
}

// OwnPostgreSQL starts a server that the test may stop, kill and start again.
func OwnPostgreSQL(t testing.TB) *Server {
	t.Helper()
	return own(t, postgres{})
}

// OwnMariaDB is like OwnPostgreSQL.
func OwnMariaDB(t testing.TB) *Server {
	t.Helper()
	return own(t, mariaDB{})
}

// need skips the test when the server is not installed; with CI=true it fails.
func need(t testing.TB, p product) {
	t.Helper()
	if p.binary() != "" {
		return
	}
	message := fmt.Sprintf("%s is not installed: the Debian package %s has it (hack/setup.sh installs it)", p.name(), p.debianPackage())
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
}

// shared is the server that the tests of one process have in common.
type shared struct {
	product
	mu       sync.Mutex
	server   *Server
	err      error
	sequence int
}

var (
	sharedPostgres = &shared{product: postgres{}}
	sharedMariaDB  = &shared{product: mariaDB{}}
)

func (s *shared) database(t testing.TB) string {
	t.Helper()
	need(t, s.product)
	return s.make(t, s.createDatabase)
}

// make makes a database for a test and drops it at the end of the test.
func (s *shared) make(t testing.TB, create func(ctx context.Context, port int, name string) (string, error)) string {
	t.Helper()
	name, server, err := s.next()
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := create(t.Context(), server.port, name)
	if err != nil {
		t.Fatalf("create a database on %s: %v", s.name(), err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := s.dropDatabase(ctx, server.port, name); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	return dsn
}

// next starts the server when it does not run yet, and returns a name for a database.
func (s *shared) next() (string, *Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		s.server, s.err = start(s.product)
	}
	s.sequence++
	return fmt.Sprintf("test_%d", s.sequence), s.server, s.err
}

func (s *shared) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	err := s.server.remove()
	s.server = nil
	return err
}

// Main wraps the tests of a package: its Run stops the servers after the last test.
type Main struct{ M interface{ Run() int } }

// Run implements goleak.TestingM.
func (m Main) Run() int {
	code := m.M.Run()
	for _, server := range []*shared{sharedPostgres, sharedMariaDB} {
		if err := server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Server is a running server with a directory of its own.
type Server struct {
	product
	dir     string
	port    int
	process *process
	// DSN is that of an empty database. It stays the same over Stop and Start.
	DSN string
}

func own(t testing.TB, p product) *Server {
	t.Helper()
	need(t, p)
	s, err := start(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	if s.DSN, err = p.createDatabase(t.Context(), s.port, "test"); err != nil {
		t.Fatalf("create a database on %s: %v", p.name(), err)
	}
	return s
}

// start makes a directory with a new server and starts it.
func start(p product) (*Server, error) {
	removeStale(p)
	dir, err := os.MkdirTemp(dataDir(), fmt.Sprintf("%s%s-%d-", prefix, p.name(), os.Getpid()))
	if err != nil {
		return nil, err
	}
	s := &Server{product: p, dir: dir}
	if err := s.install(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name(), firstOf(err, os.RemoveAll(dir)))
	}
	// Another process may take the port before the server does.
	for attempt := 0; ; attempt++ {
		if s.port, err = freePort(); err == nil {
			err = s.run()
		}
		if err == nil {
			return s, nil
		}
		if attempt == 2 {
			return nil, firstOf(err, os.RemoveAll(dir))
		}
	}
}

func firstOf(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func (s *Server) install() error {
	credential, err := s.credential()
	if err != nil {
		return err
	}
	if credential != nil {
		if err := os.Chown(s.dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return err
		}
	}
	command := s.command(s.create(s.dir), credential)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, output)
	}
	return nil
}

// credential is that of the product's account when this process is root's: the servers refuse to run as root.
func (s *Server) credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup(s.account())
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (s *Server) command(words []string, credential *syscall.Credential) *exec.Cmd {
	command := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // one of the products'; it outlives the test that starts it
	command.Dir = s.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return command
}

// run starts the server and waits until it answers.
func (s *Server) run() error {
	credential, err := s.credential()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // The server has it.
	command := s.command(s.serve(s.dir, s.port), credential)
	command.Stdout, command.Stderr = log, log
	if s.process, err = startProcess(command, s.stopSignal()); err != nil {
		return err
	}
	if err := s.await(); err != nil {
		return fmt.Errorf("%s on port %d: %w: %s", s.name(), s.port, firstOf(err, s.process.stop(s.killSignal())), s.lastLog())
	}
	return nil
}

// await returns when the server answers, or an error when it ends or takes longer than startTimeout.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(probePause)
	defer ticker.Stop()
	for {
		err := s.ping(ctx, s.port)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.ended:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func (s *Server) lastLog() string {
	file, err := os.Open(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	const most = 4 << 10
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	content, _ := io.ReadAll(file)
	return string(content)
}

// Start starts a server again that was stopped or killed.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server in an orderly way; connections are closed.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.process.stop(s.stopSignal()); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server as a crash does.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.process.stop(s.killSignal()); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) remove() error {
	err := s.process.stop(s.stopSignal())
	return firstOf(err, os.RemoveAll(s.dir))
}

// freePort is a port of loopback that nobody listens on.
func freePort() (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	return port, listener.Close()
}

const prefix = "dbserver-"

// removeStale removes the directories of processes that were killed.
func removeStale(p product) {
	for _, parent := range []string{os.TempDir(), memoryDir} {
		dirs, err := filepath.Glob(filepath.Join(parent, prefix+p.name()+"-*"))
		if err != nil {
			return
		}
		for _, dir := range dirs {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix+p.name()+"-"), "-")
			if number, err := strconv.Atoi(pid); err == nil && syscall.Kill(number, 0) == syscall.ESRCH {
				_ = os.RemoveAll(dir)
			}
		}
	}
}
