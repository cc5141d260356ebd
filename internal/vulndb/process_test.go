package vulndb_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// Variables that make this program the child of a test.
const (
	childDir   = "SCANNER_TEST_CHILD_DIR"
	childURL   = "SCANNER_TEST_CHILD_URL"
	childStage = "SCANNER_TEST_CHILD_STAGE"
)

// TestChild is no test: it is what a child of other tests does. It updates a library and, at a stage, stops and says so.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("this is for the children of other tests only")
	}
	stage := os.Getenv(childStage)
	library, err := vulndb.New(vulndb.Config{
		Dir: dir, UpdateURL: os.Getenv(childURL),
		Progress: func(now string, done, total int64) {
			inTheMiddle := (now != "download" && now != "unpack") || (done > total/3 && done < total)
			if now == stage && inTheMiddle {
				fmt.Println("\nat", stage)
				select {}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	changed, err := library.Update(t.Context())
	fmt.Printf("\nchanged %t, error %v\n", changed, err)
}

// child starts this program anew as TestChild, and returns a reader of what it says.
func child(t *testing.T, environment ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// says reads until a line begins with a prefix.
func says(t *testing.T, out *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(line)
		}
		if err != nil {
			t.Fatalf("the child ended without saying %q: %v", prefix, err)
		}
	}
}

// packPadded is an archive that takes several reads to fetch and to unpack.
func packPadded(t *testing.T, built time.Time) []byte {
	t.Helper()
	file := sampleBuilt(t, built)
	change(t, file, "INSERT INTO blobs (value) VALUES (hex(randomblob(1000000)))")
	return pack(t, map[string][]byte{v6.VulnerabilityDBFileName: read(t, file)})
}

// TestKilled kills an update at every stage. The last good database stays, and the next update goes through.
func TestKilled(t *testing.T) {
	next := day.Add(24 * time.Hour)
	served, installed := serve(t), t.TempDir()
	served.offer(t, packBuilt(t, day), day, nil)
	library := open(t, vulndb.Config{Dir: installed, UpdateURL: served.URL})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	good := current(t, library)
	served.offer(t, packPadded(t, next), next, nil)
	for _, stage := range []string{"check", "download", "unpack", "verify", "prepare", "publish"} {
		t.Run(stage, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(installed)); err != nil {
				t.Fatal(err)
			}

			cmd, out := child(t, childDir+"="+dir, childURL+"="+served.URL, childStage+"="+stage)
			says(t, out, "at "+stage)
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp-*")); len(left) == 0 && stage != "check" {
				t.Error("the child has nothing half done; this test says nothing")
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the child ended by itself")
			}

			library := open(t, vulndb.Config{Dir: dir, UpdateURL: served.URL})
			if got := current(t, library); got.Build.ID != good.Build.ID {
				t.Errorf("current is %+v", got.Build)
			}
			if _, err := v6.ReadDescription(databaseFile(current(t, library))); err != nil {
				t.Error(err)
			}
			if changed, err := library.Update(t.Context()); !changed || err != nil {
				t.Fatalf("%t, %v", changed, err)
			}
			if got := current(t, library); !got.Build.Built.Equal(next) {
				t.Errorf("current is %+v", got.Build)
			}
			noLeftovers(t, dir)
			if entries, err := os.ReadDir(filepath.Join(dir, "builds")); err != nil || len(entries) != 2 {
				t.Errorf("the builds are %v, %v", entries, err)
			}
		})
	}
}

// While one process installs, another one waits, says so, and then takes what the first one brought.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	served := serve(t)
	served.offer(t, packPadded(t, day), day, nil)
	cmd, out := child(t, childDir+"="+dir, childURL+"="+served.URL, childStage+"=unpack")
	says(t, out, "at unpack")
	clock := newFakeClock()
	library := open(t, vulndb.Config{Dir: dir, Clock: clock})
	if _, ok := library.Current(); ok {
		t.Error("what is not finished is current")
	}
	imported := make(chan error)
	go func() {
		_, err := library.Import(t.Context(), filepath.Dir(sampleBuilt(t, day)))
		imported <- err
	}()
	clock.awaits(t, 200*time.Millisecond)
	if s := library.Status(); s.Stage != "wait" {
		t.Errorf("status is %+v", s)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	clock.advance(time.Second)
	if err := <-imported; err != nil {
		t.Error(err)
	}
	current(t, library)
	noLeftovers(t, dir)
}

// The proxy is read from the environment once per process, and never used for this host: hence a child, and a host that
// does not exist.
func TestProxy(t *testing.T) {
	served := serve(t)
	served.offer(t, packBuilt(t, day), day, nil)
	hosts := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.URL.Host
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, served.URL+r.URL.Path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(proxy.Close)
	cmd, out := child(t, childDir+"="+t.TempDir(), childURL+"=http://databases.example.test",
		"HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	if got := says(t, out, "changed"); got != "changed true, error <nil>" {
		t.Error(got)
	}
	_ = cmd.Wait()
	close(hosts)
	asked := 0
	for host := range hosts {
		asked++
		if host != "databases.example.test" {
			t.Errorf("the proxy was asked for %q", host)
		}
	}
	if asked != 2 {
		t.Errorf("the proxy was asked %d times", asked)
	}
}
