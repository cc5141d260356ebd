package catalog

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// zeros reads as that many zero bytes.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// bomb is a layer of 32 MiB of zeros in a few KiB.
func bomb(t *testing.T, compress func(io.Writer) io.WriteCloser) *rawLayer {
	t.Helper()
	const size = 32 << 20
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
	return newRawLayer(out.Bytes(), nil)
}

func TestDecompressionBombs(t *testing.T) {
	for name, compress := range map[string]func(io.Writer) io.WriteCloser{
		"gzip": newGzipWriter,
		"zstd": func(w io.Writer) io.WriteCloser {
			encoder, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
			if err != nil {
				t.Fatal(err)
			}
			return encoder
		},
	} {
		t.Run(name, func(t *testing.T) {
			layer := bomb(t, compress)
			if len(layer.compressed) > 1<<20 {
				t.Fatalf("the bomb has %d bytes", len(layer.compressed))
			}
			reference := newRegistry(t).push(t, imageOf(t, layer))
			_, err := runIn(t, t.Context(), Request{Image: reference, Limits: Limits{DecompressedBytes: 1 << 20}})
			wantFailure(t, err, model.ReasonImageTooLarge, "1048576 bytes after decompression")
		})
	}
}

func TestBombInsideOfAnArchive(t *testing.T) {
	var out bytes.Buffer
	writer := newGzipWriter(&out)
	content := zeros(8 << 20)
	if _, err := io.Copy(writer, &content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar.gz")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := runIn(t, t.Context(), Request{Image: path, Limits: Limits{DecompressedBytes: 1 << 20}})
	wantFailure(t, err, model.ReasonImageTooLarge, "1048576 bytes after decompression")
}

func TestManyTinyFiles(t *testing.T) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for i := range 100_000 {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("f%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	layer := newRawLayer(gzipped(t, out.Bytes()), out.Bytes())
	reference := newRegistry(t).push(t, imageOf(t, layer))
	_, err := runIn(t, t.Context(), Request{Image: reference, Limits: Limits{Files: 99_999}})
	wantFailure(t, err, model.ReasonImageTooLarge, "99999 files")
}

// TestDeepPaths counts the folders that a path only implies, since each costs as much memory as a file.
func TestDeepPaths(t *testing.T) {
	deep := strings.Repeat("d/", 1000) + "file"
	entryCounter := newEntryCounter(Limits{Files: 1500, DecompressedBytes: 1})
	if err := entryCounter.add(&tar.Header{Name: deep}); err != nil {
		t.Fatal(err)
	}
	if err := entryCounter.add(&tar.Header{Name: deep + "2"}); err != nil || entryCounter.files != 1002 {
		t.Fatalf("%d files after a sibling (%v)", entryCounter.files, err)
	}
	wantFailure(t, entryCounter.add(&tar.Header{Name: "other/" + deep}), model.ReasonImageTooLarge, "1500 files")
	wantFailure(t, newEntryCounter(DefaultLimits()).add(&tar.Header{Name: strings.Repeat("d", 5000)}), model.ReasonCatalogFailed, "4096")
	wantFailure(t, newEntryCounter(Limits{Files: 9, DecompressedBytes: 1 << 30}).add(&tar.Header{Name: "sparse", Size: 1 << 62}), model.ReasonImageTooLarge, "bytes")
}

// TestEntriesStayInScratch offers every entry that has led out of a folder somewhere, and looks at what is outside.
func TestEntriesStayInScratch(t *testing.T) {
	outside := t.TempDir()
	evil := filepath.Join(outside, "evil")
	link := func(kind byte, name, target string) tarEntry {
		return tarEntry{tar.Header{Typeflag: kind, Name: name, Linkname: target}, ""}
	}
	jar := regular("app/evil.jar", zipOf(t, map[string]string{
		"../../../../../../../../.." + evil: "x", evil: "x", "META-INF/maven/g/a/pom.properties": "groupId=g\nartifactId=a\nversion=1\n",
	}))
	content := tarOf(t,
		regular("../../../../../../../.."+evil, "x"), regular(evil, "x"),
		link(tar.TypeSymlink, "out", outside), regular("out/evil", "x"),
		link(tar.TypeSymlink, "etc/shadow-copy", "/etc/hostname"), link(tar.TypeLink, "hard", "../../../../../../etc/hostname"),
		link(tar.TypeSymlink, "loop", "loop"), link(tar.TypeSymlink, "var/lib/a", "b"), link(tar.TypeSymlink, "var/lib/b", "a"),
		tarEntry{tar.Header{Typeflag: tar.TypeFifo, Name: "var/lib/rpm/Packages"}, ""},
		tarEntry{tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8}, ""},
		tarEntry{tar.Header{Typeflag: tar.TypeChar, Name: "usr/lib/os-release", Devmajor: 1, Devminor: 5}, ""},
		regular("var/lib/rpm/rpmdb.sqlite", "SQLite format 3\x00 and then nothing of the kind"),
		regular("etc/os-release", "ID=debian\nVERSION_ID=11\n"), jar,
		regular("var/lib/dpkg/status", "Package: openssl\nStatus: install ok installed\nVersion: 1.1.1k-1\n\n"))
	reference := newRegistry(t).push(t, imageOf(t, newRawLayer(content, content)))
	result, err := runIn(t, t.Context(), Request{Image: reference})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, result); !slices.Contains(got, "openssl 1.1.1k-1") {
		t.Errorf("the package is not found among %v", got)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("written outside of the scratch folder: %v (%v)", left, err)
	}
}

