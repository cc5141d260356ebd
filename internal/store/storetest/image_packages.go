package storetest

import (
	"errors"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// held is a package at places such as "/path@3", where 3 is a layer as of layer, and 0 none.
func held(name string, places ...string) model.HeldPackage {
	one := model.HeldPackage{Package: pkg(name)}
	for _, place := range places {
		var location model.Location
		var n int
		for i := range place {
			if place[i] == '@' {
				location.Path = place[:i]
				if _, err := fmt.Sscan(place[i+1:], &n); err == nil && n > 0 {
					location.Layer = layer(n)
				}
			}
		}
		one.Locations = append(one.Locations, location)
	}
	return one
}

// packagesOf lists "layer path name origin findings" of all pages of two packages.
func (f *fixture) packagesOf(t *testing.T, in store.Namespaces, query store.ImagePackageQuery) []string {
	t.Helper()
	texts := []string{}
	for query.Size = 2; ; {
		page, err := f.ImagePackages(t.Context(), in, query)
		must(t, err)
		for _, p := range page.Packages {
			texts = append(texts, fmt.Sprint(p.Layer, " ", p.Path, " ", p.Package.Name, " ", p.Origin, " ", p.Counts.Total()))
		}
		if query.Token = page.NextToken; query.Token == "" {
			if page.Total != len(texts) {
				t.Errorf("%+v: a total of %d for %d packages", query, page.Total, len(texts))
			}
			return texts
		}
	}
}

// layersOf lists "number diff-ID origin packages critical/high", and expects that all findings of the image are in some layer.
func (f *fixture) layersOf(t *testing.T, in store.Namespaces, query store.ImagePackageQuery) []string {
	t.Helper()
	found, err := f.ImageLayers(t.Context(), in, query)
	must(t, err)
	texts := []string{}
	var sum store.Counts
	for _, l := range found {
		texts = append(texts, fmt.Sprintf("%d %.10s %s %d %d/%d", l.Number, l.DiffID[max(0, len(l.DiffID)-1):], l.Origin, l.Packages, l.Counts.Critical, l.Counts.High))
		sum.SeverityCounts = sum.Plus(l.Counts.SeverityCounts)
		sum.KEV += l.Counts.KEV
		sum.Fixable += l.Counts.Fixable
	}
	image, err := f.Image(t.Context(), in, query.Image)
	must(t, err)
	if query == (store.ImagePackageQuery{Image: query.Image}) && sum != image.Counts {
		t.Errorf("findings of the layers: %+v, of the image: %+v", sum, image.Counts)
	}
	return texts
}

var imagePackageTests = map[string]func(*testing.T, *fixture){
	"Packages of an image by layer and path": func(t *testing.T, f *fixture) {
		key, base, all := image("app", amd64), image("base", amd64), store.AllNamespaces()
		const status = "/var/lib/dpkg/status"
		excluded := held("excluded", "/usr/bin/tool@1")
		excluded.Excluded = true
		packages := []model.HeldPackage{
			held("bash", status+"@3", "/usr/share/doc/bash@1"), held("curl", "/usr/share/doc/curl@3", status+"@3"),
			held("jar", "/app/a.jar@3", "/app/b.jar@3"), held("npm", "/old/npm@9", "/app/npm@4"), held("nowhere"), held("volume", "/vol@0"), excluded,
		}
		catalog := model.Catalog{Layers: layers(1, 2, 3, 4), Packages: packages}
		f.catalog(t, key, "app", catalog)
		want := []string{
			"1 /usr/bin/tool excluded  0", "1 " + status + " bash  0", "3 /app/a.jar jar  0", "3 " + status + " curl  0", "4 /app/npm npm  0", "0  nowhere  0", "0 /vol volume  0",
		}
		if diff := gocmp.Diff(want, f.packagesOf(t, all, store.ImagePackageQuery{Image: key})); diff != "" {
			t.Errorf("before it is matched (-want +got):\n%s", diff)
		}
		f.match(t, key, "app", answers{
			"bash": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}, "jar": {finding("CVE-1", model.SeverityCritical, "2.0")},
			"volume": {finding("CVE-3", model.SeverityHigh)}, "excluded": {finding("CVE-4", model.SeverityHigh)},
		})
		f.decide(t, store.Decision{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "x"}, Vulnerabilities: []string{"CVE-2"}, Status: model.DecisionNotAffected,
			Images: []string{key.Repository()},
		})
		f.catalog(t, base, "base", model.Catalog{Layers: layers(1, 2), Packages: packages[:1]})
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(key, "a", "web", ""), ownedUse(key, "b", "web", ""), ownedUse(base, "b", "base", "")}))
		number := func(n int) *int { return &n }
		for name, test := range map[string]struct {
			in       store.Namespaces
			query    store.ImagePackageQuery
			packages []string
			layers   []string
		}{
			"all": {all, store.ImagePackageQuery{}, []string{
				"1 /usr/bin/tool excluded image 0", "1 " + status + " bash base 1", "3 /app/a.jar jar image 1", "3 " + status + " curl image 0", "4 /app/npm npm image 0",
				"0  nowhere image 0", "0 /vol volume image 1",
			}, []string{"1 1 base 2 1/0", "2 2 base 0 0/0", "3 3 image 2 1/0", "4 4 image 1 0/0", "0   2 0/1"}},
			"where the base is not visible": {store.OnlyNamespaces("a"), store.ImagePackageQuery{Vulnerable: true}, []string{
				"1 " + status + " bash  1", "3 /app/a.jar jar  1", "0 /vol volume  1",
			}, []string{"1 1  1 1/0", "2 2  0 0/0", "3 3  1 1/0", "4 4  0 0/0", "0   1 0/1"}},
			"a layer":       {all, store.ImagePackageQuery{Layer: number(3)}, []string{"3 /app/a.jar jar image 1", "3 " + status + " curl image 0"}, nil},
			"no layer":      {all, store.ImagePackageQuery{Layer: number(store.UnknownLayer)}, []string{"0  nowhere image 0", "0 /vol volume image 1"}, nil},
			"another layer": {all, store.ImagePackageQuery{Layer: number(2)}, []string{}, nil},
			"severe": {all, store.ImagePackageQuery{MinSeverity: model.SeverityCritical}, []string{"1 " + status + " bash base 1", "3 /app/a.jar jar image 1"},
				[]string{"1 1 base 1 1/0", "2 2 base 0 0/0", "3 3 image 1 1/0", "4 4 image 0 0/0"}},
			"from the base": {store.OnlyNamespaces("b"), store.ImagePackageQuery{Origin: model.OriginBase}, []string{"1 " + status + " bash base 1"},
				[]string{"1 1 base 1 1/0", "2 2 base 0 0/0", "3 3 image 0 0/0", "4 4 image 0 0/0"}},
			"by name": {all, store.ImagePackageQuery{Text: "NP"}, []string{"4 /app/npm npm image 0"}, []string{"1 1 base 0 0/0", "2 2 base 0 0/0", "3 3 image 0 0/0", "4 4 image 1 0/0"}},
		} {
			test.query.Image = key
			if diff := gocmp.Diff(test.packages, f.packagesOf(t, test.in, test.query)); diff != "" {
				t.Errorf("%s: packages (-want +got):\n%s", name, diff)
			}
			if test.layers == nil {
				continue
			}
			if diff := gocmp.Diff(test.layers, f.layersOf(t, test.in, test.query)); diff != "" {
				t.Errorf("%s: layers (-want +got):\n%s", name, diff)
			}
		}
		page, err := f.ImagePackages(t.Context(), all, store.ImagePackageQuery{Image: key, Page: store.Page{Size: 1}})
		must(t, err)
		excluded.Package.MatchInput = nil // Which the list leaves out.
		if diff := gocmp.Diff(excluded, page.Packages[0].HeldPackage); diff != "" {
			t.Errorf("all about a package (-want +got):\n%s", diff)
		}
		if _, err := f.ImagePackages(t.Context(), all, store.ImagePackageQuery{Image: base, Page: store.Page{Token: page.NextToken}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("a token of another image: %v", err)
		}
		_, err = f.ImagePackages(t.Context(), store.OnlyNamespaces("c"), store.ImagePackageQuery{Image: key})
		_, layersErr := f.ImageLayers(t.Context(), store.OnlyNamespaces("a"), store.ImagePackageQuery{Image: base})
		if !errors.Is(err, store.ErrNotFound) || !errors.Is(layersErr, store.ErrNotFound) {
			t.Errorf("images that are not visible: %v, %v", err, layersErr)
		}
		// The page after the last package that was there before.
		catalog.Packages = packages[1:3]
		f.catalog(t, key, "again", catalog)
		next, err := f.ImagePackages(t.Context(), all, store.ImagePackageQuery{Image: key, Page: store.Page{Token: page.NextToken, Size: 9}})
		if must(t, err); len(next.Packages) != 2 || next.Total != 2 {
			t.Errorf("after another SBOM: %+v", next)
		}
	},
}
