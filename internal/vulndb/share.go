package vulndb

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Replaces says that replicas which have both builds use this one: the newer one, unless the older one was imported later with AllowOlder.
// The sample database replaces none and is replaced by all. Of two builds at most one replaces the other.
func (i Installed) Replaces(other Installed) bool {
	later := i.InstalledAt.After(other.InstalledAt)
	switch {
	case i.Build.ID == other.Build.ID || i.Build.Source == model.DatabaseSourceSample:
		return false
	case other.Build.Source == model.DatabaseSourceSample:
		return true
	case i.AllowOlder && later:
		return true
	case other.AllowOlder && other.InstalledAt.After(i.InstalledAt):
		return false
	default:
		return i.Build.Built.After(other.Build.Built) || i.Build.Built.Equal(other.Build.Built) && later
	}
}

// Refresh notices at once what other processes did to the folder.
func (l *Library) Refresh() { l.detectChanges() }

// Export writes an installed build to w, as an archive that ImportShared takes. It stops when ctx ends.
func (i Installed) Export(ctx context.Context, w io.Writer) error {
	f, err := os.Open(filepath.Join(i.SQLiteDir(), v6.VulnerabilityDBFileName))
	if err != nil {
		return fmt.Errorf("export the vulnerability database: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("export the vulnerability database: %w", err)
	}
	encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("export the vulnerability database: %w", err)
	}
	archive := tar.NewWriter(encoder)
	err = archive.WriteHeader(&tar.Header{Name: v6.VulnerabilityDBFileName, Typeflag: tar.TypeReg, Mode: 0o600, Size: info.Size()})
	if err == nil {
		_, err = io.Copy(archive, contextReader{ctx, f})
	}
	if err = errors.Join(err, archive.Close(), encoder.Close()); err != nil {
		return fmt.Errorf("export the vulnerability database: %w", err)
	}
	return nil
}

// ImportShared installs a build that another replica exported and makes it current. shared describes it as it is there; its Dir is not
// used. load writes the archive, of size bytes. What is older than the current build is refused as by Import.
func (l *Library) ImportShared(ctx context.Context, shared Installed, size int64, load func(w io.Writer) error) (Installed, error) {
	installed, err := l.install(ctx, func(ctx context.Context, dir string) (candidate, error) {
		c := candidate{
			id: shared.Build.ID, source: shared.Build.Source, origin: "another replica", allowOlder: shared.AllowOlder, installedAt: shared.InstalledAt,
		}
		if size > l.cfg.MaxArchiveBytes {
			return c, fmt.Errorf("the archive is larger than %d bytes", l.cfg.MaxArchiveBytes)
		}
		if err := l.checkSpace("the archive", size); err != nil {
			return c, err
		}
		archive := filepath.Join(dir, "..", "..", "archive")
		if err := writeArchive(archive, load); err != nil {
			return c, err
		}
		// The archive holds indexes that the delivered file did not: its checksum is not the ID of the build.
		if _, err := l.unpack(ctx, archive, dir); err != nil {
			return c, err
		}
		return c, os.Remove(archive)
	})
	if err != nil {
		return Installed{}, fmt.Errorf("install the vulnerability database of another replica: %w", err)
	}
	return installed, nil
}

func writeArchive(name string, load func(w io.Writer) error) error {
	out, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(load(out), out.Close())
}
