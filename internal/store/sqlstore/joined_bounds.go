package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A finding that several decisions with places suppress has one reach that joins theirs, and each joined reach has rows for the images that run in its places.
// So the number of different joined reaches is bounded, in all and for those that are there because of the decisions of one namespace. The bounds are
// checked when a decision begins to apply, as those of what decisions match, and only refuse this decision: what ends, and what is found later, is always
// joined, so that a decision of one namespace never changes what counts in another one.
//
// Others can divide the findings of a decision into any number of sets, so its joined reaches say nothing about its own namespace; what it matches does: there is
// at most one set for each match. So a namespace whose decisions match few findings is never refused, and what it joins takes no room from others.

// placeSet is a set of reaches with places that suppress a finding. It is a joined reach if it has more than one.
type placeSet struct {
	members []int64
	key     string
	// before and now count the findings that have this set: before anything changes, and with what is planned.
	before, now int
}

func (s *placeSet) joined() bool { return len(s.members) > 1 }

// placeSets are the sets of reaches with places that suppress findings.
type placeSets struct {
	sets map[string]*placeSet
	// of has the set of each finding that the plan is about, and namespaces the namespace of each reach, "" for those of objects of the cluster.
	of         map[int64]*placeSet
	namespaces map[int64]string
	// before and now count the joined reaches.
	before, now int
	// matches counts the findings that the decisions of each namespace with places match and suppress.
	matches map[string]int
	// sharesBefore counts the joined reaches of the decisions of each namespace alone, before anything changes; nil until it is read. Namespaces that had more than their
	// share, because findings came that their decisions match, take no room from others.
	sharesBefore map[string]int
	// shared has the sets with several reaches of each namespace; nil until it is read. fresh are the sets that were made since the last decision.
	shared map[string][]*placeSet
	fresh  []*placeSet
	// counted are the counts of joinedIn, by the namespaces.
	counted map[string]*joinedCount
}

// get returns the set of some reaches, which are in order.
func (p *placeSets) get(members []int64) *placeSet {
	_, key := setOf(slices.Clone(members))
	s := p.sets[string(key)]
	if s == nil {
		s = &placeSet{members: members, key: string(key)}
		p.sets[s.key] = s
		p.fresh = append(p.fresh, s)
		if p.shared != nil {
			p.share(s)
		}
	}
	return s
}

// forgetFresh drops the sets that were made for a decision that is refused.
func (p *placeSets) forgetFresh() {
	for _, s := range slices.Backward(p.fresh) {
		if !s.joined() || s.before > 0 || s.now > 0 {
			continue
		}
		delete(p.sets, s.key)
		for _, c := range p.counted {
			delete(c.lists, s)
		}
		for namespace := range p.byNamespace(s) {
			if list := p.shared[namespace]; len(list) > 0 && list[len(list)-1] == s {
				p.shared[namespace] = list[:len(list)-1]
			}
		}
	}
	p.fresh = nil
}

// byNamespace has the reaches of a set by namespace, of those that have several.
func (p *placeSets) byNamespace(s *placeSet) map[string][]int64 {
	members := map[string][]int64{}
	for _, reach := range s.members {
		if namespace := p.namespaces[reach]; namespace != "" {
			members[namespace] = append(members[namespace], reach)
		}
	}
	maps.DeleteFunc(members, func(_ string, reaches []int64) bool { return len(reaches) < 2 })
	return members
}

// share notes in which namespaces a set has several reaches.
func (p *placeSets) share(s *placeSet) {
	for namespace := range p.byNamespace(s) {
		p.shared[namespace] = append(p.shared[namespace], s)
	}
}

// move gives a finding another set.
func (p *placeSets) move(finding int64, to *placeSet) {
	from := p.of[finding]
	if from == to {
		return
	}
	if from.now--; from.joined() && from.now == 0 {
		p.now--
		p.recount(from, -1)
	}
	if to.now++; to.joined() && to.now == 1 {
		p.now++
		p.recount(to, 1)
	}
	p.of[finding] = to
}

