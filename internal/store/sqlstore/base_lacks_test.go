package sqlstore

import (
	gocmp "cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkLacks expects that the rows of known bases are the packages of the base that images lack which have all of its layers and more.
func checkLacks(t *testing.T, s *Store) {
	t.Helper()
	type layerRow struct {
		ImagePk int64
		ChainID string
	}
	type lackRow struct{ BasePk, ImagePk, PackagePk int64 }
	var layerRows []layerRow
	var heldRows []lack
	var known []int64
	var got, want []lackRow
	for _, query := range []struct {
		statement string
		into      any
	}{
		{"SELECT image_pk, chain_id FROM image_layers ORDER BY image_pk, position", &layerRows},
		{"SELECT image_pk, package_pk FROM image_packages WHERE excluded = 0", &heldRows},
		{"SELECT base_pk FROM known_bases WHERE complete = 1", &known},
		{"SELECT base_pk, image_pk, package_pk FROM base_lacks", &got},
	} {
		if err := s.db.Reader().Raw(query.statement).Scan(query.into).Error; err != nil {
			t.Error(err)
			return
		}
	}
	layers, held := map[int64][]string{}, map[lack]bool{}
	for _, row := range layerRows {
		layers[row.ImagePk] = append(layers[row.ImagePk], row.ChainID)
	}
	for _, row := range heldRows {
		held[row] = true
	}
	for _, base := range known {
		for image, all := range layers {
			if number := len(layers[base]); len(all) <= number || !slices.Equal(all[:number], layers[base]) {
				continue
			}
			for _, row := range heldRows {
				if row.ImagePk == base && !held[lack{image, row.PackagePk}] {
					want = append(want, lackRow{base, image, row.PackagePk})
				}
			}
		}
	}
	for _, rows := range [][]lackRow{got, want} {
		slices.SortFunc(rows, func(a, b lackRow) int {
			return gocmp.Or(gocmp.Compare(a.BasePk, b.BasePk), gocmp.Compare(a.ImagePk, b.ImagePk), gocmp.Compare(a.PackagePk, b.PackagePk))
		})
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("base_lacks (-want +got):\n%s", diff)
	}
}

// TestBaseLacks has images 0 and 1 built on image 2, which holds more packages. What they lack is kept once CompareNewerTags has read it, and follows each change.
func TestBaseLacks(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		s.lackPart = 1
		layered := func(packages int, layers ...string) model.Catalog {
			catalog := fixCatalog(packages)
			for _, layer := range layers {
				catalog.Layers = append(catalog.Layers, fmt.Sprintf("sha256:%064x", layer))
			}
			return catalog
		}
		replace := func(n int, catalog model.Catalog) func() error {
			return func() error { return s.ReplaceCatalog(t.Context(), fixKey(n), "d", catalog) }
		}
		refresh := func() error { return s.RefreshFixes(t.Context()) }
		for n, layers := range [][]string{{"base", "a"}, {"base", "b"}, {"base"}} {
			if err := replace(n, layered(n, layers...))(); err != nil {
				t.Fatal(err)
			}
		}
		withLookups(t, s, fixKey(2), []string{"1.0", "1"}, "1.1")
		matchTag(t, s, "1.1", 1)
		for _, step := range []struct {
			name  string
			write func() error
			// known is how many bases are known after it, rows what images lack then, and lacks what they lack once the base is known again.
			known, rows, lacks int
		}{
			{"the base has a newer tag", func() error { return nil }, 0, 0, 3},
			{"an image has another package", replace(0, layered(1, "base", "a")), 1, 2, 2},
			{"an image has other layers", replace(1, layered(1, "other", "b")), 1, 1, 1},
			{"it has those of the base again", replace(1, layered(1, "base", "b")), 1, 2, 2},
			{"the base has other packages", replace(2, layered(0, "base")), 0, 0, 0},
			{"it has those as before", replace(2, layered(2, "base")), 0, 0, 2},
			{"rows were left behind", func() error {
				leaveBehind(t, s, "UPDATE base_lacks SET package_pk = package_pk + 100")
				return refresh()
			}, 1, 2, 2},
			{"images lack too much", func() error {
				s.lackPart = 4
				return refresh()
			}, 1, 0, 0},
			{"they lack little again", func() error {
				s.lackPart = 1
				return refresh()
			}, 1, 2, 2},
			{"an image is deleted", func() error {
				return s.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), fixKey(0).ImageID)
			}, 1, 1, 1},
			{"nothing has a newer tag", func() error {
				_, err := s.WantTagLookups(t.Context(), "scope", nil)
				leaveBehind(t, s, "DELETE FROM tag_fixes")
				return err
			}, 1, 1, 0},
		} {
			if err := step.write(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			expect := func(known, rows int) {
				t.Helper()
				checkLacks(t, s)
				if got := len(texts(t, s, "SELECT base_pk FROM known_bases")); known >= 0 && got != known {
					t.Errorf("%s: %d bases are known, want %d", step.name, got, known)
				}
				if got := len(texts(t, s, "SELECT package_pk FROM base_lacks")); got != rows {
					t.Errorf("%s: images lack %d packages, want %d", step.name, got, rows)
				}
			}
			expect(step.known, step.rows)
			before, err := s.ListFixes(t.Context(), store.AllNamespaces(), store.FixQuery{Kind: store.FixNewerBase})
			if err != nil {
				t.Fatal(err)
			}
			if more, err := s.CompareNewerTags(t.Context()); err != nil || more {
				t.Fatalf("%s: more is %v, %v", step.name, more, err)
			}
			expect(-1, step.lacks)
			after, err := s.ListFixes(t.Context(), store.AllNamespaces(), store.FixQuery{Kind: store.FixNewerBase})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s: actions before and after it is known what images lack (-before +after):\n%s", step.name, diff)
			}
		}
		if known := texts(t, s, "SELECT base_pk FROM known_bases"); len(known) > 0 {
			t.Errorf("%d bases without a newer tag are known", len(known))
		}
	})
}
