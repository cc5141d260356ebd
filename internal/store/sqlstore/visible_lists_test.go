package sqlstore

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestListsOfSomeNamespaces reads lists in all ways that there are: with sets of packages and by looking each up, with what visible images hold and by asking. An image
// excludes a package, and findings are suppressed in one namespace.
func TestListsOfSomeNamespaces(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		err := s.write(t.Context(), "exclude", func(tx *txn) error {
			var own int64 // The image is the only one in the namespace two.
			err := tx.Raw("SELECT MAX(package_pk) FROM image_packages WHERE image_pk = 3 AND package_pk IN (SELECT package_pk FROM findings)").Scan(&own).Error
			if err != nil {
				return err
			}
			if err := tx.Execute("DELETE FROM image_package_sets"); err != nil {
				return err
			}
			return tx.Execute("UPDATE image_packages SET excluded = 1 WHERE image_pk = 3 AND package_pk = ?", own)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []store.Namespaces{store.OnlyNamespaces("one"), store.OnlyNamespaces("two"), store.OnlyNamespaces("one", "two")} {
			for _, images := range []store.ImageQuery{{}, {Text: "image-2"}, {States: []store.State{store.StateFailed}}, {MinSeverity: model.SeverityCritical}, {Sort: store.SortSeverity}} {
				page, err := s.ListImages(t.Context(), in, images)
				if err != nil || page.Total != len(page.Images) {
					t.Errorf("%+v: %d images, total %d, %v", images, len(page.Images), page.Total, err)
				}
			}
			reads := map[string]func() (any, error){
				"vulnerabilities": func() (any, error) { return s.ListVulnerabilities(t.Context(), in, store.VulnerabilityQuery{}) },
				"suppressed": func() (any, error) {
					return s.ListVulnerabilities(t.Context(), in, store.VulnerabilityQuery{Suppressed: true})
				},
			}
			for _, query := range []store.PackageQuery{{}, {Vulnerable: true}, {MinSeverity: model.SeverityHigh}, {Text: "1"}, {Type: "deb"}, {ImageID: fixKey(2).ImageID, Vulnerable: true}} {
				for _, query.Sort = range []store.PackageSort{store.SortPackageName, store.SortPackageSeverity} {
					reads[fmt.Sprintf("packages %+v", query)] = func() (any, error) { return s.ListPackages(t.Context(), in, query) }
				}
			}
			for name, read := range reads {
				var want any
				for i, way := range []struct{ keptNumbers, manyPackages, fewChosen int }{{0, 1000, 1000}, {1000, 1000, 0}, {1000, 1, 0}, {0, 1, 0}} {
					s.keptNumbers, s.manyPackages, s.fewChosen = way.keptNumbers, way.manyPackages, way.fewChosen
					got, err := read()
					if err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						want = got
					} else if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s in %v, way %d (-want +got):\n%s", name, in, i, diff)
					}
				}
			}
		}
	})
}