// readPlaceSets reads the sets of all findings, and moves these findings to those that are left without the decisions that end.
func readPlaceSets(tx *gorm.DB, findings, ending []int64) (*placeSets, error) {
	p := &placeSets{sets: map[string]*placeSet{}, of: map[int64]*placeSet{}, namespaces: map[int64]string{}, matches: map[string]int{}}
	joined, err := readJoinedReaches(tx)
	if err != nil {
		return nil, err
	}
	used := tx.Table("placed_reaches AS q").Joins("CROSS JOIN finding_suppressions fs").Where("q.members <> '' AND fs.reach = q.reach").
		Select("fs.reach, COUNT(*)").Group("fs.reach")
	err = eachRow(used, func(scan func(...any) error) error {
		var reach int64
		var count int
		err := scan(&reach, &count)
		s := p.get(joined[reach])
		s.before, s.now = count, count
		p.before++
		return err
	})
	if err != nil {
		return nil, err
	}
	p.now = p.before
	placed := tx.Table("placed_reaches AS q").Joins("CROSS JOIN decisions d").Where("d.reach = q.reach AND d.until_time = ?", int64(stillOpen)).Distinct("q.reach, d.namespace")
	err = eachRow(placed, func(scan func(...any) error) error {
		var reach int64
		var namespace string
		err := scan(&reach, &namespace)
		p.namespaces[reach] = namespace
		return err
	})
	if err != nil {
		return nil, err
	}
	ends := make(map[int64]bool, len(ending))
	for _, id := range ending {
		ends[id] = true
	}
	matching := tx.Table("placed_reaches AS q").Joins("CROSS JOIN decisions d").Joins("CROSS JOIN decision_findings m").
		Where("q.members = '' AND d.reach = q.reach AND d.until_time = ? AND d.suppresses = 1 AND m.decision_pk = d.id", int64(stillOpen)).
		Select("d.id, d.namespace, COUNT(*)").Group("d.id, d.namespace")
	err = eachRow(matching, func(scan func(...any) error) error {
		var id int64
		var namespace string
		var count int
		err := scan(&id, &namespace, &count)
		if !ends[id] {
			p.matches[namespace] += count
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, inParts(findings, func(part []int64) error {
		present, left := map[int64][]int64{}, map[int64][]int64{}
		suppressing := tx.Table("decision_findings AS m").Joins("CROSS JOIN decisions d").
			Where("m.finding_id IN ? AND d.id = m.decision_pk AND d.suppresses = 1 AND d.until_time = ?", part, int64(stillOpen)).Select("m.finding_id, d.id, d.reach")
		err := eachRow(suppressing, func(scan func(...any) error) error {
			var finding, id, reach int64
			if err := scan(&finding, &id, &reach); err != nil {
				return err
			}
			if _, placed := p.namespaces[reach]; !placed {
				return nil
			}
			present[finding] = append(present[finding], reach)
			if !ends[id] {
				left[finding] = append(left[finding], reach)
			}
			return nil
		})
		for _, finding := range part {
			p.of[finding] = p.get(inOrder(present[finding]))
			p.move(finding, p.get(inOrder(left[finding])))
		}
		return err
	})
}

// inOrder sorts reaches, and has each once.
func inOrder(reaches []int64) []int64 {
	slices.Sort(reaches)
	return slices.Compact(reaches)
}

// add adds a reach to the sets of findings.
func (p *placeSets) add(findings []int64, reach int64) {
	with := map[*placeSet]*placeSet{}
	for _, finding := range findings {
		set := p.of[finding]
		to := with[set]
		if to == nil {
			to = p.get(inOrder(append(slices.Clone(set.members), reach)))
			with[set] = to
		}
		p.move(finding, to)
	}
}

func countBefore(s *placeSet) int { return s.before }
func countNow(s *placeSet) int    { return s.now }

// shares counts the joined reaches of the decisions of each namespace alone, in one pass.
func (p *placeSets) shares(count func(*placeSet) int) map[string]int {
	joined := map[string]map[string]bool{}
	for _, set := range p.sets {
		if count(set) <= 0 {
			continue
		}
		for namespace, reaches := range p.byNamespace(set) {
			if joined[namespace] == nil {
				joined[namespace] = map[string]bool{}
			}
			_, list := setOf(reaches)
			joined[namespace][string(list)] = true
		}
	}
	shares := make(map[string]int, len(joined))
	for namespace, lists := range joined {
		shares[namespace] = len(lists)
	}
	return shares
}

// readShares reads what the namespaces share before anything changes, and which sets each has.
func (p *placeSets) readShares() {
	if p.shared != nil {
		return
	}
	p.sharesBefore, p.shared = p.shares(countBefore), map[string][]*placeSet{}
	for _, set := range p.sets {
		p.share(set)
	}
}

// shareNow counts the joined reaches of the decisions of a namespace alone, with what is planned. It looks at the sets of this namespace only.
func (p *placeSets) shareNow(namespace string) int {
	p.readShares()
	joined := map[string]bool{}
	for _, set := range p.shared[namespace] {
		if set.now > 0 {
			_, list := setOf(p.byNamespace(set)[namespace])
			joined[string(list)] = true
		}
	}
	return len(joined)
}

// takesRoom returns a function that reports whether what the decisions of a namespace join counts when one of namespace begins.
func (p *placeSets) takesRoom(namespace string, bounds matchBounds) func(string) bool {
	p.readShares()
	return func(other string) bool {
		return p.matches[other] > bounds.always(other) && (other == namespace || p.sharesBefore[other] <= bounds.namespaceJoined)
	}
}

// boundJoined returns a function that joins a new decision with places to those that stay, or says why there is no room for its joined reaches. What makes
// them fewer is never refused.
func (p *decisionPlan) boundJoined(tx *gorm.DB, ending []int64, bounds matchBounds) (func(*newDecision) *store.DecisionProblem, error) {
	joins := func(n *newDecision) bool {
		return !n.over && n.suppresses != 0 && n.reach != nil && n.reach.placed && len(n.findings) > 0
	}
	var digests []string
	var touched []int64
	for _, n := range p.begin {
		if joins(n) {
			digests = append(digests, n.reach.digest)
			touched = append(touched, n.findings...)
		}
	}
	if len(digests) == 0 {
		return func(*newDecision) *store.DecisionProblem { return nil }, nil
	}
	err := inParts(ending, func(part []int64) error {
		var findings []int64
		err := tx.Raw(`SELECT DISTINCT m.finding_id FROM decision_findings m CROSS JOIN decisions d CROSS JOIN placed_reaches q
			WHERE m.decision_pk IN ? AND d.id = m.decision_pk AND d.suppresses = 1 AND q.reach = d.reach`, part).Scan(&findings).Error
		touched = append(touched, findings...)
		return err
	})
	if err != nil {
		return nil, err
	}
	sets, err := readPlaceSets(tx, inOrder(touched), ending)
	if err != nil {
		return nil, err
	}
	slices.Sort(digests)
	numbers, err := knownReaches(tx, slices.Compact(digests))
	if err != nil {
		return nil, err
	}
	added := int64(0) // Reaches that do not exist yet have numbers below 0.
	return func(n *newDecision) *store.DecisionProblem {
		if !joins(n) {
			return nil
		}
		reach := numbers[n.reach.digest]
		if reach == 0 {
			added--
			reach = added
			numbers[n.reach.digest] = reach
		}
		if known, found := sets.namespaces[reach]; found && known != n.row.Namespace {
			sets.counted = nil // An object of another namespace names the same places.
		}
		sets.namespaces[reach] = n.row.Namespace
		previous := make([]*placeSet, len(n.findings))
		for i, finding := range n.findings {
			previous[i] = sets.of[finding]
		}
		present := sets.now
		sets.fresh = nil
		sets.add(n.findings, reach)
		sets.matches[n.row.Namespace] += len(n.findings)
		problem := sets.problem(n.row.Namespace, present, bounds)
		if problem == nil {
			return nil
		}
		sets.matches[n.row.Namespace] -= len(n.findings)
		for i, finding := range n.findings {
			sets.move(finding, previous[i])
		}
		sets.forgetFresh()
		return problem
	}, nil
}

// problem says why a decision of a namespace cannot apply with which these are the sets, nil if it can. present is how many joined reaches there are
// without it.
func (p *placeSets) problem(namespace string, present int, bounds matchBounds) *store.DecisionProblem {
	if p.now <= present || p.matches[namespace] <= bounds.always(namespace) {
		return nil
	}
	most, reserved, whose := bounds.joined, "", "ClusterVulnerabilityExceptions with selectors"
	// As in tooBroad, users of a namespace learn no numbers that follow from what others have.
	number := strconv.Itoa
	if namespace != "" {
		most, whose = bounds.namespacedJoined, "the exceptions of the namespace "+namespace
		number = func(int) string { return "too many" }
		reserved = fmt.Sprintf(" (%d more are reserved for ClusterVulnerabilityExceptions)", bounds.joined-bounds.namespacedJoined)
	}
	advice := fmt.Sprintf("use the same namespaces, workloads and images in several exceptions, or name fewer vulnerabilities and packages; "+
		"there is always room while %s match at most %d findings together, each counted for each exception", whose, bounds.always(namespace))
	if p.now > most {
		counted := p.joinedIn(p.takesRoom(namespace, bounds))
		if joined := counted.now(); joined > most && joined > counted.before {
			return &store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
				"findings that several exceptions about some places suppress would have %s different combinations of such exceptions; the maximum for all is %d%s; %s",
				number(joined), most, reserved, advice)}
		}
	}
	if namespace == "" {
		return nil
	}
	if share := p.shareNow(namespace); share > bounds.namespaceJoined && share > p.sharesBefore[namespace] {
		return &store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
			"with it, the exceptions of the namespace %s alone would have %s different combinations of exceptions about some places that suppress the same finding; "+
				"the maximum is %d for those of one namespace; %s", namespace, number(share), bounds.namespaceJoined, advice)}
	}
	return nil
}
