package sqlstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Joined with what all images that run hold, each finding would be looked at once for each image. What changed is read here from the packages that these images
// hold, as a set with a bit for each package, and from the findings of packages, each once. Kept are two numbers for each image, these sets, what is
// known of each vulnerability, and the findings that decisions divide.

// ranWhen says whether an image, or one of those that hold a package, runs and ran.
type ranWhen uint8

const (
	runs ranWhen = 1 << iota
	ran
)

// changes compares the vulnerabilities of what runs with those of what ran at a time. exploited says that those are wanted which are known to be exploited.
func (z *summarizer) changes(since int64, exploited bool, summary *store.Summary) error {
	c := &comparison{summarizer: z, since: since, found: map[int64]*foundWhen{}}
	if err := c.read(exploited); err != nil {
		return err
	}
	now, before, still, err := c.byName()
	if err != nil {
		return err
	}
	opened := maps.Clone(now)
	maps.DeleteFunc(opened, func(name string, _ *known) bool { return before[name] != nil })
	maps.DeleteFunc(before, func(name string, _ *known) bool { return still[name] != nil })
	summary.Opened, summary.Closed = z.changed(opened), z.changed(before)
	if err := z.reach(summary.Opened.Worst); err != nil || !exploited {
		return err
	}
	maps.DeleteFunc(now, func(_ string, one *known) bool { return !one.kev })
	summary.Exploited = z.changed(now)
	return z.reach(summary.Exploited.Worst)
}

// comparison compares what runs with what ran at a time.
type comparison struct {
	*summarizer
	since  int64
	images map[int64]ranWhen
	// packages are those that matched images hold and do not exclude, by when these run.
	packages [runs | ran + 1]numberSet
	// found has what is known of vulnerabilities, by their number.
	found map[int64]*foundWhen
	// exploited has the vulnerabilities with an ID that is known to be exploited, if they are wanted.
	exploited map[int64]bool
}

// foundWhen is when a vulnerability is found.
type foundWhen struct {
	// now: it counts in something that runs. fixable: a fixed version of that is known.
	now, fixable bool
	// before: something that ran had it. still: something that runs has it, also if decisions suppress it.
	before, still bool
	// suppressed: decisions suppress it somewhere in a package of what runs.
	suppressed bool
}

// read reads what is found, and when.
func (c *comparison) read(exploited bool) error {
	if err := c.readImages(); err != nil {
		return err
	}
	err := eachPackageList(c.tx, c.s.db.Dialect(), slices.Sorted(maps.Keys(c.images)), func(image int64, list []int64) {
		c.packages[c.images[image]].addIncluded(list)
	})
	if err != nil {
		return err
	}
	if exploited {
		if err := c.readExploited(); err != nil {
			return err
		}
	}
	if err := c.readFindings(); err != nil {
		return err
	}
	return c.readDivided()
}

// readImages reads which matched images run, and which ran. Of some namespaces, an image has findings since it was matched, as in affectedQuery.
func (c *comparison) readImages() error {
	in, d := c.chosen.in, c.s.db.Dialect()
	now, err := allOf(c.tx.Table("(?) AS x", c.uses().Distinct("u.image_pk")), d, "x.image_pk")
	if err != nil {
		return err
	}
	past := visiblePresences(uses(c.tx.Table("image_presences AS u"), c.chosen), "u", in).
		Where(presenceSince("u", in)+" <= ? AND u.until_time > ?", c.since, c.since)
	then, err := allOf(c.tx.Table("(?) AS x", past.Distinct("u.image_pk")), d, "x.image_pk")
	if err != nil {
		return err
	}
	when := make(map[int64]ranWhen, len(now))
	for _, image := range now {
		when[image] |= runs
	}
	for _, image := range then {
		when[image] |= ran
	}
	matched := c.tx.Table("images AS i").Where("i.matched_at > 0")
	if len(when) <= sqldb.MaxIn {
		matched = matched.Where("i.id IN (?)", numberList(slices.Sorted(maps.Keys(when))))
	}
	ids, err := allOf(matched.Session(&gorm.Session{}), d, "i.id")
	if err != nil {
		return err
	}
	c.images = make(map[int64]ranWhen, len(when))
	for _, image := range ids {
		if at := when[image]; at != 0 {
			c.images[image] = at
		}
	}
	if in.All() {
		return nil
	}
	later, err := allOf(matched.Where("i.matched_at > ?", c.since), d, "i.id")
	for _, image := range later {
		if c.images[image] &^= ran; c.images[image] == 0 {
			delete(c.images, image)
		}
	}
	return err
}

