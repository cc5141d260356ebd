package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// carryOut ends and begins decisions, and tells of it.
func (t *txn) carryOut(source string, plan *decisionPlan) error {
	var touched []int64
	var told, ended []addressedEvent
	before := map[store.DecisionObject]int{}
	// What decisions of objects of the cluster matched until now, and match from now on.
	matched, keys := map[int64][]int64{}, map[int64]store.DecisionObject{}
	note := func(row *decisionRow, findings []int64) {
		if row.Namespace == "" {
			matched[row.ID], keys[row.ID] = findings, row.object()
		}
	}
	replaced := make(map[store.DecisionObject]bool, len(plan.begin))
	for _, n := range plan.begin {
		replaced[n.row.object()] = n.replaces
	}
	for _, how := range []string{endChanged, endDeleted} {
		counts, findings, err := t.endDecisions(plan.end[how], how)
		if err != nil {
			return err
		}
		for i := range plan.end[how] {
			row := &plan.end[how][i]
			touched = append(touched, findings[row.ID]...)
			note(row, findings[row.ID])
			if before[row.object()] = counts[row.ID]; !replaced[row.object()] {
				told = append(told, addressedEvent{DecisionEvent: row.event(store.DecisionRemoved, counts[row.ID])})
			}
		}
	}
	if err := t.keepReaches(plan); err != nil {
		return err
	}
	if err := t.beginDecisions(source, plan); err != nil {
		return err
	}
	if err := t.keepDeletions(plan); err != nil {
		return err
	}
	counts, err := countBegun(t.DB, t.Dialect, plan.begin)
	if err != nil {
		return err
	}
	for _, n := range plan.begin {
		touched = append(touched, n.findings...)
		switch {
		case n.over && n.replaces:
			// It matches nothing: what counts again is what the one before it matched.
			ended = append(ended, addressedEvent{DecisionEvent: n.row.event("", before[n.row.object()])})
			continue
		case n.over:
			continue
		case n.replaces:
			told = append(told, addressedEvent{DecisionEvent: n.row.event(store.DecisionChanged, counts[n.row.ID])})
		default:
			told = append(told, addressedEvent{DecisionEvent: n.row.event(store.DecisionApplied, counts[n.row.ID])})
		}
		note(&n.row, n.findings)
	}
	audiences, err := audiencesOf(t, matched, keys)
	if err != nil {
		return err
	}
	for _, events := range [][]addressedEvent{told, ended} {
		for i := range events {
			events[i].audience = audiences[*events[i].Object]
		}
	}
	if err := t.redecide(touched); err != nil {
		return err
	}
	if err := t.writeDecisionEvents(store.EventDecisionExpired, ended); err != nil {
		return err
	}
	return t.writeDecisionEvents(store.EventDecisionChanged, told)
}

// eventsOf are the events about decisions that end, with how many findings each matches. Statements of VEX documents have one in common for each object,
// status and end: there may be thousands, and events name no statements.
func eventsOf(rows []decisionRow, counts map[int64]int, audiences map[int64]audience) []addressedEvent {
	type subject struct {
		object         store.DecisionObject
		status, author string
		end            int64
	}
	var told []addressedEvent
	at := map[subject]int{}
	for i := range rows {
		row := &rows[i]
		about := subject{row.object(), row.Status, row.Author, row.ExpiresAt}
		n, found := at[about]
		if !found {
			at[about] = len(told)
			told = append(told, addressedEvent{row.event("", counts[row.ID]), slices.Clone(audiences[row.ID])})
			continue
		}
		told[n].Findings += counts[row.ID]
		told[n].audience.join(audiences[row.ID])
	}
	return told
}

