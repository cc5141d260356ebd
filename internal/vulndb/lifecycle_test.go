package vulndb_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// folder is a folder with the sample database as if it had been built at some time.
func folder(t *testing.T, built time.Time) string {
	t.Helper()
	return filepath.Dir(sampleBuilt(t, built))
}

func imported(t *testing.T, library *vulndb.Library, from string, options ...vulndb.ImportOption) vulndb.Installed {
	t.Helper()
	installed, err := library.Import(t.Context(), from, options...)
	if err != nil {
		t.Fatal(err)
	}
	return installed
}

func TestImportOlder(t *testing.T) {
	older, newer := folder(t, day), folder(t, day.Add(time.Hour))
	archive := write(t, "db.tar.zst", pack(t, map[string][]byte{v6.VulnerabilityDBFileName: read(t, filepath.Join(older, v6.VulnerabilityDBFileName))}))
	library := open(t, vulndb.Config{})
	now := imported(t, library, newer)
	for name, from := range map[string]string{"folder": older, "archive": archive} {
		_, err := library.Import(t.Context(), from)
		if !errors.Is(err, vulndb.ErrOlder) || !strings.Contains(err.Error(), "2026-05-01T00:00:00Z") {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(now, current(t, library)); diff != "" {
			t.Errorf("%s: the current database changed:\n%s", name, diff)
		}
	}
	got := imported(t, library, archive, vulndb.AllowOlder())
	if !got.Build.Built.Equal(day) || current(t, library).Dir != got.Dir || !got.AllowOlder || !current(t, library).AllowOlder || now.AllowOlder {
		t.Errorf("current is %+v", current(t, library))
	}
	// What it may replace, another replica may have installed since.
	if again := imported(t, library, archive, vulndb.AllowOlder()); !again.AllowOlder || !again.InstalledAt.After(got.InstalledAt) {
		t.Errorf("importing it again: %+v, before %+v", again, got)
	}
	noLeftovers(t, filepath.Dir(filepath.Dir(got.Dir)))
}

// The sample is older than nothing: it gives way to whatever is imported.
func TestImportOlderThanSample(t *testing.T) {
	library := open(t, vulndb.Config{Sample: true})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := imported(t, library, folder(t, day.AddDate(-1, 0, 0))); got.Build.Source != model.DatabaseSourceImported {
		t.Errorf("build is %+v", got.Build)
	}
	if changed, err := library.Update(t.Context()); changed || err != nil {
		t.Errorf("the sample is back: %t, %v", changed, err)
	}
}

func TestImportOfTheSame(t *testing.T) {
	library := open(t, vulndb.Config{})
	from := folder(t, day)
	first := imported(t, library, from)
	<-library.Changed()
	if diff := cmp.Diff(first, imported(t, library, from)); diff != "" {
		t.Errorf("it is installed again (-first +second):\n%s", diff)
	}
	select {
	case <-library.Changed():
		t.Error("a change is signalled")
	default:
	}
	if n := len(library.List()); n != 1 {
		t.Errorf("there are %d builds", n)
	}
}

func TestInstalled(t *testing.T) {
	library := open(t, vulndb.Config{})
	var ids []string
	for i := range 3 {
		ids = append(ids, imported(t, library, folder(t, day.AddDate(0, 0, i))).Build.ID)
	}
	for i, id := range ids {
		got, ok := library.Installed(id)
		if ok != (i > 0) || (ok && got.Build.ID != id) {
			t.Errorf("build %d of 3: %t, %+v", i+1, ok, got)
		}
	}
	if _, ok := library.Installed(""); ok {
		t.Error("there is a build without an ID")
	}
}

// A server whose listing carries a later date than its database must not be fetched from again and again, and one whose
// database is older than its listing says must not take the place of a newer one.
func TestUpdateDistrustsTheListing(t *testing.T) {
	served := serve(t)
	later := day.Add(48 * time.Hour)
	served.offer(t, packBuilt(t, day), later, nil)
	library := open(t, vulndb.Config{UpdateURL: served.URL})
	for i, want := range []bool{true, false, false} {
		if changed, err := library.Update(t.Context()); changed != want || err != nil {
			t.Errorf("update %d: %t, %v", i+1, changed, err)
		}
	}
	if n := served.count("/v6/db.tar.zst"); n != 1 {
		t.Errorf("the archive was fetched %d times", n)
	}
	before := current(t, library)
	served.offer(t, packBuilt(t, day.Add(-time.Hour)), later.Add(time.Hour), nil)
	if changed, err := library.Update(t.Context()); changed || !errors.Is(err, vulndb.ErrOlder) {
		t.Errorf("an older one: %t, %v", changed, err)
	}
	if diff := cmp.Diff(before, current(t, library)); diff != "" {
		t.Errorf("the current database changed:\n%s", diff)
	}
}

func TestSpace(t *testing.T) {
	served := serve(t)
	archive := packBuilt(t, day)
	served.offer(t, archive, day, nil)
	const spare = 64 << 20
	for name, test := range map[string]struct {
		free int64
		says string
	}{
		"none":            {0, "the archive needs"},
		"for the archive": {spare + int64(len(archive)), "the database with its indexes needs"},
		"enough":          {spare + 20<<20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			library := open(t, vulndb.Config{Dir: dir, UpdateURL: served.URL})
			library.SetFreeSpace(test.free)
			changed, err := library.Update(t.Context())
			if test.says == "" {
				if !changed || err != nil {
					t.Errorf("%t, %v", changed, err)
				}
				return
			}
			if changed || err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "not enough disk space") {
				t.Errorf("%t, %v", changed, err)
			}
			noLeftovers(t, dir)
			if _, err := library.Import(t.Context(), folder(t, day)); err == nil {
				t.Error("an import finds space")
			}
		})
	}
}

