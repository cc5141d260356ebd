package sqlstore

import (
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// matchesBehind reports whether the findings of decisions were looked up by another version of the matcher.
func (s *Store) matchesBehind(tx *gorm.DB) (bool, error) {
	var version int64
	err := tx.Raw("SELECT COALESCE(MAX(version), 0) FROM decision_matcher").Scan(&version).Error
	return version != s.matcherVersion, err
}

// rematchDecisions looks up again which findings the decisions match that apply, and notes the version of the matcher. Decisions with a rule are compared by vex.Evaluator.
// What a decision matches more by that is not bounded, as what is found later is not: it was permitted to apply.
func (t *txn) rematchDecisions(version int64) error {
	applied, err := matchersOf(t.DB)
	if err != nil {
		return err
	}
	if err := matchDecisions(t.DB, applied); err != nil {
		return err
	}
	current, err := currentNumber(t.DB)
	if err != nil {
		return err
	}
	var touched []int64
	var differ []*newDecision
	either := map[int64][]int64{} // What decisions that differ matched before, and match now.
	err = inParts(applied, func(part []*newDecision) error {
		ids := make([]int64, len(part))
		for i, n := range part {
			ids[i] = n.row.ID
		}
		before := map[int64][]int64{}
		matched := t.Table("decision_findings AS m").Joins("JOIN findings f ON f.id = m.finding_id").Where("m.decision_pk IN ? AND f.until_gen > ?", ids, current)
		err := eachList(matched, t.Dialect, "m.decision_pk", "m.finding_id", func(id int64, list []int64) {
			slices.Sort(list)
			before[id] = list
		})
		if err != nil {
			return err
		}
		var added []any
		for _, n := range part {
			gone, more := notIn(before[n.row.ID], n.findings), notIn(n.findings, before[n.row.ID])
			if len(gone)+len(more) > 0 {
				differ = append(differ, n)
				either[n.row.ID] = slices.Concat(gone, n.findings)
			}
			for _, finding := range more {
				added = append(added, finding, n.row.ID)
			}
			touched = append(append(touched, gone...), more...)
			err := inParts(gone, func(findings []int64) error {
				return t.Execute("DELETE FROM decision_findings WHERE decision_pk = ? AND finding_id IN ?", n.row.ID, findings)
			})
			if err != nil {
				return err
			}
		}
		return t.Insert("decision_findings", []string{"finding_id", "decision_pk"}, added, "")
	})
	if err != nil {
		return err
	}
	if len(touched) > 0 {
		if err := t.redecide(touched); err != nil {
			return err
		}
		if err := t.writeRematchEvents(differ, either); err != nil {
			return err
		}
	}
	if err := t.Execute("DELETE FROM decision_matcher"); err != nil {
		return err
	}
	return t.Insert("decision_matcher", []string{"id", "version"}, []any{1, version}, "")
}

// writeRematchEvents writes events about decisions that match other findings than before.
func (t *txn) writeRematchEvents(differ []*newDecision, matched map[int64][]int64) error {
	counts, err := countBegun(t.DB, t.Dialect, differ)
	if err != nil {
		return err
	}
	rows := make([]decisionRow, len(differ))
	for i, n := range differ {
		rows[i] = n.row
	}
	audiences, err := audiencesOf(t, matched, clusterwide(rows))
	if err != nil {
		return err
	}
	told := make([]addressedEvent, len(differ))
	for i, n := range differ {
		told[i] = addressedEvent{n.row.event(store.DecisionChanged, counts[n.row.ID]), audiences[n.row.ID]}
	}
	return t.writeDecisionEvents(store.EventDecisionChanged, told)
}

// notIn are the numbers of a list that are not in another one. Both are in order.
func notIn(list, other []int64) []int64 {
	var left []int64
	for _, n := range list {
		if _, found := slices.BinarySearch(other, n); !found {
			left = append(left, n)
		}
	}
	return left
}

// matchersOf reads the decisions without a rule that apply, with what is needed to match them.
func matchersOf(tx *gorm.DB) ([]*newDecision, error) {
	var rows []struct {
		Decision decisionRow `gorm:"embedded"`
		Unfixed  int64
		Spec     string
	}
	err := tx.Raw("SELECT "+decisionColumns+`, d.unfixed, d.spec FROM decisions d LEFT JOIN decision_rules r ON r.decision_pk = d.id
		WHERE d.until_time = ? AND r.decision_pk IS NULL ORDER BY d.id`, int64(stillOpen)).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	all := make([]*newDecision, len(rows))
	for i, row := range rows {
		var spec decisionSpec
		if err := fromJSON(row.Spec, &spec); err != nil {
			return nil, err
		}
		n := &newDecision{row: row.Decision, matcher: decision.NewStoredMatcher(spec.Packages, row.Unfixed != 0)}
		for _, id := range spec.Vulnerabilities {
			n.names = append(n.names, spellings(id)...)
		}
		slices.Sort(n.names)
		n.names = slices.Compact(n.names)
		all[i] = n
	}
	return all, nil
}
