package sqlstore

import (
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// tagClosed sums up the findings of a package that count and that a newer tag closes.
type tagClosed struct {
	risk, kev, findings int64
	counts              countsDelta
}

// add counts a finding as often as times says.
func (c *tagClosed) add(f *closedFinding, times int64) {
	c.risk, c.kev, c.findings = c.risk+times*f.RiskMicros, c.kev+times*f.Kev, c.findings+times
	c.counts.add(f.Severity, f.Kev, f.Fixable, int(times))
}

// closedFinding is a finding that a newer tag closes. It is divided if it is suppressed in some images only.
type closedFinding struct {
	ID, PackagePk, Fixable, Severity, Kev, RiskMicros, Divided int64
}

// closedTags is of how many newer tags at a time it is read what they close.
const closedTags = 200

// hiding keeps the rows of images ip in which a finding, given by a column, does not count.
type hiding func(rows *gorm.DB, finding string) *gorm.DB

// closings is what newer tags close: the findings of each row of tag_fixes, and what they are unless they are suppressed everywhere. Those that are suppressed in
// some images only are divided.
type closings struct {
	lists    map[int64][]int64
	findings map[int64]*closedFinding
	divided  []int64
}

// readClosings reads what some rows of tag_fixes close. The tags of a fleet close the same findings in many images, so that each is read once.
func readClosings(tx *gorm.DB, d sqldb.Dialect, current int64, fixes []int64) (found closings, err error) {
	found.lists = make(map[int64][]int64, len(fixes))
	var ids []int64
	err = eachList(tx.Table("tag_closings AS c").Where("c.fix_pk IN ?", fixes), d, "c.fix_pk", "c.finding_id", func(fix int64, list []int64) {
		found.lists[fix] = list
		ids = append(ids, list...)
	})
	if err != nil {
		return found, err
	}
	found.findings, found.divided, err = readClosed(tx, current, distinctIDs(ids))
	return found, err
}

// sums adds up by package what a row of tag_fixes closes, without some findings.
func (c *closings) sums(fix int64, hidden map[[2]int64]bool) map[int64]*tagClosed {
	closed := map[int64]*tagClosed{}
	for _, id := range c.lists[fix] {
		f := c.findings[id]
		if f == nil || hidden[[2]int64{fix, id}] {
			continue
		}
		sums := closed[f.PackagePk]
		if sums == nil {
			sums = &tagClosed{}
			closed[f.PackagePk] = sums
		}
		sums.add(f, 1)
	}
	return closed
}

// eachClosed calls visit for each of some rows of tag_fixes that closes a finding which counts, with the sums of each package. hide says which do not.
func eachClosed(tx *gorm.DB, d sqldb.Dialect, hide hiding, current int64, fixes []int64, visit func(fix int64, closed map[int64]*tagClosed)) error {
	for part := range slices.Chunk(fixes, closedTags) {
		found, err := readClosings(tx, d, current, part)
		if err != nil {
			return err
		}
		hidden, err := hiddenClosings(tx, hide, part, found.divided)
		if err != nil {
			return err
		}
		for _, fix := range part {
			if closed := found.sums(fix, hidden); len(closed) > 0 {
				visit(fix, closed)
			}
		}
	}
	return nil
}

// readClosed reads findings that are not suppressed everywhere, and lists those that are divided.
func readClosed(tx *gorm.DB, current int64, ids []int64) (findings map[int64]*closedFinding, divided []int64, err error) {
	findings = make(map[int64]*closedFinding, len(ids))
	err = inParts(ids, func(part []int64) error {
		var rows []closedFinding
		err := tx.Raw(`SELECT f.id, f.package_pk, f.fixable, v.severity, v.kev, v.risk_micros, CASE WHEN `+isDivided+` THEN 1 ELSE 0 END AS divided
			FROM findings f CROSS JOIN vulnerabilities v WHERE f.id IN ? AND v.id = f.vulnerability_pk AND `+shown+" AND "+unsuppressed, part, current, current).Scan(&rows).Error
		for i := range rows {
			findings[rows[i].ID] = &rows[i]
			if rows[i].Divided != 0 {
				divided = append(divided, rows[i].ID)
			}
		}
		return err
	})
	return findings, divided, err
}

// hiddenClosings reads which divided findings are suppressed in the images of newer tags that close them.
func hiddenClosings(tx *gorm.DB, hide hiding, fixes, divided []int64) (map[[2]int64]bool, error) {
	hidden := map[[2]int64]bool{}
	err := inParts(divided, func(part []int64) error {
		var rows []struct{ FixPk, FindingID int64 }
		closings := tx.Table("tag_fixes AS ip").Joins("CROSS JOIN tag_closings c").Where("ip.id IN ? AND c.fix_pk = ip.id AND c.finding_id IN ?", fixes, part)
		err := hide(closings, "c.finding_id").Select("c.fix_pk, c.finding_id").Scan(&rows).Error
		for _, row := range rows {
			hidden[[2]int64{row.FixPk, row.FindingID}] = true
		}
		return err
	})
	return hidden, err
}
