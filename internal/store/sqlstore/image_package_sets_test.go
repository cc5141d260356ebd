package sqlstore

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// checkPackageSets expects that image_package_sets has all images and what image_packages says of them.
func checkPackageSets(t *testing.T, s *Store) {
	t.Helper()
	var rows []struct{ ImagePk, One int64 }
	if err := s.db.Reader().Raw("SELECT ip.image_pk, " + packageAndExcluded + " AS one FROM image_packages ip ORDER BY 1, 2").Scan(&rows).Error; err != nil {
		t.Error(err)
	}
	want, got := map[int64][]int64{}, map[int64][]int64{}
	for _, row := range rows {
		want[row.ImagePk] = append(want[row.ImagePk], row.One)
	}
	var sets []struct {
		ImagePk  int64
		Packages []byte
	}
	if err := s.db.Reader().Raw("SELECT image_pk, packages FROM image_package_sets").Scan(&sets).Error; err != nil {
		t.Error(err)
	}
	for _, set := range sets {
		numbers, err := unpackNumbers(nil, set.Packages)
		if err != nil {
			t.Errorf("image %d: %v", set.ImagePk, err)
		}
		got[set.ImagePk] = numbers
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("image_package_sets (-want +got):\n%s", diff)
	}
}

// TestPackageSets reads what images hold with sets, and without one that a process of an earlier version has not written.
func TestPackageSets(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		read := func() map[int64][]int64 {
			held := map[int64][]int64{}
			images := []int64{1, 2, 3, 1000}
			err := eachPackageList(s.db.Reader(), s.db.Dialect(), images, func(image int64, list []int64) { held[image] = slices.Sorted(slices.Values(list)) })
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		before := read()
		if len(before) != 3 || len(before[1]) == 0 {
			t.Fatalf("got %v; want what 3 images hold", before)
		}
		// This is what such a process does.
		leaveBehind(t, s, "CREATE TABLE kept AS SELECT * FROM image_packages WHERE image_pk = 1", "DELETE FROM image_packages WHERE image_pk = 1")
		if sets := texts(t, s, "SELECT image_pk FROM image_package_sets WHERE image_pk = 1"); len(sets) > 0 {
			t.Errorf("the set of an image is still there without its packages")
		}
		leaveBehind(t, s, "INSERT INTO image_packages SELECT * FROM kept", "DROP TABLE kept")
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Errorf("without a set (-want +got):\n%s", diff)
		}
	})
}

// TestAmong chooses rows whose column is one of some numbers, as lists of vulnerabilities of some namespaces do with many packages.
func TestAmong(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		var all []int64
		for n := range int64(40) {
			all = append(all, n+1)
		}
		numbers := s.db.Reader().Raw("WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT s.n + 1 FROM s WHERE s.n < 40) SELECT s.n FROM s")
		for _, list := range [][]int64{
			nil, {1}, {1, 2}, {2, 3, 1_000_007}, {2, 3, 5_000_000}, {1, 8, 9, 16, 17, 40}, {1, 2, 7, 8, 16}, // The bits of a character of two bytes.
			{7, 15, 23, 31, 39}, {3, 5, 6, 7, 8, 10, 33, 38}, {40, 41}, {41, 1000}, all,
		} {
			got, want := []int64{}, []int64{}
			for _, n := range list {
				if n <= 40 {
					want = append(want, n)
				}
			}
			err := s.db.Reader().Table("(?) AS l", numbers).Where(s.db.Dialect().Among("l.n", list)).Order("l.n").Pluck("l.n", &got).Error
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("among %v: got %v, %v", list, got, err)
			}
		}
		// Package 1 alone has this one.
		in := store.OnlyNamespaces("one")
		if err := s.db.Writer().Exec("DELETE FROM findings WHERE package_pk <> 1 AND vulnerability_pk = (SELECT v.id FROM vulnerabilities v WHERE v.vulnerability_id = 'CVE-0')").Error; err != nil {
			t.Fatal(err)
		}
		var pages [2]store.VulnerabilityPage
		for i, many := range []int{0, sqldb.MaxIn} {
			var err error
			s.manyPackages = many
			if pages[i], err = s.ListVulnerabilities(t.Context(), in, store.VulnerabilityQuery{}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(pages[1], pages[0]); diff != "" || pages[0].Total == 0 {
			t.Errorf("%d vulnerabilities by a list of packages, and by each of them (-want +got):\n%s", pages[0].Total, diff)
		}
	})
}

// TestPlacesOfUnmatchedImages lists the packages of an image in its only place, where a decision suppresses a finding, before and after it is matched.
func TestPlacesOfUnmatchedImages(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		if _, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(3)}); err != nil {
			t.Fatal(err)
		}
		if err := s.RecordUses(t.Context(), "elsewhere", []store.Use{fixUse(3, "one")}); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveSBOM(t.Context(), fixKey(3), store.SBOM{SHA256: "3", Size: 1}, fixCatalog(1)); err != nil {
			t.Fatal(err)
		}
		list := func() []store.PackageSummary {
			page, err := s.ListPackages(t.Context(), store.AllNamespaces(), store.PackageQuery{ImageID: fixKey(3).ImageID, Where: store.Where{Namespace: "one"}})
			if err != nil || len(page.Packages) != 2 {
				t.Fatalf("got %d packages, %v; want 2", len(page.Packages), err)
			}
			return page.Packages
		}
		before := list()
		if err := storetest.Match(t.Context(), s, fixKey(3), "3", fixFindings()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list(), before, cmpopts.IgnoreFields(store.PackageSummary{}, "Images")); diff != "" {
			t.Errorf("before it is matched (-want +got):\n%s", diff)
		}
	})
}

