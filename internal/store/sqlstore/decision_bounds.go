package sqlstore

import (
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

func tooMany() store.DecisionProblem {
	return store.DecisionProblem{Reason: store.DecisionTooMany, Message: fmt.Sprintf("%d decisions apply at most; delete others first", store.MaxDecisions)}
}

func tooBroad(findings int, bounds matchBounds) store.DecisionProblem {
	return store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
		"it matches %d findings; the maximum is %d for one decision and %d for all; name fewer packages", findings, bounds.one, bounds.all)}
}

// bound looks up what the new decisions match and leaves out those that there is no room for. What those match that end makes room.
func (p *decisionPlan) bound(tx *gorm.DB, source string, kept int, ending []int64, bounds matchBounds) error {
	if len(p.begin) == 0 {
		return nil
	}
	var others, matches int
	if err := tx.Raw("SELECT COUNT(*) FROM decisions WHERE until_time = ? AND source <> ?", int64(stillOpen), source).Scan(&others).Error; err != nil {
		return err
	}
	if err := tx.Raw("SELECT COUNT(*) FROM decision_findings").Scan(&matches).Error; err != nil {
		return err
	}
	err := inParts(ending, func(part []int64) error {
		var freed int
		err := tx.Raw("SELECT COUNT(*) FROM decision_findings WHERE decision_pk IN ?", part).Scan(&freed).Error
		matches -= freed
		return err
	})
	if err != nil {
		return err
	}
	room := store.MaxDecisions - others - kept
	p.begin = slices.DeleteFunc(p.begin, func(n *newDecision) bool {
		if n.over {
			return false
		}
		if room--; room >= 0 {
			return false
		}
		p.problems[n.row.object()] = tooMany()
		return true
	})
	if err := p.boundReaches(tx); err != nil {
		return err
	}
	if err := matchDecisions(tx, p.begin); err != nil {
		return err
	}
	p.begin = slices.DeleteFunc(p.begin, func(n *newDecision) bool {
		most, bound := len(n.findings), bounds.one
		if most <= bound {
			most, bound = matches+len(n.findings), bounds.all
		}
		if most <= bound {
			matches = most
			return false
		}
		p.problems[n.row.object()] = tooBroad(len(n.findings), bounds)
		return true
	})
	return nil
}
