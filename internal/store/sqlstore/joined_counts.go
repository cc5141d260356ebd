package sqlstore

import (
	"maps"
	"slices"
	"strings"
)

// maxJoinedCounts is how many namespaces' views of the joined reaches are counted at a time.
const maxJoinedCounts = 16

// joinedCount counts the joined reaches of the decisions of some namespaces, and follows sets that get or lose their findings: thousands of decisions may be
// refused one after another, and each would look at all sets.
type joinedCount struct {
	keeps map[string]bool
	// lists are those of the sets without the reaches of other namespaces, "" of those that are not joined then.
	lists map[*placeSet]string
	// sets counts the sets with findings by list. before is the number of lists before anything changes.
	sets   map[string]int
	before int
}

// joinedIn returns the count of the joined reaches of the decisions of the namespaces that keep keeps.
func (p *placeSets) joinedIn(keep func(namespace string) bool) *joinedCount {
	namespaces := map[string]bool{}
	for namespace := range p.matches {
		if keep(namespace) {
			namespaces[namespace] = true
		}
	}
	key := strings.Join(slices.Sorted(maps.Keys(namespaces)), "\n")
	if known := p.counted[key]; known != nil {
		return known
	}
	if p.counted == nil || len(p.counted) == maxJoinedCounts {
		p.counted = map[string]*joinedCount{}
	}
	c := &joinedCount{keeps: namespaces, lists: map[*placeSet]string{}, sets: map[string]int{}}
	before := map[string]bool{}
	for _, set := range p.sets {
		if set.now > 0 {
			c.add(p, set, 1)
		}
		if list := c.list(p, set); list != "" && set.before > 0 {
			before[list] = true
		}
	}
	c.before = len(before)
	p.counted[key] = c
	return c
}

// recount counts a set that has findings, or has none any more.
func (p *placeSets) recount(set *placeSet, n int) {
	for _, c := range p.counted {
		c.add(p, set, n)
	}
}

// now is how many joined reaches there are with what is planned.
func (c *joinedCount) now() int { return len(c.sets) }

func (c *joinedCount) add(p *placeSets, set *placeSet, n int) {
	list := c.list(p, set)
	if list == "" {
		return
	}
	if c.sets[list] += n; c.sets[list] == 0 {
		delete(c.sets, list)
	}
}

func (c *joinedCount) list(p *placeSets, set *placeSet) string {
	list, known := c.lists[set]
	if !known {
		kept := slices.DeleteFunc(slices.Clone(set.members), func(reach int64) bool { return !c.keeps[p.namespaces[reach]] })
		if len(kept) > 1 {
			_, text := setOf(kept)
			list = string(text)
		}
		c.lists[set] = list
	}
	return list
}
