package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Statements of VEX documents contradict each other, so that one may override another. Of the statements about a finding, decision_findings has
// the one that decides, or those that decide in some images. Whenever statements begin, end or change, all findings are looked at again that they
// name.

// vexPlan is what makes the decisions of VEX documents those that are wanted.
type vexPlan struct {
	changed, deleted []decisionRow
	begin            []*newDecision
	// revised have another rule, and are otherwise the same.
	revised []*newDecision
	// before and after count the statements of each object.
	before, after map[store.DecisionObject]int
}

func (p *vexPlan) empty() bool {
	return len(p.changed)+len(p.deleted)+len(p.begin)+len(p.revised) == 0
}

// SyncVEX implements store.VEXDocuments.
func (s *Store) SyncVEX(ctx context.Context, revision string, decisions []store.Decision) error {
	const what = "apply VEX documents"
	if s.rules == nil {
		return fmt.Errorf("%s: the store was opened without rules", what)
	}
	if len(decisions) > store.MaxVEXDecisions {
		return fmt.Errorf("%s: they have %d statements, the maximum is %d: delete some documents: %w", what, len(decisions), store.MaxVEXDecisions, store.ErrVEXTooMany)
	}
	wanted := make([]*newDecision, len(decisions))
	size := 0
	for i := range decisions {
		if size += len(decisions[i].Rule); size > store.MaxVEXRuleBytes {
			return fmt.Errorf("%s: the products of their statements take more than %d bytes: delete some documents: %w", what, store.MaxVEXRuleBytes, store.ErrVEXTooMany)
		}
		n, err := decisionOf(&decisions[i])
		if err == nil && (n.rule == "" || len(n.names) == 0 || len(decisions[i].Packages) > 0 || decisions[i].Places != nil || n.unfixed != 0) {
			err = errors.New("a decision of a VEX document has a rule, vulnerabilities and maybe images and an end, and nothing else")
		}
		if err == nil && n.row.ExpiresAt != 0 {
			err = s.checkEnding(n.rule)
		}
		if err == nil {
			err = checkIdentifier("the statement of the object", n.statement)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", what, decisions[i].Object.Kind, decisions[i].Object.Name, err)
		}
		wanted[i] = n
	}
	settled := false
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		plan, err := planVEX(tx, revision, wanted, s.now(), s.matchBounds)
		settled = err == nil && plan.empty()
		return err
	})
	if err != nil || settled {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		plan, err := planVEX(tx.DB, revision, wanted, tx.now, s.matchBounds)
		if err != nil {
			return err
		}
		return tx.carryOutVEX(s.rules, plan, s.matchBounds)
	})
}

// checkEnding refuses the rule of a decision with an end if others depend on it: which of them decides is not found out again when it ends.
func (s *Store) checkEnding(text string) error {
	rule, err := s.rules.Parse(text)
	if err == nil && !s.rules.Independent(rule) {
		err = errors.New("a decision with an end has a rule that is not independent of others")
	}
	return err
}

