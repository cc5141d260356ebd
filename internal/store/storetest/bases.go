package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// layer is a diff ID.
func layer(n int) string { return fmt.Sprintf("sha256:%064x", n) }

func layers(numbers ...int) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, layer(n))
	}
	return all
}

// layered catalogs an image with layers and packages: a package in each layer, with its number as its name, and one that only the highest layer has a file of.
func (f *fixture) layered(t *testing.T, key model.ImageKey, numbers ...int) {
	t.Helper()
	f.onLayers(t, key, layers(numbers...), numbers...)
}

// onLayers does so with other layers.
func (f *fixture) onLayers(t *testing.T, key model.ImageKey, diffIDs []string, numbers ...int) {
	t.Helper()
	catalog := model.Catalog{Layers: diffIDs}
	hold := func(name string, layers ...string) {
		held := model.HeldPackage{Package: pkg(name)}
		for _, layer := range layers {
			held.Locations = append(held.Locations, model.Location{Path: "/" + name, Layer: layer})
		}
		catalog.Packages = append(catalog.Packages, held)
	}
	top := layer(numbers[len(numbers)-1])
	for _, n := range numbers {
		hold(fmt.Sprint("p", n), top, layer(n))
	}
	hold("in-database", top) // As the database of apk, which the highest layer replaces.
	f.catalog(t, key, key.ImageID, catalog)
}

func (f *fixture) expectBase(t *testing.T, step string, in store.Namespaces, key model.ImageKey, want store.Base) {
	t.Helper()
	got, err := f.Image(t.Context(), in, key)
	must(t, err)
	if diff := gocmp.Diff(want, got.Base); diff != "" {
		t.Errorf("%s: base of %s (-want +got):\n%s", step, key, diff)
	}
	f.checkBases(t, step, in)
}

