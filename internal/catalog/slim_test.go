package catalog

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/stereoscope/pkg/image"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
	gocmp "github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestSlimKeepsWhatGrypeReads compares what Grype makes of an SBOM before and after slimming.
func TestSlimKeepsWhatGrypeReads(t *testing.T) {
	requests := "Metadata-Version: 2.1\nName: requests\nVersion: 2.25.1\n"
	const folder = "usr/lib/python3/dist-packages/requests-2.25.1.dist-info"
	deb := tarOf(t,
		regular("etc/os-release", "ID=debian\nVERSION_ID=11\n"),
		regular("var/lib/dpkg/status", "Package: python3-requests\nSource: requests\nStatus: install ok installed\nArchitecture: all\nVersion: 2.25.1+dfsg-2\n\n"),
		regular("var/lib/dpkg/info/python3-requests.list", "/.\n/"+folder+"/METADATA\n/"+folder+"/RECORD\n"),
		regular(folder+"/METADATA", requests), regular(folder+"/RECORD", "requests/__init__.py,,\n"))
	apk := tarOf(t,
		regular("etc/os-release", "ID=alpine\nVERSION_ID=3.11.0\n"),
		regular("lib/apk/db/installed", "P:py3-requests\nV:2.25.1-r0\nA:x86_64\no:py3-requests\nF:"+folder+"\nR:METADATA\nR:RECORD\n\n"),
		regular(folder+"/METADATA", requests), regular(folder+"/RECORD", "requests/__init__.py,,\n"))
	images := map[string]v1.Image{
		"deb owns python": imageOf(t, newRawLayer(deb, deb)),
		"apk owns python": imageOf(t, newRawLayer(apk, apk)),
	}
	if !testing.Short() {
		samples, err := sampleimages.Build(t.Context(), "", t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range samples {
			if sample.Image != nil {
				images[sample.Name] = sample.Image
			}
		}
	}
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			bom := uncut(t, image)
			before := grypeView(t, bom)
			full, err := encode(bom)
			if err != nil {
				t.Fatal(err)
			}
			slim(bom)
			after := grypeView(t, bom)
			small, err := encode(bom)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(before, after); diff != "" {
				t.Errorf("what Grype sees changed (-before +after):\n%s", diff)
			}
			if len(small) >= len(full) {
				t.Errorf("%d bytes became %d", len(full), len(small))
			}
			t.Logf("%d packages, %d bytes became %d", len(after), len(full), len(small))
		})
	}
}

// uncut catalogs an image without slimming the result.
func uncut(t *testing.T, built v1.Image) *sbom.SBOM {
	t.Helper()
	scratch := t.TempDir()
	limits := DefaultLimits()
	request := Request{Image: writeLayout(t, built), sleep: noSleep}
	img, _, err := pull(t.Context(), request, limits, scratch)
	if err != nil {
		t.Fatal(err)
	}
	defer img.close()
	syftSemaphore <- struct{}{}
	defer func() { <-syftSemaphore }()
	temporary := t.TempDir()
	defer setTempDir(temporary)()
	read := func(context.Context) (*image.Image, error) { return img.read(filepath.Join(scratch, layersFolder)) }
	bom, err := runSyft(t.Context(), read, request.Image)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("Syft left %v (%v)", left, err)
	}
	return bom
}

// grypeView is all that Grype's matchers can read of the packages, but their locations.
func grypeView(t *testing.T, bom *sbom.SBOM) []string {
	t.Helper()
	encoded, err := encode(bom)
	if err != nil {
		t.Fatal(err)
	}
	decoded, _, _, err := syftjson.NewFormatDecoder().Decode(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	var view []string
	for _, p := range pkg.FromCollection(decoded.Artifacts.Packages, decoded.Relationships, pkg.SynthesisConfig{}) {
		var related []string
		for kind, packages := range p.RelatedPackages {
			for _, r := range packages {
				related = append(related, fmt.Sprint(kind, " ", r.ID))
			}
		}
		slices.Sort(related)
		view = append(view, fmt.Sprintf("%s %s %s %s %s %s %+v %+v %+v %+v %+v", p.ID, p.Type, p.Language, p.Name, p.Version, p.PURL, p.Upstreams, p.CPEs, p.Licenses, p.Metadata, related))
	}
	slices.SortFunc(view, cmp.Compare[string])
	return view
}

func TestSlimConfig(t *testing.T) {
	for raw, want := range map[string]string{
		`{"created":"2024-05-01T12:00:00.123456789+02:00","config":{"Env":["TOKEN=secret"]},"history":[]}`: `{"created":"2024-05-01T12:00:00.123456789+02:00"}`,
		`{"created":"1970-01-01T00:00:00Z"}`: `{"created":"1970-01-01T00:00:00Z"}`,
		`{"created":"0001-01-01T00:00:00Z"}`: "",
		`{"created":"secret"}`:               "",
		`{"created":5}`:                      "",
		`{"os":"linux"}`:                     "",
		`{`:                                  "",
		``:                                   "",
	} {
		if got := string(slimConfig([]byte(raw))); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestSlimManifest(t *testing.T) {
	const layer = `{"mediaType":"a","digest":"sha256:1","size":5,"annotations":{"token":"secret"}}`
	for raw, want := range map[string]string{
		`{"schemaVersion":2,"config":{"digest":"x"},"layers":[` + layer + `,{"digest":"sha256:2"}],"annotations":{"token":"secret"}}`: `{"layers":[{"digest":"sha256:1","size":5},{"digest":"sha256:2","size":0}]}`,
		`{"layers":[]}`: "",
		`{"layers":[{"size":9223372036854775808}]}`:                         "",
		`{"layers":[` + strings.Repeat(layer+",", maxLayers) + layer + `]}`: "",
		`{"manifests":[]}`: "",
		`{`:                "",
		``:                 "",
	} {
		if got := string(slimManifest([]byte(raw))); got != want {
			t.Errorf("%.200s: got %.200s, want %s", raw, got, want)
		}
	}
}

func TestStatedBase(t *testing.T) {
	const name, digest = model.AnnotationBaseName, model.AnnotationBaseDigest
	for manifest, want := range map[string]map[string]string{
		`{"annotations":{"` + name + `":"a:1","` + digest + `":"sha256:1","token":"secret"}}`: {name: "a:1", digest: "sha256:1"},
		`{"annotations":{"` + digest + `":"sha256:1"}}`:                                       {name: "label:2", digest: "sha256:1"},
		`{"annotations":{"` + name + `":5}}`:                                                  {name: "label:2"},
		`{"annotations":{"` + name + `":"` + strings.Repeat("x", model.MaxStated+1) + `"}}`:   nil,
		``: {name: "label:2"},
	} {
		got := statedBase(source.ImageMetadata{RawManifest: []byte(manifest), Labels: map[string]string{name: "label:2", "token": "secret"}})
		if !maps.Equal(got, want) {
			t.Errorf("%.200s: got %v, want %v", manifest, got, want)
		}
	}
}
