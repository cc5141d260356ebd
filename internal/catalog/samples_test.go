package catalog_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/sbom"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
)

// TestSamples catalogs every sample image pulled from a registry, and one from each local form besides.
func TestSamples(t *testing.T) {
	if testing.Short() {
		t.Skip("builds images, which takes up to a minute")
	}
	images, err := sampleimages.Build(t.Context(), "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sampleimages.Serve(t.Context(), "127.0.0.1:0", images)
	if err != nil {
		t.Fatal(err)
	}
	// A package of each kind that the image must hold, whether or not its builder had to fall back.
	want := map[string][]string{
		"samples/debian:latest":          {"deb libxml2"},
		"samples/debian-bullseye:latest": {"deb libssl1.1", "deb curl"},
		"samples/go-app:latest":          {"go-module stdlib"},
		"samples/go-app:multiarch":       {"go-module stdlib"},
		"samples/node-app:latest":        {"npm lodash", "npm express"},
		"samples/python-app:latest":      {"python django", "python requests"},
		"samples/alpine:latest":          {"apk musl", "apk libcrypto1.1"},
		"samples/java-app:latest":        {"java-archive log4j-core", "java-archive jackson-databind"},
	}
	for i, image := range images {
		t.Run(image.Reference(), func(t *testing.T) {
			scratch, files := t.TempDir(), t.TempDir()
			result, err := catalog.Run(t.Context(), catalog.Request{Image: server.References[i], ScratchDir: scratch})
			if err != nil {
				t.Fatal(err)
			}
			found := packageNames(decode(t, result.SBOM))
			t.Logf("%d packages, SBOM %d bytes, %+v", result.Stats.Packages, len(result.SBOM), result.Stats)
			for _, name := range want[image.Reference()] {
				if !slices.Contains(found, name) {
					t.Errorf("no %s among %d packages", name, len(found))
				}
			}
			if image.Name == "samples/alpine" {
				for _, source := range localForms(t, image, files) {
					result, err := catalog.Run(t.Context(), catalog.Request{Image: source, ScratchDir: scratch})
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(found, packageNames(decode(t, result.SBOM))); diff != "" {
						t.Errorf("%s differs from the registry (-registry +local):\n%s", source, diff)
					}
				}
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
				t.Errorf("the scratch folder holds %v after the runs (%v)", left, err)
			}
		})
	}
}

func decode(t *testing.T, encoded []byte) *sbom.SBOM {
	t.Helper()
	decoded, _, _, err := syftjson.NewFormatDecoder().Decode(bytes.NewReader(encoded))
	if err != nil {
		t.Fatalf("decode the SBOM: %v", err)
	}
	return decoded
}

func packageNames(bom *sbom.SBOM) []string {
	var names []string
	for _, p := range bom.Artifacts.Packages.Sorted() {
		names = append(names, string(p.Type)+" "+p.Name)
	}
	return names
}

// localForms writes the image in every form that is read from disk.
func localForms(t *testing.T, image sampleimages.Image, folder string) []string {
	t.Helper()
	layout, oci, docker := filepath.Join(folder, "layout"), filepath.Join(folder, "oci.tar"), filepath.Join(folder, "docker.tar")
	if err := errors.Join(image.WriteLayout(layout), image.WriteOCIArchive(oci), image.WriteDockerArchive(docker)); err != nil {
		t.Fatal(err)
	}
	return []string{layout, oci, docker}
}
