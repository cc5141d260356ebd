package catalog

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func newZstdWriter(t *testing.T) func(io.Writer) io.WriteCloser {
	t.Helper()
	return func(w io.Writer) io.WriteCloser {
		encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		return encoder
	}
}

// bomb is a layer with a file of zeros.
func bomb(t *testing.T, size int64, compress func(io.Writer) io.WriteCloser) *rawLayer {
	t.Helper()
	var out bytes.Buffer
	compressor := compress(&out)
	writer := tar.NewWriter(compressor)
	if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: size}); err != nil {
		t.Fatal(err)
	}
	content := zeros(size)
	if _, err := io.Copy(writer, &content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writer.Close(), compressor.Close()); err != nil {
		t.Fatal(err)
	}
	if out.Len() > int(size)/100 {
		t.Fatalf("the bomb has %d bytes", out.Len())
	}
	return newRawLayer(out.Bytes(), nil)
}

func TestHostileLayers(t *testing.T) {
	const limit = "1048576 bytes after decompression"
	small := Limits{DecompressedBytes: 1 << 20}
	member := zerosIn(t, 64<<10, newGzipWriter)
	// A frame of no content that asks for a window of 512 MiB.
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 19 << 3, 0x01, 0x00, 0x00}
	// A frame that decoders skip.
	skipped := append([]byte{0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0}, make([]byte, 8)...)
	for name, test := range map[string]struct {
		layer  *rawLayer
		limits Limits
		reason model.Reason
		phrase string
	}{
		"gzip":               {bomb(t, 8<<20, newGzipWriter), small, model.ReasonImageTooLarge, limit},
		"zstd":               {bomb(t, 8<<20, newZstdWriter(t)), small, model.ReasonImageTooLarge, limit},
		"many gzip members":  {newRawLayer(bytes.Repeat(member, 100), nil), small, model.ReasonImageTooLarge, limit},
		"many zstd frames":   {newRawLayer(bytes.Repeat(zerosIn(t, 64<<10, newZstdWriter(t)), 100), nil), small, model.ReasonImageTooLarge, limit},
		"gzip in gzip":       {newRawLayer(gzipped(t, member), member), small, model.ReasonCatalogFailed, "tar"},
		"zstd window":        {newRawLayer(window, nil), Limits{}, model.ReasonCatalogFailed, "window"},
		"skipped frames":     {newRawLayer(append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}, bytes.Repeat(skipped, 100_000)...), []byte("x")), Limits{}, model.ReasonCatalogFailed, "diff ID"},
		"text":               {newRawLayer([]byte(strings.Repeat("not a tar archive ", 100)), nil), Limits{}, model.ReasonCatalogFailed, "layer 1"},
		"broken gzip":        {newRawLayer(append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}, bytes.Repeat([]byte{0xff}, 100)...), nil), Limits{}, model.ReasonCatalogFailed, "layer 1"},
		"broken zstd":        {newRawLayer(append([]byte{0x28, 0xb5, 0x2f, 0xfd}, bytes.Repeat([]byte{0xff}, 100)...), nil), Limits{}, model.ReasonCatalogFailed, "layer 1"},
		"cut off":            {newRawLayer(debianTar(t)[:1200], debianTar(t)[:1200]), Limits{}, model.ReasonCatalogFailed, "layer 1"},
		"gzip cut off":       {newRawLayer(member[:len(member)/2], nil), Limits{}, model.ReasonCatalogFailed, "layer 1"},
		"data after the end": {newRawLayer(append(gzipped(t, debianTar(t)), "more"...), debianTar(t)), Limits{}, model.ReasonCatalogFailed, "layer 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, test.layer)), Limits: test.limits})
			wantFailure(t, err, test.reason, test.phrase)
		})
	}
	t.Run("archive of an image", func(t *testing.T) {
		path := write(t, "image.tar.gz", zerosIn(t, 8<<20, newGzipWriter))
		_, err := runHostile(t, Request{Image: path, Limits: small})
		wantFailure(t, err, model.ReasonImageTooLarge, limit)
	})
	t.Run("the same layer 512 times", func(t *testing.T) {
		layer := hostileLayer(t, regular("data", strings.Repeat("x", 4<<10)))
		layers := make([]v1.Layer, maxLayers)
		for i := range layers {
			layers[i] = layer
		}
		_, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, layers...)), Limits: small})
		wantFailure(t, err, model.ReasonImageTooLarge, limit)
	})
}

// jarOfJars has members of zeros, which are compressed once.
func jarOfJars(t *testing.T, count int, size int64) string {
	t.Helper()
	compressed := zerosIn(t, size, func(w io.Writer) io.WriteCloser {
		writer, err := flate.NewWriter(w, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		return writer
	})
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for i := range count {
		member, err := archive.CreateRaw(&zip.FileHeader{
			Name: fmt.Sprintf("lib/%d.jar", i), Method: zip.Deflate, CompressedSize64: uint64(len(compressed)), UncompressedSize64: uint64(size),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := member.Write(compressed); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// nestedJars is an archive within an archive, that many times.
func nestedJars(t *testing.T, depth int) string {
	t.Helper()
	content := "innermost"
	for range depth {
		var out bytes.Buffer
		archive := zip.NewWriter(&out)
		member, err := archive.CreateHeader(&zip.FileHeader{Name: "n.jar", Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(member, content); err != nil {
			t.Fatal(err)
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		content = out.String()
	}
	return content
}

// Archives within the image, which Syft unpacks.
func TestHostileArchives(t *testing.T) {
	for name, test := range map[string]struct {
		jar    string
		limits Limits
		phrase string
	}{
		"large members":   {jarOfJars(t, 64, 16<<20), Limits{DecompressedBytes: 16 << 20}, "unpacking the archives"},
		"deep nesting":    {nestedJars(t, 1500), Limits{DecompressedBytes: 16 << 20}, "unpacking the archives"},
		"contains itself": {string(quine("q.jar")), Limits{}, "unpacking the archives"},
	} {
		t.Run(name, func(t *testing.T) {
			reference := newRegistry(t).push(t, imageOf(t, hostileLayer(t, regular("app/evil.jar", test.jar))))
			_, err := runHostile(t, Request{Image: reference, Limits: test.limits})
			wantFailure(t, err, model.ReasonImageTooLarge, test.phrase)
		})
	}
}

func TestWatchScratch(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "unpacked"), make([]byte, 3000), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	watchScratch(ctx, cancel, folder, Limits{DecompressedBytes: 1000})
	wantFailure(t, interrupted(ctx, errors.New("x")), model.ReasonImageTooLarge, "3000 bytes")
}
