package sqlstore

import (
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
