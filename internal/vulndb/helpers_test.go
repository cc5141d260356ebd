package vulndb_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/go-logr/logr/testr"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// fakeClock stands still until a test moves it.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
	// set receives the duration of every timer that is set; tests read it to know that somebody waits.
	set chan time.Duration
}

type timer struct {
	at   time.Time
	fire chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC), set: make(chan time.Duration, 1000)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := timer{c.now.Add(d), make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	c.set <- d
	return t.fire
}

// advance moves the clock and fires what is due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t timer) bool {
		due := !t.at.After(c.now)
		if due {
			t.fire <- c.now
		}
		return due
	})
}

// awaits returns the next timer that is set for about this long, and passes over the others.
func (c *fakeClock) awaits(t *testing.T, want time.Duration) time.Duration {
	t.Helper()
	for {
		select {
		case got := <-c.set:
			if got >= want*9/10 && got <= want*11/10 {
				return got
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("nobody waits for about %s", want)
		}
	}
}

func open(t *testing.T, config vulndb.Config) *vulndb.Library {
	t.Helper()
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	if config.UpdateURL == "" {
		config.UpdateURL = vulndb.UpdateURLNone
	}
	config.Log = testr.New(t)
	library, err := vulndb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return library
}

func current(t *testing.T, library *vulndb.Library) vulndb.Installed {
	t.Helper()
	installed, ok := library.Current()
	if !ok {
		t.Fatal("there is no database")
	}
	return installed
}

// sampleData builds the sample database once for all tests.
var sampleData = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sample-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := sample.Build(dir); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, v6.VulnerabilityDBFileName))
})

// sampleFile returns the path of a copy of the sample database, without indexes.
func sampleFile(t *testing.T) string {
	t.Helper()
	data, err := sampleData()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, v6.VulnerabilityDBFileName, data)
}

// fixtures holds sample databases by build date, and their archives, so that tests make each only once.
var fixtures = struct {
	mu        sync.Mutex
	databases map[time.Time][]byte
	archives  map[time.Time][]byte
}{databases: map[time.Time][]byte{}, archives: map[time.Time][]byte{}}

// builtData returns the sample database with another build date. The caller must hold fixtures.mu and not change the result.
func builtData(t *testing.T, built time.Time) []byte {
	t.Helper()
	data, known := fixtures.databases[built]
	if !known {
		file := sampleFile(t)
		change(t, file, "UPDATE db_metadata SET build_timestamp = ?", built.UTC())
		data = read(t, file)
		fixtures.databases[built] = data
	}
	return data
}

// sampleBuilt returns the path of a copy of the sample database with another build date.
func sampleBuilt(t *testing.T, built time.Time) string {
	t.Helper()
	fixtures.mu.Lock()
	defer fixtures.mu.Unlock()
	return write(t, v6.VulnerabilityDBFileName, builtData(t, built))
}

// packBuilt returns an archive of the sample database with another build date. The caller must not change it.
func packBuilt(t *testing.T, built time.Time) []byte {
	t.Helper()
	fixtures.mu.Lock()
	defer fixtures.mu.Unlock()
	archive, known := fixtures.archives[built]
	if !known {
		archive = pack(t, map[string][]byte{v6.VulnerabilityDBFileName: builtData(t, built)})
		fixtures.archives[built] = archive
	}
	return archive
}

// change runs a statement on a database file.
func change(t *testing.T, file, statement string, arguments ...any) {
	t.Helper()
	db, err := v6.NewLowLevelDB(file, false, true, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(statement, arguments...).Error; err != nil {
		t.Fatal(err)
	}
	sqlDB, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlDB.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// pack makes a .tar.zst of the given files.
func pack(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	compressed, err := zstd.NewWriter(&buffer)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(compressed)
	for name, data := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func packSample(t *testing.T) []byte {
	t.Helper()
	return pack(t, map[string][]byte{v6.VulnerabilityDBFileName: read(t, sampleFile(t))})
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// server is a mirror of the official database. Its listing can be replaced while it runs.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	hits  map[string]int
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{files: map[string][]byte{}, hits: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		data, ok := s.files[r.URL.Path]
		s.hits[r.URL.Path]++
		s.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data)
	}))
	t.Cleanup(s.Close)
	return s
}

// offer publishes an archive the way that Grype lays it out.
func (s *server) offer(t *testing.T, archive []byte, built time.Time, change func(map[string]string)) {
	t.Helper()
	sum := sha256.Sum256(archive)
	listing := map[string]string{
		"status": "active", "schemaVersion": "v6.1.4", "built": built.UTC().Format(time.RFC3339),
		"path": "db.tar.zst", "checksum": "sha256:" + hex.EncodeToString(sum[:]),
	}
	if change != nil {
		change(listing)
	}
	data, err := json.Marshal(listing)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files["/v6/latest.json"] = data
	s.files["/v6/db.tar.zst"] = archive
}

func (s *server) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}
