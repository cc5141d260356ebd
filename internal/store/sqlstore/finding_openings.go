package sqlstore

// opening says when, and by which result set, a vulnerability was first found in a package without a break since.
type opening struct {
	// OpenedAt is 0 while the result set is not current.
	OpenedAt, OpenedGen int64
}

// openings are those of the vulnerabilities of one package.
type openings struct {
	known map[vulnerabilityName]opening
	// fresh is the opening of what was not found before.
	fresh opening
}

type vulnerabilityName struct{ id, namespace string }

// of is the opening that a finding of the vulnerability has.
func (o openings) of(id, namespace string) opening {
	if known, found := o.known[vulnerabilityName{id, namespace}]; found {
		return known
	}
	return o.fresh
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
		if known, found := o.known[name]; !found || row.Opening.OpenedAt < known.OpenedAt {
			o.known[name] = row.Opening
		}
	}
	return o
}

// correctOpenings changes the openings of rows that stay.
func (w *answerWriter) correctOpenings() error {
	for id, opened := range w.diff.correct {
		err := w.Execute("UPDATE findings SET opened_at = ?, opened_gen = ? WHERE id = ?", opened.OpenedAt, opened.OpenedGen, id)
		if err != nil {
			return err
		}
	}
	return nil
}

const openFindings = "UPDATE findings SET opened_at = ? WHERE from_gen = ? AND opened_at = 0"

// open gives the findings that the next result set opens the time at which it becomes current.
func (w *switcher) open() error {
	return w.Execute(openFindings, w.now, w.next.Number)
}