func TestCertificateAuthority(t *testing.T) {
	plain := serve(t)
	plain.offer(t, packBuilt(t, day), day, nil)
	secure := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(secure.Close)
	ca := write(t, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	if changed, err := open(t, vulndb.Config{UpdateURL: secure.URL}).Update(t.Context()); changed || err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the authority: %t, %v", changed, err)
	}
	library := open(t, vulndb.Config{UpdateURL: secure.URL, CAFile: ca})
	if changed, err := library.Update(t.Context()); !changed || err != nil {
		t.Errorf("with the authority: %t, %v", changed, err)
	}
	if _, err := library.Import(t.Context(), secure.URL+"/v6/db.tar.zst"); err != nil {
		t.Errorf("import with the authority: %v", err)
	}
}

// The archive is gone before the indexes are built, and the status shows the progress.
func TestStatusOfWork(t *testing.T) {
	served := serve(t)
	archive := packBuilt(t, day)
	served.offer(t, archive, day, nil)
	dir := t.TempDir()
	var library *vulndb.Library
	stages := map[string]int64{}
	library = open(t, vulndb.Config{Dir: dir, UpdateURL: served.URL, Progress: func(stage string, done, total int64) {
		if s := library.Status(); s.Stage != stage || s.Done != done || s.Total != total {
			t.Errorf("at %s, %d of %d, the status is %+v", stage, done, total, s)
		}
		stages[stage] = max(stages[stage], total)
		left, _ := filepath.Glob(filepath.Join(dir, "tmp-*", "archive"))
		if kept := len(left) > 0; kept && (stage == "prepare" || stage == "publish") {
			t.Errorf("at %s the archive still takes space", stage)
		}
	}})
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	size := int64(len(archive))
	want := map[string]int64{"check": 0, "download": size, "unpack": size, "verify": 0, "prepare": 0, "publish": 0}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Errorf("totals by stage (-want +got):\n%s", diff)
	}
	if s := library.Status(); s.Stage != "" || s.Done != 0 || s.Total != 0 {
		t.Errorf("status at rest is %+v", s)
	}
}

// Whoever has an old build open goes on reading when it is removed.
func TestReadersKeepRemovedBuilds(t *testing.T) {
	library := open(t, vulndb.Config{})
	first := imported(t, library, folder(t, day))
	reader, err := v6.NewReader(v6.Config{DBDirPath: first.SQLiteDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := reader.AllProviders(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		imported(t, library, folder(t, day.AddDate(0, 0, i+1)))
	}
	if _, err := os.Stat(first.Dir); err == nil {
		t.Fatal("the build is still there; this test says nothing")
	}
	affected, err := reader.GetAffectedPackages(&v6.PackageSpecifier{Name: "openssl"}, &v6.GetPackageOptions{PreloadBlob: true})
	if err != nil || len(affected) == 0 {
		t.Errorf("%d packages, %v", len(affected), err)
	}
}

// Whatever a mirror does, it costs bounded time and space, and the database in use stays.
func TestHostileMirrors(t *testing.T) {
	good := packBuilt(t, day)
	bomb := pack(t, map[string][]byte{v6.VulnerabilityDBFileName: make([]byte, 64<<20)})
	crowd := map[string][]byte{}
	for i := range 100 {
		crowd[strings.Repeat("x", i+1)] = nil
	}
	dir := t.TempDir()
	before := imported(t, open(t, vulndb.Config{Dir: dir}), folder(t, day.Add(-time.Hour)))
	for name, test := range map[string]struct {
		archive []byte
		serve   func(w http.ResponseWriter, r *http.Request)
		says    string
	}{
		"stalls in the middle": {good, func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(good[:len(good)/2])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, context.DeadlineExceeded.Error()},
		"never ends": {good, func(w http.ResponseWriter, _ *http.Request) {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		}, "larger than"},
		"is cut": {good, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(good)))
			_, _ = w.Write(good[:len(good)/2])
		}, "unexpected EOF"},
		"archive bomb": {bomb, nil, "larger than"},
		"many files":   {pack(t, crowd), nil, "more than 64 files"},
		"redirects for ever": {good, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, "redirects"},
		"fails": {good, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502"},
	} {
		t.Run(name, func(t *testing.T) {
			served := serve(t)
			served.offer(t, test.archive, day, nil)
			hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.serve != nil && strings.HasSuffix(r.URL.Path, ".tar.zst") {
					test.serve(w, r)
					return
				}
				served.Config.Handler.ServeHTTP(w, r)
			}))
			t.Cleanup(hostile.Close)
			library := open(t, vulndb.Config{
				Dir: dir, UpdateURL: hostile.URL, DownloadTimeout: 5 * time.Second, MaxArchiveBytes: 8 << 20, MaxDatabaseBytes: 8 << 20,
			})
			changed, err := library.Update(t.Context())
			if changed || err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%t, %v", changed, err)
			}
			if diff := cmp.Diff(before, current(t, library)); diff != "" {
				t.Errorf("the current database changed:\n%s", diff)
			}
			noLeftovers(t, dir)
		})
	}
}
