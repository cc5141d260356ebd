package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Events say how many findings a decision matches. Those about decisions of a namespace go to messages of its notification rules, which users of this namespace
// read. A decision can name any package, so a number of all namespaces would tell whether others have it.

// matchesOfRows reads which findings decisions match.
func matchesOfRows(tx *gorm.DB, dialect sqldb.Dialect, rows []decisionRow) (map[int64][]int64, error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	matched := make(map[int64][]int64, len(ids))
	return matched, inParts(ids, func(part []int64) error {
		found := tx.Table("decision_findings AS m").Where("m.decision_pk IN ?", part)
		return eachList(found, dialect, "m.decision_pk", "m.finding_id", func(id int64, list []int64) { matched[id] = list })
	})
}

// countVisibleMatches counts what decisions match, by their IDs: of those of a namespace only findings of packages that images hold which are visible there.
func countVisibleMatches(tx *gorm.DB, dialect sqldb.Dialect, rows []decisionRow, matched map[int64][]int64) (map[int64]int, error) {
	counts, inNamespaces := make(map[int64]int, len(rows)), map[string][]int64{}
	for i := range rows {
		row := &rows[i]
		if row.Namespace == "" {
			counts[row.ID] = len(matched[row.ID])
		} else {
			inNamespaces[row.Namespace] = append(inNamespaces[row.Namespace], matched[row.ID]...)
		}
	}
	held, err := heldIn(tx, dialect, inNamespaces)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		for _, finding := range matched[row.ID] {
			if held[row.Namespace][finding] {
				counts[row.ID]++
			}
		}
	}
	return counts, nil
}

// countBegun counts what decisions match that begin, as countVisibleMatches does.
func countBegun(tx *gorm.DB, dialect sqldb.Dialect, begin []*newDecision) (map[int64]int, error) {
	rows, matched := make([]decisionRow, 0, len(begin)), make(map[int64][]int64, len(begin))
	for _, n := range begin {
		if !n.over {
			rows = append(rows, n.row)
			matched[n.row.ID] = n.findings
		}
	}
	return countVisibleMatches(tx, dialect, rows, matched)
}

// heldIn returns which findings are of packages that images hold which are visible in a namespace, of those that are asked for in each namespace. It reads which images
// hold the packages once for all namespaces, since there may be hundreds.
func heldIn(tx *gorm.DB, dialect sqldb.Dialect, asked map[string][]int64) (map[string]map[int64]bool, error) {
	visible, err := imagesByNamespace(tx, slices.Sorted(maps.Keys(asked)))
	if err != nil {
		return nil, err
	}
	packages, err := packageOfFindings(tx, slices.Concat(slices.Collect(maps.Values(asked))...))
	if err != nil {
		return nil, err
	}
	// Of each package, the findings that are asked for by namespace.
	wanted := map[int64]map[string][]int64{}
	for namespace, findings := range asked {
		for _, finding := range findings {
			id := packages[finding]
			if wanted[id] == nil {
				wanted[id] = map[string][]int64{}
			}
			wanted[id][namespace] = append(wanted[id][namespace], finding)
		}
	}
	held := make(map[string]map[int64]bool, len(asked))
	for namespace := range asked {
		held[namespace] = map[int64]bool{}
	}
	return held, inParts(slices.Sorted(maps.Keys(wanted)), func(part []int64) error {
		rows := tx.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", part)
		return eachList(rows, dialect, "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
			slices.Sort(images)
			for namespace, findings := range wanted[id] {
				if intersect(visible[namespace], images) {
					for _, finding := range findings {
						held[namespace][finding] = true
					}
				}
			}
		})
	})
}

// imagesByNamespace reads the images that are visible in namespaces, in order.
func imagesByNamespace(tx *gorm.DB, namespaces []string) (map[string][]int64, error) {
	visible := make(map[string][]int64, len(namespaces))
	return visible, inParts(namespaces, func(part []string) error {
		rows := tx.Table("image_namespaces AS m").Where("m.namespace IN ?", part).Select("m.namespace, m.image_pk").Order("m.namespace, m.image_pk")
		return eachRow(rows, func(scan func(...any) error) error {
			var namespace string
			var image int64
			err := scan(&namespace, &image)
			visible[namespace] = append(visible[namespace], image)
			return err
		})
	})
}

// intersect reports whether two lists in order have a number in common.
func intersect(a, b []int64) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return slices.ContainsFunc(a, func(n int64) bool { _, found := slices.BinarySearch(b, n); return found })
}

// packageOfFindings reads the package of each finding.
func packageOfFindings(tx *gorm.DB, findings []int64) (map[int64]int64, error) {
	slices.Sort(findings)
	findings = slices.Compact(findings)
	packages := make(map[int64]int64, len(findings))
	return packages, inParts(findings, func(part []int64) error {
		var rows []struct{ ID, PackagePk int64 }
		err := tx.Raw("SELECT f.id, f.package_pk FROM findings f WHERE f.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			packages[row.ID] = row.PackagePk
		}
		return err
	})
}
