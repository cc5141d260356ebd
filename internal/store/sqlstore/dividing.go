package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// dividing are the reaches because of which findings count in some of the chosen images and not in others. What only other reaches suppress counts in all chosen images
// that hold its package, as if nothing suppressed it: who sees some namespaces reads nothing of the decisions of others.
type dividing struct {
	// all stands for all reaches.
	all bool
	// images has the chosen images of which reaches have all visible places, by reach. These are nil if they are too many.
	images map[int64]map[int64]bool
	many   bool
	// known says that hidden has the findings that are suppressed in all matched chosen images that hold their packages. Otherwise statements ask for them.
	known  bool
	hidden []int64
	// everywhere are the findings that are suppressed in all images, if few says that they are few. Otherwise statements ask for them.
	everywhere []int64
	few        bool
	// findings are those that the reaches suppress, nil if they are many or have not been read. Statements look up each finding then.
	findings []int64
}

// maxDividing is how many images of reaches, and how many findings that these suppress, are read. With more, statements ask about each finding. Tests have fewer.
var maxDividing = 10_000

// dividing reads which reaches divide findings. images are the chosen ones, nil if these are not known.
func (s seen) dividing(tx *gorm.DB, chosen place, images []int64) (dividing, error) {
	some, err := someDivided(tx)
	if err != nil || !some || chosen.everywhere() {
		return dividing{all: some}, err
	}
	d := dividing{images: map[int64]map[int64]bool{}}
	number := 0
	err = eachRow(s.closing(tx, chosen, images).Limit(maxDividing+1), func(scan func(...any) error) error {
		var reach, image int64
		err := scan(&reach, &image)
		if d.images[reach] == nil {
			d.images[reach] = map[int64]bool{}
		}
		d.images[reach][image] = true
		number++
		return err
	})
	if err != nil {
		return dividing{}, err
	}
	if d.many = number > maxDividing; d.many {
		d.images = map[int64]map[int64]bool{}
		var reaches []int64
		err := tx.Table("(?) AS c", s.closing(tx, chosen, images)).Distinct("c.reach").Limit(maxDividing + 1).Scan(&reaches).Error
		for _, reach := range reaches {
			d.images[reach] = nil
		}
		d.all = len(reaches) > maxDividing
		return d, err
	}
	return d, nil
}

// closing selects the chosen images of which reaches have all visible places. images are those that are chosen, nil if these are not known.
func (s seen) closing(tx *gorm.DB, chosen place, images []int64) *gorm.DB {
	rows := tx.Table(s.reached() + " AS x").Select("x.reach, x.image_pk")
	if images != nil {
		return rows.Where("x.image_pk IN (?)", numberList(images))
	}
	return rows.Where("x.image_pk IN (?)", chosen.images(tx))
}

// any reports whether there are any.
func (d dividing) any() bool { return d.all || len(d.images) > 0 }

// has is the condition that a column is one of them.
func (d dividing) has(reach string) string {
	if d.all {
		return reach + " > 0"
	}
	return reach + " IN (" + numberList(slices.Sorted(maps.Keys(d.images))).SQL + ")"
}

// each is has for a condition about each of many rows: MariaDB would look up each reach for each of them.
func (d dividing) each(reach string) string {
	if d.all {
		return d.has(reach)
	}
	return d.has(reach + " + 0")
}

// divides is the condition that one of them suppresses finding f, and nothing suppresses it everywhere.
func (d dividing) divides() string {
	if !d.any() {
		return "1 = 0"
	}
	if d.findings != nil {
		return "f.id IN (" + numberList(d.findings).SQL + ")"
	}
	return "EXISTS (SELECT 1 FROM finding_suppressions fd WHERE fd.finding_id = f.id AND " + d.each("fd.reach") + ")"
}

// readFindings reads the findings that they suppress, if they are few: a list that is about many findings would look up each.
func (d *dividing) readFindings(tx *gorm.DB) error {
	if d.all || !d.any() {
		return nil
	}
	var ids []int64
	err := tx.Table("finding_suppressions AS fs").Where(d.has("fs.reach")).Distinct("fs.finding_id").Limit(maxNamedFindings + 1).Scan(&ids).Error
	if len(ids) <= maxNamedFindings {
		slices.Sort(ids)
		d.findings = ids
	}
	return err
}

// suppressed selects the findings that they suppress, with the columns that lists need: joined with findings for these, MariaDB reads all findings first and asks
// further conditions about each.
func (d dividing) suppressed(tx *gorm.DB) *gorm.DB {
	return tx.Table("finding_suppressions AS fs").Joins("CROSS JOIN findings fd").Where(d.has("fs.reach") + " AND fd.id = fs.finding_id").
		Distinct("fd.id, fd.package_pk, fd.vulnerability_pk, fd.fixable, fd.from_gen, fd.until_gen")
}

// isMatched is the condition that the image of c is matched. Joined with images, PostgreSQL reads all of them.
const isMatched = "(SELECT i.matched_at FROM images i WHERE i.id = c.image_pk) > 0"

