// Package dbtest makes vulnerability databases for tests: the sample, a real one where there is any on the machine, and
// later builds that differ from another one in a known way.
package dbtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// DataVariable names the folder of test data that is not part of the repository. A real database lies in its folder
// "grype-db", as an archive with its listing.
const DataVariable = "SCANNER_TEST_DATA"

// Sample returns a copy of the installed sample database.
func Sample(tb testing.TB) vulndb.Installed {
	tb.Helper()
	sample, err := installSample()
	if err != nil {
		tb.Fatal(err)
	}
	out := sample.Installed
	out.Dir = filepath.Join(tb.TempDir(), "build")
	if err := os.CopyFS(out.Dir, sample.files); err != nil {
		tb.Fatal(err)
	}
	return out
}

// PutSample puts the installed sample database into the folder of a library, unless it is there, so that the library need not build it.
func PutSample(tb testing.TB, dir string) {
	tb.Helper()
	sample, err := installSample()
	if err != nil {
		tb.Fatal(err)
	}
	// The name of the folder tells the order of builds.
	build := filepath.Join(dir, filepath.Base(filepath.Dir(sample.Dir)), filepath.Base(sample.Dir))
	if err := os.CopyFS(build, sample.files); err != nil && !errors.Is(err, fs.ErrExist) {
		tb.Fatal(err)
	}
}

// installedSample is the installed sample database. Its files are in memory.
type installedSample struct {
	vulndb.Installed
	files fs.FS
}

// installSample installs the sample database once per process.
var installSample = sync.OnceValues(func() (installedSample, error) {
	dir, err := os.MkdirTemp("", "sample-database-")
	if err != nil {
		return installedSample{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	library, err := vulndb.New(vulndb.Config{Dir: dir, UpdateURL: vulndb.UpdateURLNone, Sample: true})
	if err != nil {
		return installedSample{}, err
	}
	if _, err := library.Update(context.Background()); err != nil {
		return installedSample{}, err
	}
	installed, ok := library.Current()
	if !ok {
		return installedSample{}, errors.New("the sample database was not installed")
	}
	files := fstest.MapFS{}
	err = fs.WalkDir(os.DirFS(installed.Dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(installed.Dir, name))
		files[name] = &fstest.MapFile{Data: data}
		return err
	})
	return installedSample{installed, files}, err
})

// Shared installs the real database of the test data. The test is skipped where there is none.
func Shared(tb testing.TB) vulndb.Installed {
	tb.Helper()
	folder := SharedFolder(tb)
	installed, err := newLibrary(tb, vulndb.Config{}).Import(tb.Context(), folder)
	if err != nil {
		tb.Fatal(err)
	}
	return installed
}

// SharedFolder is the folder that holds the archive of the real database. The test is skipped where there is none.
func SharedFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := sharedFolder(tb)
	if err != nil {
		tb.Skipf("no real vulnerability database in %s: set %s to the folder of test data", folder, DataVariable)
	}
	return folder
}

// SharedOrSample installs the real database, or the sample where there is none.
func SharedOrSample(tb testing.TB) vulndb.Installed {
	tb.Helper()
	if _, err := sharedFolder(tb); err != nil {
		return Sample(tb)
	}
	return Shared(tb)
}

func sharedFolder(tb testing.TB) (string, error) {
	tb.Helper()
	data := os.Getenv(DataVariable)
	if data == "" {
		data = filepath.Join(moduleRoot(tb), "..", "shared", "data")
	}
	folder := filepath.Join(data, "grype-db")
	_, err := os.Stat(folder) //nolint:gosec // the folder that the tester names
	return folder, err
}

func newLibrary(tb testing.TB, config vulndb.Config) *vulndb.Library {
	tb.Helper()
	config.Dir, config.UpdateURL = tb.TempDir(), vulndb.UpdateURLNone
	library, err := vulndb.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return library
}

// moduleRoot is the folder of go.mod; tests run in the folder of their package.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("there is no go.mod above this package")
		}
		dir = parent
	}
}
