package vulndb_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

func TestImport(t *testing.T) {
	file := sampleFile(t)
	archive := pack(t, map[string][]byte{"./" + v6.VulnerabilityDBFileName: read(t, file), "notes.txt": []byte("x")})
	served := serve(t)
	served.offer(t, archive, time.Now(), nil)
	nested := t.TempDir()
	if err := os.MkdirAll(filepath.Join(nested, "6"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(nested, "6", v6.VulnerabilityDBFileName), read(t, file), 0o600); err != nil {
		t.Fatal(err)
	}
	mirror := t.TempDir()
	for name, data := range map[string][]byte{"latest.json": served.files["/v6/latest.json"], "db.tar.zst": archive} {
		if err := os.WriteFile(filepath.Join(mirror, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for name, from := range map[string]string{
		"archive": write(t, "db.tar.zst", archive),
		"folder":  filepath.Dir(file),
		"cache":   nested,
		"mirror":  mirror,
		"URL":     served.URL + "/v6/db.tar.zst",
	} {
		t.Run(name, func(t *testing.T) {
			library := open(t, vulndb.Config{})
			installed, err := library.Import(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(installed, current(t, library)); diff != "" {
				t.Errorf("current (-imported +current):\n%s", diff)
			}
			b := installed.Build
			if b.Source != model.DatabaseSourceImported || !strings.HasPrefix(b.ID, "sha256:") || !strings.HasPrefix(b.SchemaVersion, "v6.") {
				t.Errorf("build is %+v", b)
			}
			ids[b.ID] = true
			if _, err := v6.ReadDescription(filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName)); err != nil {
				t.Error(err)
			}
			select {
			case <-library.Changed():
			default:
				t.Error("no signal of a change")
			}
			noLeftovers(t, filepath.Dir(filepath.Dir(installed.Dir)))
		})
	}
	if len(ids) != 1 {
		t.Errorf("the same database has the IDs %v", ids)
	}
}

func TestImportRefuses(t *testing.T) {
	good := read(t, sampleFile(t))
	damaged := append([]byte(nil), good...)
	for i := len(damaged) / 2; i < len(damaged)/2+20000; i++ {
		damaged[i] = 0xA5
	}
	other := sampleFile(t)
	change(t, other, "UPDATE db_metadata SET model = 5")
	emptied := sampleFile(t)
	change(t, emptied, "DELETE FROM affected_package_handles")
	change(t, emptied, "DELETE FROM affected_cpe_handles")
	change(t, emptied, "DELETE FROM vulnerability_handles")
	archive := packSample(t)
	db := v6.VulnerabilityDBFileName
	mirror := t.TempDir()
	for name, data := range map[string]string{
		"latest.json": `{"schemaVersion":"v6.1.4","built":"2026-01-01T00:00:00Z","path":"db.tar.zst","checksum":"sha256:` + strings.Repeat("0", 64) + `"}`,
		"db.tar.zst":  string(archive),
	} {
		if err := os.WriteFile(filepath.Join(mirror, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct{ from, says string }{
		"missing file":       {filepath.Join(t.TempDir(), "nowhere"), "no such file"},
		"empty folder":       {t.TempDir(), "neither"},
		"no archive":         {write(t, "x.tar.zst", []byte("hello")), "not a .tar.zst"},
		"half an archive":    {write(t, "x.tar.zst", archive[:len(archive)/2]), "unexpected EOF"},
		"without a database": {write(t, "x.tar.zst", pack(t, map[string][]byte{"a": nil})), "does not contain " + db},
		"not SQLite":         {write(t, "x.tar.zst", pack(t, map[string][]byte{db: []byte("hello")})), "not an SQLite database"},
		"empty database":     {write(t, "x.tar.zst", pack(t, map[string][]byte{db: nil})), "not an SQLite database"},
		"damaged":            {write(t, "x.tar.zst", pack(t, map[string][]byte{db: damaged})), "damaged"},
		"truncated":          {write(t, "x.tar.zst", pack(t, map[string][]byte{db: good[:len(good)/2]})), "damaged"},
		"another schema":     {filepath.Dir(other), "schema 6"},
		"no vulnerabilities": {filepath.Dir(emptied), "contains no vulnerabilities"},
		"too large":          {write(t, "x.tar.zst", pack(t, map[string][]byte{db: append(good, make([]byte, 2<<20)...)})), "larger than"},
		"wrong checksum":     {mirror, "from its listing"},
		"other protocol":     {"ftp://example.test/db", "no such file"},
	}
	library := open(t, vulndb.Config{Sample: true, MaxDatabaseBytes: 2 << 20})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := current(t, library)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := library.Import(t.Context(), test.from)
			if err == nil {
				t.Fatal("it is imported")
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if diff := cmp.Diff(before, current(t, library)); diff != "" {
				t.Errorf("the current database changed:\n%s", diff)
			}
			noLeftovers(t, filepath.Dir(filepath.Dir(before.Dir)))
		})
	}
}

func TestImportEndsWithContext(t *testing.T) {
	library := open(t, vulndb.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := library.Import(ctx, filepath.Dir(sampleFile(t))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Only the current build and the one before it stay, each under a name of its own.
func TestOldBuildsAreRemoved(t *testing.T) {
	library := open(t, vulndb.Config{})
	var dirs []string
	for i := range 4 {
		installed, err := library.Import(t.Context(), filepath.Dir(sampleBuilt(t, day.AddDate(0, 0, i))))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, installed.Dir)
	}
	for i, dir := range dirs {
		_, err := os.Stat(dir)
		if exists := err == nil; exists != (i >= 2) {
			t.Errorf("build %d of 4 exists: %t", i+1, exists)
		}
	}
	list := library.List()
	if len(list) != 2 || list[0].Dir != dirs[3] || list[1].Dir != dirs[2] {
		t.Errorf("the list is %v", list)
	}
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "tmp-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
