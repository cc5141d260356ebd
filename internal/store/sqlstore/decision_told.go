package sqlstore

import (
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
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

// countTold counts what decisions match, by their IDs: of those of a namespace only findings of packages that images hold which are visible there.
func countTold(tx *gorm.DB, rows []decisionRow, matched map[int64][]int64) (map[int64]int, error) {
	counts, inNamespaces := make(map[int64]int, len(rows)), map[string][]int64{}
	for i := range rows {
		row := &rows[i]
		if row.Namespace == "" {
			counts[row.ID] = len(matched[row.ID])
		} else {
			inNamespaces[row.Namespace] = append(inNamespaces[row.Namespace], matched[row.ID]...)
		}
	}
	held := make(map[string]map[int64]bool, len(inNamespaces))
	for namespace, findings := range inNamespaces {
		var err error
		if held[namespace], err = heldIn(tx, namespace, findings); err != nil {
			return nil, err
		}
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

// countBegun counts what decisions match that begin, as countTold does.
func countBegun(tx *gorm.DB, begin []*newDecision) (map[int64]int, error) {
	rows, matched := make([]decisionRow, 0, len(begin)), make(map[int64][]int64, len(begin))
	for _, n := range begin {
		if !n.over {
			rows = append(rows, n.row)
			matched[n.row.ID] = n.findings
		}
	}
	return countTold(tx, rows, matched)
}

// heldIn returns which of these findings are of packages that images hold which are visible in a namespace.
func heldIn(tx *gorm.DB, namespace string, findings []int64) (map[int64]bool, error) {
	slices.Sort(findings)
	held := map[int64]bool{}
	return held, inParts(slices.Compact(findings), func(part []int64) error {
		var found []int64
		err := tx.Table("findings AS f").Where("f.id IN ?", part).
			Where("EXISTS (SELECT 1 FROM image_packages ip WHERE ip.package_pk = f.package_pk AND ip.excluded = 0 AND ip.image_pk IN (?))",
				visibleImages(tx, store.OnlyNamespaces(namespace))).Pluck("f.id", &found).Error
		for _, id := range found {
			held[id] = true
		}
		return err
	})
}
