package sqlstore

import (
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// overdueImages is of how many images at a time it is read which findings are overdue. Each time, all decisions about some images are read.
const overdueImages = 4 * sqldb.MaxIn

// liveEntries computes the entries of a page that are of live images, and the one after it, and counts those of all pages. There may be a million.
func (r *fixReader) liveEntries() (entries []fixEntry, total int, err error) {
	for images := range slices.Chunk(r.live, overdueImages) {
		var overdue map[fixPlace]int
		if r.query.Overdue {
			if overdue, err = r.overdue(images, nil); err != nil {
				return nil, 0, err
			}
		}
		err = inParts(images, func(part []int64) error {
			found, err := r.liveEntriesOf(part, overdue)
			total += len(found)
			entries = r.first(append(entries, r.behind(found)...))
			return err
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return entries, total, nil
}

// liveEntriesOf computes the entries of some images. overdue counts the findings of each whose date has passed.
func (r *fixReader) liveEntriesOf(images []int64, overdue map[fixPlace]int) ([]fixEntry, error) {
	var found []fixEntry
	grouped := r.openFindings(images).Group("ip.image_pk, action, ip.package_pk, p.fingerprint").
		Select("ip.image_pk, " + fixActionOf + " AS action, ip.package_pk, p.fingerprint, SUM(v.risk_micros) AS risk_micros, SUM(v.kev) AS kev, COUNT(*) AS findings")
	err := r.tx.Table("(?) AS g", grouped).Joins("JOIN images i ON i.id = g.image_pk AND i.matched_at > 0").
		Select("g.*, i.image_id, i.platform").Scan(&found).Error
	found = slices.DeleteFunc(join(found), func(e fixEntry) bool {
		return !r.keeps(e.Fix.Action, e.Fix.Kev) || r.query.Overdue && overdue[e.place()] == 0
	})
	for i := range found {
		found[i].Overdue = overdue[found[i].place()]
	}
	return found, err
}

// fixPlace identifies a fix. The package is 0 for an image as a whole, and of a newer tag, of the image or of its base, it is the row of tag_fixes.
type fixPlace struct{ image, action, packageID int64 }

func (r *fixEntry) place() fixPlace { return fixPlace{r.Fix.ImagePk, r.Fix.Action, r.Fix.PackagePk} }

// join makes one entry of those of the packages of an image that one fix is for.
func join(found []fixEntry) []fixEntry {
	var entries []fixEntry
	whole := map[fixPlace]int{}
	for _, entry := range found {
		fix := &entry.Fix
		if fix.Action == fixUpdate {
			entries = append(entries, entry)
			continue
		}
		fix.PackagePk, fix.Fingerprint = 0, ""
		if fix.Action == fixWait {
			fix.Waits = 1
		}
		place := fixPlace{fix.ImagePk, fix.Action, 0}
		if i, known := whole[place]; known {
			sum := &entries[i].Fix
			sum.RiskMicros += fix.RiskMicros
			sum.Kev += fix.Kev
			sum.Findings += fix.Findings
			continue
		}
		whole[place] = len(entries)
		entries = append(entries, entry)
	}
	return entries
}
