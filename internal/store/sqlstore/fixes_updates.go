package sqlstore

import (
	"maps"
	"slices"
)

// updateHolders are which of the listed images hold packages.
type updateHolders struct {
	r *fixReader
	// sets is what the images hold, and among its packages in order; nil of too many images.
	sets  *heldSets
	among []int64
	// elsewhere are the images of all that are not listed, if there are too many.
	elsewhere map[int64]bool
}

// updateHolders reads what the listed images hold, unless these are too many.
func (r *fixReader) updateHolders() (*updateHolders, error) {
	h := &updateHolders{r: r, elsewhere: map[int64]bool{}}
	if r.among != nil && len(r.among) <= r.s.fewVisible {
		sets, err := r.s.readHeld(r.tx, slices.Sorted(maps.Keys(r.among)), func(int64) bool { return true })
		if err != nil {
			return nil, err
		}
		h.sets, h.among = sets, slices.Concat([]int64{}, sets.counted.sorted(nil))
		return h, nil
	}
	var idle []int64
	err := r.tx.Raw("SELECT i.id FROM images i WHERE i.matched_at = 0 OR NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)").Scan(&idle).Error
	for _, id := range slices.Concat(r.live, idle) {
		h.elsewhere[id] = true
	}
	return h, err
}

// of lists which of the images hold packages whose updates have no rows of their own there.
func (h *updateHolders) of(packages []packageFix) (map[int64][]int64, error) {
	ids, divided := make([]int64, len(packages)), []int64{}
	for i := range packages {
		ids[i] = packages[i].PackagePk
		if packages[i].Divided != 0 {
			divided = append(divided, ids[i])
		}
	}
	if h.sets == nil || h.sets.lists == nil {
		holders := make(map[int64][]int64, len(packages))
		query := h.r.tx.Table("package_fixes AS pf").Joins("CROSS JOIN image_packages ip").
			Where("pf.package_pk IN ? AND ip.package_pk = pf.package_pk AND ip.excluded = 0 AND "+noOwnFix, ids)
		return holders, eachList(query, h.r.s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
			holders[id] = slices.DeleteFunc(list, func(image int64) bool { return h.elsewhere[image] || h.r.among != nil && !h.r.among[image] })
		})
	}
	holders := h.sets.holders(slices.Values(ids))
	return holders, h.leaveOut(holders, divided)
}

// leaveOut removes images in which the updates of packages have rows of their own.
func (h *updateHolders) leaveOut(holders map[int64][]int64, packages []int64) error {
	var images []int64
	for _, id := range packages {
		images = append(images, holders[id]...)
	}
	if len(images) == 0 {
		return nil
	}
	own := map[heldPackage]bool{}
	err := inParts(distinctIDs(images), func(part []int64) error {
		rows := h.r.tx.Table("image_fixes AS x").Where("x.image_pk IN ? AND x.action = ? AND x.package_pk IN ?", part, fixUpdate, packages)
		return eachRow(rows.Select("x.package_pk, x.image_pk"), func(scan func(...any) error) error {
			var one heldPackage
			err := scan(&one.packagePk, &one.imagePk)
			own[one] = true
			return err
		})
	})
	for _, id := range packages {
		holders[id] = slices.DeleteFunc(holders[id], func(image int64) bool { return own[heldPackage{id, image}] })
	}
	return err
}
