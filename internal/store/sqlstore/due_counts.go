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

// dueCounter counts findings that are due until a time, in each image once for all of its targets.
type dueCounter struct {
	r          *dueReader
	held       *dueHoldings
	targets    map[int64][]*dueTarget
	suppressed *partlySuppressed
	// classes has the places of the classes of images with one target in members, which has a target of each.
	classes map[int64]int
	members []*dueTarget
}

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
		if !known {
			place = len(c.members)
			places[class], c.members = place, append(c.members, t)
		}
		c.classes[image] = place
	}
	return c, nil
}

// isDue reports whether a finding is due in an image in time.
func (c *dueCounter) isDue(f *dueFinding, image int64) bool {
	return slices.ContainsFunc(c.targets[image], func(t *dueTarget) bool {
		return c.isDueFor(f, t) && !c.suppressed.has(f.id, t)
	})
}

func (c *dueCounter) isDueFor(f *dueFinding, t *dueTarget) bool {
	at, _, due := f.due(t)
	return due && at <= c.r.until
}

// each calls visit for packages with images that hold them and have findings due in them; nil stands for all images. Neither list may be kept.
func (c *dueCounter) each(images []int64, visit func(packageID int64, holders []int64, counts []dueCount)) error {
	known, shared := make([]bool, len(c.members)), make([]dueCount, len(c.members))
	var counts []dueCount
	return c.r.eachHolder(c.held, images, func(packageID int64, holders []int64) {
		found := c.held.findings[packageID]
		if len(found) == 0 {
			return
		}
		divided := slices.ContainsFunc(found, func(f *dueFinding) bool { return len(c.suppressed.reaches[f.id]) > 0 })
		clear(known)
		due := holders[:0]
		counts = counts[:0]
		for _, image := range holders {
			class, single := c.classes[image]
			var count dueCount
			switch {
			case single && !divided:
				if !known[class] {
					known[class], shared[class] = true, dueCount{}
					for _, f := range found {
						if c.isDueFor(f, c.members[class]) {
							shared[class].add(f)
						}
					}
				}
				count = shared[class]
			case len(c.targets[image]) > 0:
				for _, f := range found {
					if c.isDue(f, image) {
						count.add(f)
					}
				}
			}
			if count != (dueCount{}) {
				due, counts = append(due, image), append(counts, count)
			}
		}
		if len(due) > 0 {
			visit(packageID, due, counts)
		}
	})
}
