package vulndb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/db/v6/distribution"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// ImportOption changes what Import does.
type ImportOption func(*candidate)

// AllowOlder lets Import install a database that is older than the current one.
func AllowOlder() ImportOption { return func(c *candidate) { c.allowOlder = true } }

// Import installs a database from elsewhere and makes it current: a .tar.zst archive, a URL of one, or a folder that
// holds the database (itself or in "6", as the grype command's cache does) or an archive with its listing. What cannot be
// used is refused, and the current database stays; so is what is older than it, with ErrOlder. A database that is current
// already is returned as it is.
func (l *Library) Import(ctx context.Context, pathOrURL string, options ...ImportOption) (Installed, error) {
	installed, err := l.install(ctx, func(ctx context.Context, dir string) (candidate, error) {
		id, err := l.fetchImport(ctx, pathOrURL, dir)
		c := candidate{id: id, source: model.DatabaseSourceImported, origin: "manual import"}
		for _, option := range options {
			option(&c)
		}
		return c, err
	})
	if err != nil {
		return Installed{}, fmt.Errorf("import %s: %w", redactImport(pathOrURL), err)
	}
	return installed, nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

func redactImport(s string) string {
	if isURL(s) {
		return redact(s)
	}
	return s
}

func (l *Library) fetchImport(ctx context.Context, from, dir string) (string, error) {
	if isURL(from) {
		return l.fetch(ctx, from, "", dir)
	}
	info, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return l.importFolder(ctx, from, dir)
	}
	return l.unpack(ctx, from, dir)
}

func (l *Library) importFolder(ctx context.Context, from, dir string) (string, error) {
	for _, name := range []string{
		filepath.Join(from, v6.VulnerabilityDBFileName), filepath.Join(from, schemaDir, v6.VulnerabilityDBFileName),
	} {
		f, err := os.Open(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		counted := &progressReader{r: f, report: func(n int64) { l.progress("unpack", n, info.Size()) }}
		return l.writeDatabase(ctx, counted, info.Size(), dir)
	}
	data, err := os.ReadFile(filepath.Join(from, distribution.LatestFileName))
	if os.IsNotExist(err) {
		return "", fmt.Errorf("the directory contains neither %s nor %s", v6.VulnerabilityDBFileName, distribution.LatestFileName)
	}
	if err != nil {
		return "", err
	}
	offer, err := parseListing(data, distribution.LatestFileName)
	if err != nil {
		return "", err
	}
	// Whatever the listing says, the archive lies in this folder.
	archive := filepath.Join(from, filepath.Base(offer.archive.Path))
	if err := checkFile(archive, offer.checksum); err != nil {
		return "", err
	}
	return l.unpack(ctx, archive, dir)
}

func checkFile(name, checksum string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != checksum {
		return fmt.Errorf("%s has the checksum sha256:%s instead of sha256:%s from its listing", filepath.Base(name), got, checksum)
	}
	return nil
}
