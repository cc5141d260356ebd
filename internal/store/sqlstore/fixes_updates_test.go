package sqlstore

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestUpdatesOfSomeImages reads the updates of some images image by image, by what the images hold, and package by package.
func TestUpdatesOfSomeImages(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		own := texts(t, s, "SELECT x.package_pk FROM image_fixes x JOIN package_fixes pf ON pf.package_pk = x.package_pk WHERE pf.divided > 0 AND pf.fix_findings > 0")
		if len(own) == 0 {
			t.Fatal("no update has a row of its own beside the one of its package")
		}
		read := func(in store.Namespaces, size int) []store.Fix {
			t.Helper()
			fixes := []store.Fix{}
			query := store.FixQuery{Kind: store.FixUpdate, Page: store.Page{Size: size}}
			for {
				page, err := s.ListFixes(t.Context(), in, query)
				if err != nil {
					t.Fatal(err)
				}
				if fixes = append(fixes, page.Fixes...); page.NextToken == "" {
					return fixes
				}
				query.Token = page.NextToken
			}
		}
		listed := 0
		for excluded := range 3 { // Images exclude packages that others hold.
			err := s.write(t.Context(), "exclude", func(tx *txn) error {
				if err := tx.Execute("UPDATE image_packages SET excluded = CASE WHEN (image_pk + package_pk) % 3 = ? THEN 1 ELSE 0 END", excluded); err != nil {
					return err
				}
				return relistPackages(tx)
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range []store.Namespaces{store.OnlyNamespaces("one", "two"), store.OnlyNamespaces("two"), store.OnlyNamespaces("one")} {
				s.fewUpdates, s.fewVisible = fewUpdates, fewVisible
				want := read(in, store.MaxPageSize)
				listed += len(want)
				for _, bounds := range []struct{ fewVisible, keptNumbers int }{{fewVisible, keptNumbers}, {fewVisible, 0}, {0, keptNumbers}} {
					s.fewUpdates, s.fewVisible, s.keptNumbers = 0, bounds.fewVisible, bounds.keptNumbers
					for _, size := range []int{1, 2, store.MaxPageSize} {
						if diff := cmp.Diff(want, read(in, size)); diff != "" {
							t.Errorf("%v, %+v, pages of %d (-want +got):\n%s", in, bounds, size, diff)
						}
					}
				}
				s.keptNumbers = keptNumbers
			}
		}
		if listed == 0 {
			t.Error("no list has an update")
		}
	})
}

// TestEachPair reads packages in images together, where few others are looked up with them.
func TestEachPair(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same each time.
	for _, number := range []struct{ images, packages, each int }{{0, 0, 0}, {1, 2000, 2000}, {200, 3, 3}, {200, 5000, 10}, {700, 40, 30}} {
		pairs := map[packageInImage]bool{}
		for image := range number.images {
			for range number.each {
				pairs[packageInImage{int64(image), random.Int64N(int64(number.packages))}] = true
			}
		}
		calls, read := 0, map[packageInImage]bool{}
		err := eachPair(slices.Collect(maps.Keys(pairs)), func(images, packages []int64) error {
			if looked := len(images) * len(packages); looked > maxPairLookups && len(images) > 1 {
				t.Errorf("%+v: %d lookups of %d images at a time", number, looked, len(images))
			}
			calls++
			for _, image := range images {
				for _, id := range packages {
					one := packageInImage{image, id}
					if read[one] {
						t.Errorf("%+v: %v is read twice", number, one)
					}
					read[one] = true
				}
			}
			return nil
		})
		maps.DeleteFunc(pairs, func(one packageInImage, _ bool) bool { return read[one] })
		if err != nil || len(pairs) > 0 {
			t.Errorf("%+v: %d are not read, %v", number, len(pairs), err)
		}
		if number.packages == 3 && calls > 2 {
			t.Errorf("%+v: %d calls", number, calls)
		}
	}
}
