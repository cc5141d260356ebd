//go:build scale

package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// managerVariable holds the options of the operator that this program runs instead of tests.
const managerVariable = "SCALE_MANAGER"

// clockTick is the unit of CPU times in /proc.
const clockTick = 10 * time.Millisecond

// managerOptions are what differs from run to run.
type managerOptions struct {
	// APIServer is the URL of the API server, Address that of the operator as host:port.
	APIServer, Address string
	// Namespace is the operator's own.
	Namespace string
	// Dir holds the data. With Profile, it gets profiles too.
	Dir     string
	Profile bool
}

// runManager runs the operator until it is told to end.
func runManager(text string) (err error) {
	var o managerOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	log := textlogger.NewLogger(textlogger.NewConfig())
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if _, err := setup.LimitMemory(setup.CatalogJob); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if o.Profile {
		written, failed := profile(o.Dir)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, written()) }()
	}
	program, err := setup.New(ctx, &rest.Config{Host: o.APIServer, QPS: -1}, setup.Options{
		Namespace: o.Namespace, Catalog: setup.CatalogJob, Auth: setup.AuthNone, LeaderElection: true,
		APIAddress: o.Address, MetricsAddress: "0", HealthAddress: "0", DataDir: o.Dir,
		ScanImage: "operator:test", APIURL: "http://operator.invalid:8000", Log: log,
		Scans:                 setup.Scans{Concurrency: churnScans, RegistryConcurrency: churnScans},
		VulnerabilityDatabase: setup.VulnerabilityDatabase{URL: "none", Sample: true},
	})
	if err != nil {
		return err
	}
	return program.Start(ctx)
}

// profile starts a CPU profile. The function that it returns writes it, and one of the memory.
func profile(dir string) (written func() error, err error) {
	cpu, err := os.Create(filepath.Join(dir, "cpu.prof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(filepath.Join(dir, "heap.prof"))
		if err != nil {
			return err
		}
		return errors.Join(cpu.Close(), pprof.WriteHeapProfile(heap), heap.Close())
	}, nil
}

// manager is the operator as a process of its own, which reaches the API server through a proxy that counts what it writes.
type manager struct {
	address string
	pid     int
	writes  writes
}

// startManager runs the operator until the test ends.
func startManager(t *testing.T, namespace string) *manager {
	t.Helper()
	m := &manager{address: freeAddress(t)}
	proxy := httptest.NewServer(m.writes.proxy(t))
	t.Cleanup(proxy.Close)
	dir := *profiles
	if dir == "" {
		dir = t.TempDir()
	}
	text, err := json.Marshal(managerOptions{APIServer: proxy.URL, Address: m.address, Namespace: namespace, Dir: dir, Profile: *profiles != ""})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	log := io.Writer(&output)
	if *profiles != "" {
		file, err := os.Create(filepath.Join(dir, "operator.log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		log = io.MultiWriter(&output, file)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	cmd.Env = append(os.Environ(), managerVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			err = errors.Join(errors.New("it did not end within a minute"), <-ended)
		}
		if err != nil || t.Failed() {
			t.Logf("the operator ended with %v, after it wrote:\n%s", err, output.Bytes()[max(0, output.Len()-10_000):])
		}
		if err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	})
	gomega.NewWithT(t).Eventually(func() error { return m.get(t.Context(), "/api/v1/coverage?pageSize=1", &struct{}{}) }, patience, tick).Should(gomega.Succeed())
	return m
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (m *manager) api() string { return "http://" + m.address }

func (m *manager) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.api()+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s was answered with %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// cpu is the CPU time, user and system, that the process has used.
func (m *manager) cpu(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(m.proc("stat"))
	if err != nil {
		t.Fatal(err)
	}
	// The name of the program may contain anything but is the last in parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system = 11, 12
	ticks := 0
	for _, field := range []string{fields[user], fields[system]} {
		value, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("%s: %v", m.proc("stat"), err)
		}
		ticks += value
	}
	return time.Duration(ticks) * clockTick
}

// memory returns a figure of the memory of the process in bytes, by its name in /proc/PID/status.
func (m *manager) memory(t *testing.T, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(m.proc("status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("%s has no %s", m.proc("status"), name)
	return 0
}

func (m *manager) proc(file string) string { return filepath.Join("/proc", strconv.Itoa(m.pid), file) }

// writes are the requests of an operator that change what the API server stores, but for its lease.
type writes struct {
	mu   sync.Mutex
	done []string
	// bytes is the size of all answers, those about leases included. An answer holds the object as it is stored.
	bytes int64
	// count and sizes are by method and kind.
	count, sizes map[string]int64
}

// proxy forwards requests to the API server as the administrator.
func (w *writes) proxy(t *testing.T) http.Handler {
	t.Helper()
	transport, err := rest.TransportFor(cluster)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cluster.Host)
	if err != nil {
		t.Fatal(err)
	}
	w.count, w.sizes = map[string]int64{}, map[string]int64{}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			if response.Request.Method != http.MethodGet && response.StatusCode < http.StatusBadRequest {
				response.Body = &counted{ReadCloser: response.Body, writes: w, request: response.Request}
			}
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
	}
}

// counted is the answer to a write.
type counted struct {
	io.ReadCloser
	writes  *writes
	request *http.Request
	read    int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read += int64(n)
	return n, err
}

func (c *counted) Close() error {
	c.writes.add(c.request, c.read)
	return c.ReadCloser.Close()
}

func (w *writes) add(request *http.Request, size int64) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	kind := path[len(path)-1]
	// /api/v1/namespaces/NS/KIND/NAME, /apis/GROUP/VERSION/namespaces/NS/KIND/NAME/SUBRESOURCE
	if at := slices.Index(path, "namespaces"); at >= 0 && len(path) > at+2 {
		kind = path[at+2]
	}
	if strings.HasSuffix(kind, "reviews") {
		return // They are not stored.
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	what := request.Method + " " + kind
	w.count[what]++
	w.sizes[what] += size
	w.bytes += size
	if kind != "leases" {
		w.done = append(w.done, request.Method+" "+request.URL.Path)
	}
}

// soFar returns the writes and the size of all answers.
func (w *writes) soFar() (done []string, size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.done), w.bytes
}

// figures describes the writes.
func (w *writes) figures() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var parts []string
	for what, count := range w.count {
		parts = append(parts, fmt.Sprintf("%d %s (%d KB)", count, what, w.sizes[what]/1000))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