// TestHostileManifests changes a sound manifest in one place each.
func TestHostileManifests(t *testing.T) {
	registry := newRegistry(t)
	image := debian(t)
	registry.push(t, image)
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	const oci = types.OCIManifestSchema1
	for name, test := range map[string]struct {
		change func(m *v1.Manifest)
		limits Limits
		reason model.Reason
		phrase string
	}{
		"too large":         {func(m *v1.Manifest) { m.Layers[0].Size = 9 << 30 }, Limits{}, model.ReasonImageTooLarge, "8589934592"},
		"sum overflows":     {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]); m.Layers[0].Size = 1<<63 - 1 }, Limits{}, model.ReasonImageTooLarge, "limit"},
		"own limit":         {func(*v1.Manifest) {}, Limits{ImageBytes: 100}, model.ReasonImageTooLarge, "limit of 100"},
		"negative size":     {func(m *v1.Manifest) { m.Layers[0].Size = -1 }, Limits{}, model.ReasonCatalogFailed, "-1 bytes"},
		"states too little": {func(m *v1.Manifest) { m.Layers[0].Size-- }, Limits{}, model.ReasonCatalogFailed, "larger than"},
		"states too much":   {func(m *v1.Manifest) { m.Layers[0].Size++ }, Limits{}, model.ReasonRegistryUnavailable, "received "},
		"foreign URL":       {func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/"} }, Limits{}, model.ReasonNotPullable, "foreign"},
		"foreign type":      {func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }, Limits{}, model.ReasonNotPullable, "foreign"},
		"artifact":          {func(m *v1.Manifest) { m.Config.MediaType = "application/vnd.cncf.helm.config.v1+json" }, Limits{}, model.ReasonNotPullable, "artifact"},
		"large config":      {func(m *v1.Manifest) { m.Config.Size = 1 << 30 }, Limits{}, model.ReasonImageTooLarge, "configuration"},
		"config elsewhere":  {func(m *v1.Manifest) { m.Config.URLs = []string{"http://x/"} }, Limits{}, model.ReasonNotPullable, "outside"},
		"layer as config":   {func(m *v1.Manifest) { m.Config.Digest = m.Layers[0].Digest }, Limits{}, model.ReasonCatalogFailed, "configuration"},
		"config as layer":   {func(m *v1.Manifest) { m.Layers[0].Digest, m.Layers[0].Size = m.Config.Digest, m.Config.Size }, Limits{}, model.ReasonCatalogFailed, "diff ID"},
		"layer missing":     {func(m *v1.Manifest) { m.Layers[0].Digest.Hex = strings.Repeat("0", 64) }, Limits{}, model.ReasonImageNotFound, "404"},
		"more layers":       {func(m *v1.Manifest) { m.Layers = append(m.Layers, m.Layers[0]) }, Limits{}, model.ReasonCatalogFailed, "lists 1 layers"},
		"too many layers":   {func(m *v1.Manifest) { m.Layers = slices.Repeat(m.Layers, maxLayers+1) }, Limits{}, model.ReasonImageTooLarge, "512"},
		"schema 1":          {func(m *v1.Manifest) { m.SchemaVersion = 1 }, Limits{}, model.ReasonNotPullable, "schema version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := v1.ParseManifest(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			test.change(manifest)
			changed, err := json.Marshal(manifest)
			if err != nil {
				t.Fatal(err)
			}
			var blobs int
			registry.guard = nil
			reference := registry.put(t, oci, changed)
			registry.guard = countBlobs(&blobs)
			_, err = runIn(t, t.Context(), Request{Image: reference, Limits: test.limits})
			wantFailure(t, err, test.reason, test.phrase)
			if test.reason == model.ReasonImageTooLarge && blobs > 0 {
				t.Errorf("%d blobs were pulled of an image that is too large", blobs)
			}
		})
	}
}

func TestChangedContent(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	registry.guard = replaceIn("/manifests/", []byte(`{"schemaVersion":2}`))
	_, err := runIn(t, t.Context(), Request{Image: reference})
	wantFailure(t, err, model.ReasonCatalogFailed, "it was modified in transit")

	content := debianTar(t)
	layer := newRawLayer(content, content)
	reference = registry.push(t, imageOf(t, layer))
	digest, _ := layer.Digest()
	changed := bytes.Replace(content, []byte("1.1.1k-1"), []byte("9.9.9z-9"), 1)
	registry.guard = replaceIn(digest.String(), changed)
	_, err = runIn(t, t.Context(), Request{Image: reference})
	wantFailure(t, err, model.ReasonCatalogFailed, "it was modified in transit")
}

func TestNotAnArchive(t *testing.T) {
	for name, content := range map[string][]byte{
		"text":          []byte(strings.Repeat("not a tar archive ", 100)),
		"broken gzip":   append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}, bytes.Repeat([]byte{0xff}, 100)...),
		"broken zstd":   append([]byte{0x28, 0xb5, 0x2f, 0xfd}, bytes.Repeat([]byte{0xff}, 100)...),
		"cut off":       debianTar(t)[:1200],
		"empty content": {},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(content, content)))})
			if name == "empty content" {
				if err != nil || result.Stats.Packages != 0 {
					t.Errorf("got %v", err)
				}
				return
			}
			wantFailure(t, err, model.ReasonCatalogFailed, "layer 1")
		})
	}
}

func TestZstdWindowIsBounded(t *testing.T) {
	// A frame of no content that asks for a window of 512 MiB.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 19 << 3, 0x01, 0x00, 0x00}
	_, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(frame, nil)))})
	wantFailure(t, err, model.ReasonCatalogFailed, "window")
}

func TestSameLayerTwice(t *testing.T) {
	content := debianTar(t)
	layer := newRawLayer(gzipped(t, content), content)
	result, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, imageOf(t, layer, layer))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Error(diff)
	}
	if result.Stats.Files != 8 {
		t.Errorf("%d files counted", result.Stats.Files)
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
