package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
)

// Where decisions suppress a finding of a package in some of the images that hold it, a switch can change different things in these images. Then
// there is a change for all images in which the same becomes of the vulnerability, and change_images has these images.

// changes finds what the switch changes in packages that images hold, and notes the images. The rows are grouped by package and vulnerability.
func (w *switcher) changes(rows []sideRow, holders map[int64][]int64) ([]change, error) {
	var all []change
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].sameAs(&rows[0]) {
			n++
		}
		group := rows[:n]
		rows = rows[n:]
		images := holders[group[0].PackagePk]
		if len(images) == 0 {
			continue
		}
		if !slices.ContainsFunc(group, func(r sideRow) bool { return r.suppressed != "" }) {
			if c, differs := compareSides(group, w.next.Number); differs {
				c.images, c.holders = len(images), images
				all = append(all, c)
			}
			continue
		}
		variants, err := w.variants(group, images)
		if err != nil {
			return nil, err
		}
		all = append(all, variants...)
	}
	for i := range all {
		for _, image := range all[i].holders {
			w.images[image].published = true
		}
	}
	return all, nil
}

// variants are the changes of one vulnerability of a package, by what images have of it.
func (w *switcher) variants(rows []sideRow, images []int64) ([]change, error) {
	visible := map[string][]int64{} // The images by the rows that count in them.
	for _, image := range images {
		var counting []string
		for i := range rows {
			if !w.suppressed.has(rows[i].suppressed, image) {
				counting = append(counting, strconv.Itoa(i))
			}
		}
		key := strings.Join(counting, ",")
		visible[key] = append(visible[key], image)
	}
	byContent := map[string]*change{}
	for key, seeing := range visible {
		if key == "" {
			continue
		}
		var some []sideRow
		for text := range strings.SplitSeq(key, ",") {
			i, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			some = append(some, rows[i])
		}
		c, differs := compareSides(some, w.next.Number)
		if !differs {
			continue
		}
		before, err := encodeSide(c.before)
		if err != nil {
			return nil, err
		}
		after, err := encodeSide(c.after)
		if err != nil {
			return nil, err
		}
		c.suppressed = suppressedBefore(rows, w.next.Number)
		c.variant = contentDigest(c.vulnerabilityID, c.namespace, strconv.Itoa(c.kind), strconv.FormatBool(c.kev), before, after)
		if known := byContent[c.variant]; known != nil {
			known.holders = append(known.holders, seeing...)
		} else {
			c.holders = seeing
			byContent[c.variant] = &c
		}
	}
	var all []change
	for _, c := range byContent {
		c.images = len(c.holders)
		slices.Sort(c.holders)
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.variant, b.variant) })
	return all, nil
}

// suppressedBefore returns where the findings before a switch are suppressed, nil if one of them is suppressed nowhere.
func suppressedBefore(rows []sideRow, next int64) map[int64]reachSet {
	suppressed := map[int64]reachSet{}
	for i := range rows {
		if row := &rows[i]; row.before(next) {
			if row.suppressed == "" {
				return nil
			}
			suppressed[row.ID] = row.suppressed
		}
	}
	return suppressed
}

// recordVariants notes which images the changes that have a variant are about, and where the findings were suppressed that they closed.
func (w *switcher) recordVariants(changes []change) error {
	recorded := map[string]*change{}
	var packages []int64
	for i := range changes {
		if c := &changes[i]; c.variant != "" {
			recorded[c.place()] = c
			packages = append(packages, c.packageID)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	if w.joined == nil {
		var err error
		if w.joined, err = readJoinedReaches(w.DB); err != nil {
			return err
		}
	}
	slices.Sort(packages)
	return inParts(slices.Compact(packages), func(part []int64) error {
		var rows []changeRow
		err := w.Raw("SELECT id, package_pk, vulnerability_id, namespace, kind, kev, before_side, after_side FROM finding_changes WHERE generation = ? AND package_pk IN ?",
			w.next.Number, part).Scan(&rows).Error
		if err != nil {
			return err
		}
		var variants, places, suppressed []any
		for i := range rows {
			r := &rows[i]
			c := change{packageID: r.PackagePk}
			c.variant = contentDigest(r.VulnerabilityID, r.Namespace, strconv.Itoa(r.Kind), strconv.FormatBool(r.Kev != 0), r.BeforeSide, r.AfterSide)
			of := recorded[c.place()]
			if of == nil {
				continue
			}
			variants = append(variants, r.ID, c.variant)
			for _, image := range of.holders {
				places = append(places, r.ID, image)
			}
			if r.Kind != kindClosed {
				continue
			}
			for _, finding := range slices.Sorted(maps.Keys(of.suppressed)) {
				reaches, err := w.joined.split(of.suppressed[finding])
				if err != nil {
					return err
				}
				for _, reach := range reaches {
					suppressed = append(suppressed, r.ID, finding, reach)
				}
			}
		}
		if err := w.Insert("change_variants", []string{"change_id", "variant"}, variants, ""); err != nil {
			return err
		}
		if err := w.Insert("change_images", []string{"change_id", "image_pk"}, places, ""); err != nil {
			return err
		}
		return w.Insert("closed_suppressions", []string{"change_id", "finding_id", "reach"}, suppressed, "")
	})
}

// place tells the variants of a switch apart.
func (c *change) place() string { return strconv.FormatInt(c.packageID, 10) + " " + c.variant }

// aboutImage is the condition that change c is about the image of ip, which holds the package.
const aboutImage = `(NOT EXISTS (SELECT 1 FROM change_variants cv WHERE cv.change_id = c.id)
	OR EXISTS (SELECT 1 FROM change_images ci WHERE ci.change_id = c.id AND ci.image_pk = ip.image_pk))`

// imagesOfChanges returns the images that changes are about, of those that hold their packages, in the same order.
func imagesOfChanges(tx *gorm.DB, rows []changeRow, holding map[int64][]int64) (map[int64][]int64, error) {
	var variants []int64
	for i := range rows {
		if rows[i].Variant != "" {
			variants = append(variants, rows[i].ID)
		}
	}
	type place struct{ ChangeID, ImagePk int64 }
	about := map[place]bool{}
	err := inParts(variants, func(part []int64) error {
		var places []place
		err := tx.Raw("SELECT change_id, image_pk FROM change_images WHERE change_id IN ?", part).Scan(&places).Error
		for _, one := range places {
			about[one] = true
		}
		return err
	})
	images := make(map[int64][]int64, len(rows))
	for i := range rows {
		id := rows[i].ID
		if images[id] = holding[rows[i].PackagePk]; rows[i].Variant != "" {
			images[id] = slices.DeleteFunc(slices.Clone(images[id]), func(image int64) bool { return !about[place{id, image}] })
		}
	}
	return images, err
}
