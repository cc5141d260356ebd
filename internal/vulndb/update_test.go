package vulndb_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

var day = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func TestUpdate(t *testing.T) {
	served := serve(t)
	served.offer(t, packBuilt(t, day), day, nil)
	library := open(t, vulndb.Config{UpdateURL: served.URL})

	changed, err := library.Update(t.Context())
	if err != nil || !changed {
		t.Fatalf("first update: %t, %v", changed, err)
	}
	b := current(t, library).Build
	if b.Source != model.DatabaseSourceOfficial || !b.Built.Equal(day) {
		t.Errorf("build is %+v", b)
	}
	if changed, err = library.Update(t.Context()); err != nil || changed {
		t.Errorf("update without news: %t, %v", changed, err)
	}
	if n := served.count("/v6/db.tar.zst"); n != 1 {
		t.Errorf("the archive was fetched %d times", n)
	}
	served.offer(t, packBuilt(t, day.Add(24*time.Hour)), day.Add(24*time.Hour), nil)
	if changed, err = library.Update(t.Context()); err != nil || !changed {
		t.Errorf("update with news: %t, %v", changed, err)
	}
	served.offer(t, packBuilt(t, day), day, nil)
	if changed, err = library.Update(t.Context()); err != nil || changed {
		t.Errorf("update with an older one: %t, %v", changed, err)
	}
}

func TestUpdateFindsListing(t *testing.T) {
	served := serve(t)
	archive := packBuilt(t, day)
	served.offer(t, archive, day, nil)
	served.files["/flat/latest.json"] = served.files["/v6/latest.json"]
	served.files["/flat/db.tar.zst"] = archive
	for _, path := range []string{"", "/", "/flat", "/flat/latest.json", "/v6/latest.json"} {
		library := open(t, vulndb.Config{UpdateURL: served.URL + path})
		if changed, err := library.Update(t.Context()); err != nil || !changed {
			t.Errorf("%q: %t, %v", path, changed, err)
		}
	}
}

func TestUpdateRefuses(t *testing.T) {
	archive := packBuilt(t, day)
	tests := map[string]struct {
		change func(map[string]string)
		limit  int64
		says   string
	}{
		"wrong checksum": {change: func(l map[string]string) { l["checksum"] = "sha256:" + strings.Repeat("0", 64) }, says: "checksum"},
		"no checksum":    {change: func(l map[string]string) { delete(l, "checksum") }, says: "no sha256 checksum"},
		"other schema":   {change: func(l map[string]string) { l["schemaVersion"] = "v7.0.0" }, says: "supports schema 6"},
		"missing file":   {change: func(l map[string]string) { l["path"] = "other.tar.zst" }, says: "404"},
		"outside":        {change: func(l map[string]string) { l["path"] = "../../../etc/passwd" }, says: "/v6/etc/passwd responded with 404"},
		"too large":      {limit: 1000, says: "larger than 1000 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			served := serve(t)
			served.offer(t, archive, day, test.change)
			library := open(t, vulndb.Config{UpdateURL: served.URL, MaxArchiveBytes: test.limit})
			changed, err := library.Update(t.Context())
			if err == nil || changed {
				t.Fatalf("%t, %v", changed, err)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if !errors.Is(library.Status().LastError, err) {
				t.Errorf("status says %v", library.Status().LastError)
			}
		})
	}
}

func TestUpdateRefusesOddListings(t *testing.T) {
	for name, listing := range map[string][]byte{
		"empty": {}, "no JSON": []byte("hello"), "empty object": []byte("{}"), "huge": bytes.Repeat([]byte(" "), 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			served := serve(t)
			served.files["/v6/latest.json"] = listing
			if changed, err := open(t, vulndb.Config{UpdateURL: served.URL}).Update(t.Context()); err == nil || changed {
				t.Errorf("%t, %v", changed, err)
			}
		})
	}
}

