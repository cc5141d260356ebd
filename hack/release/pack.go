package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/scanner-operator/scanner-operator/hack/image/ociimage"
)

// checksums is the file with the SHA-256 of every other file, as sha256sum writes it.
const checksums = "SHA256SUMS"

// entry is a file in an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// writeArchive writes a tar.gz that depends on nothing but its arguments: sorted entries, one time, no owner.
func writeArchive(path string, entries []entry, at time.Time) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: at.UTC(), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readArchive returns the files of a tar.gz.
func readArchive(r io.Reader) ([]entry, error) {
	compressed, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for tr := tar.NewReader(compressed); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: header.Name, mode: header.Mode & 0o777, content: content})
	}
}

// buildBinaries compiles the operator for each platform.
func buildBinaries(ctx context.Context, src *source, platforms []v1.Platform, work string) ([]ociimage.Binary, error) {
	var binaries []ociimage.Binary
	for _, platform := range platforms {
		binary := ociimage.Binary{Path: filepath.Join(work, platform.OS+"-"+platform.Architecture), Platform: platform}
		flags := "-s -w -funcalign=8 -buildid= -X github.com/scanner-operator/scanner-operator/internal/version.Version=" + src.Version
		// The build flags are spelled out, because those of the environment must not matter.
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", binary.Path, "./cmd/scanner-operator")
		cmd.Dir = src.Root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "GOEXPERIMENT=",
			"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "GOAMD64=v1", "GOARM64=v8.0")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		fmt.Fprintf(os.Stderr, "building the binary for %s\n", platform)
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("build the binary for %s: %w", platform, err)
		}
		binaries = append(binaries, binary)
	}
	return binaries, nil
}

// packBinary writes the archive that users of one platform download.
func packBinary(src *source, binary ociimage.Binary, dir string) error {
	entries := []entry{}
	for name, path := range map[string]string{
		"scanner-operator": binary.Path, "LICENSE": filepath.Join(src.Root, "LICENSE"), "README.md": filepath.Join(src.Root, "README.md"),
	} {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if path == binary.Path {
			mode = 0o755
		}
		entries = append(entries, entry{name: name, mode: mode, content: content})
	}
	return writeArchive(filepath.Join(dir, archiveName(src, binary.Platform)), entries, src.Time)
}

// archiveName is the name of the archive for a platform.
func archiveName(src *source, platform v1.Platform) string {
	return fmt.Sprintf("scanner-operator_%s_%s_%s.tar.gz", src.Version, platform.OS, platform.Architecture)
}

// packChart packages the chart with the version and the image of the release, and packs it once more without the times that Helm writes.
func packChart(ctx context.Context, src *source, image, helm, work, dir string) error {
	chart := filepath.Join(work, "chart", "scanner-operator")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(src.Root, "charts/scanner-operator"))); err != nil {
		return fmt.Errorf("copy the chart: %w", err)
	}
	if err := setImage(filepath.Join(chart, "values.yaml"), image); err != nil {
		return err
	}
	version := strings.TrimPrefix(src.Version, "v")
	if _, err := output(ctx, helm, "package", chart, "--version", version,
		"--app-version", src.Version, "--destination", work); err != nil {
		return err
	}
	name := "scanner-operator-" + version + ".tgz"
	file, err := os.Open(filepath.Join(work, name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	entries, err := readArchive(file)
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	return writeArchive(filepath.Join(dir, name), entries, src.Time)
}

// setImage writes the image of the release into the values of a chart, which name none.
func setImage(path, image string) error {
	values, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const none = "\n  registry: \"\"\n  repository: \"\"\n"
	if bytes.Count(values, []byte(none)) != 1 {
		return fmt.Errorf("%s does not contain an empty image.registry and image.repository once", path)
	}
	registry, repository, _ := strings.Cut(image, "/")
	values = bytes.Replace(values, []byte(none), fmt.Appendf(nil, "\n  registry: %s\n  repository: %s\n", registry, repository), 1)
	return os.WriteFile(path, values, 0o644)
}

// digests returns the SHA-256 of every file of a folder.
func digests(dir string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, file := range files {
		if sums[file.Name()], err = fileSum(filepath.Join(dir, file.Name())); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// fileSum returns the SHA-256 of a file in hexadecimal digits.
func fileSum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func writeChecksums(dir string) error {
	sums, err := digests(dir)
	if err != nil {
		return err
	}
	var lines []string
	for name, sum := range sums {
		lines = append(lines, sum+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(dir, checksums), []byte(strings.Join(lines, "")), 0o644)
}