// checkBases expects in the list of bases what the images state.
func (f *fixture) checkBases(t *testing.T, step string, in store.Namespaces) {
	t.Helper()
	page, err := f.ListImages(t.Context(), in, store.ImageQuery{})
	must(t, err)
	want := map[string]*store.BaseSummary{}
	for i := range page.Images {
		image, err := f.Image(t.Context(), in, page.Images[i].Key)
		must(t, err)
		if image.Base.Layers == 0 || want[image.Base.ChainID] != nil {
			continue
		}
		base := &store.BaseSummary{Layers: image.Base.Layers, ChainID: image.Base.ChainID, Source: image.Base.Source, Image: image.Base.Image}
		want[base.ChainID] = base
		on, err := f.ListImages(t.Context(), in, store.ImageQuery{Base: base.ChainID})
		must(t, err)
		var names []string
		for i := range on.Images {
			one, err := f.Image(t.Context(), in, on.Images[i].Key)
			must(t, err)
			base.Images++
			if !one.MatchedAt.IsZero() {
				base.Scanned++
			}
			base.Counts.SeverityCounts = base.Counts.Plus(one.Counts.SeverityCounts)
			base.Counts.KEV += one.Counts.KEV
			base.Counts.Fixable += one.Counts.Fixable
			if name := one.Base.Stated.Name; name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == 1 {
			base.StatedName = names[0]
		}
		base.Workloads = f.checkWorkloadsOn(t, step, in, base.ChainID, on.Images)
		if base.Image != (model.ImageKey{}) {
			image, err := f.Image(t.Context(), in, base.Image)
			must(t, err)
			if base.Matched = !image.MatchedAt.IsZero(); base.Matched {
				base.ImageCounts = image.Counts
			}
		}
	}
	for _, sort := range []store.BaseSort{store.SortBaseImages, store.SortBaseSeverity} {
		wanted := slices.SortedFunc(maps.Values(want), func(a, b *store.BaseSummary) int {
			if sort == store.SortBaseImages {
				return cmp.Or(b.Images-a.Images, strings.Compare(a.ChainID, b.ChainID))
			}
			return cmp.Or(b.Counts.Critical-a.Counts.Critical, b.Counts.High-a.Counts.High, b.Counts.Medium-a.Counts.Medium, b.Counts.Low-a.Counts.Low,
				strings.Compare(a.ChainID, b.ChainID))
		})
		query := store.BaseQuery{Sort: sort, Page: store.Page{Size: 1}}
		for i := 0; ; i++ {
			got, err := f.ListBases(t.Context(), in, query)
			must(t, err)
			if i >= len(wanted) {
				if len(got.Bases) > 0 {
					t.Errorf("%s, %s: more bases: %+v", step, sort, got.Bases)
				}
				break
			}
			if diff := gocmp.Diff([]store.BaseSummary{*wanted[i]}, got.Bases); diff != "" || got.Total != len(wanted) {
				t.Errorf("%s, %s: base %d of %d, total %d (-want +got):\n%s", step, sort, i, len(wanted), got.Total, diff)
			}
			if query.Token = got.NextToken; query.Token == "" {
				break
			}
		}
	}
}

// checkWorkloadsOn expects that the list of workloads on a base has those that run one of its images, and returns their number.
func (f *fixture) checkWorkloadsOn(t *testing.T, step string, in store.Namespaces, chain string, images []store.Image) int {
	t.Helper()
	all, err := f.ListWorkloads(t.Context(), in, store.WorkloadQuery{})
	must(t, err)
	want := slices.DeleteFunc(all.Workloads, func(w store.WorkloadSummary) bool {
		return !slices.ContainsFunc(images, func(image store.Image) bool { return slices.Contains(w.Images, image.Key) })
	})
	got := []store.WorkloadSummary{}
	for query := (store.WorkloadQuery{Base: chain, Page: store.Page{Size: 1}}); ; {
		page, err := f.ListWorkloads(t.Context(), in, query)
		must(t, err)
		if page.Total != len(want) {
			t.Errorf("%s: %d workloads on %s, want %d", step, page.Total, chain, len(want))
		}
		got = append(got, page.Workloads...)
		if query.Token = page.NextToken; query.Token == "" || len(got) > len(want) {
			break
		}
	}
	if diff := gocmp.Diff(append([]store.WorkloadSummary{}, want...), got); diff != "" {
		t.Errorf("%s: workloads on %s (-want +got):\n%s", step, chain, diff)
	}
	return len(want)
}

var baseTests = map[string]func(*testing.T, *fixture){
	"Bases follow from the layers of other images": func(t *testing.T, f *fixture) {
		base, one, two, again, alone := image("base", amd64), image("one", amd64), image("two-two", amd64), image("one", arm64), image("alone-alone", amd64)
		all := store.AllNamespaces()
		at := func(key model.ImageKey, numbers ...int) store.Base {
			chain := model.ChainIDs(layers(numbers...))
			return store.Base{Layers: len(numbers), ChainID: chain[len(chain)-1], Source: store.BaseShared, Image: key}
		}
		f.layered(t, one, 1, 2, 3)
		f.expectBase(t, "the only image", all, one, store.Base{})
		f.layered(t, again, 1, 2, 4)
		f.expectBase(t, "an image of the same repository", all, one, store.Base{})
		f.layered(t, alone, 9, 2, 3)
		f.expectBase(t, "the same layers on another one", all, one, store.Base{})
		f.layered(t, two, 1, 2, 5)
		for _, key := range []model.ImageKey{one, two, again} {
			f.expectBase(t, "an image of another repository", all, key, at(model.ImageKey{}, 1, 2))
		}
		mirrored := image("mirror/one", amd64)
		f.layered(t, mirrored, 1, 2, 3)
		f.expectBase(t, "a copy in another registry", all, one, at(model.ImageKey{}, 1, 2))
		f.layered(t, mirrored, 1, 2, 3, 6)
		f.expectBase(t, "a later version in another registry", all, one, at(model.ImageKey{}, 1, 2))
		copied := image("another-name", amd64)
		f.layered(t, copied, 1, 2, 3)
		f.expectBase(t, "a copy with another name", all, one, at(model.ImageKey{}, 1, 2))
		must(t, f.DeleteImage(t.Context(), all, all, mirrored.ImageID))
		must(t, f.DeleteImage(t.Context(), all, all, copied.ImageID))
		f.layered(t, base, 1)
		f.expectBase(t, "an image with fewer layers", all, one, at(model.ImageKey{}, 1, 2))
		f.expectBase(t, "an image with fewer layers", all, base, store.Base{})
		f.layered(t, base, 1, 2)
		for _, key := range []model.ImageKey{one, two, again} {
			f.expectBase(t, "an image with these layers", all, key, at(base, 1, 2))
		}
		f.expectBase(t, "what is built on it", all, base, store.Base{})
		chain := at(base, 1, 2).ChainID
		f.selects(t, store.ImageQuery{Base: chain}, one, again, two)
		f.selects(t, store.ImageQuery{Base: layer(1)}, base, one, again, two)
		f.selects(t, store.ImageQuery{Base: layer(2)})
		f.selects(t, store.ImageQuery{Base: layer(1), BaseLayers: 1}, base, one, again, two)
		f.selects(t, store.ImageQuery{Base: layer(1), BaseLayers: 2})
		// An image can state the chain ID of other layers as that of its lowest one.
		for i, name := range []string{"evil", "more-evil"} {
			f.onLayers(t, image(name, amd64), []string{chain, layer(7 + i)}, 7+i)
		}
		f.selects(t, store.ImageQuery{Base: chain, BaseLayers: 2}, one, again, two)
		f.selects(t, store.ImageQuery{Base: chain, BaseLayers: 1}, image("evil", amd64), image("more-evil", amd64))
		must(t, f.RecordUses(t.Context(), "evil", []store.Use{ownedUse(image("evil", amd64), "e", "evil", ""), ownedUse(one, "e", "web", ""), ownedUse(two, "e", "web", ""), ownedUse(two, "e", "api", "")}))
		for layers, want := range map[int]int{1: 1, 2: 2} {
			bases, err := f.ListBases(t.Context(), all, store.BaseQuery{})
			must(t, err)
			for _, base := range bases.Bases {
				if base.ChainID == chain && base.Layers == layers && base.Workloads != want {
					t.Errorf("%d workloads on a base of %d layers, want %d", base.Workloads, layers, want)
				}
			}
			page, err := f.ListWorkloads(t.Context(), all, store.WorkloadQuery{Base: chain, BaseLayers: layers})
			must(t, err)
			if page.Total != want {
				t.Errorf("%d workloads are listed on a base of %d layers, want %d", page.Total, layers, want)
			}
		}
		for _, name := range []string{"evil", "more-evil"} {
			must(t, f.DeleteImage(t.Context(), all, all, image(name, amd64).ImageID))
		}
		must(t, f.RecordUses(t.Context(), "evil", nil))
		// What a user does not see is no base of what the user sees.
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			ownedUse(one, "a", "web", ""), ownedUse(two, "a", "api", ""), ownedUse(base, "b", "base", ""), ownedUse(two, "b", "api", ""),
		}))
		f.expectBase(t, "without the base", store.OnlyNamespaces("a"), one, at(model.ImageKey{}, 1, 2))
		f.expectBase(t, "with the base", store.OnlyNamespaces("b"), two, at(base, 1, 2))
		f.expectBase(t, "with both", store.OnlyNamespaces("a", "b"), one, at(base, 1, 2))
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(one, "c", "web", "")}))
		f.expectBase(t, "alone", store.OnlyNamespaces("c"), one, store.Base{})
		must(t, f.DeleteImage(t.Context(), all, all, base.ImageID))
		f.expectBase(t, "the base is gone", all, one, at(model.ImageKey{}, 1, 2))
		f.layered(t, again, 1)
		f.layered(t, one, 1)
		f.expectBase(t, "other SBOMs", all, two, at(one, 1))
	},
	"Bases that images state": func(t *testing.T, f *fixture) {
		key, stated := image("a", amd64), model.StatedBase{Name: "docker.io/library/debian:12", Digest: "sha256:1"}
		catalog := catalogOf("p")
		catalog.Base = stated
		f.catalog(t, key, "1", catalog)
		f.expectBase(t, "stated", store.AllNamespaces(), key, store.Base{Stated: stated})
		catalog.Layers, catalog.Base = []string{"sha256:short"}, model.StatedBase{}
		must(t, f.ReplaceCatalog(t.Context(), key, "1", catalog))
		f.expectBase(t, "stated no more", store.AllNamespaces(), key, store.Base{})
	},
	"Sizes of layers": func(t *testing.T, f *fixture) {
		key, all := image("a", amd64), store.AllNamespaces()
		expect := func(want ...int64) { // -1 is not known.
			t.Helper()
			found, err := f.ImageLayers(t.Context(), all, store.ImagePackageQuery{Image: key})
			must(t, err)
			got := []int64{}
			for _, layer := range found {
				if layer.Size == nil {
					got = append(got, -1)
					continue
				}
				got = append(got, *layer.Size)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		}
		catalog := catalogOf("p") // It is in no known layer.
		catalog.Layers, catalog.LayerSizes = layers(1, 2, 1), []int64{1 << 40, 0, 7}
		f.catalog(t, key, "1", catalog)
		expect(1<<40, 0, 7, -1)
		catalog.LayerSizes = nil
		must(t, f.ReplaceCatalog(t.Context(), key, "1", catalog))
		expect(-1, -1, -1, -1)
		catalog.Layers, catalog.LayerSizes = layers(3), []int64{5, 6}
		must(t, f.ReplaceCatalog(t.Context(), key, "1", catalog))
		expect(5, -1)
	},
	"Origins in an image that was read from an image volume": func(t *testing.T, f *fixture) {
		base, mounted, pulled, all := image("base", amd64), image("mounted", amd64), image("pulled", amd64), store.AllNamespaces()
		f.layered(t, pulled, 1, 2, 4)
		f.want(t, mounted)
		sbom := sbomOf(mounted.ImageID)
		sbom.Source = model.SourceImageVolume
		// The registry stated the layers, and files are in none of them.
		must(t, f.SaveSBOM(t.Context(), mounted, sbom, model.Catalog{Layers: layers(1, 2, 3), Packages: []model.HeldPackage{held("p1", "/p1@0"), held("p3", "/p3@0")}}))
		f.match(t, mounted, mounted.ImageID, answers{"p1": {finding("CVE-1", model.SeverityHigh)}})
		chain := model.ChainIDs(layers(1, 2))[1]
		expect := func(step string, of model.ImageKey, origins [2]model.Origin, bases int) {
			t.Helper()
			f.expectBase(t, step, all, mounted, store.Base{Layers: 2, ChainID: chain, Source: store.BaseShared, Image: of})
			packages := f.packagesOf(t, all, store.ImagePackageQuery{Image: mounted})
			if diff := gocmp.Diff([]string{fmt.Sprint("0 /p1 p1 ", origins[0], " 1"), fmt.Sprint("0 /p3 p3 ", origins[1], " 0")}, packages); diff != "" {
				t.Errorf("%s: packages (-want +got):\n%s", step, diff)
			}
			if diff := gocmp.Diff([]string{"1 1 base 0 0/0", "2 2 base 0 0/0", "3 3 image 0 0/0", "0   2 0/1"}, f.layersOf(t, all, store.ImagePackageQuery{Image: mounted})); diff != "" {
				t.Errorf("%s: layers (-want +got):\n%s", step, diff)
			}
			for origin, want := range map[model.Origin]int{"": 1, model.OriginBase: bases, model.OriginImage: 0} {
				page, err := f.Findings(t.Context(), all, store.FindingQuery{Image: mounted, Origin: origin, Described: true})
				must(t, err)
				if page.Total != want || want > 0 && page.Findings[0].Origin != origins[0] {
					t.Errorf("%s: findings from %q: %+v", step, origin, page)
				}
			}
		}
		expect("the base is no known image", model.ImageKey{}, [2]model.Origin{}, 0)
		f.layered(t, base, 1, 2)
		expect("the base is an image", base, [2]model.Origin{model.OriginBase, model.OriginImage}, 1)
	},
	"Findings come from the base or from the image": func(t *testing.T, f *fixture) {
		base, one, two := image("base", amd64), image("one", amd64), image("two-two", amd64)
		found := func(step string, key model.ImageKey, origin model.Origin, want ...string) {
			t.Helper()
			page, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Origin: origin, Described: true, Sort: store.SortFindingPackage})
			must(t, err)
			got := []string{}
			for _, finding := range page.Findings {
				got = append(got, fmt.Sprint(finding.Package.Name, " ", finding.Origin))
			}
			if diff := gocmp.Diff(append([]string{}, want...), got); diff != "" || page.Total != len(want) {
				t.Errorf("%s: findings from %q: total %d (-want +got):\n%s", step, origin, page.Total, diff)
			}
		}
		all := answers{}
		for _, name := range []string{"p1", "p2", "p3", "p5", "in-database"} {
			all[name] = []model.PackageFinding{finding("CVE-"+name, model.SeverityHigh)}
		}
		cataloged := func(key model.ImageKey, numbers ...int) {
			t.Helper()
			f.layered(t, key, numbers...)
			f.match(t, key, key.ImageID, all)
		}
		cataloged(one, 1, 2, 3)
		found("no base", one, "", "in-database ", "p1 ", "p2 ", "p3 ")
		found("no base", one, model.OriginBase)
		found("no base", one, model.OriginImage)
		cataloged(two, 1, 2, 5)
		inImage, inBase := []string{"in-database image", "p3 image"}, []string{"p1 base", "p2 base"}
		both := slices.Concat(inImage[:1], inBase, inImage[1:])
		found("by layers", one, "", both...)
		found("by layers", one, model.OriginBase, inBase...)
		found("by layers", one, model.OriginImage, inImage...)
		cataloged(base, 1, 2)
		found("by packages of the base", one, model.OriginBase, "in-database base", "p1 base", "p2 base")
		found("by packages of the base", one, model.OriginImage, "p3 image")
		f.checkBases(t, "with findings", store.AllNamespaces())
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{ownedUse(one, "a", "web", "team"), ownedUse(two, "b", "api", "")}))
		for in, want := range map[string]int{"a": 1, "b": 1, "c": 0} {
			page, err := f.ListBases(t.Context(), store.AllNamespaces(), store.BaseQuery{Where: store.Where{Namespace: in}})
			if must(t, err); page.Total != want || want > 0 && (page.Bases[0].Images != 1 || page.Bases[0].Image != base || page.Bases[0].Workloads != 1) {
				t.Errorf("in namespace %s: %+v", in, page)
			}
		}
	},
}
