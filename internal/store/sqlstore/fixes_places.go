package sqlstore

import "gorm.io/gorm"

// What the fixes of some workloads, or of who sees some namespaces, count by decisions with places.

// placed reports whether findings can count elsewhere only.
func (r *fixReader) placed() bool { return r.view.placed || r.narrowed }

// closed selects the images with findings that can count elsewhere only.
func (r *fixReader) closed() *gorm.DB {
	if r.narrowed {
		return r.tx.Table("(?) AS y", closedIn(r.tx, r.uses())).Select("y.image_pk")
	}
	if r.view.closedHere != nil {
		return r.tx.Table("(" + r.view.closed() + ") AS y").Select("y.image_pk")
	}
	return r.tx.Table("reached_namespaces AS y").Where(isWithin("y.namespace", r.chosen.in)).Select("y.image_pk")
}

// uses selects the uses u of images that the query chooses.
func (r *fixReader) uses() *gorm.DB { return uses(r.tx.Table("image_uses AS u"), r.chosen) }

// hide keeps the rows of images ip in which a finding, given by a column, does not count for who asks.
func (r *fixReader) hide(rows *gorm.DB, finding string) *gorm.DB {
	if !r.narrowed {
		return r.view.hide(rows, finding)
	}
	condition, open := suppressedAmong(r.uses(), finding, "ip.image_pk")
	return rows.Where("("+r.view.suppressedThere(finding)+" OR "+condition+")", open)
}
