package sqlstore

import "slices"

// closedCounter counts the overdue findings that newer tags close, of images and of their bases.
type closedCounter struct {
	due *dueCounter
	// findings are those that each newer tag closes, by its row.
	findings map[int64][]*dueFinding
	// lacked are the packages of its base that an image lacks.
	lacked map[int64][]int64
	// divided are the newer tags that close findings which decisions suppress in some images. Of the others of bases, shared has the counts of a class, and room is of how
	// many findings there is room for more.
	divided map[int64]bool
	shared  map[closedClass]*closedCounts
	room    int
}

// closedCounts is how many findings that a newer tag closes are due in an image which holds all their packages, and how many of each package.
type closedCounts struct {
	number   int
	packages map[int64]int
}

// closedClass is a newer tag, by its row, for images of a class.
type closedClass struct {
	fix   int64
	class int
}

// closedCounter reads what newer tags, given by their rows, close of images; nil if no policy applies.
func (r *fixReader) closedCounter(fixes, images []int64) (*closedCounter, error) {
	due, err := r.dueReader()
	if err != nil || len(due.policies) == 0 || len(images) == 0 {
		return nil, err
	}
	packages := map[int64]bool{}
	err = inParts(fixes, func(part []int64) error {
		var ids []int64
		err := r.tx.Raw("SELECT DISTINCT package_pk FROM tag_closings WHERE fix_pk IN ?", part).Scan(&ids).Error
		for _, id := range ids {
			packages[id] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(images) > r.s.fewImages { // To read all of them once is faster than to look up many.
		images = nil
	}
	targets, err := r.dueTargets(due, images)
	if err != nil {
		return nil, err
	}
	due.until = r.s.now()
	found, err := due.findings(packages)
	if err != nil {
		return nil, err
	}
	closed, err := r.closedFindings(fixes)
	if err != nil {
		return nil, err
	}
	c := &closedCounter{findings: dueClosed(closed, found), lacked: r.lacked, divided: map[int64]bool{}, shared: map[closedClass]*closedCounts{}, room: maxSharedCounts}
	if c.due, err = due.dueCounter(&dueHoldings{findings: found}, images, targets); err != nil {
		return nil, err
	}
	for fix, findings := range c.findings {
		c.divided[fix] = c.due.dividedAmong(findings)
	}
	return c, nil
}

// dueClosed lists the findings that each newer tag closes, of some by package.
func dueClosed(closed map[int64]map[int64]bool, found map[int64][]*dueFinding) map[int64][]*dueFinding {
	dated := map[int64]*dueFinding{}
	for _, list := range found {
		for _, f := range list {
			dated[f.id] = f
		}
	}
	lists := make(map[int64][]*dueFinding, len(closed))
	for fix, findings := range closed {
		for id := range findings {
			if f := dated[id]; f != nil {
				lists[fix] = append(lists[fix], f)
			}
		}
	}
	return lists
}

// count counts the overdue findings of an image that a newer tag closes, of the image or of its base. An image has all that a newer tag of itself closes, and what a
// newer tag of its base closes but for packages that it lacks.
func (c *closedCounter) count(action, fix, image int64) int {
	if len(c.due.targets[image]) == 0 {
		return 0
	}
	var lacked []int64
	if action == fixBase {
		lacked = c.lacked[image]
		if counts := c.counts(fix, image); counts != nil {
			number := counts.number
			for _, id := range lacked {
				number -= counts.packages[id]
			}
			return number
		}
	}
	number := 0
	for _, f := range c.findings[fix] {
		if _, lacks := slices.BinarySearch(lacked, f.packageID); !lacks && c.due.isDue(f, image) {
			number++
		}
	}
	return number
}

// counts has the numbers of findings that a newer tag of a base closes, counted once for all images of the class of an image. It is nil if decisions suppress some
// of them in some images, if the image has no class, or if there is no room for more.
func (c *closedCounter) counts(fix, image int64) *closedCounts {
	class, single := c.due.classes[image]
	if !single || c.divided[fix] {
		return nil
	}
	one := closedClass{fix, class}
	counts := c.shared[one]
	if counts == nil && c.room >= len(c.findings[fix]) {
		counts = &closedCounts{packages: map[int64]int{}}
		for _, f := range c.findings[fix] {
			if c.due.isDue(f, image) {
				counts.number++
				counts.packages[f.packageID]++
			}
		}
		c.shared[one], c.room = counts, c.room-len(c.findings[fix])
	}
	return counts
}

// tagsClosing is which findings newer tags close, by their rows, and the newer tags among some entries by the image that these are for.
type tagsClosing struct {
	findings map[int64]map[int64]bool
	places   map[int64][]fixPlace
}

// tagsClosing reads what the newer tags among some entries close. It leaves out findings without a date.
func (r *fixReader) tagsClosing(entries []fixEntry) (tagsClosing, error) {
	closing := tagsClosing{places: map[int64][]fixPlace{}}
	for i := range entries {
		if fix := &entries[i].Fix; fix.Action == fixTag || fix.Action == fixBase {
			closing.places[fix.ImagePk] = append(closing.places[fix.ImagePk], entries[i].place())
		}
	}
	var err error
	closing.findings, err = r.closedFindings(rowsOfTags(entries, fixTag, fixBase))
	return closing, err
}

// closedFindings reads which findings newer tags close, by their rows. It leaves out findings without a date.
func (r *fixReader) closedFindings(fixes []int64) (map[int64]map[int64]bool, error) {
	findings := map[int64]map[int64]bool{}
	return findings, inParts(fixes, func(part []int64) error {
		closed := r.tx.Table("tag_closings AS c").Where("c.fix_pk IN ? AND EXISTS (SELECT 1 FROM policy_findings pf WHERE pf.finding_id = c.finding_id)", part)
		return eachList(closed, r.s.db.Dialect(), "c.fix_pk", "c.finding_id", func(fix int64, list []int64) {
			findings[fix] = make(map[int64]bool, len(list))
			for _, id := range list {
				findings[fix][id] = true
			}
		})
	})
}

// count counts a finding of an image for the newer tags that close it.
func (c *tagsClosing) count(t *dueTarget, f *dueFinding, counts map[fixPlace]int) {
	for _, place := range c.places[t.image] {
		if c.findings[place.packageID][f.id] {
			counts[place]++
		}
	}
}
