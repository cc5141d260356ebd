package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Fixes implements store.Reader.
func (s *Store) Fixes(ctx context.Context, in store.Namespaces, query store.FixQuery) (store.Fixes, error) {
	const what = "list the updates that close the most findings"
	if err := checkRows(what, query.Limit); err != nil {
		return store.Fixes{}, err
	}
	var fixes store.Fixes
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		fixes = store.Fixes{}
		z, err := s.summarizer(tx, in, query.Ownership, query.Limit)
		if err != nil {
			return err
		}
		if fixes.Packages, err = z.packageFixes(); err != nil {
			return err
		}
		fixes.Images, err = z.imageFixes()
		return err
	})
	return fixes, err
}

// fixable begins a statement about the findings of open for which a fixed version is known.
func (z *summarizer) fixable() *gorm.DB { return z.open().Where("f.fixable = 1") }

// compareCounts orders counts by the worst first.
func compareCounts(a, b *store.Counts) int {
	return cmp.Or(cmp.Compare(b.Critical, a.Critical), cmp.Compare(b.High, a.High), cmp.Compare(b.Medium, a.Medium), cmp.Compare(b.Low, a.Low),
		cmp.Compare(b.Total(), a.Total()))
}

// packageName is a package as an update names it. Several distinct packages have the same one if they differ in what else matching reads.
type packageName struct{ Type, Name, Version string }

func (p packageName) compare(o packageName) int {
	return cmp.Or(strings.Compare(p.Name, o.Name), strings.Compare(p.Type, o.Type), strings.Compare(p.Version, o.Version))
}

// packageFixes sums up the fixable findings of packages.
func (z *summarizer) packageFixes() ([]store.PackageFix, error) {
	var sums []struct {
		PackagePk int64
		Counts    countsRow `gorm:"embedded"`
	}
	if err := z.fixable().Select("ip.package_pk, " + severitySums()).Group("ip.package_pk").Scan(&sums).Error; err != nil {
		return nil, err
	}
	ids := make([]int64, len(sums))
	for i := range sums {
		ids[i] = sums[i].PackagePk
	}
	names := map[int64]packageName{}
	err := inParts(ids, func(part []int64) error {
		var rows []struct {
			ID      int64
			Package packageName `gorm:"embedded"`
		}
		err := z.tx.Raw("SELECT id, type, name, version FROM packages WHERE id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			names[row.ID] = row.Package
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	byName, distinct := map[packageName]*store.PackageFix{}, map[packageName][]int64{}
	for i := range sums {
		name := names[sums[i].PackagePk]
		one := byName[name]
		if one == nil {
			one = &store.PackageFix{Type: name.Type, Name: name.Name, Version: name.Version}
			byName[name] = one
		}
		more := sums[i].Counts.counts()
		one.Closes.SeverityCounts = one.Closes.Plus(more.SeverityCounts)
		one.Closes.KEV += more.KEV
		one.Closes.Fixable += more.Fixable
		distinct[name] = append(distinct[name], sums[i].PackagePk)
	}
	order := slices.SortedFunc(maps.Keys(byName), func(a, b packageName) int {
		return cmp.Or(compareCounts(&byName[a].Closes, &byName[b].Closes), a.compare(b))
	})
	var fixes []store.PackageFix
	for _, name := range order[:min(len(order), z.limit)] {
		one := byName[name]
		if err := z.describe(one, distinct[name]); err != nil {
			return nil, err
		}
		fixes = append(fixes, *one)
	}
	return fixes, nil
}

// describe adds the images that hold some distinct packages with the same name, and the versions that fix their findings.
func (z *summarizer) describe(one *store.PackageFix, packages []int64) error {
	versions, images := map[string]bool{}, map[int64]bool{}
	err := inParts(packages, func(part []int64) error {
		holding := z.tx.Table("findings AS f").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN images i").
			Where("f.package_pk IN ? AND f.fixable = 1 AND ip.package_pk = f.package_pk AND ip.excluded = 0 AND i.id = ip.image_pk AND i.matched_at > 0", part).
			Where(z.view.open(), z.current, z.current).Where("i.id IN (?)", z.uses().Select("u.image_pk")).Distinct("f.fix_versions, i.id")
		return eachRow(holding, func(scan func(...any) error) error {
			var content string
			var image int64
			if err := scan(&content, &image); err != nil {
				return err
			}
			images[image] = true
			var fixed []string
			err := fromJSON(content, &fixed)
			for _, version := range fixed {
				versions[version] = true
			}
			return err
		})
	})
	fixed := slices.Sorted(maps.Keys(versions))
	one.Images, one.Fixes = len(images), fixed[:min(len(fixed), store.MaxReach)]
	return err
}

// imageFixes lists the images with the worst fixable findings.
func (z *summarizer) imageFixes() ([]store.ImageFix, error) {
	var rows []struct {
		ID                int64
		ImageID, Platform string
		Counts            countsRow `gorm:"embedded"`
	}
	sums := z.fixable().Select("i.id, i.image_id, i.platform, " + severitySums()).Group("i.id, i.image_id, i.platform")
	err := z.tx.Table("(?) AS l", sums).Select("l.*").
		Order("l.critical DESC, l.high DESC, l.medium DESC, l.low DESC, l.image_id, l.platform").Limit(z.limit).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	fixes, groups := make([]store.ImageFix, len(rows)), make([][]int64, len(rows))
	for i := range rows {
		key, err := keyOf(rows[i].ImageID, rows[i].Platform)
		if err != nil {
			return nil, err
		}
		fixes[i] = store.ImageFix{Image: key, Closes: rows[i].Counts.counts()}
		groups[i] = []int64{rows[i].ID}
	}
	workloads, err := countWorkloads(z.uses(), groups)
	for i, count := range workloads {
		fixes[i].Workloads = count
	}
	return fixes, err
}
