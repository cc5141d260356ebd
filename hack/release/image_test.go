package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanner-operator/scanner-operator/hack/image/ociimage"
)

func testSource() *source {
	return &source{Root: "../..", Version: "v1.2.3", Commit: strings.Repeat("a", 40), Time: time.Unix(1700000000, 0).UTC(), Go: "go1.26.8"}
}

// binariesOf returns files that stand for the binaries of platforms.
func binariesOf(t *testing.T, platforms ...string) []ociimage.Binary {
	t.Helper()
	var binaries []ociimage.Binary
	for _, platform := range platforms {
		parsed, err := v1.ParsePlatform(platform)
		must(t, err)
		path := filepath.Join(t.TempDir(), "binary")
		must(t, os.WriteFile(path, []byte("binary for "+platform), 0o600))
		binaries = append(binaries, ociimage.Binary{Path: path, Platform: *parsed})
	}
	return binaries
}

// TestImage writes an image index, pushes it to a registry and looks at what arrived.
func TestImage(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/scanner-operator"
	dir := filepath.Join(t.TempDir(), "v1.2.3")
	must(t, os.Mkdir(dir, 0o755))
	src := testSource()
	image, err := writeImage(src, repository, binariesOf(t, "linux/amd64", "darwin/arm64", "linux/arm64"), dir)
	must(t, err)
	must(t, pushImage(t.Context(), dir, repository))

	tag, err := name.NewTag(repository + ":v1.2.3")
	must(t, err)
	index, err := remote.Index(tag)
	must(t, err)
	if digest, err := index.Digest(); err != nil || digest != image.Digest {
		t.Errorf("pushed %s, %v, want %s", digest, err, image.Digest)
	}
	manifest, err := index.IndexManifest()
	must(t, err)
	var platforms []string
	for i, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		if descriptor.Digest != image.Manifests[i] || descriptor.Annotations != nil {
			t.Errorf("got %+v, want %s", descriptor, image.Manifests[i])
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Error(diff)
	}
	arm, err := index.Image(image.Manifests[1])
	must(t, err)
	config, err := arm.ConfigFile()
	must(t, err)
	if config.Architecture != "arm64" || !config.Created.Equal(src.Time) || config.Config.Labels["org.opencontainers.image.revision"] != src.Commit {
		t.Errorf("got %+v", config)
	}
}

func TestImageNeedsLinux(t *testing.T) {
	if _, err := writeImage(testSource(), "image", binariesOf(t, "darwin/arm64"), t.TempDir()); err == nil {
		t.Error("an image without a platform is no error")
	}
}

// TestProvenance checks the fields that in-toto and SLSA require, as their specifications name them.
func TestProvenance(t *testing.T) {
	dir, src := t.TempDir(), testSource()
	image, err := writeImage(src, "example.com/image", binariesOf(t, "linux/amd64"), dir)
	must(t, err)
	o := options{Platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"}}, BuilderID: "https://example.com/builder"}
	must(t, writeProvenance(src, o, image, dir))
	content, err := os.ReadFile(filepath.Join(dir, "scanner-operator_v1.2.3_provenance.intoto.json"))
	must(t, err)
	var got map[string]any
	must(t, json.Unmarshal(content, &got))
	archive := filepath.Base(image.Archive)
	sum, err := fileSum(image.Archive)
	must(t, err)
	goSum, err := fileSum("../../go.sum")
	must(t, err)
	npmSum, err := fileSum("../../web/package-lock.json")
	must(t, err)
	type object = map[string]any
	want := object{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1",
		"subject": []any{
			object{"name": archive, "digest": object{"sha256": sum}},
			object{"name": "example.com/image", "digest": object{"sha256": image.Digest.Hex}},
		},
		"predicate": object{
			"buildDefinition": object{
				"buildType":          buildType,
				"externalParameters": object{"version": "v1.2.3", "platforms": []any{"linux/amd64", "darwin/arm64"}, "image": "example.com/image"},
				"resolvedDependencies": []any{
					object{"uri": "git+" + repository + "@" + src.Commit, "digest": object{"gitCommit": src.Commit}},
					object{"name": "go.sum", "digest": object{"sha256": goSum}},
					object{"name": "web/package-lock.json", "digest": object{"sha256": npmSum}},
					object{"uri": "pkg:golang/stdlib@1.26.8"},
				},
			},
			"runDetails": object{"builder": object{"id": "https://example.com/builder"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