// A server that never finishes must not hold the library for longer than it is allowed to.
func TestUpdateIsBoundedInTime(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); slow.Close() })
	library := open(t, vulndb.Config{UpdateURL: slow.URL, CheckTimeout: 50 * time.Millisecond})
	if _, err := library.Update(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSample(t *testing.T) {
	served := serve(t) // offers nothing yet
	library := open(t, vulndb.Config{UpdateURL: served.URL, Sample: true})
	changed, err := library.Update(t.Context())
	if !changed || err == nil {
		t.Errorf("without an official database: %t, %v", changed, err)
	}
	b := current(t, library).Build
	if b.Source != model.DatabaseSourceSample || b.ID != sample.Digest() {
		t.Errorf("build is %+v", b)
	}
	if changed, _ = library.Update(t.Context()); changed {
		t.Error("the sample is installed again")
	}
	// The official one is older than the sample, and better.
	served.offer(t, packBuilt(t, day), day, nil)
	if changed, err = library.Update(t.Context()); !changed || err != nil {
		t.Errorf("with an official database: %t, %v", changed, err)
	}
	if b := current(t, library).Build; b.Source != model.DatabaseSourceOfficial {
		t.Errorf("build is %+v", b)
	}
	// It stays when the server goes away.
	served.Close()
	if changed, err = library.Update(t.Context()); changed || err == nil {
		t.Errorf("without a server: %t, %v", changed, err)
	}
}

func TestSampleOfAnOlderVersionIsReplaced(t *testing.T) {
	dir := t.TempDir()
	library := open(t, vulndb.Config{Dir: dir, Sample: true})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(current(t, library).Dir, "build.json")
	older := strings.ReplaceAll(string(read(t, file)), sample.Digest(), "sha256:older")
	if err := os.WriteFile(file, []byte(older), 0o600); err != nil {
		t.Fatal(err)
	}
	library = open(t, vulndb.Config{Dir: dir, Sample: true})
	if changed, err := library.Update(t.Context()); !changed || err != nil {
		t.Errorf("%t, %v", changed, err)
	}
	if b := current(t, library).Build; b.ID != sample.Digest() {
		t.Errorf("build is %+v", b)
	}
}

func TestNoSampleUnlessAllowed(t *testing.T) {
	library := open(t, vulndb.Config{})
	if changed, err := library.Update(t.Context()); changed || err != nil {
		t.Errorf("%t, %v", changed, err)
	}
	if _, ok := library.Current(); ok {
		t.Error("there is a database")
	}
}

func TestRun(t *testing.T) {
	clock := newFakeClock()
	served := serve(t)
	library := open(t, vulndb.Config{UpdateURL: served.URL, Clock: clock, Interval: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- library.Start(ctx) }()

	wait := time.Duration(0)
	for _, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute} {
		clock.advance(wait)
		wait = clock.awaits(t, want)
		if library.Status().LastError == nil {
			t.Errorf("status is %+v", library.Status())
		}
	}
	served.offer(t, packBuilt(t, day), day, nil)
	clock.advance(wait)
	clock.awaits(t, time.Hour)
	<-library.Changed()
	if b := current(t, library).Build; !b.Built.Equal(day) {
		t.Errorf("build is %+v", b)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ends with %v", err)
	}
	if s := library.Status(); s.LastError != nil || s.Stage != "" || !s.NextCheck.IsZero() {
		t.Errorf("status is %+v", s)
	}
	if !library.NeedLeaderElection() {
		t.Error("every replica would download databases")
	}
}

// Run notices within seconds what other processes do to the folder, long before it looks for an update again.
func TestRunNoticesOtherProcesses(t *testing.T) {
	clock, dir := newFakeClock(), t.TempDir()
	manager, command := open(t, vulndb.Config{Dir: dir, Clock: clock}), open(t, vulndb.Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	poll := func() {
		t.Helper()
		clock.awaits(t, 5*time.Second)
		clock.advance(5 * time.Second)
		select {
		case <-manager.Changed():
		case <-time.After(30 * time.Second):
			t.Fatal("no signal of a change")
		}
	}
	installed, err := command.Import(t.Context(), filepath.Dir(sampleFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	poll()
	if got := current(t, manager); got.Dir != installed.Dir {
		t.Errorf("current is %s", got.Dir)
	}
	if err := vulndb.RequestRematch(dir, true); err != nil {
		t.Fatal(err)
	}
	poll()
	if full, pending := manager.RematchRequest(); !full || !pending {
		t.Errorf("the request is %t, %t", full, pending)
	}
}

// A build that another process installs into the same folder is noticed.
func TestUpdateNoticesOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	one, two := open(t, vulndb.Config{Dir: dir}), open(t, vulndb.Config{Dir: dir})
	installed, err := two.Import(t.Context(), filepath.Dir(sampleFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := current(t, one); got.Dir != installed.Dir {
		t.Errorf("current is %s", got.Dir)
	}
}

// TestUpdateFromRealDatabase needs the folder of test data that is not part of the repository.
func TestUpdateFromRealDatabase(t *testing.T) {
	folder := dbtest.SharedFolder(t)
	mirror := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(mirror.Close)
	stages := map[string]bool{}
	library := open(t, vulndb.Config{
		UpdateURL: mirror.URL, Progress: func(stage string, _, _ int64) { stages[stage] = true },
	})
	start := time.Now()
	if changed, err := library.Update(t.Context()); !changed || err != nil {
		t.Fatalf("%t, %v", changed, err)
	}
	t.Logf("installed %+v in %s", current(t, library).Build, time.Since(start).Round(time.Millisecond))
	for _, stage := range []string{"check", "download", "unpack", "verify", "prepare"} {
		if !stages[stage] {
			t.Errorf("no progress of %q", stage)
		}
	}
	if changed, err := library.Update(t.Context()); changed || err != nil {
		t.Errorf("again: %t, %v", changed, err)
	}
}
