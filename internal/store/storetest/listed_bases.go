package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// listedDigest is that of an image in BaseImages.
const listedDigest = "sha256:00000000000000000000000000000000000000000000000000000000000ba5e0"

// BaseImages is the list of base images of the stores that the suite uses.
func BaseImages() []string {
	return []string{"registry.example/listed/*", "registry.example/*/go*", listedDigest, modelImageID(2), modelImageID(4), "registry.example/unknown/*"}
}

// baseImage is an image of the model of base images.
type baseImage struct {
	key        model.ImageKey
	layers     []int
	created    time.Time
	namespaces []string
}

func (i *baseImage) repository() string { return i.key.Repository() }

// entries are the entries of BaseImages that match the image.
func (i *baseImage) entries() (entries []int) {
	segments := strings.Split(i.repository(), "/")
	for n, matches := range []bool{
		len(segments) > 2 && segments[1] == "listed", len(segments) == 3 && strings.HasPrefix(segments[2], "go"), i.key.Digest() == listedDigest,
	} {
		if matches {
			entries = append(entries, n)
		}
	}
	return entries
}

// begins reports whether the image has the lowest layers of another one.
func (i *baseImage) begins(layers []int) bool {
	return len(i.layers) >= len(layers) && slices.Equal(i.layers[:len(layers)], layers)
}

// modelBase finds the base of an image among visible ones by comparing all of them.
func modelBase(of *baseImage, visible []*baseImage) store.Base {
	for _, source := range []store.BaseSource{store.BaseListed, store.BaseShared} {
		for n := len(of.layers) - 1; n > 0; n-- {
			var whole []*baseImage
			shared := false
			for _, other := range visible {
				if !other.begins(of.layers[:n]) || other.begins(of.layers) {
					continue
				}
				if len(other.layers) == n && (source == store.BaseShared || len(other.entries()) > 0) {
					whole = append(whole, other)
				}
				shared = shared || source == store.BaseShared && path.Base(other.repository()) != path.Base(of.repository())
			}
			if len(whole) == 0 && !shared {
				continue
			}
			chain := model.ChainIDs(layers(of.layers[:n]...))
			base := store.Base{Layers: n, ChainID: chain[n-1], Source: source}
			if len(whole) > 0 {
				base.Image = slices.MinFunc(whole, func(a, b *baseImage) int {
					return cmp.Or(createdLast(a).Compare(createdLast(b)), strings.Compare(a.key.ImageID, b.key.ImageID))
				}).key
			}
			return base
		}
	}
	return store.Base{}
}

