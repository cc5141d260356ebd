package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// policyRow is a row of policies.
type policyRow struct {
	ID                          int64
	Name, Digest, Spec, Failure string
	Applies, Placed, Since      int64
}

const policyColumns = "pl.id, pl.name, pl.digest, pl.spec, pl.failure, pl.applies, pl.placed, pl.since"

// policySpec is what a policy says.
type policySpec struct {
	Select string        `json:"select"`
	From   model.DueFrom `json:"from"`
	DueIn  model.DueIn   `json:"dueIn"`
	// Places is the store.DecisionPlaces.Selector, "" for everywhere.
	Places string `json:"places,omitempty"`
}

// compiledPolicy is a policy that can be evaluated.
type compiledPolicy struct {
	row      policyRow
	spec     policySpec
	terms    policy.Terms
	selector *policy.Selector
	// selected is what the selectors of labels select, nil for everything. That of a stored policy is read with readSelections.
	selected *selection
	// failures counts what the expression could not be evaluated for; failure tells of the first.
	failures int
	failure  string
}

// selectors remembers compiled expressions: compiling takes a millisecond.
var selectors = struct {
	sync.Mutex
	known map[string]*policy.Selector
}{known: map[string]*policy.Selector{}}

// selectorOf compiles an expression.
func selectorOf(expression string) (*policy.Selector, error) {
	selectors.Lock()
	defer selectors.Unlock()
	if known := selectors.known[expression]; known != nil {
		return known, nil
	}
	selector, err := policy.Compile(expression)
	if err != nil {
		return nil, err
	}
	if len(selectors.known) >= 2*store.MaxPolicies {
		clear(selectors.known)
	}
	selectors.known[expression] = selector
	return selector, nil
}

