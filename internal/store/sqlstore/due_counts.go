package sqlstore

import (
	"cmp"
	"slices"
)

// Most images have the same dates: those that the same policies select, and that have been there for so long that only the finding decides. So it is found out once
// for all of these which findings of a package are due.

// dueCount is how many findings of a package are due in an image: of those with a fix, and of others.
type dueCount struct{ fixed, rest int32 }

func (c *dueCount) add(f *dueFinding) {
	if f.fixable {
		c.fixed++
	} else {
		c.rest++
	}
}

// dueClass is what tells targets apart: a finding is due in time in all of a class, or in none.
type dueClass struct {
	reach policySet
	// passed is how many of the numbers of days of all rules have passed since the image has findings.
	passed int
}

// duePackage is a package with findings that policies select.
type duePackage struct {
	id       int64
	findings []*dueFinding
	// divided says that decisions suppress findings in some images.
	divided bool
	// fix is the row of package_fixes, if the reader has it.
	fix *packageFix
	// number is for visitors of dueCounter.each, to count the images that they choose.
	number int
}

// uncounted stands for a number that is not known.
const uncounted = -1

// dueCounter counts findings that are due until a time, in each image once for all of its targets.
type dueCounter struct {
	r          *dueReader
	held       *dueHoldings
	targets    map[int64][]*dueTarget
	suppressed *partlySuppressed
	packages   []duePackage // Those with findings, in the order of their IDs. Only each makes them.
	// classes has the places of the classes of images with one target, and members is how many there are.
	classes map[int64]int
	members int
	// shared counts the findings that are due, by package and class; fixed is uncounted if nobody has asked, and in packages that are divided.
	shared []dueCount
}

// maxClasses bounds the classes. Images of others are counted one by one.
const maxClasses = 32

// dueCounter reads what decisions suppress of what was read.
func (r *dueReader) dueCounter(held *dueHoldings, images []int64, targets map[int64][]*dueTarget) (*dueCounter, error) {
	c := &dueCounter{r: r, held: held, targets: targets, classes: make(map[int64]int, len(targets))}
	var err error
	if c.suppressed, err = r.suppressedThere(images); err != nil {
		return nil, err
	}
	var days []int64
	for _, found := range held.findings {
		for _, f := range found {
			for _, rule := range f.rules {
				if i, known := slices.BinarySearch(days, rule.days); !known {
					days = slices.Insert(days, i, rule.days)
				}
			}
		}
	}
	places := map[dueClass]int{}
	for image, list := range targets {
		if len(list) != 1 {
			continue
		}
		t := list[0]
		passed, _ := slices.BinarySearchFunc(days, r.until-t.since, func(days, passed int64) int {
			if days*dayMicros <= passed {
				return -1
			}
			return 1
		})
		class := dueClass{t.reach, passed}
		place, known := places[class]
		if !known && c.members == r.s.maxClasses {
			continue
		}
		if !known {
			place = c.members
			places[class] = place
			c.members++
		}
		c.classes[image] = place
	}
	return c, nil
}

// isDue reports whether a finding is due in an image in time.
func (c *dueCounter) isDue(f *dueFinding, image int64) bool {
	return slices.ContainsFunc(c.targets[image], func(t *dueTarget) bool {
		at, _, due := f.due(t)
		return due && at <= c.r.until && !c.suppressed.has(f.id, t)
	})
}

// dividedAmong reports whether decisions suppress one of some findings in some images.
func (c *dueCounter) dividedAmong(findings []*dueFinding) bool {
	return slices.ContainsFunc(findings, func(f *dueFinding) bool { return len(c.suppressed.reaches[f.id]) > 0 })
}

// maxSharedCounts bounds the counts of packages in images of a class that are kept. If there are more, fewer classes share them.
const maxSharedCounts = 1_000_000

// each calls visit once for each image that holds packages with findings due in it, with the places of these and their counts. Neither list may be kept.
func (c *dueCounter) each(visit func(image int64, places []int, counts []dueCount)) error {
	packages := c.held.ordered()
	c.packages = make([]duePackage, len(packages))
	for place, id := range packages {
		c.packages[place] = duePackage{id: id, findings: c.held.findings[id], fix: c.r.fixes[id]}
		c.packages[place].divided = c.dividedAmong(c.held.findings[id])
	}
	c.members = min(c.members, maxSharedCounts/max(1, len(packages)))
	c.shared = slices.Repeat([]dueCount{{fixed: uncounted}}, len(packages)*c.members)
	var due []int
	var counts []dueCount
	return c.r.eachHolding(c.held, packages, c.targets, func(image int64, places []int) {
		due, counts = due[:0], counts[:0]
		class, single := c.classes[image]
		for _, place := range places {
			if count := c.countIn(place, image, class, single); count != (dueCount{}) {
				due, counts = append(due, place), append(counts, count)
			}
		}
		if len(due) > 0 {
			visit(image, due, counts)
		}
	})
}

// count counts the findings of a package that are due in an image which holds it.
func (c *dueCounter) count(place int, image int64) dueCount {
	class, single := c.classes[image]
	return c.countIn(place, image, class, single)
}

// countIn is count for an image whose class is known, if it is of a single one.
func (c *dueCounter) countIn(place int, image int64, class int, single bool) dueCount {
	shared := &dueCount{fixed: uncounted}
	if single && class < c.members {
		shared = &c.shared[place*c.members+class]
	}
	if shared.fixed != uncounted {
		return *shared
	}
	var count dueCount
	p := &c.packages[place]
	for _, f := range p.findings {
		if c.isDue(f, image) {
			count.add(f)
		}
	}
	if !p.divided {
		*shared = count
	}
	return count
}

// place is that of a package.
func (c *dueCounter) place(id int64) int {
	place, _ := slices.BinarySearchFunc(c.packages, id, func(p duePackage, id int64) int { return cmp.Compare(p.id, id) })
	return place
}
