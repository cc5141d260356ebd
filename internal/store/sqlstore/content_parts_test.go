package sqlstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestLargeContent keeps one SBOM of 64 MiB, others and a report, on servers with the limits that they have by
// default.
func TestLargeContent(t *testing.T) {
	test := func(t *testing.T, config Config) {
		s := openWith(t, config)
		sizes := []int{64 << 20, partSize, partSize + 1, partSize - 1, 0, 1, 14 << 20, 14 << 20}
		for n, size := range sizes {
			if err := wantOne(t.Context(), s, n); err != nil {
				t.Fatal(err)
			}
			sbom := store.SBOM{MediaType: "m", SHA256: fmt.Sprint(n), Size: int64(size), Content: noise(n, size)}
			if err := s.SaveSBOM(t.Context(), lostKey(n), sbom, model.Catalog{}); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
		}
		for n, size := range sizes {
			sbom, err := s.SBOM(t.Context(), store.AllNamespaces(), lostKey(n))
			if err != nil || !bytes.Equal(sbom.Content, noise(n, size)) {
				t.Errorf("%d bytes: got %d, %v", size, len(sbom.Content), err)
			}
		}
		report := noise(99, 30<<20)
		if err := s.SaveReport(t.Context(), store.AllNamespaces(), "reported", store.Report{Content: report}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Report(t.Context(), store.AllNamespaces(), "reported"); err != nil || !bytes.Equal(got, report) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		// What replaces content or removes its owner removes the parts.
		if err := s.SaveReport(t.Context(), store.AllNamespaces(), "reported", store.Report{Content: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		for n := range sizes {
			if err := s.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), lostKey(n).ImageID); err != nil {
				t.Fatal(err)
			}
		}
		for table, want := range map[string]int64{"sboms": 0, "sbom_parts": 0, "report_parts": 1} {
			var rows int64
			if err := s.db.Reader().Raw("SELECT COUNT(*) FROM " + table).Scan(&rows).Error; err != nil || rows != want {
				t.Errorf("%s has %d rows, want %d, %v", table, rows, want, err)
			}
		}
	}
	t.Run(sqldb.TypeSQLite, func(t *testing.T) { test(t, Config{DSN: filepath.Join(t.TempDir(), "large.db")}) })
	for name, server := range servers { // One after the other: they hold much in memory.
		t.Run(name, func(t *testing.T) { test(t, Config{Type: name, DSN: server.migrated(t)}) })
	}
}

// noise is content that does not compress.
func noise(seed, size int) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(content)
	return content
}