// policyOf reads a policy.
func policyOf(p *store.Policy) (*compiledPolicy, error) {
	if err := checkIdentifier("the name", p.Name); err != nil {
		return nil, err
	}
	if p.From != model.DueFromFirstSeen && p.From != model.DueFromFixAvailable {
		return nil, fmt.Errorf("from is %q; use %s or %s", p.From, model.DueFromFirstSeen, model.DueFromFixAvailable)
	}
	some := false
	for _, days := range []*int{p.DueIn.Critical, p.DueIn.High, p.DueIn.Medium, p.DueIn.Low, p.DueIn.KEV} {
		if days != nil && (*days < 0 || *days > model.MaxDueDays) {
			return nil, fmt.Errorf("dueIn has %d days, the maximum is %d", *days, model.MaxDueDays)
		}
		some = some || days != nil
	}
	if !some {
		return nil, errors.New("dueIn is empty")
	}
	selected, err := readSelection(p.Places)
	if err != nil {
		return nil, err
	}
	spec := policySpec{Select: p.Select, From: p.From, DueIn: p.DueIn}
	if p.Places != nil {
		spec.Places = p.Places.Selector
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	compiled, err := compile(policyRow{Name: p.Name, Spec: string(content), Applies: 1})
	if err != nil {
		return nil, err
	}
	compiled.row.Digest, compiled.selected = contentDigest(p.Name, string(content)), selected
	return compiled, nil
}

// compile makes a stored policy one that can be evaluated.
func compile(row policyRow) (*compiledPolicy, error) {
	c := &compiledPolicy{row: row}
	if err := fromJSON(row.Spec, &c.spec); err != nil {
		return nil, fmt.Errorf("policy %s in the database: %w", row.Name, err)
	}
	c.terms = policy.Terms{From: c.spec.From, DueIn: c.spec.DueIn}
	var err error
	if c.selector, err = selectorOf(c.spec.Select); err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	if c.spec.Places != "" {
		c.selected = &selection{}
	}
	c.row.Placed = boolean(c.selector.Placed() || c.selected != nil)
	return c, nil
}

// note notes that the expression could not be evaluated.
func (c *compiledPolicy) note(what string, err error) {
	if c.failures++; c.failures == 1 {
		c.failure = sqldb.Truncate(fmt.Sprintf("for %s: %v", what, err), maxMessage/2)
	}
}

// appliedPolicies reads the policies that apply, by name.
func appliedPolicies(tx *gorm.DB) ([]policyRow, error) {
	var rows []policyRow
	err := tx.Raw("SELECT " + policyColumns + " FROM policies pl WHERE pl.applies = 1 ORDER BY pl.name").Scan(&rows).Error
	return rows, err
}

// compiledPolicies reads the policies that apply, ready to be evaluated. One that an earlier version of the program accepted and this one does not
// selects nothing until SyncPolicies removes it.
func compiledPolicies(tx *gorm.DB) ([]*compiledPolicy, error) {
	rows, err := appliedPolicies(tx)
	if err != nil {
		return nil, err
	}
	all := make([]*compiledPolicy, 0, len(rows))
	for _, row := range rows {
		if c, err := compile(row); err == nil {
			all = append(all, c)
		}
	}
	return all, nil
}

// policyPlan is what makes the policies those that are wanted.
type policyPlan struct {
	begin    []*compiledPolicy
	end      []int64
	problems map[string]store.PolicyProblem
	// reselect are policies that stay and select other places now, by number.
	reselect map[int64]*selection
}

// SyncPolicies implements store.Policies.
func (s *Store) SyncPolicies(ctx context.Context, policies []store.Policy) (map[string]store.PolicyProblem, error) {
	const what = "apply policies"
	var plan *policyPlan
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		plan, err = planPolicies(tx, policies)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(plan.begin)+len(plan.end)+len(plan.reselect) == 0 {
		return plan.problems, nil
	}
	err = s.write(ctx, what, func(tx *txn) (err error) {
		if plan, err = planPolicies(tx.DB, policies); err != nil {
			return err
		}
		return tx.applyPolicies(plan, s.policyRows)
	})
	if err != nil {
		return nil, err
	}
	return plan.problems, nil
}

// planPolicies compares what is wanted with what applies.
func planPolicies(tx *gorm.DB, policies []store.Policy) (*policyPlan, error) {
	plan := &policyPlan{problems: map[string]store.PolicyProblem{}, reselect: map[int64]*selection{}}
	var rows []policyRow
	if err := tx.Raw("SELECT " + policyColumns + " FROM policies pl ORDER BY pl.name").Scan(&rows).Error; err != nil {
		return nil, err
	}
	known := make(map[string]*policyRow, len(rows))
	for i := range rows {
		known[rows[i].Name] = &rows[i]
	}
	stored, err := selectionDigests(tx)
	if err != nil {
		return nil, err
	}
	var wanted []*compiledPolicy
	seen, digests := map[string]bool{}, map[string]bool{}
	for i := range policies {
		name := policies[i].Name
		if seen[name] {
			continue
		}
		seen[name] = true
		if len(wanted) >= store.MaxPolicies {
			plan.problems[name] = store.PolicyProblem{Reason: store.PolicyTooMany, Message: fmt.Sprintf("%d policies apply at most; delete others first", store.MaxPolicies)}
			continue
		}
		one, err := policyOf(&policies[i])
		if err != nil {
			reason := store.PolicyInvalid
			if many := (tooManyPlacesError{}); errors.As(err, &many) {
				reason = store.PolicyTooBroad
			}
			plan.problems[name] = store.PolicyProblem{Reason: reason, Message: err.Error()}
			continue
		}
		wanted = append(wanted, one)
		digests[one.row.Digest] = true
	}
	// What ends or is changed makes room for policies that were refused.
	room := slices.ContainsFunc(rows, func(r policyRow) bool { return r.Applies == 1 && !digests[r.Digest] })
	kept := map[int64]bool{}
	for _, one := range wanted {
		name := one.row.Name
		before := known[name]
		if before != nil && before.Digest == one.row.Digest && (before.Applies == 1 || !room) {
			kept[before.ID] = true
			if one.selected != nil && one.selected.digest != stored[before.ID] {
				plan.reselect[before.ID] = one.selected
			}
			if before.Failure != "" {
				plan.problems[name] = problemOf(before)
			}
			continue
		}
		if before != nil && before.Applies == 1 {
			// An edit continues the policy: a date that has passed and that no event told of, because a decision suppresses the finding, stays one to tell of.
			one.row.Since = before.Since
		}
		plan.begin = append(plan.begin, one)
	}
	for i := range rows {
		if !kept[rows[i].ID] {
			plan.end = append(plan.end, rows[i].ID)
		}
	}
	return plan, nil
}

// problemOf is what a row tells of a policy that does not apply, or not everywhere.
func problemOf(row *policyRow) store.PolicyProblem {
	if row.Applies == 0 {
		return store.PolicyProblem{Reason: store.PolicyTooBroad, Message: row.Failure}
	}
	return store.PolicyProblem{Reason: store.PolicyEvaluationFailed, Message: row.Failure}
}

// applyPolicies ends and begins policies. bound is the most rows that all have in each table.
func (t *txn) applyPolicies(plan *policyPlan, bound int) error {
	if len(plan.end) > 0 {
		for _, table := range []string{"policy_findings", "policy_places", "policy_selected", "policy_selections"} {
			if err := t.Execute("DELETE FROM "+table+" WHERE policy_pk IN ?", plan.end); err != nil {
				return err
			}
		}
		if err := t.Execute("DELETE FROM policies WHERE id IN ?", plan.end); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(plan.reselect)) {
		if err := t.reselect(id, plan.reselect[id]); err != nil {
			return err
		}
	}
	for _, p := range plan.begin {
		if err := t.beginPolicy(p, bound); err != nil {
			return err
		}
		if p.row.Failure != "" {
			plan.problems[p.row.Name] = problemOf(&p.row)
		}
	}
	return nil
}

// beginPolicy writes a policy and what follows from it.
func (t *txn) beginPolicy(p *compiledPolicy, bound int) error {
	err := t.Insert("policies", []string{"name", "digest", "spec", "applies", "placed", "failure", "since"},
		[]any{p.row.Name, p.row.Digest, p.row.Spec, 1, p.row.Placed, "", cmp.Or(p.row.Since, t.now)}, "")
	if err != nil {
		return err
	}
	if err := t.Raw("SELECT id FROM policies WHERE name = ?", p.row.Name).Scan(&p.row.ID).Error; err != nil {
		return err
	}
	if err := t.saveSelection(p.row.ID, p.selected); err != nil {
		return err
	}
	fits, err := t.dueEverywhere(p, bound)
	if err == nil && fits && p.row.Placed != 0 {
		fits, err = t.placeEverywhere(p, bound)
	}
	if err != nil {
		return err
	}
	switch {
	case !fits:
		p.row.Applies = 0
		p.row.Failure = fmt.Sprintf("the policies have more than %d deadlines of packages or places; narrow the expression of this one", bound)
		for _, table := range []string{"policy_findings", "policy_places"} {
			if err := t.Execute("DELETE FROM "+table+" WHERE policy_pk = ?", p.row.ID); err != nil {
				return err
			}
		}
	case p.failures > 0:
		p.row.Failure = fmt.Sprintf("the expression failed %d times and did not select these; first %s", p.failures, p.failure)
	default:
		return nil
	}
	return t.Execute("UPDATE policies SET applies = ?, failure = ? WHERE id = ?", p.row.Applies, p.row.Failure, p.row.ID)
}