// writeDecisionEvents writes events about decisions, by object: as many as are permitted, above all those that were removed, and the numbers of the others by action,
// kind and namespace, so that those who see one namespace learn of them, too.
func (t *txn) writeDecisionEvents(kind store.EventKind, told []addressedEvent) error {
	byObject := func(a, b addressedEvent) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Name, b.Object.Name))
	}
	slices.SortFunc(told, byObject)
	if singleEvents(told) < len(told) {
		left := func(e *addressedEvent) int {
			if e.Action == store.DecisionRemoved {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(told, func(a, b addressedEvent) int { return cmp.Compare(left(&a), left(&b)) })
		single := singleEvents(told)
		omitted := map[store.DecisionEvent]*addressedEvent{}
		for i := single; i < len(told); i++ {
			of := store.DecisionEvent{Action: told[i].Action, Kind: told[i].Object.Kind, Namespace: told[i].Object.Namespace}
			if of.Action == store.DecisionApplied {
				of.Action = store.DecisionChanged
			}
			if omitted[of] == nil {
				omitted[of] = &addressedEvent{DecisionEvent: of}
			}
			omitted[of].Omitted++
			omitted[of].audience.join(told[i].audience)
		}
		told = told[:single]
		slices.SortFunc(told, byObject)
		for _, of := range slices.SortedFunc(maps.Keys(omitted), func(a, b store.DecisionEvent) int {
			return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace))
		}) {
			told = append(told, *omitted[of])
		}
	}
	for i := range told {
		if err := t.event(kind, "", "", told[i].DecisionEvent); err != nil {
			return err
		}
		if written := &t.events[len(t.events)-1]; written.namespaces == nil {
			written.namespaces = t.namespaces.in(told[i].audience)
		}
	}
	return nil
}

// beginDecisions writes new decisions and what they match.
func (t *txn) beginDecisions(source string, plan *decisionPlan) error {
	begin := plan.begin
	var values []any
	for _, n := range begin {
		until, endedBy := int64(stillOpen), ""
		if n.over {
			until, endedBy = t.now, endExpired
		}
		reach := int64(everywhere)
		if n.reach != nil {
			// One that is over has none: nothing is looked up for it.
			reach = plan.numbers[n.reach.digest]
		}
		r := &n.row
		values = append(values, source, r.Kind, r.Namespace, r.Name, r.Digest, reach, r.Status, n.suppresses, n.unfixed, n.spec, n.justification, n.comment,
			r.Author, r.ExpiresAt, t.now, until, endedBy)
	}
	err := t.Insert("decisions", []string{
		"source", "kind", "namespace", "name", "digest", "reach", "status", "suppresses", "unfixed", "spec", "justification", "comment", "author",
		"expires_at", "since", "until_time", "ended_by",
	}, values, "")
	if err != nil {
		return err
	}
	var rows []decisionRow
	err = t.Raw("SELECT d.id, d.kind, d.namespace, d.name, d.digest FROM decisions d WHERE d.source = ? AND d.until_time = ?", source, int64(stillOpen)).Scan(&rows).Error
	if err != nil {
		return err
	}
	ids := make(map[decisionName]int64, len(rows))
	for i := range rows {
		ids[decisionName{rows[i].object(), rows[i].Digest}] = rows[i].ID
	}
	var names, matches []any
	for _, n := range begin {
		if n.over {
			continue
		}
		n.row.ID = ids[decisionName{n.row.object(), n.row.Digest}]
		if len(n.names) == 0 {
			names = append(names, "", n.row.ID)
		}
		for _, name := range n.names {
			names = append(names, name, n.row.ID)
		}
		for _, finding := range n.findings {
			matches = append(matches, finding, n.row.ID)
		}
	}
	if err := t.Insert("decision_names", []string{"name", "decision_pk"}, names, ""); err != nil {
		return err
	}
	return t.Insert("decision_findings", []string{"finding_id", "decision_pk"}, matches, "")
}

// endDecisions ends decisions, and returns how many findings each matched, as countVisibleMatches counts them, and which these were.
func (t *txn) endDecisions(rows []decisionRow, how string) (counts map[int64]int, matched map[int64][]int64, err error) {
	if matched, err = matchesOfRows(t.DB, t.Dialect, rows); err != nil {
		return nil, nil, err
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	if counts, err = countVisibleMatches(t.DB, t.Dialect, rows, matched); err != nil {
		return nil, nil, err
	}
	return counts, matched, inParts(ids, func(part []int64) error {
		for _, table := range []string{"decision_findings", "decision_names"} {
			if err := t.Execute("DELETE FROM "+table+" WHERE decision_pk IN ?", part); err != nil {
				return err
			}
		}
		return t.Execute("UPDATE decisions SET until_time = ?, ended_by = ? WHERE id IN ? AND until_time = ?", t.now, how, part, int64(stillOpen))
	})
}
