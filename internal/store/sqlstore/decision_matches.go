package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Findings of both live result sets are matched with decisions once: when the decision begins to apply, or when the finding is inserted. A row of
// findings never changes its vulnerability, its package and its fix.

// matchedFinding is a finding with what decisions see of it.
type matchedFinding struct {
	ID, PackagePk, Fixable            int64
	Type, Name, Version, Distro, Purl string
}

const matchedColumns = "f.id, f.package_pk, f.fixable, p.type, p.name, p.version, p.distro, p.purl"

// identities remembers the identities of packages.
type identities map[int64]*decision.Identity

func (i identities) of(f *matchedFinding) *decision.Identity {
	id := i[f.PackagePk]
	if id == nil {
		found := decision.IdentityOf(&model.Package{Type: f.Type, Name: f.Name, Version: f.Version, Distro: f.Distro, PURL: f.Purl})
		id = &found
		i[f.PackagePk] = id
	}
	return id
}

// knownAs is the condition that a decision can name the vulnerability v by its name n. A record that combines several CVEs, as advisories of
// distributions do, is known by its own ID only: a decision about one of these CVEs is not about the others.
const knownAs = `(n.name = v.vulnerability_id OR (SELECT COUNT(*) FROM vulnerability_names c
	WHERE c.vulnerability_pk = n.vulnerability_pk AND c.name LIKE 'CVE-%') <= 1)`

