package sqlstore

import (
	"slices"
)

// Most images have the same dates: those that the same policies select, and that have been there for so long that only the finding decides. So it is found out once
// for all of these which findings of a package are due.

// dueCount is how many findings of a package are due in an image: of those with a fix, and of others.
type dueCount struct{ fixed, rest int }

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
	// shared counts the findings that are due, by class; fixed is uncounted in classes that nobody has asked about.
	shared []dueCount
}

// uncounted stands for a number that is not known.
const uncounted = -1

// dueCounter counts findings that are due until a time, in each image once for all of its targets.
type dueCounter struct {
	r          *dueReader
	held       *dueHoldings
	targets    map[int64][]*dueTarget
	suppressed *partlySuppressed
	packages   map[int64]*duePackage // Those that were counted.
	// classes has the places of the classes of images with one target, and members is how many there are.
	classes map[int64]int
	members int
}

// maxClasses bounds the classes. Images of others are counted one by one.
const maxClasses = 32

// dueCounter reads what decisions suppress of what was read.
func (r *dueReader) dueCounter(held *dueHoldings, images []int64, targets map[int64][]*dueTarget) (*dueCounter, error) {
	c := &dueCounter{r: r, held: held, targets: targets, packages: map[int64]*duePackage{}, classes: make(map[int64]int, len(targets))}
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

// each calls visit once for each image that holds packages with findings due in it, with these and their counts. Neither list may be kept.
func (c *dueCounter) each(visit func(image int64, packages []*duePackage, counts []dueCount)) error {
	var due []*duePackage
	var counts []dueCount
	return c.r.eachHolding(c.held, c.targets, func(image int64, packages []int64) {
		due, counts = due[:0], counts[:0]
		class, single := c.classes[image]
		for _, id := range packages {
			p := c.packages[id]
			if p == nil {
				p = &duePackage{id: id, findings: c.held.findings[id], fix: c.r.fixes[id]}
				p.shared = slices.Repeat([]dueCount{{fixed: uncounted}}, c.members)
				p.divided = slices.ContainsFunc(p.findings, func(f *dueFinding) bool { return len(c.suppressed.reaches[f.id]) > 0 })
				c.packages[id] = p
			}
			if count := c.countIn(p, image, class, single); count != (dueCount{}) {
				due, counts = append(due, p), append(counts, count)
			}
		}
		if len(due) > 0 {
			visit(image, due, counts)
		}
	})
}

// count counts the findings of a package that are due in an image which holds it.
func (c *dueCounter) count(p *duePackage, image int64) dueCount {
	class, single := c.classes[image]
	return c.countIn(p, image, class, single)
}

// countIn is count for an image whose class is known, if it is of a single one.
func (c *dueCounter) countIn(p *duePackage, image int64, class int, single bool) dueCount {
	if single && !p.divided && p.shared[class].fixed != uncounted {
		return p.shared[class]
	}
	var count dueCount
	for _, f := range p.findings {
		if c.isDue(f, image) {
			count.add(f)
		}
	}
	if single && !p.divided {
		p.shared[class] = count
	}
	return count
}
