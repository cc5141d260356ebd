package match_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anchore/syft/syft/linux"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

const schema = `"schema":{"version":"16.0.0","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.0.0.json"}`

func TestHostileSBOMs(t *testing.T) {
	small := match.DecodeLimits{Bytes: 1 << 20, Packages: 10, Relationships: 10, Files: 10, Values: 2000, StringBytes: 1000, Depth: 16}
	artifact := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","name":"n%d","version":"1","type":"npm","locations":[],"licenses":[],"cpes":[]}`, i, i)
	}
	list := func(n int, one func(int) string) string {
		var parts []string
		for i := range n {
			parts = append(parts, one(i))
		}
		return strings.Join(parts, ",")
	}
	tests := []struct {
		name, input string
		is          error
		says        string
	}{
		{"nothing", "", match.ErrFormat, ""},
		{"no JSON", "hello", match.ErrFormat, ""},
		{"another document", `{"bomFormat":"CycloneDX","specVersion":"1.6"}`, match.ErrFormat, "syft-json"},
		{"no end", `{"artifacts":[`, match.ErrFormat, ""},
		{"too many bytes", strings.Repeat(" ", 1<<20) + "{}", match.ErrLimit, "1048576 bytes"},
		{"deep nesting", strings.Repeat("[", 1<<19), match.ErrLimit, "deeper than 16"},
		{"deep objects", `{` + schema + `,"descriptor":` + strings.Repeat(`{"a":`, 100), match.ErrLimit, "deeper than 16"},
		{"many packages", `{` + schema + `,"artifacts":[` + list(11, artifact) + `]}`, match.ErrLimit, "more than 10 artifacts"},
		{"many packages in other case", `{` + schema + `,"ARTIFACTS":[` + list(11, artifact) + `]}`, match.ErrLimit, "more than 10"},
		{"many packages, name escaped", `{` + schema + `,"\u0061rtifacts":[` + list(11, artifact) + `]}`, match.ErrLimit, "11 packages"},
		{"many packages in two lists", `{` + schema + `,"artifacts":[` + list(6, artifact) + `],"artifacts":[` + list(6, artifact) + `]}`, match.ErrLimit, "more than 10"},
		{"many relationships", `{"artifactRelationships":[` + list(11, func(int) string { return "{}" }) + `]}`, match.ErrLimit, "artifactRelationships"},
		{"many files", `{"files":[` + list(11, func(int) string { return "{}" }) + `]}`, match.ErrLimit, "more than 10 files"},
		{"many values", `{"x":[` + list(3000, func(int) string { return "1" }) + `]}`, match.ErrLimit, "2000 JSON values"},
		{"huge string", `{"x":"` + strings.Repeat("a", 1001) + `"}`, match.ErrLimit, "longer than 1000 bytes"},
		{"huge name", `{"` + strings.Repeat("a", 1001) + `":1}`, match.ErrLimit, "longer than 1000 bytes"},
		{"string without end", `{"x":"` + strings.Repeat(`\\`, 600), match.ErrLimit, "longer than 1000 bytes"},
		// Grype's parser of distribution versions panics on this one.
		{"version without digits", `{` + schema + `,"artifacts":[],"distro":{"id":"debian","versionID":"v"}}`, match.ErrFormat, "panicked"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := match.Decode(strings.NewReader(test.input), small, nil)
			if !errors.Is(err, test.is) {
				t.Fatalf("got %v, want an error that wraps %v", err, test.is)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
}

func TestDecodeReportsReadErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	if _, err := match.Decode(errReader{broken}, match.DecodeLimits{}, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestDefaultLimitsAcceptLargeImages(t *testing.T) {
	i := &image{release: debian11}
	for n := range 3000 {
		i.add(npm(fmt.Sprintf("package-%d", n), "1.0.0"), fmt.Sprintf("/app/node_modules/%d/package.json", n))
	}
	if got := len(i.decode(t).Catalog().Packages); got != 3000 {
		t.Errorf("%d packages", got)
	}
}

func TestImageNames(t *testing.T) {
	release := *debian11
	release.CPEName = "cpe:/o:debian:debian_linux:11"
	want := model.ImageNames{
		References: []string{"index.docker.io/library/debian@sha256:0", "debian:11"}, Digests: []string{"sha256:1"}, Architecture: "amd64",
		CPE: "cpe:/o:debian:debian_linux:11",
	}
	if diff := cmp.Diff(want, (&image{release: &release}).decode(t).ImageNames()); diff != "" {
		t.Errorf("the names differ (-want +got):\n%s", diff)
	}
}

func TestCatalog(t *testing.T) {
	i := (&image{release: debian11}).
		add(npm("lodash", "4.17.20"), "/b/package.json").
		add(npm("lodash", "4.17.20"), "/a/package.json", "/b/package.json").
		add(deb("python3-x", "1.2-1", "x"), "/var/lib/dpkg/status").
		add(binary("x", "1.2", "v", "x"), "/usr/bin/x").
		owns(2, 3)
	catalog := i.decode(t).Catalog()
	if catalog.Distro != "debian:11" || catalog.Size != 4711 || catalog.Repository != "docker.io/library/debian" || catalog.AttestedBy != "sha256:1" ||
		!catalog.Created.Equal(time.Date(2024, 5, 1, 10, 0, 0, 5e8, time.UTC)) {
		t.Errorf("distribution %q, size %d, repository %q, attested by %q, created %s", catalog.Distro, catalog.Size, catalog.Repository, catalog.AttestedBy, catalog.Created)
	}
	type held struct {
		Name, Distro string
		Excluded     bool
		Locations    []model.Location
	}
	var got []held
	for _, p := range catalog.Packages {
		if len(p.Package.Fingerprint) != 64 || len(p.Package.MatchInput) == 0 {
			t.Errorf("%s has the fingerprint %q", p.Package.Name, p.Package.Fingerprint)
		}
		got = append(got, held{p.Package.Name, p.Package.Distro, p.Excluded, p.Locations})
	}
	at := func(paths ...string) (out []model.Location) {
		for _, p := range paths {
			out = append(out, model.Location{Path: p, Layer: "sha256:layer"})
		}
		return out
	}
	want := []held{
		{"lodash", "debian:11", false, at("/a/package.json", "/b/package.json")},
		{"python3-x", "debian:11", false, at("/var/lib/dpkg/status")},
		{"x", "debian:11", true, at("/usr/bin/x")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
}

// TestLayersAndTheirSizes: sizes are those of the layers, or not known.
func TestLayersAndTheirSizes(t *testing.T) {
	const two = `[{"digest":"sha256:a"},{"digest":"sha256:b"}]`
	for name, tt := range map[string]struct {
		layers, manifest string
		want             []string
		sizes            []int64
	}{
		"known":                    {two, `{"layers":[{"size":7},{"size":0}]}`, []string{"sha256:a", "sha256:b"}, []int64{7, 0}},
		"no manifest":              {two, ``, []string{"sha256:a", "sha256:b"}, nil},
		"another number of layers": {two, `{"layers":[{"size":7}]}`, []string{"sha256:a", "sha256:b"}, nil},
		"a negative size":          {two, `{"layers":[{"size":7},{"size":-1}]}`, []string{"sha256:a", "sha256:b"}, nil},
		"a size that overflows":    {two, `{"layers":[{"size":7},{"size":9223372036854775808}]}`, []string{"sha256:a", "sha256:b"}, nil},
		"a tree of files":          {`[{"size":1}]`, `{"layers":[{"size":7}]}`, nil, nil},
		"too many layers":          {"[" + strings.Repeat(`{"digest":"sha256:a"},`, model.MaxLayers) + `{"digest":"sha256:a"}]`, `{"layers":[{"size":7}]}`, nil, nil},
	} {
		document := bytes.Replace((&image{release: debian11}).encode(t), []byte(`"layers":null`), []byte(`"layers":`+tt.layers), 1)
		document = bytes.Replace(document, []byte(`"manifest":null`), []byte(`"manifest":"`+base64.StdEncoding.EncodeToString([]byte(tt.manifest))+`"`), 1)
		decoded, err := match.Decode(bytes.NewReader(document), match.DecodeLimits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		catalog := decoded.Catalog()
		if diff := cmp.Diff(tt.want, catalog.Layers); diff != "" {
			t.Errorf("%s: layers (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tt.sizes, catalog.LayerSizes); diff != "" {
			t.Errorf("%s: sizes (-want +got):\n%s", name, diff)
		}
	}
}

// What must not matter, and what must.
func TestFingerprint(t *testing.T) {
	fingerprint := func(release *linux.Release, change func(*image)) string {
		i := &image{release: release}
		change(i)
		return i.decode(t).Catalog().Packages[0].Package.Fingerprint
	}
	base := fingerprint(debian11, func(i *image) { i.add(npm("a", "1"), "/x") })
	if got := fingerprint(debian11, func(i *image) { i.add(npm("a", "1"), "/elsewhere") }); got != base {
		t.Error("the place changes the fingerprint")
	}
	seen := map[string]string{base: "base"}
	for name, got := range map[string]string{
		"version": fingerprint(debian11, func(i *image) { i.add(npm("a", "2"), "/x") }),
		"name":    fingerprint(debian11, func(i *image) { i.add(npm("b", "1"), "/x") }),
		"distro":  fingerprint(alpine, func(i *image) { i.add(npm("a", "1"), "/x") }),
		"none":    fingerprint(nil, func(i *image) { i.add(npm("a", "1"), "/x") }),
		"source":  fingerprint(debian11, func(i *image) { i.add(deb("a", "1", "s"), "/x") }),
		"source2": fingerprint(debian11, func(i *image) { i.add(deb("a", "1", "t"), "/x") }),
		"cpe":     fingerprint(debian11, func(i *image) { i.add(binary("a", "1", "v", "p"), "/x") }),
		"cpe2":    fingerprint(debian11, func(i *image) { i.add(binary("a", "1", "v", "q"), "/x") }),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[got] = name
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{` + schema + `,"artifacts":[]}`))
	f.Add((&image{release: debian11}).add(deb("openssl", "1.1.1k-1", ""), "/var/lib/dpkg/status").encode(f))
	f.Add((&image{}).add(npm("lodash", "4.17.20"), "/x").add(binary("nginx", "1.20.0", "f5", "nginx"), "/y").encode(f))
	f.Add([]byte(`{` + schema + `,"distro":{"id":"debian","versionID":"v"}}`))
	limits := match.DecodeLimits{Bytes: 1 << 20, Packages: 100, Relationships: 100, Files: 100, Values: 10_000, StringBytes: 4096, Depth: 32}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := match.Decode(bytes.NewReader(data), limits, nil)
		if err != nil {
			if !errors.Is(err, match.ErrFormat) && !errors.Is(err, match.ErrLimit) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if n := len(s.Catalog().Packages); n > limits.Packages {
			t.Errorf("%d packages pass", n)
		}
	})
}