// createdLast is when an image was created; one of which that is not known comes behind all others.
func createdLast(i *baseImage) time.Time {
	if i.created.IsZero() {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return i.created
}

// add catalogs the image and runs it in its namespaces.
func (i *baseImage) add(t *testing.T, f *fixture) {
	t.Helper()
	catalog := catalogOf("p")
	catalog.Layers, catalog.Created = layers(i.layers...), i.created
	f.catalog(t, i.key, i.key.ImageID, catalog)
	var uses []store.Use
	for _, namespace := range i.namespaces {
		uses = append(uses, ownedUse(i.key, namespace, "web", ""))
	}
	must(t, f.RecordUses(t.Context(), i.key.ImageID, uses))
}

// randomBaseImages makes images with few layers, so that many of them share some.
func randomBaseImages(random *rand.Rand, count int) []*baseImage {
	names := []string{"one", "two", "team/one", "listed/one", "listed/a/two", "x/golang", "x/y/golang", "digest"}
	images := make([]*baseImage, count)
	for i := range images {
		name := names[random.IntN(len(names))]
		digest := fmt.Sprintf("sha256:%064x", i+1)
		if name == "digest" && !slices.ContainsFunc(images[:i], func(o *baseImage) bool { return o.key.Digest() == listedDigest }) {
			digest = listedDigest
		}
		image := &baseImage{key: model.ImageKey{ImageID: "registry.example/" + name + "@" + digest, Platform: amd64}}
		for range random.IntN(6) {
			image.layers = append(image.layers, 1+random.IntN(2))
		}
		if random.IntN(2) > 0 {
			image.created = oldBuild.Built.AddDate(0, 0, -random.IntN(5))
		}
		for _, namespace := range []string{"a", "b", "c"} {
			if random.IntN(2) > 0 {
				image.namespaces = append(image.namespaces, namespace)
			}
		}
		images[i] = image
	}
	return images
}

// expectListed compares the entries of the list of base images with the number of images that each matches. Users of some namespaces get those that match one.
func (f *fixture) expectListed(t *testing.T, step string, in store.Namespaces, images ...int) {
	t.Helper()
	want := []store.ListedBase{}
	for i, pattern := range BaseImages() {
		entry := store.ListedBase{Pattern: pattern}
		if i < len(images) {
			entry.Images = images[i]
		}
		if in.All() || entry.Images > 0 {
			want = append(want, entry)
		}
	}
	page, err := f.ListBases(t.Context(), in, store.BaseQuery{Page: store.Page{Size: 1}})
	must(t, err)
	if diff := gocmp.Diff(want, page.Listed); diff != "" {
		t.Errorf("%s: the list of base images (-want +got):\n%s", step, diff)
	}
}

var listedBaseTests = map[string]func(*testing.T, *fixture){
	"Listed base images come before shared layers": func(t *testing.T, f *fixture) {
		one, two, all := image("one", amd64), image("two-two", amd64), store.AllNamespaces()
		plain, base, golang := image("a-plain", amd64), image("listed/base", amd64), image("x/golang", amd64)
		at := func(source store.BaseSource, key model.ImageKey, numbers ...int) store.Base {
			chain := model.ChainIDs(layers(numbers...))
			return store.Base{Layers: len(numbers), ChainID: chain[len(chain)-1], Source: source, Image: key}
		}
		f.layered(t, one, 1, 2, 3, 4)
		f.layered(t, two, 1, 2, 3, 5)
		f.expectBase(t, "nothing of the list is known", all, one, at(store.BaseShared, model.ImageKey{}, 1, 2, 3))
		f.expectListed(t, "nothing of the list is known", all)
		f.layered(t, plain, 1, 2)
		f.expectBase(t, "an image that is not listed", all, one, at(store.BaseShared, model.ImageKey{}, 1, 2, 3))
		f.layered(t, base, 1, 2)
		for _, key := range []model.ImageKey{one, two} {
			f.expectBase(t, "a listed image with fewer layers than others share", all, key, at(store.BaseListed, base, 1, 2))
		}
		f.expectBase(t, "a listed image has no base", all, base, store.Base{})
		f.expectListed(t, "a listed image", all, 1)
		f.layered(t, golang, 1, 2, 3)
		f.expectBase(t, "the most layers of a listed image", all, one, at(store.BaseListed, golang, 1, 2, 3))
		f.expectBase(t, "a listed image on another one", all, golang, at(store.BaseListed, base, 1, 2))
		f.expectListed(t, "two listed images", all, 1, 1)
		f.layered(t, golang, 1, 2, 3, 4)
		f.expectBase(t, "a listed image that has all layers", all, one, at(store.BaseListed, base, 1, 2))
		f.layered(t, golang, 9)
		f.expectBase(t, "a listed image with other layers", all, one, at(store.BaseListed, base, 1, 2))
		f.expectListed(t, "a listed image on which nothing was built", all, 1, 1)

		// Packages come from the listed image, and not from what others share.
		f.match(t, one, one.ImageID, answers{"p2": {finding("CVE-2", model.SeverityHigh)}, "p3": {finding("CVE-3", model.SeverityHigh)}})
		for origin, want := range map[model.Origin]string{model.OriginBase: "p2", model.OriginImage: "p3"} {
			page, err := f.Findings(t.Context(), all, store.FindingQuery{Image: one, Origin: origin})
			if must(t, err); page.Total != 1 || page.Findings[0].Package.Name != want {
				t.Errorf("findings from %s: %+v", origin, page)
			}
		}
		// What a user does not see is no base of what the user sees, also if it is listed.
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			ownedUse(one, "a", "web", ""), ownedUse(two, "a", "api", ""), ownedUse(one, "b", "web", ""), ownedUse(base, "b", "base", ""), ownedUse(plain, "b", "base", ""),
		}))
		f.expectBase(t, "without the listed image", store.OnlyNamespaces("a"), one, at(store.BaseShared, model.ImageKey{}, 1, 2, 3))
		f.expectListed(t, "without the listed image", store.OnlyNamespaces("a"))
		f.expectBase(t, "with the listed image", store.OnlyNamespaces("b"), one, at(store.BaseListed, base, 1, 2))
		f.expectListed(t, "with the listed image", store.OnlyNamespaces("b"), 1)
	},
	"Base images are those of a model": func(t *testing.T, f *fixture) {
		random := rand.New(rand.NewPCG(107, 1))
		images := randomBaseImages(random, 14)
		for i, image := range images {
			image.add(t, f)
			if i < 6 || i%4 != 1 {
				continue // Stores are read when there is something to find.
			}
			for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("a"), store.OnlyNamespaces("b", "c"), store.OnlyNamespaces()} {
				step := fmt.Sprintf("%d images, seen in %v", i+1, in.Names())
				var visible []*baseImage
				listed := make([]int, 3)
				for _, other := range images[:i+1] {
					if !in.All() && !slices.ContainsFunc(other.namespaces, func(n string) bool { return slices.Contains(in.Names(), n) }) {
						continue
					}
					visible = append(visible, other)
					for _, n := range other.entries() {
						listed[n] += min(1, len(other.layers))
					}
				}
				for _, one := range visible {
					got, err := f.Image(t.Context(), in, one.key)
					must(t, err)
					if diff := gocmp.Diff(modelBase(one, visible), got.Base); diff != "" {
						t.Errorf("%s: base of %s with layers %v (-want +got):\n%s", step, one.key.ImageID, one.layers, diff)
					}
				}
				f.checkBases(t, step, in)
				f.expectListed(t, step, in, listed...)
			}
		}
	},
}