// planVEX compares what is wanted with what applies. What is over does not begin, and ends with ExpireDecisions if it applies.
func planVEX(tx *gorm.DB, revision string, wanted []*newDecision, now int64, bounds matchBounds) (*vexPlan, error) {
	if _, now, err := listVEX(tx); err != nil || now != revision {
		return nil, cmp.Or(err, store.ErrVEXChanged)
	}
	var others int
	err := tx.Raw("SELECT COUNT(*) FROM decisions WHERE until_time = ? AND source <> ?", int64(stillOpen), store.DecisionSourceVEX).Scan(&others).Error
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Decision              decisionRow `gorm:"embedded"`
		Statement, RuleDigest string
	}
	err = tx.Raw("SELECT "+decisionColumns+`, r.statement, r.digest AS rule_digest FROM decisions d JOIN decision_rules r ON r.decision_pk = d.id
		WHERE d.source = ? AND d.until_time = ? ORDER BY d.id`, store.DecisionSourceVEX, int64(stillOpen)).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	plan := &vexPlan{before: map[store.DecisionObject]int{}, after: map[store.DecisionObject]int{}}
	type applied struct {
		row  *decisionRow
		rule string
	}
	applies := make(map[store.DecisionObject]applied, len(rows))
	for i := range rows {
		object := rows[i].Decision.object()
		plan.before[object]++
		object.Statement = rows[i].Statement
		applies[object] = applied{&rows[i].Decision, rows[i].RuleDigest}
	}
	for _, n := range wanted {
		object := n.row.object()
		named := object
		named.Statement = n.statement
		before, found := applies[named]
		same := found && before.row.Digest == n.row.Digest
		delete(applies, named)
		if n.row.ExpiresAt > 0 && n.row.ExpiresAt <= now && !same {
			if found {
				plan.changed = append(plan.changed, *before.row)
			}
			continue
		}
		plan.after[object]++
		switch {
		case !found:
			plan.begin = append(plan.begin, n)
		case !same:
			plan.changed = append(plan.changed, *before.row)
			plan.begin = append(plan.begin, n)
		case before.rule != contentDigest(n.rule):
			n.row.ID = before.row.ID
			plan.revised = append(plan.revised, n)
		}
	}
	applying := 0
	for _, statements := range plan.after {
		applying += statements
	}
	if others+applying > bounds.decisions && applying > len(rows) {
		return nil, &store.VEXRoomError{Bound: fmt.Sprintf("there would be %d statements of VEX documents besides %d exceptions", applying, others), Limit: bounds.decisions}
	}
	for _, before := range applies {
		plan.deleted = append(plan.deleted, *before.row)
	}
	slices.SortFunc(plan.deleted, func(a, b decisionRow) int { return cmp.Compare(a.ID, b.ID) })
	return plan, nil
}

