package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func (f *fixture) packages(t *testing.T, key model.ImageKey) []model.HeldPackage {
	t.Helper()
	var held []model.HeldPackage
	err := f.Packages(t.Context(), store.AllNamespaces(), key, func(p model.HeldPackage) error {
		held = append(held, p)
		return nil
	})
	if err != nil {
		t.Fatalf("Packages: %v", err)
	}
	return held
}

// random is text of n letters and digits that cannot be compressed by much.
func random(n int) string {
	text := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(n)})
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+"[source.Uint64()%64]
	}
	return string(text)
}

var sbomTests = map[string]func(*testing.T, *fixture){
	"Cataloger": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		by := func(cataloger string) model.Catalog {
			catalog := catalogOf("p")
			catalog.Cataloger = cataloger
			return catalog
		}
		expect := func(want string) {
			t.Helper()
			if got := f.image(t, key).Cataloger; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		f.catalog(t, key, "1", by("syft v1"))
		expect("syft v1")
		f.catalog(t, key, "2", by("syft v2\x00"+strings.Repeat("x", 300)))
		if got := f.image(t, key).Cataloger; !strings.HasPrefix(got, "syft v2") || len(got) > 255 {
			t.Errorf("got %q", got)
		}
		must(t, f.ReplaceCatalog(t.Context(), key, "2", by("syft v3"))) // An earlier version of the operator did not keep it.
		expect("syft v3")
		f.catalog(t, key, "3", by(""))
		expect("")
	},
	"PulledFrom": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		own := model.RepositoryOf(key.Repository())
		for i, tt := range []struct{ repository, want string }{{"other.example/x", "other.example/x"}, {own, ""}, {"other.example/y", "other.example/y"}, {"", ""}} {
			catalog := catalogOf("p")
			catalog.Repository = tt.repository
			f.catalog(t, key, strconv.Itoa(i), catalog)
			if got := f.image(t, key).PulledFrom; got != tt.want || own == "" {
				t.Errorf("with %q: got %q, want %q", tt.repository, got, tt.want)
			}
		}
	},
	"AttestedBy": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		for i, id := range []string{"sha256:1", "", "sha256:2"} {
			catalog := catalogOf("p")
			catalog.AttestedBy = id
			f.catalog(t, key, strconv.Itoa(i), catalog)
			if got := f.image(t, key).AttestedBy; got != id {
				t.Errorf("got %q, want %q", got, id)
			}
		}
	},
	"SaveSBOM": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if err := f.SaveSBOM(t.Context(), key, sbomOf("1"), catalogOf("p")); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		f.want(t, key)
		if _, err := f.SBOM(t.Context(), store.AllNamespaces(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("SBOM before: %v", err)
		}
		last := f.last(t)
		catalog := catalogOf("zlib", "bash", "日本")
		catalog.Packages[1].Excluded = true
		f.catalog(t, key, "1", catalog)
		got, err := f.SBOM(t.Context(), store.AllNamespaces(), key)
		if diff := cmp.Diff(sbomOf("1"), got); err != nil || diff != "" {
			t.Errorf("SBOM: %v %s", err, diff)
		}
		i := f.image(t, key)
		if i.State != store.StateCataloged || i.Distro != "debian:12" || i.Size != 12345 || i.PackageCount != 3 || i.SBOMSHA256 != "1" ||
			i.SBOMSizeBytes != 99 || i.CatalogedAt.IsZero() || !i.MatchedAt.IsZero() || i.Database != nil {
			t.Errorf("got %+v", i)
		}
		want := []model.HeldPackage{catalog.Packages[1], catalog.Packages[0], catalog.Packages[2]}
		if diff := cmp.Diff(want, f.packages(t, key)); diff != "" {
			t.Error(diff)
		}
		expectKinds(t, f.kinds(t, last), store.EventImageCataloged)
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID); err != nil {
			t.Fatal(err)
		}
		if err := f.SaveSBOM(t.Context(), key, sbomOf("1"), catalog); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a removed image: %v", err)
		}
	},
	"SaveSBOM keeps what only this image says of a package": func(t *testing.T, f *fixture) {
		first, second := catalogOf("p"), catalogOf("p")
		second.Packages[0].Package.PURL, second.Packages[0].Package.Licenses = "pkg:deb/other/p@1.0", nil
		one, two := image("a", amd64), image("bb", amd64)
		f.want(t, one, two)
		f.catalog(t, one, "1", first)
		f.catalog(t, two, "2", second)
		for key, catalog := range map[model.ImageKey]model.Catalog{one: first, two: second} {
			if diff := cmp.Diff(catalog.Packages, f.packages(t, key)); diff != "" {
				t.Errorf("%s: %s", key, diff)
			}
		}
	},
	"SaveSBOM of hostile packages": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		catalog := model.Catalog{Distro: "x\x00\xff", Packages: []model.HeldPackage{
			{Package: model.Package{Fingerprint: "f1", Name: "bad\xff\x00name", Version: string(make([]byte, 5000))}},
			{Package: model.Package{Fingerprint: "f2", Name: "'; DROP TABLE images; --", Version: "%_"}},
			// Not compressible, as an index of PostgreSQL holds at most 2,704 bytes after compression.
			{Package: model.Package{
				Fingerprint: "f3", Name: "long" + random(2000), Version: random(2000), Type: random(700), Language: random(5000), PURL: random(100_000),
				Distro: random(5000), CPEs: []string{random(5000)}, Licenses: []string{random(5000)},
			}},
		}}
		f.catalog(t, key, "1", catalog)
		if got := f.packages(t, key); len(got) != 3 || len(got[2].Package.Type) > 255 || got[0].Package.Name != "'; DROP TABLE images; --" || len(got[1].Package.Version) > 1024 {
			t.Errorf("got %+v", got)
		}
		for name, fingerprint := range map[string]string{"none": "", "long": string(make([]byte, 300))} {
			bad := model.Catalog{Packages: []model.HeldPackage{{Package: model.Package{Fingerprint: fingerprint}}}}
			if err := f.SaveSBOM(t.Context(), key, sbomOf("2"), bad); err == nil {
				t.Errorf("fingerprint %s: no error", name)
			}
		}
	},
	"SaveSBOM merges a package at several places": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		at := func(name, path string, excluded bool) model.HeldPackage {
			return model.HeldPackage{Package: pkg(name), Locations: []model.Location{{Path: path}}, Excluded: excluded}
		}
		f.catalog(t, key, "1", model.Catalog{Packages: []model.HeldPackage{
			at("p", "/1", false), at("p", "/2", false), at("q", "/3", true), at("q", "/4", false), at("r", "/5", true), at("r", "/6", true),
		}})
		want := []model.HeldPackage{
			{Package: pkg("p"), Locations: []model.Location{{Path: "/1"}, {Path: "/2"}}},
			{Package: pkg("q"), Locations: []model.Location{{Path: "/4"}}},
			{Package: pkg("r"), Locations: []model.Location{{Path: "/5"}, {Path: "/6"}}, Excluded: true},
		}
		if diff := cmp.Diff(want, f.packages(t, key)); diff != "" {
			t.Error(diff)
		}
	},
	"SaveSBOM replaces": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": nil})
		// The same packages: what is known stays visible until the next match.
		f.catalog(t, key, "2", catalogOf("p", "q"))
		i := f.image(t, key)
		if i.State != store.StateCataloged || i.Counts.High != 1 || i.Database == nil || len(f.found(t, key)) != 1 {
			t.Errorf("same packages: got %+v", i)
		}
		f.match(t, key, "2", answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": nil})
		f.catalog(t, key, "3", catalogOf("q", "r"))
		i = f.image(t, key)
		if i.State != store.StateCataloged || i.Counts.Total() != 0 || i.Database != nil || !i.MatchedAt.IsZero() || len(f.found(t, key)) != 0 {
			t.Errorf("other packages: got %+v", i)
		}
		if err := f.FinishImage(t.Context(), key, "2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a match of the earlier SBOM: %v", err)
		}
	},
	"Packages": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if err := f.Packages(t.Context(), store.AllNamespaces(), key, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown image: %v", err)
		}
		f.want(t, key)
		if got := f.packages(t, key); len(got) != 0 {
			t.Errorf("before the SBOM: %v", got)
		}
		names := make([]string, 1500)
		for i := range names {
			names[i] = fmt.Sprintf("p%04d", i)
		}
		// More than a page, and some that fill one.
		catalog := catalogOf(names...)
		for _, large := range []int{0, 1, 2, 700, 1499} {
			catalog.Packages[large].Package.MatchInput = json.RawMessage(`"` + strings.Repeat("x", 5<<19) + `"`)
		}
		f.catalog(t, key, "1", catalog)
		// Without the option, cmp compares megabytes byte by byte.
		sameInput := cmp.Comparer(func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
		if diff := cmp.Diff(catalog.Packages, f.packages(t, key), sameInput); diff != "" {
			t.Errorf("packages: %.1000s", diff)
		}
		stop := errors.New("stop")
		calls := 0
		err := f.Packages(t.Context(), store.AllNamespaces(), key, func(model.HeldPackage) error {
			calls++
			return stop
		})
		if err != stop || calls != 1 { //nolint:errorlint // The error must be that very one.
			t.Errorf("got %v after %d calls", err, calls)
		}
		// yield may call the store; what is gone meanwhile is left out.
		calls = 0
		err = f.Packages(t.Context(), store.AllNamespaces(), key, func(model.HeldPackage) error {
			if calls++; calls == 1 {
				return f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID)
			}
			return nil
		})
		if err != nil || calls >= len(names) {
			t.Errorf("a removed image: %v after %d calls", err, calls)
		}
	},
}
