package sqlstore

import (
	"fmt"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

func tooMany(bounds matchBounds) store.DecisionProblem {
	return store.DecisionProblem{Reason: store.DecisionTooMany, Message: fmt.Sprintf("%d decisions apply at most; delete others first", bounds.decisions)}
}

// tooBroad says that there is no room for what a decision matches. Users of a namespace read the problems of its decisions: they are not told how many findings there
// are, since most of these may be in other namespaces.
func tooBroad(namespace string, findings int, bounds matchBounds) store.DecisionProblem {
	number := "too many"
	if namespace == "" {
		number = strconv.Itoa(findings)
	}
	return store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
		"it matches %s findings; the maximum is %d for one decision, %d for those of one namespace, %d for those of all namespaces and %d for all; name fewer packages; "+
			"the first %d of a namespace need no room among those of all namespaces",
		number, bounds.one, bounds.namespace, bounds.namespaced, bounds.all, bounds.alwaysNamespace)}
}

// shares counts what decisions match that apply: of all objects, and of those in namespaces together and by namespace.
type shares struct {
	all, namespaced int
	namespaces      map[string]int
}

// readShares counts the matches of all decisions without those that end.
func readShares(tx *gorm.DB, ending []int64) (*shares, error) {
	s := &shares{namespaces: map[string]int{}}
	if err := tx.Raw("SELECT COUNT(*) FROM decision_findings").Scan(&s.all).Error; err != nil {
		return nil, err
	}
	count := func(sign int, condition string, values ...any) error {
		var rows []struct {
			Namespace string
			Matches   int
		}
		err := tx.Raw(`SELECT d.namespace, COUNT(*) AS matches FROM decisions d CROSS JOIN decision_findings m
			WHERE m.decision_pk = d.id AND `+condition+" GROUP BY d.namespace", values...).Scan(&rows).Error
		for _, row := range rows {
			s.add(row.Namespace, sign*row.Matches)
		}
		return err
	}
	all := s.all
	if err := count(1, "d.until_time = ? AND d.namespace <> ''", int64(stillOpen)); err != nil {
		return nil, err
	}
	s.all = all
	return s, inParts(ending, func(part []int64) error { return count(-1, "d.id IN ?", part) })
}

// add counts the matches of a decision.
func (s *shares) add(namespace string, matches int) {
	s.all += matches
	if namespace != "" {
		s.namespaced += matches
		s.namespaces[namespace] += matches
	}
}

// have reports whether there is room for the matches of a decision.
func (s *shares) have(namespace string, matches int, bounds matchBounds) bool {
	own := s.namespaces[namespace] + matches
	if namespace != "" && (own > bounds.namespace || own > bounds.alwaysNamespace && s.namespaced+matches > bounds.namespaced) {
		return false
	}
	return matches <= bounds.one && s.all+matches <= bounds.all
}

// bound leaves out the new decisions that there is no room for, and notes how others end. What those match that end makes room.
func (p *decisionPlan) bound(tx *gorm.DB, source string, bounds matchBounds) error {
	if err := p.leaveOut(tx, source, bounds); err != nil {
		return err
	}
	for _, row := range p.ending {
		how := endDeleted
		if p.wanted[row.object()] {
			how = endChanged
		}
		p.end[how] = append(p.end[how], *row)
	}
	return nil
}

// refuse notes that there is no room for a new decision.
func (p *decisionPlan) refuse(n *newDecision, problem store.DecisionProblem) {
	p.problems[n.row.object()] = problem
	if p.refused == nil {
		p.refused = map[store.DecisionObject]string{}
	}
	p.refused[n.row.object()] = n.row.Digest
}

// leaveOut looks up what the new decisions match, and leaves out those that there is no room for.
func (p *decisionPlan) leaveOut(tx *gorm.DB, source string, bounds matchBounds) error {
	if len(p.begin) == 0 {
		return nil
	}
	ending := make([]int64, len(p.ending))
	for i := range p.ending {
		ending[i] = p.ending[i].ID
	}
	var others int
	if err := tx.Raw("SELECT COUNT(*) FROM decisions WHERE until_time = ? AND source <> ?", int64(stillOpen), source).Scan(&others).Error; err != nil {
		return err
	}
	taken, err := readShares(tx, ending)
	if err != nil {
		return err
	}
	room := bounds.decisions - others - p.kept
	p.begin = slices.DeleteFunc(p.begin, func(n *newDecision) bool {
		if n.over {
			return false
		}
		if room--; room >= 0 {
			return false
		}
		p.refuse(n, tooMany(bounds))
		return true
	})
	if err := p.boundReaches(tx, bounds); err != nil {
		return err
	}
	if err := matchDecisions(tx, p.begin); err != nil {
		return err
	}
	join, err := p.boundJoined(tx, ending, bounds)
	if err != nil {
		return err
	}
	// One that is refused takes no room from those behind it.
	p.begin = slices.DeleteFunc(p.begin, func(n *newDecision) bool {
		if !taken.have(n.row.Namespace, len(n.findings), bounds) {
			p.refuse(n, tooBroad(n.row.Namespace, len(n.findings), bounds))
			return true
		}
		if problem := join(n); problem != nil {
			p.refuse(n, *problem)
			return true
		}
		taken.add(n.row.Namespace, len(n.findings))
		return false
	})
	return nil
}
