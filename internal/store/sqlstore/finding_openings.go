package sqlstore

import (
	"maps"
	"slices"
)

// opening says when, and by which result set, a vulnerability was first found in a package without a break since.
type opening struct {
	// OpenedAt is 0 while the result set is not current.
	OpenedAt, OpenedGen int64
	// FixableAt is since when a fixed version is known without a break, 0 if none is known or while the result set is not current.
	FixableAt int64
}

// openings are those of the vulnerabilities of one package.
type openings struct {
	known map[vulnerabilityName]opening
	// fresh is the opening of what was not found before.
	fresh opening
}

type vulnerabilityName struct{ id, namespace string }

// of is the opening that a finding of the vulnerability has. fixable says that a fixed version is known.
func (o openings) of(id, namespace string, fixable int64) opening {
	opened, found := o.known[vulnerabilityName{id, namespace}]
	if !found {
		opened = o.fresh
	}
	switch {
	case fixable == 0:
		opened.FixableAt = 0
	case opened.FixableAt == 0:
		opened.FixableAt = o.fresh.OpenedAt
	}
	return opened
}

// openings collects those that findings of the target carry over, from all findings of a package that a live result set shows or
// that the current one ended.
func (w *answerWriter) openings(findings []storedFinding) openings {
	o := openings{known: map[vulnerabilityName]opening{}, fresh: opening{OpenedGen: w.target}}
	if w.target == w.current {
		o.fresh.OpenedAt = w.now
	}
	for i := range findings {
		row := &findings[i]
		if row.FromGen > w.current || row.UntilGen < w.target {
			continue
		}
		name := vulnerabilityName{row.VulnerabilityID, row.Namespace}
		known, found := o.known[name]
		fixable := earliest(known.FixableAt, row.Opening.FixableAt)
		if !found || row.Opening.OpenedAt < known.OpenedAt {
			known = row.Opening
		}
		known.FixableAt = fixable
		o.known[name] = known
	}
	return o
}

// correctOpenings changes the openings of rows that stay.
func (w *answerWriter) correctOpenings() error {
	for id, opened := range w.diff.correct {
		if err := w.setOpening(id, opened); err != nil {
			return err
		}
	}
	return w.redue(dueByID, slices.Collect(maps.Keys(w.diff.correct)))
}

// setOpening changes the opening of a finding. One without a fixed version has no row in finding_fixes.
func (t *txn) setOpening(id int64, opened opening) error {
	if err := t.Execute("UPDATE findings SET opened_at = ?, opened_gen = ? WHERE id = ?", opened.OpenedAt, opened.OpenedGen, id); err != nil {
		return err
	}
	return t.Execute("UPDATE finding_fixes SET since = ? WHERE finding_id = ?", opened.FixableAt, id)
}

// insertFixes writes since when fixed versions are known for findings that were inserted.
func (w *answerWriter) insertFixes(packages []int64) error {
	type name struct {
		packageID int64
		digest    string
	}
	fixable := map[name]int64{}
	for _, row := range w.diff.insert {
		if row.content.fixable != 0 {
			fixable[name{row.packageID, row.content.digest}] = row.opening.FixableAt
		}
	}
	if len(fixable) == 0 {
		return nil
	}
	return inParts(packages, func(part []int64) error {
		var rows []struct {
			ID, PackagePk int64
			Digest        string
		}
		err := w.Raw("SELECT id, package_pk, digest FROM findings WHERE package_pk IN ? AND from_gen = ? AND fixable = 1", part, w.target).Scan(&rows).Error
		if err != nil {
			return err
		}
		var values []any
		for _, row := range rows {
			if since, inserted := fixable[name{row.PackagePk, row.Digest}]; inserted {
				values = append(values, row.ID, since)
			}
		}
		return w.Insert("finding_fixes", []string{"finding_id", "since"}, values, "")
	})
}

// earliest is the earlier one of two times, of which each may be 0 for none.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

const openFindings = "UPDATE findings SET opened_at = ? WHERE from_gen = ? AND opened_at = 0"

// open gives the findings that the next result set opens the time at which it becomes current.
func (w *switcher) open() error {
	return w.Execute(openFindings, w.now, w.next.Number)
}
