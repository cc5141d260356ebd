package vulndb_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

func TestNewRefuses(t *testing.T) {
	file := write(t, "file", []byte("x"))
	for name, config := range map[string]vulndb.Config{
		"no folder":       {},
		"odd folder":      {Dir: filepath.Join(t.TempDir(), "a?b")},
		"a file":          {Dir: file},
		"no URL":          {Dir: t.TempDir(), UpdateURL: "somewhere"},
		"other protocol":  {Dir: t.TempDir(), UpdateURL: "file:///tmp"},
		"missing CA file": {Dir: t.TempDir(), CAFile: filepath.Join(t.TempDir(), "nowhere")},
		"no certificate":  {Dir: t.TempDir(), CAFile: file},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := vulndb.New(config); err == nil {
				t.Error("it is accepted")
			}
		})
	}
}

func TestRecovery(t *testing.T) {
	dir := t.TempDir()
	library := open(t, vulndb.Config{Dir: dir})
	if _, ok := library.Current(); ok {
		t.Fatal("a new library has a database")
	}
	for i := range 2 {
		if _, err := library.Import(t.Context(), filepath.Dir(sampleBuilt(t, day.AddDate(0, 0, i)))); err != nil {
			t.Fatal(err)
		}
	}
	newest, previous := library.List()[0], library.List()[1]

	t.Run("as it was", func(t *testing.T) {
		if got := current(t, open(t, vulndb.Config{Dir: dir})); got.Dir != newest.Dir {
			t.Errorf("current is %s", got.Dir)
		}
	})
	t.Run("half done work is removed", func(t *testing.T) {
		if err := os.MkdirAll(filepath.Join(dir, "tmp-1234", "build"), 0o700); err != nil {
			t.Fatal(err)
		}
		open(t, vulndb.Config{Dir: dir})
		noLeftovers(t, dir)
	})
	t.Run("prepared by another version", func(t *testing.T) {
		file := filepath.Join(newest.SQLiteDir(), v6.ImportMetadataFileName)
		changed := strings.Replace(string(read(t, file)), `"client_version": "v6.1.`, `"client_version": "v6.0.`, 1)
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := current(t, open(t, vulndb.Config{Dir: dir})); got.Dir != newest.Dir {
			t.Errorf("current is %s", got.Dir)
		}
		if strings.Contains(string(read(t, file)), "v6.0.") {
			t.Error("it was not prepared anew")
		}
	})
	t.Run("damaged on disk", func(t *testing.T) {
		file := filepath.Join(newest.SQLiteDir(), v6.VulnerabilityDBFileName)
		data := read(t, file)
		data[len(data)/2] ^= 0xFF
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := current(t, open(t, vulndb.Config{Dir: dir})); got.Dir != previous.Dir {
			t.Errorf("current is %s, not the one before", got.Dir)
		}
		if _, err := os.Stat(newest.Dir); err == nil {
			t.Error("the damaged one is still there")
		}
	})
}

func TestStatus(t *testing.T) {
	clock := newFakeClock()
	library := open(t, vulndb.Config{Sample: true, Clock: clock, MaxAge: 48 * time.Hour})
	if s := library.Status(); s != (vulndb.Status{MaxAge: 48 * time.Hour}) {
		t.Errorf("status of an empty library is %+v", s)
	}
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := library.Status()
	if s.Age != 24*time.Hour || s.Stale || !s.LastCheck.Equal(clock.Now()) || s.LastError != nil {
		t.Errorf("status is %+v", s)
	}
	clock.advance(25 * time.Hour)
	if s := library.Status(); !s.Stale {
		t.Errorf("status is %+v, not stale", s)
	}
}
