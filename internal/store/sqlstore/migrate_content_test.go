package sqlstore

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestMigrationOfContent opens an sqlite database that keeps SBOMs and reports in one piece each, and goes back.
func TestMigrationOfContent(t *testing.T) {
	t.Parallel()
	const whole = 3
	path := filepath.Join(t.TempDir(), "whole.db")
	pool := openFile(t, path)
	provider := migrator(t, pool, sqldb.TypeSQLite)
	if _, err := provider.UpTo(t.Context(), whole); err != nil {
		t.Fatal(err)
	}
	sizes := []int{0, 1, partSize, 2*partSize + 1}
	for n, size := range sizes {
		for _, statement := range []string{
			`INSERT INTO images (id, image_id, platform, repository, digest, state, nonce, attempts, reason, message, next_attempt_at, distro, size,
				package_count, critical, high, medium, low, negligible, unknown, kev, fixable, first_seen, catalogued_at, matched_at, sbom_sha256, sbom_size)
				VALUES (?1, 'image-' || ?1, 'linux/amd64', '', '', 'Catalogued', '', 0, '', '', 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 'd', 1)`,
			"INSERT INTO sboms (image_pk, media_type, sha256, size, content) VALUES (?1, 'm', 'd', 1, ?2)",
			`INSERT INTO reports (id, image_id, saved_at, critical, high, medium, low, negligible, unknown, kev, fixable, size, content)
				VALUES (?1, 'image-' || ?1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, ?2)`,
		} {
			if _, err := pool.ExecContext(t.Context(), statement, n, noise(n, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	content := func(table, owner string, n int) []byte {
		t.Helper()
		var got []byte
		query := fmt.Sprintf("SELECT content FROM %s WHERE %s = ?", table, owner)
		if err := pool.QueryRowContext(t.Context(), query, n).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for range budget(2, 1) {
		s := openAt(t, path)
		for n, size := range sizes {
			sbom, err := s.SBOM(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: fmt.Sprint("image-", n)})
			if err != nil || !bytes.Equal(sbom.Content, noise(n, size)) {
				t.Errorf("%d bytes: got %d, %v", size, len(sbom.Content), err)
			}
			report, err := reportParts.load(s.db.Reader(), int64(n))
			if err != nil || !bytes.Equal(report, noise(n, size)) {
				t.Errorf("report of %d bytes: got %d, %v", size, len(report), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := provider.DownTo(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
		for n, size := range sizes {
			if !bytes.Equal(content("sboms", "image_pk", n), noise(n, size)) || !bytes.Equal(content("reports", "id", n), noise(n, size)) {
				t.Errorf("%d bytes are not the same after the way back", size)
			}
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
}
