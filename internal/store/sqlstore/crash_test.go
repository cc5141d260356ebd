package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// crashEnv makes a test the child of another one: it holds the type and the DSN of the database.
const crashEnv = "SQLSTORE_CRASH_DATABASE"

// crashConfig is the database of a child; other processes skip the test.
func crashConfig(t *testing.T, parent string) Config {
	t.Helper()
	name, dsn, found := strings.Cut(os.Getenv(crashEnv), " ")
	if !found {
		t.Skip("this is the child of " + parent)
	}
	return Config{Type: name, DSN: dsn}
}

// child starts this test binary again with only that test, and returns the lines that it writes.
func child(t *testing.T, test string, config Config) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	command.Env = append(os.Environ(), crashEnv+"="+config.Type+" "+config.DSN)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, bufio.NewScanner(output)
}

// TestCrashChild writes for ever, and says so after each acknowledged write.
func TestCrashChild(t *testing.T) {
	s := openWith(t, crashConfig(t, "TestKilledProcessLosesNothing"))
	start, err := s.LastSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.CurrentResultSet(t.Context()); err != nil {
		t.Fatal(err)
	} else if !found {
		if _, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "build"}, "engine", true); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("opened")
	for n := start; ; n++ {
		key, catalog, result := storetest.LargeImage(20, 50)
		key.ImageID = fmt.Sprintf("image-%d", n)
		if _, err := s.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("wanted", key.ImageID)
		if err := s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "1", Content: []byte("x")}, catalog); err != nil {
			t.Fatal(err)
		}
		fmt.Println("cataloged", key.ImageID)
		if err := storetest.Match(t.Context(), s, key, "1", result); err != nil {
			t.Fatal(err)
		}
		fmt.Println("matched", key.ImageID)
	}
}

func TestKilledProcessLosesNothing(t *testing.T) { eachDatabase(t, killedProcessLosesNothing) }

func killedProcessLosesNothing(t *testing.T, config Config) {
	acknowledged := map[string]string{}
	for round := range budget(5, 2) {
		command, lines := child(t, "TestCrashChild", config)
		// Kill at another step each time.
		for left := 10 + round; lines.Scan(); {
			step, id, isWrite := strings.Cut(lines.Text(), " ")
			if !isWrite {
				continue
			}
			acknowledged[id] = step
			if left--; left == 0 {
				if err := command.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := command.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if len(acknowledged) == 0 {
			t.Fatal("the child wrote nothing")
		}
		checkAcknowledged(t, config, acknowledged)
	}
}

// checkIntegrity looks at the file of a database that is in one.
func checkIntegrity(t *testing.T, s *Store) {
	t.Helper()
	if s.db.Dialect().Type() != sqldb.TypeSQLite {
		return
	}
	var check string
	if err := s.db.Reader().Raw("PRAGMA integrity_check").Scan(&check).Error; err != nil || check != "ok" {
		t.Fatalf("integrity check: %s, %v", check, err)
	}
}

func checkAcknowledged(t *testing.T, config Config, acknowledged map[string]string) {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	checkIntegrity(t, s)
	rank := map[store.State]int{store.StatePending: 1, store.StateCataloged: 2, store.StateScanned: 3}
	least := map[string]int{"wanted": 1, "cataloged": 2, "matched": 3}
	for id, step := range acknowledged {
		image, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: id})
		if err != nil || rank[image.State] < least[step] {
			t.Errorf("%s was %s, but is %q, %v", id, step, image.State, err)
		}
		if image.State == store.StateScanned {
			page, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: image.Key})
			if err != nil || page.Total != 50 || image.Counts.Total() != 50 {
				t.Errorf("%s: %d findings, counts %+v, %v", id, page.Total, image.Counts, err)
			}
		}
	}
	events, err := s.EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range events {
		if event.Sequence != int64(i+1) {
			t.Fatalf("event %d has the number %d", i, event.Sequence)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	command, lines := child(t, "TestCrashChild", Config{Type: sqldb.TypeSQLite, DSN: path})
	for lines.Scan() && lines.Text() != "opened" {
	}
	_, err := Open(t.Context(), Config{DSN: path})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	openAt(t, path)
}

// TestFullDisk limits the pages of the database, as a full disk does.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := openAt(t, migrated(t))
	key, catalog, result := storetest.LargeImage(700, 2000)
	if _, err := s.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		if err := s.db.Writer().Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Error; err != nil {
			t.Fatal(err)
		}
	}
	limit(100)
	sbom := store.SBOM{SHA256: "1", Content: []byte("x")}
	if err := s.SaveSBOM(t.Context(), key, sbom, catalog); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	image, err := s.Image(t.Context(), store.AllNamespaces(), key)
	if err != nil || image.State != store.StatePending {
		t.Errorf("got %+v, %v", image, err)
	}
	limit(1 << 30)
	if err := s.SaveSBOM(t.Context(), key, sbom, catalog); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "build"}, "engine", true); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Match(t.Context(), s, key, "1", result); err != nil {
		t.Fatal(err)
	}
}

// TestBusyDatabase holds the write lock from outside, as a backup tool may.
func TestBusyDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.db")
	s := openAt(t, path)
	other := openFile(t, path)
	defer func() { _ = other.Close() }()
	lock, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	key := model.ImageKey{ImageID: "a", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if _, err := s.WantImages(ctx, []model.ImageKey{key}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if _, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{}); err != nil {
		t.Errorf("readers must not wait: %v", err)
	}
	written := make(chan error)
	go func() {
		_, err := s.WantImages(t.Context(), []model.ImageKey{key})
		written <- err
	}()
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
}
