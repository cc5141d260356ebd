package sqlstore

import (
	"fmt"

	"gorm.io/gorm"
)

// foundOrSuppressed selects the vulnerabilities that are found in a matched image with their levels, as found_vulnerabilities has them, also those
// whose findings decisions suppress.
func foundOrSuppressed(tx *gorm.DB, current int64) *gorm.DB {
	suppressed := tx.Table("finding_suppressions AS fs").Joins("CROSS JOIN findings f").Joins("CROSS JOIN held_packages hp").
		Where("f.id = fs.finding_id AND "+shown+" AND hp.package_pk = f.package_pk AND hp.level = ?", current, current, heldMatched).
		Select(fmt.Sprintf("f.vulnerability_pk, CASE WHEN f.fixable = 1 THEN %d ELSE 1 END AS level", foundFixable))
	both := tx.Raw("SELECT vulnerability_pk, level FROM found_vulnerabilities UNION ALL ?", suppressed)
	return tx.Table("(?) AS n", both).Select("n.vulnerability_pk, MAX(n.level) AS level").Group("n.vulnerability_pk")
}
