package vulndb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/spf13/afero"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// schemaDir is the folder below a build that holds the database, named after the schema as the grype command does.
	schemaDir  = "6"
	buildsName = "builds"
	buildFile  = "build.json"
	tmpPrefix  = "tmp-"
	// keepBuilds is the current build and the one before it.
	keepBuilds = 2
)

var buildName = regexp.MustCompile(`^build-(\d{8})-[0-9a-f]{8}$`)

// record is what buildFile holds.
type record struct {
	Build       model.DatabaseBuild `json:"build"`
	InstalledAt time.Time           `json:"installedAt"`
	// AllowOlder says that it may replace a newer one.
	AllowOlder bool `json:"allowOlder,omitempty"`
	// Archive is the checksum of the archive in the listing that offered it.
	Archive string `json:"archive,omitempty"`
	// SampleDigest identifies the data that a sample database was made from, so that a newer operator makes it anew.
	SampleDigest string `json:"sampleDigest,omitempty"`
}

func (r record) installed(dir string) Installed {
	return Installed{Dir: dir, Build: r.Build, InstalledAt: r.InstalledAt, AllowOlder: r.AllowOlder}
}

// recover reads what is on disk, removes what is damaged or half done, and takes the rest as the state.
func (l *Library) recover() error {
	unlock, err := l.tryLock()
	if err != nil {
		return err
	}
	if unlock == nil {
		// Another process installs a build now: read what is there and touch nothing.
		l.refresh()
		return nil
	}
	defer unlock()
	if err := l.removeLeftovers(); err != nil {
		return err
	}
	var good []Installed
	for _, build := range l.scan() {
		if err := checkInstalled(build); err != nil {
			l.cfg.Log.Error(err, "Removing a damaged vulnerability database", "directory", build.Dir)
			if err := os.RemoveAll(build.Dir); err != nil {
				return fmt.Errorf("remove the damaged vulnerability database in %s: %w", build.Dir, err)
			}
			continue
		}
		good = append(good, build)
	}
	l.setBuilds(good)
	l.prune()
	return nil
}

// scan lists the builds on disk, oldest first.
func (l *Library) scan() []Installed {
	names, err := l.folders()
	if err != nil {
		l.cfg.Log.Error(err, "Cannot list the vulnerability databases", "directory", l.buildsDir())
		return nil
	}
	var out []Installed
	for _, name := range names { // sorted by name, and so by sequence
		dir := filepath.Join(l.buildsDir(), name)
		r, err := readRecord(dir)
		if err != nil {
			l.cfg.Log.Error(err, "Ignoring an unreadable vulnerability database", "directory", dir)
			continue
		}
		out = append(out, r.installed(dir))
	}
	return out
}

// refresh takes what is on disk as the state.
func (l *Library) refresh() {
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	if found := l.scan(); len(found) > 0 {
		l.setBuilds(found)
	}
}

// folders are the names of the folders of builds, sorted.
func (l *Library) folders() ([]string, error) {
	entries, err := os.ReadDir(l.buildsDir())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if buildName.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func readRecord(dir string) (record, error) {
	data, err := os.ReadFile(filepath.Join(dir, buildFile))
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("%s in %s: %w", buildFile, dir, err)
	}
	return r, nil
}

// checkInstalled compares the file with the checksum from its installation, and prepares it anew when another version of
// Grype did so before.
func checkInstalled(build Installed) error {
	dir := build.SQLiteDir()
	file := filepath.Join(dir, v6.VulnerabilityDBFileName)
	meta, err := v6.ReadImportMetadata(afero.NewOsFs(), dir)
	if err != nil {
		return err
	}
	digest, err := v6.CalculateDBDigest(afero.NewOsFs(), file)
	if err != nil {
		return err
	}
	if digest != meta.Digest {
		return fmt.Errorf("%s has the checksum %s instead of %s, which it had when it was installed", file, digest, meta.Digest)
	}
	if meta.ClientVersion != clientVersion() {
		return hydrate(dir, meta.Source)
	}
	return nil
}

// clientVersion is the schema that this version of Grype prepares databases for.
func clientVersion() string {
	return fmt.Sprintf("v%d.%d.%d", v6.ModelVersion, v6.Revision, v6.Addition)
}

// prune removes all but the newest builds. Readers that have an older one open keep their files until they close, but can
// open them no further time.
func (l *Library) prune() {
	l.mu.Lock()
	var old []Installed
	if n := len(l.builds) - keepBuilds; n > 0 {
		old = slices.Clone(l.builds[:n])
		l.builds = slices.Clone(l.builds[n:])
	}
	l.mu.Unlock()
	for _, build := range old {
		if err := os.RemoveAll(build.Dir); err != nil {
			l.cfg.Log.Error(err, "Cannot remove an old vulnerability database", "directory", build.Dir)
		}
	}
}

// nextName makes a name that sorts behind all others and was never used.
func (l *Library) nextName() (string, error) {
	names, err := l.folders()
	if err != nil {
		return "", err
	}
	last := 0
	for _, name := range names {
		n, err := strconv.Atoi(buildName.FindStringSubmatch(name)[1])
		if err != nil {
			return "", err
		}
		last = max(last, n)
	}
	return fmt.Sprintf("build-%08d-%s", last+1, randomHex()), nil
}

func (l *Library) removeLeftovers() error {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		return fmt.Errorf("vulnerability database: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tmpPrefix) {
			if err := os.RemoveAll(filepath.Join(l.cfg.Dir, entry.Name())); err != nil {
				return fmt.Errorf("remove the files of an interrupted installation: %w", err)
			}
		}
	}
	return nil
}

// tryLock takes the lock between processes; nil without an error when another one has it.
func (l *Library) tryLock() (unlock func(), err error) {
	return tryFlock(filepath.Join(l.cfg.Dir, "lock"))
}

// tryFlock locks a file; nil without an error when another process has it locked. The lock ends with the process.
func tryFlock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("vulnerability database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

// lock waits for the lock between processes.
func (l *Library) lock(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err := l.tryLock()
		if err != nil || unlock != nil {
			return unlock, err
		}
		l.progress("wait", 0, 0)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that installs a vulnerability database into %s: %w", l.cfg.Dir, ctx.Err())
		case <-l.cfg.Clock.After(200 * time.Millisecond):
		}
	}
}
