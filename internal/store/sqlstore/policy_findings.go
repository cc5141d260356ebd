package sqlstore

import (
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
)

// Policies are evaluated once for each row of findings: when the policy begins to apply, when the finding is inserted, and when the scores of its
// vulnerability change. What they say is in policy_findings, also of findings that were closed: views read the past.

// factsRow is a finding with what policies see of it.
type factsRow struct {
	ID, OpenedAt, FixableAt, Fixable     int64
	Severity, Kev, EpssMicros, RiskMicro int64
	FixState, VulnerabilityID, Scores    string
	Type, Name, Version, Distro          string
}

const factsOfFindings = `SELECT f.id, f.opened_at, COALESCE(x.since, 0) AS fixable_at, f.fixable, f.fix_state, v.severity, v.kev, v.epss_micros, v.risk_micros AS risk_micro, v.vulnerability_id,
	CASE WHEN v.kev = 1 THEN v.scores ELSE '' END AS scores, p.type, p.name, p.version, p.distro
	FROM findings f CROSS JOIN vulnerabilities v CROSS JOIN packages p LEFT JOIN finding_fixes x ON x.finding_id = f.id WHERE v.id = f.vulnerability_pk AND p.id = f.package_pk AND `

// factsBatch is how many findings are evaluated at a time.
const factsBatch = 2000

// dueRow is a row of policy_findings: the finding is due so many days after since, or after its image has findings.
type dueRow struct {
	FindingID, PolicyPk, Days, Since int64
}

var dueColumns = []string{"finding_id", "policy_pk", "days", "since"}

func (r *factsRow) facts() policy.Finding {
	return policy.Finding{
		ID: r.VulnerabilityID, Severity: model.Severity(r.Severity).String(), KEV: r.Kev != 0, EPSS: float64(r.EpssMicros) / 1e6, Risk: float64(r.RiskMicro) / 1e6,
		Fixable: r.Fixable != 0, FixState: r.FixState, Package: policy.Package{Type: r.Type, Name: r.Name, Version: r.Version, Distro: r.Distro},
	}
}

// exploitedSince is when the vulnerability was listed as known to be exploited, 0 when that is not known.
func (r *factsRow) exploitedSince() (int64, error) {
	if r.Kev == 0 {
		return 0, nil
	}
	var changing scores
	if err := fromJSON(r.Scores, &changing); err != nil {
		return 0, err
	}
	var first int64
	for _, entry := range changing.KEV {
		at, err := time.Parse(time.DateOnly, entry.DateAdded)
		if err != nil || at.Year() < 2000 || at.After(lastEnd) {
			continue
		}
		if first == 0 || at.UnixMicro() < first {
			first = at.UnixMicro()
		}
	}
	return first, nil
}

// due evaluates policies for a finding.
func (r *factsRow) due(policies []*compiledPolicy) ([]dueRow, error) {
	facts := r.facts()
	exploited, err := r.exploitedSince()
	if err != nil {
		return nil, err
	}
	var rows []dueRow
	for _, p := range policies {
		rules := p.terms.Rules(model.Severity(r.Severity), &facts, policy.Times{Opened: r.OpenedAt, Fixable: r.FixableAt, Exploited: exploited})
		if len(rules) == 0 {
			continue
		}
		selected, err := p.selector.Finding(&facts)
		if err != nil {
			p.note(r.VulnerabilityID+" in "+r.Name, err)
		}
		if !selected {
			continue
		}
		for _, rule := range rules {
			rows = append(rows, dueRow{r.ID, p.row.ID, int64(rule.Days), rule.Since})
		}
	}
	return rows, nil
}

func dueValues(rows []dueRow) []any {
	values := make([]any, 0, 4*len(rows))
	for _, row := range rows {
		values = append(values, row.FindingID, row.PolicyPk, row.Days, row.Since)
	}
	return values
}

// dueEverywhere evaluates a new policy for all findings, until the rows of all policies are too many.
func (t *txn) dueEverywhere(p *compiledPolicy, bound int) (fits bool, err error) {
	var room int
	if err := t.Raw("SELECT ? - COUNT(*) FROM policy_findings", bound).Scan(&room).Error; err != nil {
		return false, err
	}
	for after := int64(0); ; {
		var found []factsRow
		if err := t.Raw(factsOfFindings+"f.id > ? ORDER BY f.id LIMIT ?", after, factsBatch).Scan(&found).Error; err != nil || len(found) == 0 {
			return true, err
		}
		after = found[len(found)-1].ID
		var rows []dueRow
		for i := range found {
			more, err := found[i].due([]*compiledPolicy{p})
			if err != nil {
				return false, err
			}
			rows = append(rows, more...)
		}
		if room -= len(rows); room < 0 {
			return false, nil
		}
		if err := t.Insert("policy_findings", dueColumns, dueValues(rows), ""); err != nil {
			return false, err
		}
	}
}