// holds reports whether what runs, or ran, holds a package.
func (c *comparison) holds(when ranWhen, id int64) bool {
	return c.packages[when].has(id) || c.packages[runs|ran].has(id)
}

// readExploited reads which vulnerabilities have an ID that is known to be exploited.
func (c *comparison) readExploited() error {
	var ids []int64
	err := c.tx.Table("vulnerabilities AS v").Where("v.vulnerability_id IN (SELECT w.vulnerability_id FROM vulnerabilities w WHERE w.kev = 1)").Select("v.id").Scan(&ids).Error
	c.exploited = make(map[int64]bool, len(ids))
	for _, id := range ids {
		c.exploited[id] = true
	}
	return err
}

// The flags of a finding in the rows of readFindings.
const (
	findingBefore = 1 << iota
	findingShown
	findingSuppressed
	findingFixable
	findingFlags
)

// readFindings reads the findings that are shown, or were at the time.
func (c *comparison) readFindings() error {
	suppressed := "0"
	if some, err := someSuppressed(c.tx); err != nil {
		return err
	} else if some {
		suppressed = "CASE WHEN EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id) THEN 1 ELSE 0 END"
	}
	// One that is not shown any more was at the time if its result set ended later.
	wasShown := "f.opened_at <= ? AND (f.until_gen > ? OR COALESCE((SELECT e.current_since FROM generations e WHERE e.number = f.until_gen), " + forever + ") > ?)"
	const isShown = "f.until_gen > ?"
	values := []any{c.current, c.since, c.current, c.since}
	column := fmt.Sprintf("f.package_pk * %d + f.fixable * %d + %s * %d + CASE WHEN %s THEN %d ELSE 0 END + CASE WHEN %s THEN %d ELSE 0 END",
		findingFlags, findingFixable, suppressed, findingSuppressed, isShown, findingShown, wasShown, findingBefore)
	// The sum keeps SQLite from looking up each finding from an index.
	findings := c.tx.Table("findings AS f").Where("f.from_gen + 0 <= ? AND ("+isShown+" OR "+wasShown+")", append([]any{c.current}, values...)...)
	if ids := c.fewPackages(); ids != nil {
		findings = findings.Where("f.package_pk IN (?)", numberList(ids))
	}
	return eachRow(findings.Select("f.vulnerability_pk, "+column, values...), func(scan func(...any) error) error {
		var id, one int64
		err := scan(&id, &one)
		c.note(id, one/findingFlags, one%findingFlags)
		return err
	})
}

// fewPackages are the packages of what runs or ran if their findings are looked up, nil if all findings are read.
func (c *comparison) fewPackages() []int64 {
	ids, number := []int64{}, 0
	for i := range c.packages {
		number += c.packages[i].number
	}
	if number > min(sqldb.MaxIn, c.s.manyPackages) {
		return nil
	}
	for i := range c.packages {
		ids = append(ids, c.packages[i].sorted(nil)...)
	}
	return ids
}

// note notes a finding of a package.
func (c *comparison) note(vulnerability, id, flags int64) {
	before := flags&findingBefore != 0 && c.holds(ran, id)
	still := flags&findingShown != 0 && c.holds(runs, id)
	if !before && !still {
		return
	}
	found := c.found[vulnerability]
	if found == nil {
		found = &foundWhen{}
		c.found[vulnerability] = found
	}
	found.before, found.still = found.before || before, found.still || still
	switch {
	case still && flags&findingSuppressed != 0:
		found.suppressed = true
	case still:
		found.now, found.fixable = true, found.fixable || flags&findingFixable != 0
	}
}

// someSuppressed reports whether decisions suppress any finding.
func someSuppressed(tx *gorm.DB) (bool, error) {
	var found []int64
	err := tx.Raw("SELECT fs.finding_id FROM finding_suppressions fs LIMIT 1").Scan(&found).Error
	return len(found) > 0, err
}

// partlyFound is a finding that decisions suppress in some images.
type partlyFound struct {
	ID, VulnerabilityPk, PackagePk, Fixable int64
	set                                     reachSet
}

