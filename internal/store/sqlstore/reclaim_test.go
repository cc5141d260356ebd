package sqlstore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRetentionFreesSpace deletes most of a file, and expects the file to shrink.
func TestRetentionFreesSpace(t *testing.T) {
	const rows, size = 16, 1 << 20
	path := filepath.Join(t.TempDir(), "test.db")
	s := openAt(t, path)
	err := s.write(t.Context(), "fill", func(tx *txn) error {
		for n := range rows {
			if err := tx.Execute("INSERT INTO events (seq, at, kind, image_id, platform, data) VALUES (?, 0, 'x', '', '', ?)", 1000+n, bytes.Repeat([]byte("x"), size)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := func() (count int64) {
		t.Helper()
		if err := s.db.Reader().Raw("PRAGMA page_count").Scan(&count).Error; err != nil {
			t.Fatal(err)
		}
		return count
	}
	full := pages()
	if err := s.write(t.Context(), "delete", func(tx *txn) error { return tx.Execute("DELETE FROM events WHERE kind = 'x'") }); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if left := pages(); left > full/2 {
		t.Errorf("%d of %d pages are left after most was deleted", left, full)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > rows*size/2 {
		t.Errorf("the file has %v, %v; want less than half of what it held", info.Size(), err)
	}
}
