package scanner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// TestMain lets this program be a child that catalogs: it waits for a file in its scratch directory.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "catalog" {
		os.Exit(m.Run())
	}
	scratch := os.Getenv("TMPDIR")
	if os.WriteFile(filepath.Join(scratch, "began"), nil, 0o600) != nil {
		os.Exit(1)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(scratch, "end")); err == nil {
			os.Exit(0)
		}
	}
	os.Exit(1)
}

// children returns a cataloger whose children run until finish is called for their scratch directory.
func children(t *testing.T, journal string, memory int64) *InProcess {
	t.Helper()
	p := &InProcess{
		Executable: os.Args[0], Directory: t.TempDir(), Journal: journal, Memory: memory, MaxMemory: 8 << 30, Timeout: time.Minute, Log: logr.Discard(),
		Ingest: func(context.Context, model.ImageKey, string) error { return nil },
	}
	if err := p.Recover(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	waitFor(t, "the cataloger", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ctx != nil
	})
	return p
}

func (p *InProcess) start(t *testing.T, name string) {
	t.Helper()
	if err := p.Start(t.Context(), types.NamespacedName{}, scanjob.Request{Name: name, Key: imageKey(name), ScannerUID: "me", For: "shop"}); err != nil {
		t.Fatal(err)
	}
}

func (p *InProcess) began(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.Directory, "*", "began"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A manager that is killed during a scan leaves a file; for the next one, the attempt has failed.
func TestScansOfAKilledManagerHaveFailed(t *testing.T) {
	journal := t.TempDir()
	p := children(t, journal, 0)
	p.start(t, "a")
	waitFor(t, "the child", func() bool { return len(p.began(t)) == 1 })
	if err := os.WriteFile(filepath.Join(journal, "torn"), []byte(`{"Na`), 0o600); err != nil {
		t.Fatal(err)
	}

	next := children(t, journal, 0)
	attempts, err := next.Attempts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := attempts["a"]
	if len(attempts) != 1 || !got.Done || got.Key != imageKey("a") || got.For != "shop" || got.ScannerUID != "me" ||
		got.Outcome.Reason != model.ReasonCatalogFailed || !strings.Contains(got.Outcome.Message, "killed") {
		t.Errorf("%+v, want one that has failed", attempts)
	}

	// The failure is recorded before the next attempt begins, and a scan that ends leaves nothing.
	if err := next.Start(t.Context(), types.NamespacedName{}, scanjob.Request{Name: "a-1", Key: imageKey("a")}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the next child", func() bool { return len(next.began(t)) == 1 })
	if files, err := os.ReadDir(journal); err != nil || len(files) != 1 || files[0].Name() != "a-1" {
		t.Errorf("the journal has %v, %v; want the attempt under way", files, err)
	}
	finish(t, next.began(t)[0])
	waitFor(t, "the end", func() bool {
		files, err := os.ReadDir(journal)
		return err == nil && len(files) == 0
	})
}

func finish(t *testing.T, began string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(began), "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Children wait for each other when the container has no memory for all of them.
func TestChildrenShareTheMemory(t *testing.T) {
	p := children(t, t.TempDir(), 2*childMemoryLimit)
	p.start(t, "a")
	p.start(t, "b")
	waitFor(t, "the first child", func() bool { return len(p.began(t)) == 1 })
	first := p.began(t)[0]
	if p.memory.TryAcquire(childMemoryLimit) {
		t.Error("there is memory for another child")
	}
	finish(t, first)
	waitFor(t, "the second child", func() bool {
		now := p.began(t)
		return len(now) == 1 && now[0] != first
	})
	finish(t, p.began(t)[0])
	for memory, want := range map[int64]int64{0: childMemoryLimit, 8 << 30: childMemoryLimit, 550 << 20: 500 << 20} {
		if got := (&InProcess{Memory: memory}).limit(model.SizeSmall); got != want {
			t.Errorf("of %d bytes a child has %d, want %d", memory, got, want)
		}
	}
}