// maxNamedFindings is how many findings a statement names, of those that are suppressed in all images, and of those that reaches divide. Tests have fewer.
var maxNamedFindings = 500

// readEverywhere reads the findings that are suppressed in all images, if they are few: asked about each finding, they take a third of the time of a list, also if there are none.
func (d *dividing) readEverywhere(tx *gorm.DB) error {
	var ids []int64
	err := tx.Raw("SELECT fs.finding_id FROM finding_suppressions fs WHERE fs.reach = 0 LIMIT ?", maxNamedFindings+1).Scan(&ids).Error
	if d.few = len(ids) <= maxNamedFindings; d.few {
		d.everywhere = ids
	}
	return err
}

// hide finds out which findings are hidden in the images c that count, with statements that no database plans badly. sets has what the chosen images hold, nil if that is not
// known. matched says that all images c are matched.
func (d *dividing) hide(tx *gorm.DB, dialect sqldb.Dialect, sets *heldSets, images *gorm.DB, matched bool, current int64) error {
	if d.all || d.many || len(d.images) == 0 {
		d.known = !d.all && !d.many
		return nil
	}
	listed := sets != nil && sets.lists != nil
	var counting []int64
	if !listed {
		if err := images.Distinct("c.image_pk").Limit(allUses + 1).Scan(&counting).Error; err != nil || len(counting) > allUses {
			return err
		}
	}
	// Only matched images have counts. PostgreSQL reads all findings for that, and then what holds packages in less time.
	counts, placed := !listed && matched && dialect.Type() != sqldb.TypePostgres, "0"
	if counts {
		placed = "CASE WHEN EXISTS (SELECT 1 FROM placed_reaches q WHERE q.reach = fs.reach) THEN 1 ELSE 0 END"
	}
	type suppression struct{ finding, packagePk, reach, placed int64 }
	var rows []suppression
	number := 0
	// Joined with findings, PostgreSQL reads all of these.
	err := eachRow(tx.Table("finding_suppressions AS fs").Where(d.has("fs.reach")).
		Select("fs.finding_id, COALESCE((SELECT f.package_pk FROM findings f WHERE f.id = fs.finding_id AND "+shown+"), 0), fs.reach, "+placed, current, current).
		Limit(maxDividing+1), func(scan func(...any) error) error {
		var row suppression
		err := scan(&row.finding, &row.packagePk, &row.reach, &row.placed)
		if row.packagePk != 0 && (!listed || sets.counted.has(row.packagePk)) {
			rows = append(rows, row)
		}
		number++
		return err
	})
	if err != nil || number > maxDividing {
		return err
	}
	var held map[int64]bool
	if counts {
		if held, err = d.held(tx, counting); err != nil {
			return err
		}
	}
	reaches, packages := map[int64][]int64{}, map[int64][]int64{} // By finding, and the findings by package.
	for _, row := range rows {
		if row.placed != 0 && held != nil && !held[row.packagePk] {
			continue
		}
		if reaches[row.finding] == nil {
			packages[row.packagePk] = append(packages[row.packagePk], row.finding)
		}
		reaches[row.finding] = append(reaches[row.finding], row.reach)
	}
	// hideIn hides the findings of a package that no image has open of those that hold it.
	hideIn := func(id int64, holding []int64) {
		for _, finding := range packages[id] {
			open := func(image int64) bool {
				return !slices.ContainsFunc(reaches[finding], func(reach int64) bool { return d.images[reach][image] })
			}
			if !slices.ContainsFunc(holding, open) {
				d.hidden = append(d.hidden, finding)
			}
		}
	}
	d.known = true
	if listed {
		holders := sets.holders(maps.Keys(packages))
		for _, id := range slices.Sorted(maps.Keys(holders)) { // So that statements that name what is hidden are the same each time.
			hideIn(id, holders[id])
		}
		return nil
	}
	// The sum keeps databases from looking up each image in each package.
	holders := tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.image_pk + 0 IN (?)", numberList(counting)).Session(&gorm.Session{})
	return inParts(slices.Sorted(maps.Keys(packages)), func(part []int64) error {
		return eachList(holders.Where("ip.package_pk IN ?", part), dialect, "ip.package_pk", "ip.image_pk", hideIn)
	})
}

// held has the packages with findings that reaches with places suppress in images that hold them: few of those that they suppress anywhere.
func (d *dividing) held(tx *gorm.DB, images []int64) (map[int64]bool, error) {
	var ids []int64
	err := tx.Table("reached_counts AS c").Joins("CROSS JOIN finding_suppressions fs").Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").
		Where(d.has("c.reach")+" AND c.image_pk + 0 IN (?) AND fs.reach = c.reach AND f.id = fs.finding_id", numberList(images)).
		Where("ip.image_pk = c.image_pk AND ip.package_pk = f.package_pk AND ip.excluded = 0").Distinct("ip.package_pk").Scan(&ids).Error
	held := make(map[int64]bool, len(ids))
	for _, id := range ids {
		held[id] = true
	}
	return held, err
}
