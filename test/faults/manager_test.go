//go:build faults

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
)

// manager is the program under test, which is started again whenever it ends, on the same data.
type manager struct {
	program     string
	proxy       *proxy
	dir         string
	api, health string
	args        []string
	// database is nil for scenarios without faults in the SQL database.
	database *sqlDatabase

	mu      sync.Mutex
	cmd     *exec.Cmd
	output  *os.File
	stopped bool
	// ended is closed when the loop that starts it has ended.
	ended chan struct{}
	// kills counts how often it was killed, exits how often it ended by itself.
	kills, exits int
	// deposed says that it was the leader and has not started again since; held, unless nil, is closed when it may.
	deposed bool
	held    <-chan struct{}
}

// startManager starts the program, with a proxy of its own, until the test ends.
func startManager(t *testing.T, w *world, name string) *manager {
	t.Helper()
	m := &manager{program: w.scenario.program(), dir: filepath.Join(w.dir, name), ended: make(chan struct{})}
	var err error
	if m.proxy, err = newProxy(w, m); err != nil {
		t.Fatal(err)
	}
	m.api, m.health = freeAddress(t), freeAddress(t)
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if w.trace.point.fault == diskFull {
		smallDisk(t, m.dir)
	}
	// Migrations take longer than most runs, and no fault happens in them.
	storefile.Put(t, filepath.Join(m.dir, "scanner-operator.db"))
	if !w.scenario.installs {
		if err := copyDirectories(m.dir, w.installed); err != nil {
			t.Fatal(err)
		}
	}
	m.database = newSQLDatabase(t, w, m, w.dsn)
	if m.output, err = os.Create(m.dir + ".log"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.dir+".kubeconfig", fmt.Appendf(nil, kubeconfigFormat, m.proxy.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	m.args = append([]string{
		"manager", "--namespace=" + w.namespace, "--watch-namespaces=" + w.namespace, "--data-dir=" + m.dir,
		"--api-bind-address=" + m.api, "--health-probe-bind-address=" + m.health, "--metrics-bind-address=0", "--tls=off", "--auth=kubernetes",
		"--catalog=job", "--scan-image=operator:test", "--api-url=http://operator.invalid:8000", "--audit-interval=3s",
		"--vulnerability-database-url=none", "--sample-database",
	}, w.scenario.args...)
	go m.run()
	t.Cleanup(func() {
		m.signal(syscall.SIGKILL, func() { m.stopped = true })
		<-m.ended
	})
	return m
}

const kubeconfigFormat = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}]}`

// addresses counts the addresses that freeAddress returned.
var addresses atomic.Uint32

// freeAddress returns an address that nobody listens on. On Linux, no other program takes it before the operator starts, or while it restarts:
// the servers and connections of other tests are on 127.0.0.1.
func freeAddress(t *testing.T) string {
	t.Helper()
	ip := "127.0.0.1"
	if runtime.GOOS == "linux" {
		n := addresses.Add(1)
		ip = fmt.Sprintf("127.%d.%d.%d", 1+n/250/250%250, n/250%250, 1+n%250)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// run starts the program until it is stopped, as a kubelet does, though without a backoff.
func (m *manager) run() {
	defer close(m.ended)
	// The thread that started the program must not end before the program does: see endWithTests.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		m.mu.Lock()
		if m.stopped {
			m.mu.Unlock()
			return
		}
		kills := m.kills
		m.deposed = false
		// It is killed by signals, and not by a context.
		m.cmd = exec.CommandContext(context.Background(), m.program, m.args...)
		m.cmd.Stdout, m.cmd.Stderr = m.output, m.output
		m.cmd.Env = append(os.Environ(), "KUBECONFIG="+m.dir+".kubeconfig", "GORACE=halt_on_error=0 atexit_sleep_ms=0", "KUBE_CACHE_MUTATION_DETECTOR=true")
		m.cmd.Env = append(m.cmd.Env, m.database.environment()...)
		endWithTests(m.cmd)
		err := m.cmd.Start()
		m.mu.Unlock()
		if err == nil {
			err = m.cmd.Wait()
		}
		m.mu.Lock()
		if !m.stopped && m.kills == kills {
			m.exits++
			fmt.Fprintf(m.output, "\nthe program ended by itself: %v\n", err)
		}
		held := m.held
		m.held = nil
		m.mu.Unlock()
		if held != nil {
			<-held
		}
	}
}

// logged returns the last lines that the program wrote before the list of its goroutines, up to 4,000 characters.
func (m *manager) logged() string {
	content, err := os.ReadFile(m.output.Name())
	if err != nil {
		return err.Error()
	}
	output, _, _ := bytes.Cut(content, []byte("SIGQUIT: quit"))
	return string(output[max(0, len(output)-4000):])
}

// kill ends the program at once; run starts it again.
func (m *manager) kill() { m.signal(syscall.SIGKILL, func() { m.kills++ }) }

// depose sends a signal to a leader. If the program ends because of it, run waits before it starts it again.
func (m *manager) depose(signal syscall.Signal, until <-chan struct{}) {
	m.signal(signal, func() {
		m.deposed = true
		if signal != syscall.SIGSTOP {
			m.kills++
			m.held = until
		}
	})
}

// wasDeposed says whether it was the leader, and has not started again since.
func (m *manager) wasDeposed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.deposed
}

// signal reports whether the program runs, and got the signal.
func (m *manager) signal(signal syscall.Signal, note func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	note()
	return m.cmd != nil && m.cmd.Process != nil && m.cmd.Process.Signal(signal) == nil
}

// get asks an operator for something, as JSON unless nothing is wanted.
func (w *world) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.reader)
	response, err := apiClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("GET %s was answered with %s: %s", request.URL.Path, response.Status, reason)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// apiClient keeps no connections: the program must not appear to have more goroutines because of it.
var apiClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// quit has the program write all its goroutines, and end. It reports whether the program ran.
func (m *manager) quit() bool {
	ran := m.signal(syscall.SIGQUIT, func() { m.stopped = true })
	// It may be paused.
	m.signal(syscall.SIGCONT, func() {})
	return ran
}

// wait waits until the program has ended.
func (m *manager) wait(t *testing.T) {
	t.Helper()
	select {
	case <-m.ended:
	case <-time.After(time.Minute):
		m.proxy.world.errorf(t, "the operator did not end within a minute")
		m.signal(syscall.SIGKILL, func() {})
		<-m.ended
	}
}

// stop closes what the program used, and returns what created the goroutines that it had when it ended, but for those of connections and transactions.
func (m *manager) stop(t *testing.T, ran bool) (goroutines []string) {
	t.Helper()
	m.proxy.CloseClientConnections()
	m.proxy.Close()
	content, err := os.ReadFile(m.output.Name())
	if err != nil {
		t.Fatal(err)
	}
	_ = m.output.Close()
	output, dump, written := bytes.Cut(content, []byte("SIGQUIT: quit"))
	if ran && !written {
		m.proxy.world.errorf(t, "the operator did not write its goroutines")
	}
	for _, sign := range []string{"WARNING: DATA RACE", "panic:", "Observed a panic", "fatal error:"} {
		if at := bytes.Index(output, []byte(sign)); at >= 0 {
			m.proxy.world.errorf(t, "the operator wrote:\n%s", output[at:min(len(output), at+4000)])
		}
	}
	for stack := range strings.SplitSeq(string(dump), "\n\ngoroutine ") {
		// Pools bound the connections, and the transactions of what runs at intervals are under way or not.
		pooled := strings.Contains(stack, "net/http.(*persistConn)") || strings.Contains(stack, "created by database/sql.") ||
			strings.Contains(stack, "sqlite.interruptOnDone")
		if !pooled && strings.Contains(stack, "created by ") {
			creator, _, _ := strings.Cut(stack[strings.LastIndex(stack, "created by ")+len("created by "):], " in goroutine")
			goroutines = append(goroutines, creator)
		}
	}
	return goroutines
}
