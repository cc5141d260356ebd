package vulndb_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

func TestRematchRequest(t *testing.T) {
	dir := t.TempDir()
	library := open(t, vulndb.Config{Dir: dir})
	expect := func(wantFull, wantPending bool) {
		t.Helper()
		if full, pending := library.RematchRequest(); full != wantFull || pending != wantPending {
			t.Errorf("the request is full %t, pending %t; want %t, %t", full, pending, wantFull, wantPending)
		}
	}
	request := func(full bool) {
		t.Helper()
		if err := vulndb.RequestRematch(dir, full); err != nil {
			t.Fatal(err)
		}
	}
	forget := func() {
		t.Helper()
		if err := library.ClearRematchRequest(); err != nil {
			t.Fatal(err)
		}
	}
	expect(false, false)
	forget() // of nothing
	request(false)
	expect(false, true)
	forget()
	expect(false, false)

	request(false)
	library.RematchRequest()
	request(false) // while the first is being met
	forget()
	expect(false, true)

	request(true)
	request(false) // does not take back what was asked for before
	expect(true, true)
	library = open(t, vulndb.Config{Dir: dir}) // it outlives the process
	expect(true, true)
	forget()
	expect(false, false)

	if err := library.RequestRematch(false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-library.Changed():
	default:
		t.Error("a request of this process is not signalled")
	}
	expect(false, true)
}

func TestRematchRequestByHand(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "no JSON": "please", "huge": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			library := open(t, vulndb.Config{Dir: dir})
			file := filepath.Join(dir, "rematch.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if full, pending := library.RematchRequest(); !full || !pending {
				t.Errorf("full %t, pending %t", full, pending)
			}
			if err := vulndb.RequestRematch(dir, false); err != nil {
				t.Error(err)
			}
			library.RematchRequest()
			if err := library.ClearRematchRequest(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("it is not cleared")
			}
		})
	}
}

func TestRematchRequestNeedsLibrary(t *testing.T) {
	if err := vulndb.RequestRematch(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "not a directory of vulnerability databases") {
		t.Errorf("got %v", err)
	}
}

// However many ask at once, one of them for all packages, a whole request for all packages is there in the end.
func TestRematchRequestsAtOnce(t *testing.T) {
	dir := t.TempDir()
	library := open(t, vulndb.Config{Dir: dir})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := vulndb.RequestRematch(dir, i == 7); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if full, pending := library.RematchRequest(); !full || !pending {
		t.Errorf("full %t, pending %t", full, pending)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
