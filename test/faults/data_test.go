//go:build faults

package faults

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
)

// installed is the data directory of an operator that has installed the sample database, without the SQL database: to install it takes longer than
// most runs, and no fault happens meanwhile.
var installed struct {
	sync.Mutex
	dir string
}

// installedData returns it. The first caller runs an operator.
func installedData(t *testing.T) string {
	t.Helper()
	installed.Lock()
	defer installed.Unlock()
	if installed.dir != "" {
		return installed.dir
	}
	s := &scenario{name: "installation", args: only("scanner"), scans: true, installs: true}
	w := newWorld(t, s, point{}, planeFor(t, s, point{}))
	t.Cleanup(func() { w.empty(t) })
	w.ready(t)
	w.create(t, &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Name: "scanner"}, Spec: scannerv1.ScannerSpec{IgnoreLabel: "ignore"}})
	w.settle(t, all(is("Scanner", "scanner", "True/Reconciled"), databaseReady))
	w.slot.free()
	w.stop(t)
	//nolint:usetesting // It outlives the first test.
	dir, err := os.MkdirTemp("", "faults-installed-")
	if err == nil {
		err = copyDirectories(dir, w.managers[0].dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	installed.dir = dir
	return dir
}

// copyDirectories copies the directories in a directory, and not its files, which are those of the SQL database.
func copyDirectories(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	copied := 0
	for _, entry := range entries {
		if entry.IsDir() {
			copied++
			err = errors.Join(err, os.CopyFS(filepath.Join(to, entry.Name()), os.DirFS(filepath.Join(from, entry.Name()))))
		}
	}
	if copied == 0 {
		err = errors.Join(err, errors.New("there is no vulnerability database in "+from))
	}
	return err
}

// removeInstalled removes what installedData left.
func removeInstalled() error {
	installed.Lock()
	defer installed.Unlock()
	if installed.dir == "" {
		return nil
	}
	return os.RemoveAll(installed.dir)
}
