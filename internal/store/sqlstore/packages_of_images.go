package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Databases make the list of the packages of some images as a whole before they return a page of it, and once more to count it. Which packages these are is
// read here instead, and a page of them with an index that is in the order of the list.

// imagePackages reads a page of the packages of some images.
type imagePackages struct {
	*packageSearch
	tx    *gorm.DB
	token packageToken
	*heldSets
	// elsewhere are the counts of findings that count in other images only.
	elsewhere map[int64]countsDelta
}

// ofImages reads a page of the packages of the images that the query chooses, if it asks for no more than that; done is false where it does not, or where it
// is faster to have the database make the list.
func (q *packageSearch) ofImages(tx *gorm.DB, token packageToken) (rows []packageEntry, next string, total int, done bool, err error) {
	if q.sets == nil || q.Type != "" || q.Text != "" || q.ids != "" || q.due != nil {
		return nil, "", 0, false, nil
	}
	p := &imagePackages{packageSearch: q, tx: tx, token: token, heldSets: q.sets}
	if p.filters() && (!p.worst() || q.manyHeld == nil) {
		return nil, "", 0, false, nil
	}
	if err := p.readElsewhere(); err != nil {
		return nil, "", 0, false, err
	}
	if rows, done, err = p.page(); err != nil || !done {
		return nil, "", 0, false, err
	}
	if total, err = p.total(); err != nil {
		return nil, "", 0, false, err
	}
	rows, next, err = cutPage(rows, q.Limit(), token, p.keys(), (*packageEntry).value)
	return rows, next, total, true, err
}

// filters reports whether only packages with some findings are in the list.
func (p *imagePackages) filters() bool { return p.Vulnerable || p.MinSeverity > model.SeverityUnknown }

// filter leaves the packages with these findings, by counts of a table.
func (p *imagePackages) filter(packages *gorm.DB, table string) *gorm.DB {
	if !p.filters() {
		return packages
	}
	return packages.Where(orWorse(table+".%[1]s", p.MinSeverity))
}

// total counts the packages of all pages.
func (p *imagePackages) total() (int, error) {
	if !p.filters() {
		return p.held.number, nil
	}
	var total int
	counted := p.tx.Table("held_packages AS h").Where(p.dialect.Among("h.package_pk", p.held.sorted(p.ordered)))
	if err := p.filter(counted, "h").Select("COUNT(*)").Scan(&total).Error; err != nil {
		return 0, err
	}
	return total, inParts(p.fewer(), func(part []int64) error {
		var some int
		err := p.filter(p.withCounts(part, p.left), "l").Select("COUNT(*)").Scan(&some).Error
		total += some
		return err
	})
}

// fewer lists the packages with other counts than in all images.
func (p *imagePackages) fewer() []int64 {
	var fewer []int64
	for id, counts := range p.elsewhere {
		if counts != (countsDelta{}) {
			fewer = append(fewer, id)
		}
	}
	slices.Sort(fewer)
	return fewer
}

// worst reports whether the worst packages come first, and otherwise they are in the order of their names.
func (p *imagePackages) worst() bool { return p.Sort == store.SortPackageSeverity }

// keys is the order of an index.
func (p *imagePackages) keys() []sqldb.SortKey {
	if p.worst() {
		return worstHeld
	}
	return packageSorts[store.SortPackageName]
}

// compare orders as keys does.
func (p *imagePackages) compare(a, b packageEntry) int {
	if p.worst() {
		return cmp.Or(cmp.Compare(b.Counts.Critical, a.Counts.Critical), cmp.Compare(b.Counts.High, a.Counts.High), cmp.Compare(b.Counts.Medium, a.Counts.Medium),
			cmp.Compare(b.Counts.Low, a.Counts.Low), strings.Compare(a.Fingerprint, b.Fingerprint))
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version), strings.Compare(a.Type, b.Type), strings.Compare(a.Fingerprint, b.Fingerprint))
}

// readElsewhere reads the counts of findings that count in other images only.
func (p *imagePackages) readElsewhere() error {
	if !p.divided.any() || p.divided.known && len(p.divided.hidden) == 0 {
		return nil
	}
	var rows []packageCounts
	err := p.suppressed(p.tx).Scan(&rows).Error
	p.elsewhere = make(map[int64]countsDelta, len(rows))
	for i := range rows {
		if p.counted.has(rows[i].PackagePk) {
			p.elsewhere[rows[i].PackagePk] = rows[i].Counts.since(&countsRow{})
		}
	}
	return err
}

// ordered reports whether the place of a package in the order is that in the index. The index by counts has those of all images.
func (p *imagePackages) ordered(id int64) bool {
	return !p.worst() || p.counted.has(id) && p.elsewhere[id] == (countsDelta{})
}