// TestNumberSet adds numbers to a set, and to a map.
func TestNumberSet(t *testing.T) {
	var set numberSet
	want := map[int64]bool{}
	for _, n := range []int64{0, 1, 63, 64, 511, 512, 513, 100_000, 1 << 60, 64, 0, 99_999, 1<<60 + 1} {
		if set.has(n) != want[n] {
			t.Errorf("it has %d: %v, before that was added as often as it says", n, set.has(n))
		}
		set.add(n)
		if want[n] = true; !set.has(n) || set.number != len(want) {
			t.Errorf("with %d it has %d numbers, want %d", n, set.number, len(want))
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), set.sorted(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := set.sorted(func(n int64) bool { return n%2 == 1 && n < 1000 }); !slices.Equal(got, []int64{1, 63, 511, 513}) {
		t.Errorf("odd ones below 1000: %v", got)
	}
	if set.has(2) || set.has(1<<50) {
		t.Error("it has a number that was not added")
	}
	var near numberSet // Its numbers are close enough to each other for a row.
	for _, n := range []int64{700, 1300, 1301, 5000} {
		near.add(n)
	}
	for _, s := range []*numberSet{{}, &near, &set} {
		s.arrange()
		for place, n := range s.sorted(nil) {
			if got, found := s.find(n); got != place || !found {
				t.Errorf("%d numbers are less than %d, found %v, want %d", got, n, found, place)
			}
		}
		for _, n := range []int64{2, 510, 701, 2000, 5001, 6000, 1 << 50} {
			if _, found := s.find(n); found {
				t.Errorf("it finds %d, which was not added", n)
			}
		}
	}
	if near.row == nil || set.row != nil {
		t.Errorf("rows of %d blocks and of %d, want some and none", len(near.row), len(set.row))
	}
}

// TestPackedNumbers encodes numbers and reads them again, and refuses what is cut off or has numbers that are too great.
func TestPackedNumbers(t *testing.T) {
	for _, list := range [][]int64{nil, {0}, {7}, {0, 1, 2, 3}, {2, 128, 129, 300, 20_000, 20_000_000}, {math.MaxInt64 - 1, math.MaxInt64}} {
		packed := packNumbers(list)
		got, err := unpackNumbers(nil, packed)
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("%v: got %v, %v", list, got, err)
		}
		if appended, err := unpackNumbers([]int64{5}, packed); err != nil || !slices.Equal(appended, append([]int64{5}, list...)) {
			t.Errorf("%v behind 5: got %v, %v", list, appended, err)
		}
	}
	for _, packed := range [][]byte{{0x80}, {1, 0xff}, packNumbers([]int64{math.MaxInt64})[:8], append(packNumbers([]int64{math.MaxInt64}), 1), bytes.Repeat([]byte{0xff}, 11)} {
		if list, err := unpackNumbers(nil, packed); err == nil {
			t.Errorf("%x: got %v; want an error", packed, list)
		}
	}
}

// TestEachHeld asks which images hold packages and do not exclude them: a few images, and all that hold them.
func TestEachHeld(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		if _, err := s.WantImages(t.Context(), []model.ImageKey{fixKey(3)}); err != nil {
			t.Fatal(err)
		}
		catalog := fixCatalog(2)
		catalog.Packages[1].Excluded = true
		if err := scanFixes(t.Context(), s, 3, "d", catalog); err != nil {
			t.Fatal(err)
		}
		var rows []struct{ ImagePk, PackagePk, Excluded int64 }
		if err := s.db.Reader().Raw("SELECT image_pk, package_pk, excluded FROM image_packages").Scan(&rows).Error; err != nil {
			t.Fatal(err)
		}
		images, packages, excluded := []int64{}, []int64{}, 0
		want := map[packageInImage]bool{}
		for _, row := range rows {
			images, packages = append(images, row.ImagePk), append(packages, row.PackagePk)
			if excluded += int(row.Excluded); row.Excluded == 0 {
				want[packageInImage{row.ImagePk, row.PackagePk}] = true
			}
		}
		if excluded == 0 {
			t.Fatal("no image excludes a package")
		}
		for _, few := range []int{0, fewImages} {
			got := map[packageInImage]bool{}
			err := eachHeld(s.db.Reader(), s.db.Dialect(), few, distinctIDs(images), distinctIDs(packages), func(id int64, holders []int64) {
				for _, image := range holders {
					got[packageInImage{image, id}] = true
				}
			})
			if err != nil || !maps.Equal(got, want) {
				t.Errorf("%d are a few: got %v, %v; want %v", few, got, err, want)
			}
		}
	})
}