// matchDecisions looks up the findings that new decisions match.
func matchDecisions(tx *gorm.DB, decisions []*newDecision) error {
	current, err := currentNumber(tx)
	if err != nil {
		return err
	}
	var unnamed []*newDecision
	naming := map[string][]*newDecision{}
	for _, n := range decisions {
		switch {
		case n.over:
		case len(n.names) == 0:
			unnamed = append(unnamed, n)
		default:
			for _, name := range n.names {
				naming[name] = append(naming[name], n)
			}
		}
	}
	known := identities{}
	match := func(f *matchedFinding, candidates []*newDecision) {
		for _, n := range candidates {
			if n.matcher.Matches(known.of(f), f.Fixable != 0) {
				n.findings = append(n.findings, f.ID)
			}
		}
	}
	err = inParts(slices.Sorted(maps.Keys(naming)), func(part []string) error {
		var rows []struct {
			Alias   string
			Finding matchedFinding `gorm:"embedded"`
		}
		err := tx.Raw("SELECT n.name AS alias, "+matchedColumns+` FROM vulnerability_names n CROSS JOIN vulnerabilities v CROSS JOIN findings f CROSS JOIN packages p
			WHERE n.name IN ? AND v.id = n.vulnerability_pk AND `+knownAs+" AND f.vulnerability_pk = n.vulnerability_pk AND p.id = f.package_pk AND f.until_gen > ?", part, current).Scan(&rows).Error
		for i := range rows {
			match(&rows[i].Finding, naming[rows[i].Alias])
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(unnamed) > 0 {
		live := tx.Table("findings AS f").Joins("JOIN packages p ON p.id = f.package_pk").Where("f.until_gen > ?", current).Select(matchedColumns)
		err := eachRow(live, func(scan func(...any) error) error {
			var f matchedFinding
			if err := scan(&f.ID, &f.PackagePk, &f.Fixable, &f.Type, &f.Name, &f.Version, &f.Distro, &f.Purl); err != nil {
				return err
			}
			match(&f, unnamed)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, n := range decisions {
		slices.Sort(n.findings)
		n.findings = slices.Compact(n.findings)
	}
	return nil
}

// redecide makes finding_suppressions what decisions say of findings, and counts what follows.
func (t *txn) redecide(findings []int64) error {
	slices.Sort(findings)
	findings = slices.Compact(findings)
	held, err := packagesOfFindings(t.DB, findings)
	if err != nil {
		return err
	}
	before, err := t.countsBySet(held)
	if err != nil {
		return err
	}
	packages, err := t.suppress(findings)
	if err != nil {
		return err
	}
	deltas, err := t.recount(packages, nil)
	if err != nil {
		return err
	}
	if err := t.addChanged(packages, before, deltas); err != nil {
		return err
	}
	return t.dropReaches()
}

// packagesOfFindings lists the packages of findings, each once.
func packagesOfFindings(tx *gorm.DB, findings []int64) ([]int64, error) {
	var packages []int64
	err := inParts(findings, func(part []int64) error {
		var held []int64
		err := tx.Raw("SELECT DISTINCT package_pk FROM findings WHERE id IN ?", part).Scan(&held).Error
		packages = append(packages, held...)
		return err
	})
	slices.Sort(packages)
	return slices.Compact(packages), err
}

// suppressed is a row of finding_suppressions.
type suppressed struct{ FindingID, Reach int64 }

// suppressingDecisions selects where decisions that apply suppress findings, with the reach noReach for those that do not. Decisions are looked up by ID and by nothing
// else: there may be 10,000, and PostgreSQL would read all that apply for each finding while its statistics know none of them.
const suppressingDecisions = `SELECT DISTINCT m.finding_id, (SELECT CASE WHEN d.suppresses = 1 AND d.until_time = ? THEN d.reach ELSE -1 END
		FROM decisions d WHERE d.id = m.decision_pk) AS reach
	FROM decision_findings m WHERE m.finding_id IN ?`

// noReach is the reach of what suppresses nothing.
const noReach = -1

// suppress makes finding_suppressions what decisions say of findings, and returns the packages of those that differ.
func (t *txn) suppress(findings []int64) ([]int64, error) {
	placed, err := placedReaches(t.DB)
	if err != nil {
		return nil, err
	}
	var changed []int64
	err = inParts(findings, func(part []int64) error {
		var before, after []suppressed
		err := t.Raw("SELECT finding_id, reach FROM finding_suppressions WHERE finding_id IN ?", part).Scan(&before).Error
		if err != nil {
			return err
		}
		err = t.Raw(suppressingDecisions, int64(stillOpen), part).Scan(&after).Error
		if err != nil {
			return err
		}
		after = slices.DeleteFunc(after, func(row suppressed) bool { return row.Reach == noReach })
		if after, err = t.joinPlaced(after, placed); err != nil {
			return err
		}
		differ := differing(before, after)
		if len(differ) == 0 {
			return nil
		}
		changed = append(changed, slices.Sorted(maps.Keys(differ))...)
		// All rows of what differs are written again: to delete those of each reach takes a statement for each.
		if len(before) > 0 {
			if err := t.Execute("DELETE FROM finding_suppressions WHERE finding_id IN ?", slices.Sorted(maps.Keys(differ))); err != nil {
				return err
			}
		}
		var values []any
		for _, row := range after {
			if differ[row.FindingID] {
				values = append(values, row.FindingID, row.Reach)
			}
		}
		return t.Insert("finding_suppressions", []string{"finding_id", "reach"}, values, "")
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(changed)
	return packagesOfFindings(t.DB, slices.Compact(changed))
}

// differing returns the findings whose rows are not the same before and after.
func differing(before, after []suppressed) map[int64]bool {
	rows := make(map[suppressed]bool, len(before))
	for _, row := range before {
		rows[row] = true
	}
	differ := map[int64]bool{}
	for _, row := range after {
		if !rows[row] {
			differ[row.FindingID] = true
		}
		delete(rows, row)
	}
	for row := range rows {
		differ[row.FindingID] = true
	}
	return differ
}

// joinPlaced replaces several reaches with places of a finding by the one that has the places of all of them.
func (t *txn) joinPlaced(rows []suppressed, placed map[int64]bool) ([]suppressed, error) {
	if len(placed) == 0 {
		return rows, nil
	}
	var joined []suppressed
	several := map[int64][]int64{}
	for _, row := range rows {
		if placed[row.Reach] {
			several[row.FindingID] = append(several[row.FindingID], row.Reach)
		} else {
			joined = append(joined, row)
		}
	}
	lists := map[int64]string{}
	for finding, reaches := range several {
		if len(reaches) == 1 {
			joined = append(joined, suppressed{finding, reaches[0]})
			continue
		}
		_, list := setOf(reaches)
		lists[finding] = string(list)
	}
	numbers, err := t.joinReaches(slices.Collect(maps.Values(lists)))
	for finding, list := range lists {
		joined = append(joined, suppressed{finding, numbers[list]})
	}
	return joined, err
}

// decisionsApply reports whether any decision applies.
func decisionsApply(tx *gorm.DB) (bool, error) {
	var found []int64
	err := tx.Raw("SELECT d.id FROM decisions d WHERE d.until_time = ? LIMIT 1", int64(stillOpen)).Scan(&found).Error
	return len(found) > 0, err
}

// namedFindings selects the findings of packages that a result set brought and the decisions that name their vulnerabilities. The values are the
// packages and the result set.
const namedFindings = `SELECT f.id AS finding_id, dn.decision_pk FROM findings f CROSS JOIN vulnerabilities v CROSS JOIN vulnerability_names n CROSS JOIN decision_names dn
	WHERE f.package_pk IN ? AND f.from_gen = ? AND v.id = f.vulnerability_pk AND n.vulnerability_pk = f.vulnerability_pk AND dn.name = n.name AND ` + knownAs

// decideInserted matches the findings that a result set brought to packages with the decisions that apply. The counts follow later.
func (w *answerWriter) decideInserted(packages []int64) error {
	if applies, err := decisionsApply(w.DB); err != nil || !applies {
		return err
	}
	slices.Sort(packages)
	return inParts(slices.Compact(packages), func(part []int64) error {
		var found []matchedFinding
		err := w.Raw("SELECT "+matchedColumns+" FROM findings f JOIN packages p ON p.id = f.package_pk WHERE f.package_pk IN ? AND f.from_gen = ? ORDER BY f.id",
			part, w.target).Scan(&found).Error
		if err != nil {
			return err
		}
		candidates := map[int64][]int64{} // The decisions that may match, by finding.
		var pairs []struct{ FindingID, DecisionPk int64 }
		if err := w.Raw(namedFindings, part, w.target).Scan(&pairs).Error; err != nil {
			return err
		}
		for _, pair := range pairs {
			candidates[pair.FindingID] = append(candidates[pair.FindingID], pair.DecisionPk)
		}
		var unnamed []int64
		if err := w.Raw("SELECT decision_pk FROM decision_names WHERE name = '' ORDER BY decision_pk").Scan(&unnamed).Error; err != nil {
			return err
		}
		if err := w.readMatchers(candidates, unnamed); err != nil {
			return err
		}
		decides, err := w.rules.decide(w.DB, candidates)
		if err != nil {
			return err
		}
		var matches []any
		var ids []int64
		known := identities{}
		for i := range found {
			f := &found[i]
			decisions := slices.Concat(unnamed, candidates[f.ID])
			slices.Sort(decisions)
			for _, id := range slices.Compact(decisions) {
				// Those with a rule have no matcher.
				if m := w.matchers[id]; slices.Contains(decides[f.ID], id) || m != nil && m.Matches(known.of(f), f.Fixable != 0) {
					matches = append(matches, f.ID, id)
					ids = append(ids, f.ID)
				}
			}
		}
		err = w.Insert("decision_findings", []string{"finding_id", "decision_pk"}, matches, w.Dialect.IgnoreConflict("finding_id", "decision_pk"))
		if err != nil {
			return err
		}
		_, err = w.suppress(slices.Compact(ids))
		return err
	})
}

// readMatchers makes the matchers of decisions that are not known yet.
func (w *answerWriter) readMatchers(candidates map[int64][]int64, unnamed []int64) error {
	wanted := slices.Clone(unnamed)
	for _, ids := range candidates {
		wanted = append(wanted, ids...)
	}
	slices.Sort(wanted)
	wanted = slices.DeleteFunc(slices.Compact(wanted), func(id int64) bool { return w.matchers[id] != nil })
	return inParts(wanted, func(part []int64) error {
		matchers, err := storedMatchers(w.DB, part)
		if w.matchers == nil {
			w.matchers = map[int64]*decision.Matcher{}
		}
		maps.Copy(w.matchers, matchers)
		return err
	})
}

// storedMatchers makes the matchers of decisions, but for those with a rule.
func storedMatchers(tx *gorm.DB, ids []int64) (map[int64]*decision.Matcher, error) {
	var rows []struct {
		ID, Unfixed int64
		Spec        string
	}
	if err := tx.Raw("SELECT d.id, d.unfixed, d.spec FROM decisions d LEFT JOIN decision_rules r ON r.decision_pk = d.id WHERE d.id IN ? AND r.decision_pk IS NULL", ids).Scan(&rows).Error; err != nil {
		return nil, err
	}
	matchers := make(map[int64]*decision.Matcher, len(rows))
	for _, row := range rows {
		var spec decisionSpec
		if err := fromJSON(row.Spec, &spec); err != nil {
			return nil, err
		}
		matchers[row.ID] = decision.NewStoredMatcher(spec.Packages, row.Unfixed != 0)
	}
	return matchers, nil
}

// forgetDecided removes what decisions say of findings that no live result set has any more. chosen selects their IDs.
func (t *txn) forgetDecided(chosen string, values ...any) error {
	if applies, err := decisionsApply(t.DB); err != nil || !applies {
		return err
	}
	for _, table := range []string{"decision_findings", "finding_suppressions"} {
		if err := t.Execute("DELETE FROM "+table+" WHERE finding_id IN "+chosen, values...); err != nil {
			return err
		}
	}
	return nil
}