// page reads the entries of a page and the one after it.
func (p *imagePackages) page() (rows []packageEntry, done bool, err error) {
	// The place in the order of packages with other counts than in all images, and of those that count in no image, none, is another one than in the index.
	var fewer []int64
	none := 0
	if p.worst() {
		none, fewer = p.held.number-p.counted.number, p.fewer()
	}
	if p.filters() {
		none = 0
	}
	many := p.s.manyPackages
	if len(fewer)+none > many {
		return nil, false, nil
	}
	if some := p.held.number - len(fewer) - none; some > many {
		if rows, done, err = p.walk(some); err != nil || !done {
			return nil, false, err
		}
	} else if rows, err = p.listed(p.held.sorted(p.ordered), p.left); err != nil {
		return nil, false, err
	}
	lower, err := p.listed(fewer, p.left)
	if err != nil {
		return nil, false, err
	}
	var uncounted []int64
	if none > 0 {
		uncounted = p.held.sorted(func(id int64) bool { return !p.counted.has(id) })
	}
	zeros, err := p.listed(uncounted, func([]int64) string { return perCount("0 AS %[1]s") })
	rows = slices.Concat(rows, lower, zeros)
	slices.SortFunc(rows, p.compare)
	return rows[:min(len(rows), p.Limit()+1)], true, err
}

// stored selects entries from the tables.
func (p *imagePackages) stored(counts string) *gorm.DB {
	return p.tx.Table("held_packages AS h").Joins("JOIN packages p ON p.id = h.package_pk").Select("p.id, p.name, p.version, p.type, p.fingerprint, " + counts)
}

// left are the counts of packages, without those of findings that count in other images only. The numbers are ours, so they stand in the text.
func (p *imagePackages) left(ids []int64) string {
	cases := make([]strings.Builder, len(countColumns))
	for _, id := range ids {
		for column, n := range p.elsewhere[id] {
			if n != 0 {
				fmt.Fprintf(&cases[column], " WHEN %[1]d THEN h.%[2]s - %[3]d", id, countColumns[column], n)
			}
		}
	}
	counts := make([]string, len(countColumns))
	for column, name := range countColumns {
		if counts[column] = "h." + name; cases[column].Len() > 0 {
			counts[column] = "CASE h.package_pk" + cases[column].String() + " ELSE h." + name + " END AS " + name
		}
	}
	return strings.Join(counts, ", ")
}

// withCounts selects entries l of packages.
func (p *imagePackages) withCounts(ids []int64, counts func(ids []int64) string) *gorm.DB {
	return p.tx.Table("(?) AS l", p.stored(counts(ids)).Where("h.package_pk IN ?", ids))
}

// listed reads the first entries of packages.
func (p *imagePackages) listed(ids []int64, counts func(ids []int64) string) (rows []packageEntry, err error) {
	keys := ofTable("l", p.keys())
	err = inParts(ids, func(part []int64) error {
		behind, err := fromToken(p.filter(p.withCounts(part, counts), "l"), p.Token, p.token, keys)
		if err != nil {
			return err
		}
		var found []packageEntry
		err = behind.Select("l.*").Order(sqldb.OrderBy(keys)).Limit(p.Limit() + 1).Scan(&found).Error
		for i := range found {
			if !p.counted.has(found[i].ID) {
				found[i].Counts = countsRow{}
			}
		}
		rows = append(rows, found...)
		return err
	})
	return rows, err
}

// clear takes away the counts of packages that count in no image, and those of findings that count in other images only.
func (p *imagePackages) clear(rows []packageEntry) {
	for i := range rows {
		if !p.counted.has(rows[i].ID) {
			rows[i].Counts = countsRow{}
		}
		rows[i].Counts.add((countsDelta{}).minus(p.elsewhere[rows[i].ID]))
	}
}

// walk reads the packages of all images in order until there are enough among them of these, which are so many. It is not done when that takes longer than to
// read all of these.
func (p *imagePackages) walk(number int) (rows []packageEntry, done bool, err error) {
	keys, limit := p.keys(), p.Limit()+1
	behind, err := fromToken(p.filter(p.stored(perCount("h.%[1]s")), "h"), p.Token, p.token, keys)
	if err != nil {
		return nil, false, err
	}
	for size, looked := 2*limit, 0; ; size = min(2*size, allUses) {
		var found []packageEntry
		if err := behind.Order(sqldb.OrderBy(keys)).Limit(size).Scan(&found).Error; err != nil {
			return nil, false, err
		}
		for i := range found {
			if p.held.has(found[i].ID) && p.ordered(found[i].ID) {
				rows = append(rows, found[i])
			}
		}
		if looked += len(found); len(rows) >= limit || len(found) < size {
			p.clear(rows)
			return rows, true, nil
		}
		if looked > number {
			return nil, false, nil
		}
		last := make([]string, len(keys))
		for i, key := range keys {
			last[i] = found[len(found)-1].value(key.Column)
		}
		condition, values, err := sqldb.After(keys, last)
		if err != nil {
			return nil, false, err
		}
		behind = p.filter(p.stored(perCount("h.%[1]s")), "h").Where(condition, values...)
	}
}
