package vulndb

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow bounds the memory of the decompressor; it is the window of zstd's highest level.
	maxWindow = 128 << 20
	// maxEntries bounds the files of an archive that are passed over in search of the database.
	maxEntries = 64
)

// unpack takes the database out of a .tar.zst archive, and returns the SHA-256 of the database file.
func (l *Library) unpack(ctx context.Context, archive, dir string) (string, error) {
	f, err := os.Open(archive)
	if err != nil {
		return "", fmt.Errorf("open the archive: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("open the archive: %w", err)
	}
	counted := &progressReader{r: f, report: func(n int64) { l.progress("unpack", n, info.Size()) }}
	decoder, err := zstd.NewReader(counted, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return "", fmt.Errorf("read the archive: %w", err)
	}
	defer decoder.Close()
	entries := tar.NewReader(decoder)
	for range maxEntries {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("the archive does not contain %s", v6.VulnerabilityDBFileName)
		}
		if err != nil {
			return "", fmt.Errorf("the archive is damaged or not a .tar.zst: %w", err)
		}
		if path.Clean(header.Name) != v6.VulnerabilityDBFileName || header.Typeflag != tar.TypeReg {
			continue
		}
		return l.writeDatabase(ctx, entries, header.Size, dir)
	}
	return "", fmt.Errorf("the archive contains more than %d files before %s", maxEntries, v6.VulnerabilityDBFileName)
}

// writeDatabase copies a database of a size into dir, and returns its SHA-256.
func (l *Library) writeDatabase(ctx context.Context, r io.Reader, size int64, dir string) (string, error) {
	if size > l.cfg.MaxDatabaseBytes {
		return "", l.tooLarge()
	}
	// Its indexes are built beside it in the file, and take a fifth of it and more.
	if err := l.checkSpace("the database with its indexes", size+size/2); err != nil {
		return "", err
	}
	out, err := os.OpenFile(filepath.Join(dir, v6.VulnerabilityDBFileName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("vulnerability database: %w", err)
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(contextReader{ctx, r}, l.cfg.MaxDatabaseBytes+1))
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("unpack the vulnerability database: %w", err)
	}
	if n > l.cfg.MaxDatabaseBytes {
		return "", l.tooLarge()
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

func (l *Library) tooLarge() error {
	return fmt.Errorf("the vulnerability database is larger than %d bytes", l.cfg.MaxDatabaseBytes)
}

// contextReader stops reading when the context ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// progressReader reports how much has been read.
type progressReader struct {
	r      io.Reader
	n      int64
	report func(int64)
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.report(r.n)
	return n, err
}
