package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestSamples catalogs every sample image pulled from a registry and as a root file system, and one from each local form besides.
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
			result, err := Run(t.Context(), Request{Image: server.References[i], ScratchDir: scratch})
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
			request := Request{Image: server.References[i], RootFS: extract(t, image, result.Platform), Platform: result.Platform, ScratchDir: scratch}
			mounted, err := Run(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if mounted.Stats.Unreadable != 0 {
				t.Errorf("%d files of the root file system are unreadable", mounted.Stats.Unreadable)
			}
			if diff := cmp.Diff(details(t, decode(t, result.SBOM)), details(t, decode(t, mounted.SBOM))); diff != "" {
				t.Errorf("the root file system differs from the registry (-registry +rootfs):\n%s", diff)
			}
			if image.Name == "samples/alpine" {
				for _, source := range localForms(t, image, files) {
					result, err := Run(t.Context(), Request{Image: source, ScratchDir: scratch})
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

// details is what the SBOM holds of each package and of the relationships, but the layers, which a root file system does not have.
func details(t *testing.T, bom *sbom.SBOM) []string {
	t.Helper()
	var all []string
	name := map[artifact.ID]string{}
	for _, p := range bom.Artifacts.Packages.Sorted() {
		metadata, err := json.Marshal(p.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		var locations []string
		for _, l := range p.Locations.ToSlice() {
			locations = append(locations, l.RealPath+" "+l.AccessPath)
		}
		slices.Sort(locations)
		name[p.ID()] = fmt.Sprint(p.Type, p.Name, p.Version, locations)
		all = append(all, fmt.Sprintf("%s %s %s %s %v %v %v %s", p.Type, p.Name, p.Version, p.PURL, p.CPEs, licenses(p), locations, metadata))
	}
	for _, r := range bom.Relationships {
		all = append(all, fmt.Sprint(name[r.From.ID()], " ", r.Type, " ", name[r.To.ID()]))
	}
	slices.Sort(all)
	return all
}

func licenses(p pkg.Package) (values []string) {
	for _, l := range p.Licenses.ToSlice() {
		values = append(values, l.Value)
	}
	slices.Sort(values)
	return values
}

// extract writes the root file system of an image into a directory.
func extract(t *testing.T, image sampleimages.Image, platform model.Platform) string {
	t.Helper()
	single := image.Image
	if image.Index != nil {
		manifest, err := image.Index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifest.Manifests {
			if m.Platform != nil && m.Platform.Architecture == platform.Architecture {
				if single, err = image.Index.Image(m.Digest); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return unpack(t, single)
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
