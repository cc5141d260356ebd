// Package storefile gives tests stores in sqlite files that have the newest schema already: migrations take longer than most tests.
package storefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// content is that of an empty store.
var content = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "storefile-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "store.db")
	s, err := sqlstore.Open(context.Background(), sqlstore.Config{DSN: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// New returns the path of a new empty store, for sqlstore.Config.DSN, in a directory of the test.
func New(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	Put(t, path)
	return path
}

// Put makes an empty store in a file, unless it is there.
func Put(t testing.TB, path string) {
	t.Helper()
	content, err := content()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
