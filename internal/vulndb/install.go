package vulndb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/spf13/afero"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// ErrOlder says that a database is older than the one in use.
var ErrOlder = errors.New("the database is older than the current one")

// candidate is a database that was brought to disk and is not verified yet.
type candidate struct {
	// id identifies the content of the file as it was delivered.
	id     string
	source model.DatabaseSource
	origin string
	// archive is the checksum from the listing, "" when there was none.
	archive      string
	sampleDigest string
	allowOlder   bool
	// installedAt is when another replica imported it, zero for now.
	installedAt time.Time
}

// install makes a database current. fetch puts the file v6.VulnerabilityDBFileName into the folder that it is given, and
// may use the folder above it for what it needs meanwhile. When the database is the current one already, that is returned, unless it
// may replace a newer one: one that another replica brought, which this library does not know.
func (l *Library) install(ctx context.Context, fetch func(ctx context.Context, dir string) (candidate, error)) (Installed, error) {
	l.installing.Lock()
	defer l.installing.Unlock()
	defer l.progress("", 0, 0)
	unlock, err := l.lock(ctx)
	if err != nil {
		return Installed{}, err
	}
	defer unlock()
	l.refresh() // what another process installed while this one waited
	if err := l.removeLeftovers(); err != nil {
		return Installed{}, err
	}
	work := filepath.Join(l.cfg.Dir, tmpPrefix+randomHex())
	build := filepath.Join(work, "build")
	files := filepath.Join(build, schemaDir)
	if err := os.MkdirAll(files, 0o700); err != nil {
		return Installed{}, fmt.Errorf("vulnerability database: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()

	c, err := fetch(ctx, files)
	if err != nil {
		return Installed{}, err
	}
	if err := ctx.Err(); err != nil {
		return Installed{}, err
	}
	if current, ok := l.Current(); ok && current.Build.ID == c.id && !c.allowOlder {
		return current, nil
	}
	l.progress("verify", 0, 0)
	description, err := verify(files)
	if err != nil {
		return Installed{}, err
	}
	if err := l.checkAge(c, description.Built.Time); err != nil {
		return Installed{}, err
	}
	if c.installedAt.IsZero() {
		c.installedAt = l.cfg.Clock.Now()
	}
	l.progress("prepare", 0, 0)
	if err := hydrate(files, c.origin); err != nil {
		return Installed{}, err
	}
	r := record{
		Build: model.DatabaseBuild{
			ID: c.id, SchemaVersion: description.SchemaVersion.String(), Built: description.Built.UTC(), Source: c.source,
		},
		InstalledAt:  c.installedAt.UTC(),
		AllowOlder:   c.allowOlder,
		Archive:      c.archive,
		SampleDigest: c.sampleDigest,
	}
	return l.publish(build, r)
}

// checkAge refuses a database that is older than the current one. A sample is no more than a stand-in, whatever date it
// carries.
func (l *Library) checkAge(c candidate, built time.Time) error {
	current, ok := l.Current()
	if !ok || c.allowOlder || c.source == model.DatabaseSourceSample || current.Build.Source == model.DatabaseSourceSample ||
		!built.Before(current.Build.Built) {
		return nil
	}
	return fmt.Errorf("%w: it was built on %s, the current one on %s", ErrOlder,
		built.UTC().Format(time.RFC3339), current.Build.Built.Format(time.RFC3339))
}

// publish makes a finished folder visible, in one step, after everything in it has reached the disk.
func (l *Library) publish(build string, r record) (Installed, error) {
	l.progress("publish", 0, 0)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return Installed{}, fmt.Errorf("vulnerability database: %w", err)
	}
	if err := os.WriteFile(filepath.Join(build, buildFile), append(data, '\n'), 0o600); err != nil {
		return Installed{}, fmt.Errorf("vulnerability database: %w", err)
	}
	for _, path := range []string{
		filepath.Join(build, schemaDir, v6.VulnerabilityDBFileName), filepath.Join(build, schemaDir, v6.ImportMetadataFileName),
		filepath.Join(build, schemaDir), filepath.Join(build, buildFile), build,
	} {
		if err := syncPath(path); err != nil {
			return Installed{}, err
		}
	}
	name, err := l.nextName()
	if err != nil {
		return Installed{}, fmt.Errorf("vulnerability database: %w", err)
	}
	dir := filepath.Join(l.buildsDir(), name)
	if err := os.Rename(build, dir); err != nil {
		return Installed{}, fmt.Errorf("vulnerability database: %w", err)
	}
	if err := syncPath(l.buildsDir()); err != nil {
		return Installed{}, err
	}
	l.refresh()
	l.prune()
	l.cfg.Log.Info("Installed a vulnerability database", "build", r.Build.ID, "built", r.Build.Built,
		"schema", r.Build.SchemaVersion, "source", r.Build.Source)
	return r.installed(dir), nil
}

// verify makes sure that a file is a whole database that this version of Grype can read.
func verify(dir string) (*v6.Description, error) {
	path := filepath.Join(dir, v6.VulnerabilityDBFileName)
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	description, err := v6.ReadDescription(path)
	if err != nil {
		return nil, fmt.Errorf("the file is not a vulnerability database with schema %d, or is damaged: %w", v6.ModelVersion, err)
	}
	if description.SchemaVersion.Model != v6.ModelVersion {
		return nil, fmt.Errorf("the vulnerability database has schema %s; this version of the operator supports schema %d",
			description.SchemaVersion, v6.ModelVersion)
	}
	db, err := v6.NewLowLevelDB(path, false, false, false)
	if err != nil {
		return nil, fmt.Errorf("open the vulnerability database: %w", err)
	}
	sqlDB, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("open the vulnerability database: %w", err)
	}
	defer func() { _ = sqlDB.Close() }()
	var result string
	if err := db.Raw("PRAGMA quick_check(1)").Scan(&result).Error; err != nil {
		return nil, fmt.Errorf("the vulnerability database is damaged: %w", err)
	}
	if result != "ok" {
		return nil, fmt.Errorf("the vulnerability database is damaged: %s", result)
	}
	var id int64
	if err := db.Raw("SELECT id FROM vulnerability_handles LIMIT 1").Scan(&id).Error; err != nil {
		return nil, fmt.Errorf("the vulnerability database is damaged: %w", err)
	}
	if id == 0 {
		return nil, fmt.Errorf("the vulnerability database contains no vulnerabilities; every image would appear to have none")
	}
	return description, nil
}

func checkHeader(path string) error {
	const magic = "SQLite format 3\x00"
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("vulnerability database: %w", err)
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(magic))
	if n, err := f.Read(head); err != nil || string(head[:n]) != magic {
		return fmt.Errorf("the file %s is not an SQLite database", filepath.Base(path))
	}
	return nil
}

// hydrate builds the indexes, which archives leave out, and writes the checksum file that the grype command reads.
func hydrate(dir, origin string) error {
	if err := v6.Hydrater()(dir); err != nil {
		return fmt.Errorf("build the indexes of the vulnerability database: %w", err)
	}
	if _, err := v6.WriteImportMetadata(afero.NewOsFs(), dir, origin); err != nil {
		return fmt.Errorf("write the checksum of the vulnerability database: %w", err)
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("vulnerability database: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write %s to disk: %w", path, err)
	}
	return nil
}

func randomHex() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
