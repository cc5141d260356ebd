package vexdecisions_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// shops are two images with the same packages.
var shops = []model.ImageKey{
	{ImageID: "registry.example/shop@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}},
	{ImageID: "registry.example/shop@sha256:" + strings.Repeat("b", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}},
}

// imageProducts are one of the images by its digest, or both, with some of its packages or all.
func imageProducts(r *rand.Rand) []any {
	var subcomponents []any
	for range r.IntN(3) {
		subcomponents = append(subcomponents, map[string]any{"@id": pick(r, []string{"pkg:npm/lodash", "pkg:npm/lodash@4.17.20", "pkg:npm/%40angular/core", "pkg:golang/github.com/docker/docker"})})
	}
	var all []any
	for _, n := range [][]int{{0}, {1}, {0, 1}}[r.IntN(3)] {
		digest := shops[n].Digest()
		one := map[string]any{}
		switch r.IntN(4) {
		case 0:
			one["@id"] = "pkg:oci/shop@" + digest
		case 1:
			one["@id"] = "pkg:oci/shop@" + strings.Replace(digest, ":", "%3A", 1) + "?repository_url=registry.example/shop"
		case 2:
			one["@id"] = "registry.example/shop@" + digest
		default:
			one["@id"], one["hashes"] = "shop", map[string]string{"sha-256": strings.TrimPrefix(digest, "sha256:")}
		}
		if len(subcomponents) > 0 {
			one["subcomponents"] = subcomponents
		}
		all = append(all, one)
	}
	return all
}

// imageVEX is a document with random statements, of which some are about images.
func imageVEX(r *rand.Rand, name string) store.VEXContent {
	var statements []any
	for range 1 + r.IntN(5) {
		products := imageProducts(r)
		if r.IntN(3) == 0 {
			products = append(products, map[string]any{"@id": pick(r, []string{"pkg:npm/lodash", "pkg:golang/github.com/docker/docker"})})
		}
		if r.IntN(3) == 0 {
			products = []any{map[string]any{"@id": pick(r, anyImage)}}
		}
		statements = append(statements, map[string]any{
			"vulnerability": map[string]any{"name": pick(r, []string{"CVE-2026-1", "CVE-2026-3", "GHSA-2"})}, "products": products, "timestamp": pick(r, timestamps),
			"status": pick(r, []string{"not_affected", "not_affected", "fixed", "affected", "under_investigation"}), "impact_statement": "why", "action_statement": "Upgrade.",
		})
	}
	content, _ := json.Marshal(map[string]any{
		"@context": "https://openvex.dev/ns/v0.2.0", "@id": fmt.Sprint("https://example.com/", name), "author": pick(r, []string{"Vendor", "Other"}), "timestamp": timestamps[0],
		"version": 1, "statements": statements,
	})
	return store.VEXContent{Name: name, Content: content}
}

// anyImage are packages in any image.
var anyImage = []string{"pkg:npm/lodash", "pkg:npm/lodash@4.17.20", "pkg:npm/%40angular/core", "pkg:golang/github.com/docker/docker"}

// scannedImage are the findings that "scan --vex" suppresses in an image.
func scannedImage(t *testing.T, sources map[string][]store.VEXContent, image model.ImageKey) []string {
	t.Helper()
	var documents []*vex.Document
	for name, contents := range sources {
		for _, content := range contents {
			d, err := vexdecisions.Read(store.VEXKindSource, name, content)
			must(t, err)
			d.Trust = name
			documents = append(documents, d)
		}
	}
	set, err := vex.NewSet(documents)
	must(t, err)
	var all []model.Finding
	for i := range packages {
		for _, f := range findings()[packages[i].Name] {
			all = append(all, model.Finding{PackageFinding: f, Package: packages[i]})
		}
	}
	result, err := set.Apply(t.Context(), model.ImageNames{References: []string{image.ImageID}, Digests: []string{image.Digest()}}, all, semantic{}, time.Now())
	must(t, err)
	var names []string
	for _, f := range result.Suppressed {
		names = append(names, f.Vulnerability.ID+" "+f.Package.Name)
	}
	return names
}

// storedImage are the findings that the store suppresses in an image.
func storedImage(t *testing.T, s *sqlstore.Store, image model.ImageKey) []string {
	t.Helper()
	list, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: image, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
	must(t, err)
	var names []string
	for _, f := range list.Findings {
		if f.Suppressed {
			names = append(names, f.Vulnerability.ID+" "+f.Package.Name)
		}
	}
	return names
}

// TestStatementsAboutImagesAsInScans compares statements about images with "scan --vex": the store suppresses nothing that a scan does not, and everything that scans
// suppress in all images. Where statements contradict each other about images, a finding may count that a scan of one of them suppresses.
func TestStatementsAboutImagesAsInScans(t *testing.T) {
	t.Parallel()
	inOne, inBoth, cautious := 0, 0, 0
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 11))
		s := open(t)
		applier := vexdecisions.NewApplier(s, clock.RealClock{}, nil)
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(t, err)
		known := func(image model.ImageKey) {
			_, err := s.WantImages(t.Context(), []model.ImageKey{image})
			must(t, err)
			var catalog model.Catalog
			for i := range packages {
				catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: packages[i]})
			}
			must(t, s.SaveSBOM(t.Context(), image, store.SBOM{SHA256: "d", Size: 1}, catalog))
			must(t, storetest.Match(t.Context(), s, image, "d", findings()))
		}
		// The images become known before statements, between them, and after them.
		arrives := []int{r.IntN(3), r.IntN(3)}
		sources := map[string][]store.VEXContent{}
		for step := range 4 {
			for n, image := range shops {
				if arrives[n] == step {
					known(image)
				}
			}
			name := fmt.Sprint("s", r.IntN(3))
			if step > 0 && r.IntN(5) == 0 {
				_, err := s.DeleteVEX(t.Context(), store.VEXKindSource, name, "")
				must(t, err)
				delete(sources, name)
			} else {
				sources[name] = []store.VEXContent{imageVEX(r, name)}
				must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: name}, sources[name]))
			}
			if _, err := applier.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if step < max(arrives[0], arrives[1]) {
				continue
			}
			scans := [][]string{scannedImage(t, sources, shops[0]), scannedImage(t, sources, shops[1])}
			for n, image := range shops {
				suppressed := storedImage(t, s, image)
				for _, name := range suppressed {
					if !slices.Contains(scans[n], name) {
						t.Errorf("seed %d, step %d: %s is suppressed in %s, and no scan suppresses it", seed, step, name, image.ImageID)
					}
				}
				for _, name := range scans[n] {
					both, stored := slices.Contains(scans[1-n], name), slices.Contains(suppressed, name)
					switch {
					case both && !stored:
						t.Errorf("seed %d, step %d: %s counts in %s, and scans of all images suppress it", seed, step, name, image.ImageID)
					case both:
						inBoth++
					case stored:
						inOne++
					default:
						cautious++
					}
				}
			}
			if t.Failed() {
				for name, contents := range sources {
					t.Logf("%s: %s", name, contents[0].Content)
				}
				t.FailNow()
			}
		}
	}
	if inOne < 100 || inBoth < 100 || cautious == 0 || cautious > inOne {
		t.Errorf("%d suppressed in one image, %d in both, %d that contradictions leave open", inOne, inBoth, cautious)
	}
}

// TestImagesByOtherNames: statements that name images by a tag, an architecture or a repository are not applied, and are counted.
func TestImagesByOtherNames(t *testing.T) {
	t.Parallel()
	s := open(t)
	matched(t, s)
	digest := shops[0].Digest()
	var statements []string
	for _, id := range []string{
		"pkg:oci/shop@" + digest + "?tag=1", "pkg:oci/shop@" + digest + "?arch=amd64", "pkg:oci/shop?repository_url=registry.example/shop", "registry.example/shop:1",
		"pkg:oci/shop@" + digest,
	} {
		statements = append(statements, fmt.Sprintf(`{"vulnerability": {"name": "CVE-2026-3"}, "status": "fixed", "products": [{"@id": %q}]}`, id))
	}
	document := `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [` + strings.Join(statements, ",") + `]}`
	applied, err := vexdecisions.NewApplier(s, clock.RealClock{}, nil).Upload(t.Context(), vexdecisions.Upload{Name: "images", Author: "jane", Content: []byte(document)})
	must(t, err)
	if applied.ImagesOnly != 4 || applied.Matched != 1 || applied.Suppressed != len(packages) {
		t.Errorf("%+v", applied)
	}
}