// carryOutVEX ends, begins and revises statements, and tells of it.
func (t *txn) carryOutVEX(rules decision.Rules, plan *vexPlan, bounds matchBounds) error {
	before, err := t.countMatches()
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, n := range slices.Concat(plan.begin, plan.revised) {
		for _, name := range n.names {
			names[name] = true
		}
	}
	var touched []int64
	// Of the statements that differ, what they matched until now, and match from now on.
	matched, keys := map[int64][]int64{}, map[int64]store.DecisionObject{}
	for how, rows := range map[string][]decisionRow{endChanged: plan.changed, endDeleted: plan.deleted} {
		ids := make([]int64, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		err := inParts(ids, func(part []int64) error {
			var named []string
			if err := t.Raw("SELECT DISTINCT name FROM decision_names WHERE decision_pk IN ?", part).Scan(&named).Error; err != nil {
				return err
			}
			for _, name := range named {
				names[name] = true
			}
			return t.Execute("DELETE FROM decision_rules WHERE decision_pk IN ?", part)
		})
		if err != nil {
			return err
		}
		_, findings, err := t.endDecisions(rows, how)
		if err != nil {
			return err
		}
		for i := range rows {
			touched = append(touched, findings[rows[i].ID]...)
			matched[rows[i].ID], keys[rows[i].ID] = findings[rows[i].ID], rows[i].object()
		}
	}
	note := func(statements []*newDecision) error {
		rows := make([]decisionRow, len(statements))
		for i, n := range statements {
			rows[i], keys[n.row.ID] = n.row, n.row.object()
		}
		found, err := matchesOfRows(t.DB, t.Dialect, rows)
		for id, findings := range found {
			matched[id] = append(matched[id], findings...)
		}
		return err
	}
	if err := note(plan.revised); err != nil {
		return err
	}
	if err := t.beginVEX(plan.begin, bounds); err != nil {
		return err
	}
	if err := t.saveRules(plan); err != nil {
		return err
	}
	changed, err := t.resolve(rules, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return err
	}
	// New findings add matches without a look at the bound. What makes them fewer is never refused.
	if matches, err := t.countMatches(); err != nil {
		return err
	} else if matches > bounds.all && matches > before {
		return &store.VEXRoomError{Bound: fmt.Sprintf("all decisions together would match %d findings", matches), Limit: bounds.all}
	}
	if err := note(slices.Concat(plan.begin, plan.revised)); err != nil {
		return err
	}
	audiences, err := audiencesOf(t, matched, keys)
	if err != nil {
		return err
	}
	if err := t.redecide(append(touched, changed...)); err != nil {
		return err
	}
	return t.writeVEXEvents(plan, audiences)
}

// beginVEX writes new statements, and the images that they are about.
func (t *txn) beginVEX(begin []*newDecision, bounds matchBounds) error {
	plan := &decisionPlan{begin: begin, problems: map[store.DecisionObject]store.DecisionProblem{}}
	if err := plan.boundReaches(t.DB, bounds); err != nil {
		return err
	}
	if len(plan.problems) > 0 {
		return &store.VEXRoomError{Bound: "all decisions together would name too many images", Limit: bounds.images}
	}
	if err := t.keepReaches(plan); err != nil {
		return err
	}
	return t.beginDecisions(store.DecisionSourceVEX, plan)
}

func (t *txn) saveRules(plan *vexPlan) error {
	var values []any
	for _, n := range plan.begin {
		values = append(values, n.row.ID, n.statement, contentDigest(n.rule), n.rule)
	}
	for _, n := range plan.revised {
		if err := t.Execute("UPDATE decision_rules SET digest = ?, rule = ? WHERE decision_pk = ?", contentDigest(n.rule), n.rule, n.row.ID); err != nil {
			return err
		}
	}
	return t.Insert("decision_rules", []string{"decision_pk", "statement", "digest", "rule"}, values, "")
}

// endRules deletes the rules of decisions that have ended.
func (t *txn) endRules(rows []decisionRow) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return inParts(ids, func(part []int64) error { return t.Execute("DELETE FROM decision_rules WHERE decision_pk IN ?", part) })
}

