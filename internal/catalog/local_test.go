package catalog

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func writeLayout(t *testing.T, images ...v1.Image) string {
	t.Helper()
	folder := t.TempDir()
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		if err := path.AppendImage(image); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// archiveOf packs a folder as `tar c .` does, with "./" in front of every name.
func archiveOf(t *testing.T, folder string) []byte {
	t.Helper()
	entries := []tarEntry{{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, ""}}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, regular("."+filepath.ToSlash(strings.TrimPrefix(path, folder)), string(content)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, entries...)
}

func dockerArchive(t *testing.T, extra ...tarEntry) []byte {
	t.Helper()
	image := debian(t)
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{"team/app:1"}, "Layers": []string{"layer/layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	entries := append([]tarEntry{regular("manifest.json", string(manifest)), regular("config.json", string(config))}, extra...)
	if len(extra) == 0 {
		entries = append(entries, regular("layer/layer.tar", string(debianTar(t))))
	}
	return tarOf(t, entries...)
}

func TestLocalForms(t *testing.T) {
	folder := writeLayout(t, debian(t))
	archive := archiveOf(t, folder)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = encoder.Close() }()
	link := func(kind byte, name, target string) tarEntry {
		return tarEntry{tar.Header{Typeflag: kind, Name: name, Linkname: target}, ""}
	}
	for name, path := range map[string]string{
		"layout":           folder,
		"layout by scheme": "oci-dir:" + folder,
		"oci archive":      write(t, "a.tar", archive),
		"oci archive gz":   write(t, "a.tar.gz", gzipped(t, archive)),
		"oci archive zstd": write(t, "a.tar.zst", encoder.EncodeAll(archive, nil)),
		"docker archive":   write(t, "d.tar", dockerArchive(t)),
		"docker gz":        write(t, "d.tgz", gzipped(t, dockerArchive(t))),
		"docker links": write(t, "l.tar", dockerArchive(t, regular("real", string(debianTar(t))),
			link(tar.TypeSymlink, "layer/layer.tar", "../middle"), link(tar.TypeLink, "middle", "real"))),
	} {
		t.Run(name, func(t *testing.T) {
			result, err := runIn(t, t.Context(), Request{Image: path, Platform: model.Platform{OS: "linux", Architecture: "amd64"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
				t.Error(diff)
			}
			if strings.HasPrefix(name, "docker") != (result.ManifestDigest == "") {
				t.Errorf("the manifest digest is %q", result.ManifestDigest)
			}
		})
	}
}

func TestLocalRefusals(t *testing.T) {
	amd64 := model.Platform{OS: "linux", Architecture: "amd64"}
	loop := tarEntry{tar.Header{Typeflag: tar.TypeSymlink, Name: "layer/layer.tar", Linkname: "layer.tar"}, ""}
	leavingLayout := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(leavingLayout, "index.json")); err != nil {
		t.Fatal(err)
	}
	other := imageOf(t, newRawLayer([]byte{}, []byte{}))
	for name, test := range map[string]struct {
		path   string
		reason model.Reason
		phrase string
	}{
		"empty folder":   {t.TempDir(), model.ReasonNotPullable, "neither an OCI image layout"},
		"leaving layout": {leavingLayout, model.ReasonNotPullable, "escapes"},
		"text":           {write(t, "x.tar", []byte(strings.Repeat("text ", 500))), model.ReasonNotPullable, "read the archive"},
		"device":         {"/dev/null", model.ReasonNotPullable, "regular file"},
		"link loop":      {write(t, "x.tar", dockerArchive(t, loop)), model.ReasonNotPullable, "more than 8 links"},
		"no layer":       {write(t, "x.tar", dockerArchive(t, regular("other", ""))), model.ReasonNotPullable, "not in the archive"},
		"wrong layer":    {write(t, "x.tar", dockerArchive(t, regular("layer/layer.tar", "x"))), model.ReasonCatalogFailed, "diff ID"},
		"two images":     {writeLayout(t, debian(t), other), model.ReasonNotPullable, "several images"},
		"two in docker":  {write(t, "x.tar", tarOf(t, regular("manifest.json", "[{},{}]"))), model.ReasonNotPullable, "2 images"},
		"broken index":   {write(t, "x.tar", tarOf(t, regular("index.json", "{"))), model.ReasonNotPullable, "index.json"},
		"blob missing":   {write(t, "x.tar", tarOf(t, regular("index.json", blobMissing))), model.ReasonNotPullable, "does not contain the blob"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runIn(t, t.Context(), Request{Image: test.path, Platform: amd64})
			wantFailure(t, err, test.reason, test.phrase)
		})
	}
}

const blobMissing = `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,` +
	`"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}]}`

func TestLayoutWithImagesOfTwoPlatforms(t *testing.T) {
	content := tarOf(t, regular("etc/os-release", "ID=alpine\n"))
	folder := writeLayout(t, debian(t), imageFor(t, "linux", "arm64", newRawLayer(content, content)))
	result, err := runIn(t, t.Context(), Request{Image: folder, Platform: model.Platform{OS: "linux", Architecture: "arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Platform.Architecture != "arm64" || result.Stats.Packages != 0 {
		t.Errorf("got %+v", result)
	}
	_, err = runIn(t, t.Context(), Request{Image: folder, Platform: model.Platform{OS: "linux", Architecture: "s390x"}})
	wantFailure(t, err, model.ReasonPlatformMismatch, "no image for linux/s390x")
}

func TestArchiveIndexRefusesSparseFiles(t *testing.T) {
	for header, want := range map[*tar.Header]bool{
		{Typeflag: tar.TypeGNUSparse}: true,
		{Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}: true,
		{Typeflag: tar.TypeReg}: false,
	} {
		if got := isSparse(header); got != want {
			t.Errorf("%+v: %v", header, got)
		}
	}
}

func TestLocalPath(t *testing.T) {
	existing := filepath.Join(t.TempDir(), "layout")
	if err := os.Mkdir(existing, 0o700); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]bool{
		existing: true, "./x": true, "../x": true, "/x": true, "x.tar": true, "oci-archive:x": true,
		"nginx": false, "registry.example/a:1": false, "": false, "localhost:5000/a@sha256:" + strings.Repeat("0", 64): false,
	} {
		if _, got := localPath(image); got != want {
			t.Errorf("%q: %v", image, got)
		}
	}
}

// FuzzIndexArchive holds that no archive makes the index panic, or an entry reach beyond the file.
func FuzzIndexArchive(f *testing.F) {
	var plain bytes.Buffer
	writer := tar.NewWriter(&plain)
	_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./index.json", Size: 2})
	_, _ = writer.Write([]byte("{}"))
	_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "../../b"})
	_ = writer.Close()
	f.Add(plain.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := os.Open(write(t, "fuzz.tar", content))
		if err != nil {
			t.Fatal(err)
		}
		store, err := indexArchive(file)
		if err != nil {
			_ = file.Close()
			return
		}
		defer store.close()
		for name := range store.entries {
			if strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
				t.Errorf("the name %q leads out", name)
			}
			if body, _, err := store.open(name); err == nil {
				_ = body.Close()
			}
		}
		_, _ = readFile(store, "index.json", 1<<20)
	})
}

func TestErrorsKeepTheirCause(t *testing.T) {
	err := typed(t.Context(), os.ErrNotExist, model.ReasonCatalogFailed)
	if !errors.Is(err, os.ErrNotExist) || ReasonOf(err) != model.ReasonImageNotFound || ReasonOf(errors.New("x")) != model.ReasonCatalogFailed {
		t.Errorf("got %v", err)
	}
}
