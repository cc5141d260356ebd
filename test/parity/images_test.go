package parity_test

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anchore/syft/syft"
	"github.com/anchore/syft/syft/cataloging"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// allSBOMs is everything that is compared, by name.
func allSBOMs(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, f := range fixtures() {
		out[name] = f.encode(t)
	}
	for name, document := range documents() {
		out[name] = encode(t, document)
	}
	for title, tree := range trees() {
		out["image "+title] = catalogImage(t, writeImage(t, tree))
	}
	if dir := os.Getenv("SCANNER_PARITY_ARCHIVES"); dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			switch filepath.Ext(path) {
			case ".json":
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				out[entry.Name()] = data
			case ".tar":
				out[entry.Name()] = catalogImage(t, path)
			}
		}
	}
	return out
}

// catalogImage makes an SBOM with Syft, with the same options for Go as the grype command has.
func catalogImage(t *testing.T, input string) []byte {
	t.Helper()
	src, err := syft.GetSource(t.Context(), input, nil)
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	defer func() { _ = src.Close() }()
	config := syft.DefaultCreateSBOMConfig()
	config.Packages.Golang = config.Packages.Golang.WithCaptureSymbols(cataloging.SymbolScopeAll)
	document, err := syft.CreateSBOM(t.Context(), src, config)
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	var buffer bytes.Buffer
	if err := syftjson.NewFormatEncoder().Encode(&buffer, *document); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// trees are small file systems as images have them.
func trees() map[string]map[string]string {
	var status strings.Builder
	for _, p := range [][3]string{
		{"libssl1.1", "1.1.1k-1", "openssl"}, {"libc6", "2.31-13+deb11u6", "glibc"}, {"zlib1g", "1:1.2.11.dfsg-2", "zlib"},
		{"python3-requests", "2.25.1+dfsg-2", "requests"},
	} {
		status.WriteString("Package: " + p[0] + "\nStatus: install ok installed\nArchitecture: amd64\nVersion: " + p[1] +
			"\nSource: " + p[2] + "\nMaintainer: nobody\n\n")
	}
	metadata := func(name, version string) string {
		return "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	}
	return map[string]map[string]string{
		"debian": {
			"etc/os-release":                          "ID=debian\nNAME=Debian\nVERSION_ID=\"11\"\nVERSION_CODENAME=bullseye\n",
			"var/lib/dpkg/status":                     status.String(),
			"var/lib/dpkg/info/python3-requests.list": "/usr/lib/python3/dist-packages/requests-2.25.1.egg-info/PKG-INFO\n",
			"usr/lib/python3/dist-packages/requests-2.25.1.egg-info/PKG-INFO":      metadata("requests", "2.25.1"),
			"opt/venv/lib/python3.9/site-packages/PyYAML-5.3.1.dist-info/METADATA": metadata("PyYAML", "5.3.1"),
		},
		"alpine": {
			"etc/os-release":     "ID=alpine\nNAME=\"Alpine Linux\"\nVERSION_ID=3.18.3\n",
			"etc/alpine-release": "3.18.3\n",
			"lib/apk/db/installed": "P:libcurl\nV:8.2.1-r0\nA:x86_64\no:curl\nF:usr/lib\nR:libcurl.so.4\n\n" +
				"P:busybox\nV:1.36.1-r1\nA:x86_64\no:busybox\nF:bin\nR:busybox\n\n" +
				"P:py3-requests\nV:2.28.1-r1\nA:x86_64\no:py3-requests\nF:usr/lib/python3.11/site-packages/requests-2.28.1.dist-info\nR:METADATA\n\n",
			"usr/lib/python3.11/site-packages/requests-2.28.1.dist-info/METADATA": metadata("requests", "2.28.1"),
		},
		"node": {
			"app/package.json": `{"name":"app","version":"1.0.0"}`,
			"app/package-lock.json": `{"name":"app","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"app"},` +
				`"node_modules/lodash":{"version":"4.17.20"},"node_modules/minimist":{"version":"1.2.5"},` +
				`"node_modules/a/node_modules/lodash":{"version":"4.17.20"}}}`,
			"app/node_modules/lodash/package.json": `{"name":"lodash","version":"4.17.20","license":"MIT"}`,
			"app/node_modules/axios/package.json":  `{"name":"axios","version":"1.5.1","license":"MIT"}`,
		},
	}
}

// writeImage makes an image of two layers, the second one with what is below opt, and returns its archive.
func writeImage(t *testing.T, files map[string]string) string {
	t.Helper()
	var lower, upper bytes.Buffer
	lowerTar, upperTar := tar.NewWriter(&lower), tar.NewWriter(&upper)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		to := lowerTar
		if strings.HasPrefix(file, "opt/") {
			to = upperTar
		}
		if err := to.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(files[file]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write([]byte(files[file])); err != nil {
			t.Fatal(err)
		}
	}
	img := empty.Image
	for i, w := range []*tar.Writer{lowerTar, upperTar} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data := [][]byte{lower.Bytes(), upper.Bytes()}[i]
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(path, name.MustParseReference("example.test/image:latest"), img); err != nil {
		t.Fatal(err)
	}
	return path
}