// redue evaluates the policies that apply for some findings again. chosen selects the findings f by part of a list.
func (t *txn) redue(chosen string, list []int64) error {
	policies, err := compiledPolicies(t.DB)
	if err != nil || len(policies) == 0 {
		return err
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return inParts(slices.Compact(list), func(part []int64) error {
		var found []factsRow
		if err := t.Raw(factsOfFindings+chosen, part).Scan(&found).Error; err != nil {
			return err
		}
		for some := range slices.Chunk(found, factsBatch) {
			if err := t.redueSome(policies, some); err != nil {
				return err
			}
		}
		return nil
	})
}

// redueSome writes what differs of at most factsBatch findings.
func (t *txn) redueSome(policies []*compiledPolicy, found []factsRow) error {
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	before := map[int64]map[dueRow]bool{}
	err := inParts(ids, func(part []int64) error {
		var rows []dueRow
		err := t.Raw("SELECT finding_id, policy_pk, days, since FROM policy_findings WHERE finding_id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			if before[row.FindingID] == nil {
				before[row.FindingID] = map[dueRow]bool{}
			}
			before[row.FindingID][row] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	var stale []int64
	var fresh []dueRow
	for i := range found {
		rows, err := found[i].due(policies)
		if err != nil {
			return err
		}
		known := before[found[i].ID]
		if len(known) == len(rows) && !slices.ContainsFunc(rows, func(row dueRow) bool { return !known[row] }) {
			continue
		}
		if len(known) > 0 {
			stale = append(stale, found[i].ID)
		}
		fresh = append(fresh, rows...)
	}
	err = inParts(stale, func(part []int64) error { return t.Execute("DELETE FROM policy_findings WHERE finding_id IN ?", part) })
	if err != nil {
		return err
	}
	return t.Insert("policy_findings", dueColumns, dueValues(fresh), "")
}

// The findings f that redue chooses.
const (
	dueByID            = "f.id IN ?"
	dueByVulnerability = "f.vulnerability_pk IN ?"
)

// dueInserted evaluates policies for the findings that a result set brought to packages.
func (w *answerWriter) dueInserted(packages []int64) error {
	if applied, err := appliedPolicies(w.DB); err != nil || len(applied) == 0 {
		return err
	}
	return inParts(packages, func(part []int64) error {
		var ids []int64
		if err := w.Raw("SELECT f.id FROM findings f WHERE f.package_pk IN ? AND f.from_gen = ?", part, w.target).Scan(&ids).Error; err != nil {
			return err
		}
		return w.redue(dueByID, ids)
	})
}

// rescored lists the vulnerabilities whose scores change at a switch in a way that policies see.
func rescored(tx *gorm.DB) ([]int64, error) {
	policies, err := compiledPolicies(tx)
	if err != nil || len(policies) == 0 {
		return nil, err
	}
	condition := "s.kev <> v.kev OR s.kev = 1 AND s.scores <> v.scores" // Dates of known exploitation can be corrected.
	if slices.ContainsFunc(policies, func(p *compiledPolicy) bool { return p.selector.Scores() }) {
		condition += " OR s.epss_micros <> v.epss_micros OR s.risk_micros <> v.risk_micros"
	}
	var ids []int64
	err = tx.Raw("SELECT s.vulnerability_pk FROM staged_scores s CROSS JOIN vulnerabilities v WHERE v.id = s.vulnerability_pk AND (" + condition + ")").Scan(&ids).Error
	return ids, err
}

// openDeadlines gives the deadlines of findings that a switch opens, and of those that it finds a fix for, their times. Vulnerabilities in
// rescored have other scores now.
func (w *switcher) openDeadlines(rescored []int64) error {
	for _, table := range []string{"finding_fixes", "policy_findings"} {
		err := w.Execute("UPDATE "+table+" SET since = ? WHERE since = 0 AND finding_id IN (SELECT f.id FROM findings f WHERE f.from_gen = ?)", w.now, w.next.Number)
		if err != nil {
			return err
		}
	}
	// A date of known exploitation can be later than the switch.
	var exploited []int64
	err := w.Raw("SELECT f.id FROM findings f CROSS JOIN vulnerabilities v WHERE f.from_gen = ? AND v.id = f.vulnerability_pk AND v.kev = 1", w.next.Number).Scan(&exploited).Error
	if err != nil {
		return err
	}
	if err := w.redue(dueByID, exploited); err != nil {
		return err
	}
	return w.redue(dueByVulnerability, rescored)
}