// resolve finds out which statement decides about each live finding with one of the names, and returns the findings that have another one now.
func (t *txn) resolve(rules decision.Rules, names []string) ([]int64, error) {
	current, err := currentNumber(t.DB)
	if err != nil {
		return nil, err
	}
	found := map[int64]bool{}
	err = inParts(names, func(part []string) error {
		var ids []int64
		err := t.Raw(`SELECT DISTINCT f.id FROM vulnerability_names n CROSS JOIN findings f
			WHERE n.name IN ? AND f.vulnerability_pk = n.vulnerability_pk AND f.until_gen > ?`, part, current).Scan(&ids).Error
		for _, id := range ids {
			found[id] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	reader := &ruleReader{rules: rules, work: map[int64]int{}}
	var touched []int64
	err = inParts(slices.Sorted(maps.Keys(found)), func(part []int64) error {
		changed, err := t.resolvePart(reader, part)
		touched = append(touched, changed...)
		return err
	})
	if errors.Is(err, errRuleWork) {
		err = t.heaviest(reader.work)
	}
	return touched, err
}

// heaviest returns the error about the source whose rules took the most work.
func (t *txn) heaviest(work map[int64]int) error {
	sum := map[store.DecisionObject]int{}
	err := inParts(slices.Sorted(maps.Keys(work)), func(part []int64) error {
		var rows []struct {
			ID         int64
			Kind, Name string
		}
		err := t.Raw("SELECT d.id, d.kind, d.name FROM decisions d WHERE d.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			sum[store.DecisionObject{Kind: row.Kind, Name: row.Name}] += work[row.ID]
		}
		return err
	})
	if err != nil {
		return err
	}
	heaviest := slices.MaxFunc(slices.Collect(maps.Keys(sum)), func(a, b store.DecisionObject) int {
		return cmp.Or(cmp.Compare(sum[a], sum[b]), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return &store.VEXWorkError{Kind: heaviest.Kind, Name: heaviest.Name, Limit: maxRuleWork / 100}
}

// countMatches counts what all decisions together match.
func (t *txn) countMatches() (matches int, err error) {
	err = t.Raw("SELECT COUNT(*) FROM decision_findings").Scan(&matches).Error
	return matches, err
}

// namedByVEX selects the statements of VEX documents that name the vulnerabilities of findings. The values are the findings.
const namedByVEX = `SELECT DISTINCT f.id AS finding_id, dn.decision_pk FROM findings f CROSS JOIN vulnerabilities v CROSS JOIN vulnerability_names n
	CROSS JOIN decision_names dn CROSS JOIN decision_rules r
	WHERE f.id IN ? AND v.id = f.vulnerability_pk AND n.vulnerability_pk = f.vulnerability_pk AND dn.name = n.name AND r.decision_pk = dn.decision_pk AND ` + knownAs

func (t *txn) resolvePart(reader *ruleReader, findings []int64) ([]int64, error) {
	var pairs, before []struct{ FindingID, DecisionPk int64 }
	if err := t.Raw(namedByVEX, findings).Scan(&pairs).Error; err != nil {
		return nil, err
	}
	err := t.Raw(`SELECT m.finding_id, m.decision_pk FROM decision_findings m JOIN decision_rules r ON r.decision_pk = m.decision_pk WHERE m.finding_id IN ?`,
		findings).Scan(&before).Error
	if err != nil {
		return nil, err
	}
	candidates := map[int64][]int64{}
	for _, pair := range pairs {
		candidates[pair.FindingID] = append(candidates[pair.FindingID], pair.DecisionPk)
	}
	decides, err := reader.decide(t.DB, candidates)
	if err != nil {
		return nil, err
	}
	var touched []int64
	for _, pair := range before {
		if n := slices.Index(decides[pair.FindingID], pair.DecisionPk); n >= 0 {
			decides[pair.FindingID] = slices.Delete(decides[pair.FindingID], n, n+1)
			continue
		}
		touched = append(touched, pair.FindingID)
		if err := t.Execute("DELETE FROM decision_findings WHERE finding_id = ? AND decision_pk = ?", pair.FindingID, pair.DecisionPk); err != nil {
			return nil, err
		}
	}
	var values []any
	for _, id := range slices.Sorted(maps.Keys(decides)) {
		for _, deciding := range decides[id] {
			values = append(values, id, deciding)
			touched = append(touched, id)
		}
	}
	return touched, t.Insert("decision_findings", []string{"finding_id", "decision_pk"}, values, "")
}

// writeVEXEvents writes one event about each object whose statements differ.
func (t *txn) writeVEXEvents(plan *vexPlan, audiences map[store.DecisionObject]audience) error {
	differs := map[store.DecisionObject]bool{}
	for _, n := range slices.Concat(plan.begin, plan.revised) {
		differs[n.row.object()] = true
	}
	for _, row := range slices.Concat(plan.changed, plan.deleted) {
		differs[row.object()] = true
	}
	var told []addressedEvent
	for object := range differs {
		action := store.DecisionChanged
		switch {
		case plan.before[object] == 0:
			action = store.DecisionApplied
		case plan.after[object] == 0:
			action = store.DecisionRemoved
		}
		var findings int
		err := t.Raw(`SELECT COUNT(*) FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk
			WHERE d.source = ? AND d.kind = ? AND d.name = ? AND d.until_time = ?`, store.DecisionSourceVEX, object.Kind, object.Name, int64(stillOpen)).Scan(&findings).Error
		if err != nil {
			return err
		}
		told = append(told, addressedEvent{store.DecisionEvent{Action: action, Object: &object, Findings: findings}, audiences[object]})
	}
	return t.writeDecisionEvents(store.EventDecisionChanged, told)
}