// readDivided finds out which vulnerabilities count in something that runs although decisions suppress findings of them in some images.
func (c *comparison) readDivided() error {
	var ids []int64
	for id, found := range c.found {
		if found.suppressed && (!found.now || !found.fixable) && (!found.before || c.exploited[id]) { // Otherwise nothing follows from it.
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	divided := map[int64][]*partlyFound{} // By package.
	err := inParts(ids, func(part []int64) error {
		var rows []*partlyFound
		err := c.tx.Table("findings AS f").Where("f.vulnerability_pk IN ? AND "+shown+" AND "+unsuppressed+" AND "+isDivided, part, c.current, c.current).
			Select("f.id, f.vulnerability_pk, f.package_pk, f.fixable").Scan(&rows).Error
		for _, row := range rows {
			if c.holds(runs, row.PackagePk) {
				divided[row.PackagePk] = append(divided[row.PackagePk], row)
			}
		}
		return err
	})
	if err != nil || len(divided) == 0 {
		return err
	}
	err = inParts(slices.Sorted(maps.Keys(divided)), func(part []int64) error {
		sets, err := setsOf(c.tx, part)
		for _, id := range part {
			for _, one := range divided[id] {
				one.set = sets[one.ID]
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	var running []int64
	for image, when := range c.images {
		if when&runs != 0 {
			running = append(running, image)
		}
	}
	slices.Sort(running)
	return inParts(running, func(part []int64) error { return c.countIn(part, divided) })
}

// countIn takes out of divided the findings that count in one of some images.
func (c *comparison) countIn(images []int64, divided map[int64][]*partlyFound) error {
	if len(divided) == 0 {
		return nil
	}
	var packages numberSet
	var sets []reachSet
	for id, all := range divided {
		packages.add(id)
		for _, one := range all {
			sets = append(sets, one.set)
		}
	}
	covers, err := newCovers(c.view, sets)
	if err != nil {
		return err
	}
	if err := covers.readSome(c.tx, images); err != nil {
		return err
	}
	if c.owned {
		if err := covers.note(c.tx.Table("(?) AS x", closedIn(c.tx, c.uses().Where("u.image_pk IN ?", images)))); err != nil {
			return err
		}
	}
	return eachPackageList(c.tx, c.s.db.Dialect(), images, func(image int64, list []int64) {
		for _, one := range list {
			id := one / 2
			if one%2 != 0 || !packages.has(id) {
				continue
			}
			left := slices.DeleteFunc(divided[id], func(one *partlyFound) bool {
				if covers.has(one.set, image) {
					return false
				}
				found := c.found[one.VulnerabilityPk]
				found.now, found.fixable = true, found.fixable || one.Fixable != 0
				return true
			})
			if divided[id] = left; len(left) == 0 {
				delete(divided, id)
			}
		}
	})
}

// known is what is known of an ID of vulnerabilities while a summary is made.
type known struct {
	severity     model.Severity
	kev, fixable bool
}

// byName reads the IDs of the vulnerabilities that may be new, gone or exploited, with what is found now, was found before and is found still.
func (c *comparison) byName() (now, before, still map[string]*known, err error) {
	var ids []int64
	for id, found := range c.found {
		if found.now && (!found.before || c.exploited[id]) || found.before && !found.still {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	now, before, still = map[string]*known{}, map[string]*known{}, map[string]*known{}
	// What another vulnerability of the same ID says counts for the ID.
	return now, before, still, inParts(ids, func(part []int64) error {
		named := c.tx.Table("vulnerabilities AS v").Where("v.vulnerability_id IN (SELECT w.vulnerability_id FROM vulnerabilities w WHERE w.id IN ?)", part)
		return eachRow(named.Select("v.id, v.vulnerability_id, v.severity, v.kev"), func(scan func(...any) error) error {
			var id, severity, kev int64
			var name string
			if err := scan(&id, &name, &severity, &kev); err != nil {
				return err
			}
			found := c.found[id]
			if found == nil {
				return nil
			}
			one := known{model.Severity(severity), kev != 0, found.fixable} //nolint:gosec // It was stored from one.
			if found.now {
				one.addTo(now, name)
			}
			one.fixable = false
			if found.before {
				one.addTo(before, name)
			}
			if found.still {
				one.addTo(still, name)
			}
			return nil
		})
	})
}

// addTo adds it to what is known of an ID.
func (k known) addTo(all map[string]*known, name string) {
	if one := all[name]; one != nil {
		k = known{max(k.severity, one.severity), k.kev || one.kev, k.fixable || one.fixable}
	}
	all[name] = &k
}

// changed counts vulnerabilities and describes the worst of them.
func (z *summarizer) changed(all map[string]*known) store.ChangedVulnerabilities {
	var changed store.ChangedVulnerabilities
	for _, one := range all {
		changed.Counts.Add(one.severity)
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		x, y := all[a], all[b]
		return cmp.Or(cmp.Compare(y.severity, x.severity), compareBool(y.kev, x.kev), cmp.Compare(a, b))
	})
	names = names[:min(len(names), z.limit)]
	for _, name := range names {
		one := all[name]
		changed.Worst = append(changed.Worst, store.ReachedVulnerability{ID: name, Severity: one.severity, KEV: one.kev, Fixable: one.fixable})
	}
	return changed
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
