package sqlstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// fixedIn is a list of fixed versions, a vulnerability, or what the image says, of a package in an image.
type fixedIn struct {
	ImagePk, PackagePk                int64
	FixVersions, VulnerabilityID, Own string
}

// hasVersions reports whether packages of an action are named with fixed versions.
func hasVersions(action int64) bool { return action == fixUpdate || action == fixRebuild }

// name adds to fixes the packages that they name.
func (r *fixReader) name(entries []fixEntry, fixes []store.Fix, named map[fixPlace][]fixPair) error {
	var packages []int64
	var all, updated, fixed []packageInImage
	for place, pairs := range named {
		for i := range pairs {
			one := packageInImage{place.image, pairs[i].PackagePk}
			packages, all = append(packages, one.packageID), append(all, one)
			if place.action == fixUpdate {
				updated = append(updated, one)
			}
			if hasVersions(place.action) {
				fixed = append(fixed, one)
			}
		}
	}
	held := map[int64]packageRow{}
	err := inParts(distinctIDs(packages), func(part []int64) error {
		var rows []storedPackageRow
		err := r.tx.Raw("SELECT p.id, "+distinctColumns+" FROM packages p WHERE p.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			held[row.ID] = row.Package
		}
		return err
	})
	if err != nil {
		return err
	}
	own := map[[2]int64]string{}
	err = eachPair(all, func(images, packages []int64) error {
		var rows []fixedIn
		err := r.tx.Raw("SELECT image_pk, package_pk, own FROM image_packages WHERE image_pk IN ? AND package_pk IN ? AND own <> ''", images, packages).Scan(&rows).Error
		for _, row := range rows {
			own[[2]int64{row.ImagePk, row.PackagePk}] = row.Own
		}
		return err
	})
	if err != nil {
		return err
	}
	versions, err := r.versions(fixed)
	if err != nil {
		return err
	}
	vulnerabilities, err := r.worst(updated)
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i].Fix
		for _, pair := range named[fixPlace{e.ImagePk, e.Action, e.PackagePk}] {
			row, key := held[pair.PackagePk], [2]int64{e.ImagePk, pair.PackagePk}
			row.Own = own[key]
			p, err := row.held()
			if err != nil {
				return err
			}
			one := store.FixPackage{Package: p.Package, Counts: pair.Counts.counts(), Risk: float64(pair.RiskMicros) / 1e6}
			if hasVersions(e.Action) {
				one.Versions = versions[key]
			}
			if e.Action == fixUpdate {
				one.Vulnerabilities = vulnerabilities[key]
			}
			fixes[i].Packages = append(fixes[i].Packages, one)
		}
	}
	return nil
}

// eachPartOfBoth calls read for parts of images and of packages.
func eachPartOfBoth(images, packages []int64, read func(images, packages []int64) error) error {
	for part := range slices.Chunk(packages, sqldb.MaxIn) {
		if err := inParts(images, func(some []int64) error { return read(some, part) }); err != nil {
			return err
		}
	}
	return nil
}

// maxPairLookups bounds the images times the packages of a call of eachPair that has several images.
const maxPairLookups = 1000

// eachPair calls read with lists of images and of packages, so that each pair of an image and a package is in exactly one call. A call can have pairs that nobody asked for. Images that
// are asked about in the same packages are read together.
func eachPair(pairs []packageInImage, read func(images, packages []int64) error) error {
	asked := map[int64][]int64{}
	for _, one := range pairs {
		asked[one.image] = append(asked[one.image], one.packageID)
	}
	for image, packages := range asked {
		asked[image] = distinctIDs(packages)
	}
	order := slices.SortedFunc(maps.Keys(asked), func(a, b int64) int { return cmp.Or(slices.Compare(asked[a], asked[b]), cmp.Compare(a, b)) })
	for start := 0; start < len(order); {
		end, packages := start, []int64(nil)
		for ; end < len(order); end++ {
			more := distinctIDs(slices.Concat(packages, asked[order[end]]))
			if end > start && len(more)*(end-start+1) > maxPairLookups {
				break
			}
			packages = more
		}
		images := slices.Sorted(slices.Values(order[start:end]))
		if err := eachPartOfBoth(images, packages, read); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// fixable selects the fixable findings f of packages in images.
func (r *fixReader) fixable(images, packages []int64) *gorm.DB {
	return r.openFindings(images).Where("ip.package_pk IN ? AND f.fixable = 1", packages)
}

// versions reads the lists of fixed versions of packages in images, and of others, each list once and in an order.
func (r *fixReader) versions(pairs []packageInImage) (map[[2]int64][][]string, error) {
	versions := map[[2]int64][][]string{}
	err := eachPair(pairs, func(images, packages []int64) error {
		var rows []fixedIn
		err := r.fixable(images, packages).Distinct("ip.image_pk, ip.package_pk, f.fix_versions").Scan(&rows).Error
		slices.SortFunc(rows, func(a, b fixedIn) int { return cmp.Compare(a.FixVersions, b.FixVersions) })
		for _, row := range rows {
			var list []string
			if err := fromJSON(row.FixVersions, &list); err != nil {
				return fmt.Errorf("fixed versions of package %d in the database: %w", row.PackagePk, err)
			}
			key := [2]int64{row.ImagePk, row.PackagePk}
			versions[key] = append(versions[key], list)
		}
		return err
	})
	return versions, err
}

// worst reads the worst vulnerabilities of packages in images, and of others, that have a fix, each once.
func (r *fixReader) worst(pairs []packageInImage) (map[[2]int64][]string, error) {
	worst := map[[2]int64][]string{}
	err := eachPair(pairs, func(images, packages []int64) error {
		found := r.fixable(images, packages).Group("ip.image_pk, ip.package_pk, v.vulnerability_id").
			Select("ip.image_pk, ip.package_pk, v.vulnerability_id, MAX(v.severity) AS severity, MAX(v.kev) AS kev, MAX(v.risk_micros) AS risk")
		numbered := r.tx.Table("(?) AS g", found).Select("g.*, ROW_NUMBER() OVER (PARTITION BY g.image_pk, g.package_pk " +
			"ORDER BY g.severity DESC, g.kev DESC, g.risk DESC, g.vulnerability_id) AS place")
		var rows []fixedIn
		err := r.tx.Table("(?) AS n", numbered).Select("n.image_pk, n.package_pk, n.vulnerability_id").Where("n.place <= ?", store.MaxFixVulnerabilities).
			Order("n.place").Scan(&rows).Error
		for _, row := range rows {
			key := [2]int64{row.ImagePk, row.PackagePk}
			worst[key] = append(worst[key], row.VulnerabilityID)
		}
		return err
	})
	return worst, err
}
