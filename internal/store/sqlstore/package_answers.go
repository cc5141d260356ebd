package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// SaveAnswers implements store.ResultSets.
func (s *Store) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	const what = "save match results"
	if len(answers) > store.MaxKeys {
		return fmt.Errorf("%s: %d items, the maximum is %d", what, len(answers), store.MaxKeys)
	}
	encoder := answerEncoder{}
	contents := make(map[int64]answerContent, len(answers))
	for id, answer := range answers {
		content, err := encoder.answer(&answer)
		if err != nil {
			return fmt.Errorf("%s of package %d: %w", what, id, err)
		}
		contents[id] = content
	}
	ids := slices.Sorted(maps.Keys(contents))
	return s.write(ctx, what, func(tx *txn) error {
		w := answerWriter{txn: tx, answers: contents, rules: &ruleReader{rules: s.rules}}
		if err := w.choose(resultSet); err != nil {
			return err
		}
		for part := range slices.Chunk(ids, sqldb.MaxIn) {
			if err := w.save(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// answerWriter compares answers with what is stored and writes the difference.
type answerWriter struct {
	*txn
	answers map[int64]answerContent
	// current and next are the live result sets, 0 when there is none; target is the one that is written to.
	current, next, target int64
	diff                  answerDiff
	// matchers are those of decisions, as far as they were read.
	matchers map[int64]*decision.Matcher
	rules    *ruleReader
}

// answerDiff is what has to be written for some packages.
type answerDiff struct {
	// Rows of findings that end, that open again, and that go without a trace.
	end, reopen, remove []int64
	insert              []newFinding
	// Rows that the next result set has already, with the opening that they should have.
	correct map[int64]opening
	// The same for answers, by package. replace have other content in the row that they have.
	endAnswer, reopenAnswer, removeAnswer []int64
	insertAnswer, replaceAnswer           []int64
}

type newFinding struct {
	packageID int64
	content   *findingContent
	opening   opening
}

// storedFinding and storedAnswer are what is visible under one of the live result sets.
type storedFinding struct {
	ID, PackagePk, FromGen, UntilGen int64
	Fixable                          int64
	Digest                           string
	VulnerabilityID, Namespace       string
	Opening                          opening `gorm:"embedded"`
}

// visible tells whether the current result set shows the row.
func (r *storedFinding) visible(current int64) bool {
	return r.FromGen <= current && r.UntilGen > current
}

type storedAnswer struct {
	PackagePk, FromGen, UntilGen int64
	SearchKeys                   []byte
	Failure                      string
}

func (w *answerWriter) choose(resultSet int64) error {
	current, next, err := liveResultSets(w.DB)
	if err != nil {
		return err
	}
	if current != nil {
		w.current = current.Number
	}
	if next != nil {
		w.next = next.Number
	}
	if w.target = resultSet; resultSet <= 0 || resultSet != w.current && resultSet != w.next {
		return fmt.Errorf("result set %d is neither current nor next: %w", resultSet, store.ErrNotFound)
	}
	return nil
}

// save writes the answers of up to sqldb.MaxIn packages, apart from those that are gone.
func (w *answerWriter) save(matched []int64) error {
	var ids []int64
	if err := w.Raw("SELECT id FROM packages WHERE id IN ? ORDER BY id", matched).Scan(&ids).Error; err != nil || len(ids) == 0 {
		return err
	}
	var answers []storedAnswer
	err := w.Raw(`SELECT package_pk, from_gen, until_gen, search_keys, failure FROM package_answers
		WHERE package_pk IN ? AND until_gen > ? AND (from_gen <= ? OR from_gen = ?)`, ids, w.current, w.current, w.next).Scan(&answers).Error
	if err != nil {
		return err
	}
	var findings []storedFinding
	err = w.Raw(findingsOfPackages, ids, w.current, w.current, w.next).Scan(&findings).Error
	if err != nil {
		return err
	}
	answersOf, findingsOf := map[int64][]storedAnswer{}, map[int64][]storedFinding{}
	for _, row := range answers {
		answersOf[row.PackagePk] = append(answersOf[row.PackagePk], row)
	}
	for _, row := range findings {
		findingsOf[row.PackagePk] = append(findingsOf[row.PackagePk], row)
	}
	w.diff = answerDiff{correct: map[int64]opening{}}
	for _, id := range ids {
		answer := w.answers[id]
		if w.target == w.current {
			w.compareCurrent(id, &answer, answersOf[id], findingsOf[id])
		} else {
			w.compareNext(id, &answer, answersOf[id], findingsOf[id])
		}
	}
	if err := w.writeShown(ids); err != nil {
		return err
	}
	return w.updateQueue(ids)
}

// findingsOfPackages selects the findings of packages that a live result set shows, or that the current one ended.
const findingsOfPackages = `SELECT f.id, f.package_pk, f.from_gen, f.until_gen, f.digest, f.opened_at, f.opened_gen, COALESCE(x.since, 0) AS fixable_at, f.fixable, v.vulnerability_id, v.namespace
	FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk LEFT JOIN finding_fixes x ON x.finding_id = f.id
	WHERE f.package_pk IN ? AND f.until_gen >= ? AND (f.from_gen <= ? OR f.from_gen = ?) ORDER BY f.id`

// compareCurrent finds what makes the answer visible at once. What is prepared for the next result set stays as it is, since
// the package is matched for that one again.
func (w *answerWriter) compareCurrent(id int64, answer *answerContent, answers []storedAnswer, findings []storedFinding) {
	d := &w.diff
	at := slices.IndexFunc(answers, func(row storedAnswer) bool { return row.FromGen <= w.current })
	switch {
	case at < 0:
		d.insertAnswer = append(d.insertAnswer, id)
	case !answers[at].says(answer):
		d.replaceAnswer = append(d.replaceAnswer, id)
	}
	if answer.failure != "" {
		return
	}
	missing := answer.byDigest()
	for i := range findings {
		row := &findings[i]
		if !row.visible(w.current) {
			continue
		}
		if _, stays := missing[row.Digest]; stays {
			delete(missing, row.Digest)
		} else if row.FromGen == w.current {
			d.remove = append(d.remove, row.ID)
		} else {
			d.end = append(d.end, row.ID)
		}
	}
	d.insertMissing(id, answer, missing, w.openings(findings))
}

// compareNext finds what makes the answer the one that the next result set shows, whatever was prepared for it before.
func (w *answerWriter) compareNext(id int64, answer *answerContent, answers []storedAnswer, findings []storedFinding) {
	w.compareNextAnswer(id, answer, answers)
	d := &w.diff
	missing := answer.byDigest()
	for i := range findings {
		row := &findings[i]
		if !row.visible(w.current) {
			continue
		}
		_, stays := missing[row.Digest]
		delete(missing, row.Digest)
		switch stays = stays || answer.failure != ""; {
		case stays && row.UntilGen != stillOpen:
			d.reopen = append(d.reopen, row.ID)
		case !stays && row.UntilGen == stillOpen:
			d.end = append(d.end, row.ID)
		}
	}
	openings := w.openings(findings)
	for i := range findings {
		row := &findings[i]
		if row.FromGen != w.next {
			continue
		}
		if _, stays := missing[row.Digest]; !stays {
			d.remove = append(d.remove, row.ID)
			continue
		}
		delete(missing, row.Digest)
		// What the current result set shows may have changed since the row was written.
		if opened := openings.of(row.VulnerabilityID, row.Namespace, row.Fixable); opened != row.Opening {
			d.correct[row.ID] = opened
		}
	}
	d.insertMissing(id, answer, missing, openings)
}

func (w *answerWriter) compareNextAnswer(id int64, answer *answerContent, answers []storedAnswer) {
	d := &w.diff
	said := false
	for i := range answers {
		row := &answers[i]
		switch {
		case row.FromGen > w.current:
			continue
		case row.says(answer):
			said = true
			if row.UntilGen != stillOpen {
				d.reopenAnswer = append(d.reopenAnswer, id)
			}
		case row.UntilGen == stillOpen:
			d.endAnswer = append(d.endAnswer, id)
		}
	}
	at := slices.IndexFunc(answers, func(row storedAnswer) bool { return row.FromGen == w.next })
	switch {
	case at < 0 && !said:
		d.insertAnswer = append(d.insertAnswer, id)
	case at >= 0 && said:
		d.removeAnswer = append(d.removeAnswer, id)
	case at >= 0 && !answers[at].says(answer):
		d.replaceAnswer = append(d.replaceAnswer, id)
	}
}

func (r *storedAnswer) says(answer *answerContent) bool {
	return r.Failure == answer.failure && bytes.Equal(r.SearchKeys, answer.keys)
}

func (a *answerContent) byDigest() map[string]*findingContent {
	all := make(map[string]*findingContent, len(a.findings))
	for i := range a.findings {
		all[a.findings[i].digest] = &a.findings[i]
	}
	return all
}

// insertMissing keeps the order of the answer.
func (d *answerDiff) insertMissing(id int64, answer *answerContent, missing map[string]*findingContent, openings openings) {
	for i := range answer.findings {
		if content, found := missing[answer.findings[i].digest]; found {
			d.insert = append(d.insert, newFinding{id, content, openings.of(content.vulnerability.id, content.vulnerability.namespace, content.fixable)})
		}
	}
}

// writeShown writes the difference, and what lists know of it if the current result set shows it.
func (w *answerWriter) writeShown(ids []int64) error {
	d := &w.diff
	if w.target != w.current || len(d.end)+len(d.remove)+len(d.insert) == 0 {
		return w.writeDiff()
	}
	removed, err := vulnerabilitiesOf(w.DB, ids)
	if err != nil {
		return err
	}
	before, err := w.countsBySet(ids)
	if err != nil {
		return err
	}
	if err := w.writeDiff(); err != nil {
		return err
	}
	w.noteTags(nil, ids)
	deltas, err := w.recount(ids, removed)
	if err != nil {
		return err
	}
	return w.addChanged(ids, before, deltas)
}

func (w *answerWriter) writeDiff() error {
	d := &w.diff
	target, open := w.target, int64(stillOpen)
	for _, change := range []struct {
		ids       []int64
		statement string
		values    []any
	}{
		{d.end, "UPDATE findings SET until_gen = ? WHERE id IN ?", []any{target}},
		{d.reopen, "UPDATE findings SET until_gen = ? WHERE id IN ?", []any{open}},
		{d.remove, "DELETE FROM findings WHERE id IN ?", nil},
		{d.endAnswer, "UPDATE package_answers SET until_gen = ? WHERE until_gen = ? AND from_gen < ? AND package_pk IN ?", []any{target, open, target}},
		{d.reopenAnswer, "UPDATE package_answers SET until_gen = ? WHERE until_gen = ? AND package_pk IN ?", []any{open, target}},
		{d.removeAnswer, "DELETE FROM package_answers WHERE from_gen = ? AND package_pk IN ?", []any{target}},
	} {
		for part := range slices.Chunk(change.ids, sqldb.MaxIn) {
			if err := w.Execute(change.statement, append(slices.Clone(change.values), part)...); err != nil {
				return err
			}
		}
	}
	if target == w.current {
		for part := range slices.Chunk(d.end, sqldb.MaxIn) {
			if err := w.forgetDecided("?", part); err != nil {
				return err
			}
		}
	}
	if err := w.correctOpenings(); err != nil {
		return err
	}
	if err := w.replaceAnswers(); err != nil {
		return err
	}
	var values []any
	for _, id := range d.insertAnswer {
		answer := w.answers[id]
		values = append(values, id, target, open, answer.failure, answer.keys)
	}
	err := w.Insert("package_answers", []string{"package_pk", "from_gen", "until_gen", "failure", "search_keys"}, values, "")
	if err != nil {
		return err
	}
	return w.insertFindings()
}

// replaceAnswers changes the answer that a package has under the target in its row.
func (w *answerWriter) replaceAnswers() error {
	condition := "from_gen = ?"
	if w.target == w.current {
		condition = "from_gen <= ?"
	}
	for _, id := range w.diff.replaceAnswer {
		answer := w.answers[id]
		err := w.Execute("UPDATE package_answers SET failure = ?, search_keys = ? WHERE package_pk = ? AND "+condition+" AND until_gen > ?",
			answer.failure, answer.keys, id, w.target, w.target)
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *answerWriter) insertFindings() error {
	vulnerabilities := make(map[string]*vulnerabilityContent, len(w.diff.insert))
	for _, row := range w.diff.insert {
		vulnerabilities[row.content.vulnerability.digest] = row.content.vulnerability
	}
	ids, err := w.saveVulnerabilities(vulnerabilities)
	if err != nil {
		return err
	}
	values := make([]any, 0, 11*len(w.diff.insert))
	for _, row := range w.diff.insert {
		c := row.content
		id, found := ids[c.vulnerability.digest]
		if !found {
			return fmt.Errorf("vulnerability %s of %s was not recorded", c.vulnerability.id, c.vulnerability.namespace)
		}
		values = append(values, row.packageID, id, c.digest, w.target, int64(stillOpen), c.fixState, c.fixable, c.fixVersions, c.detail,
			row.opening.OpenedAt, row.opening.OpenedGen)
	}
	err = w.Insert("findings", []string{
		"package_pk", "vulnerability_pk", "digest", "from_gen", "until_gen", "fix_state", "fixable", "fix_versions", "details", "opened_at",
		"opened_gen",
	}, values, "")
	if err != nil || len(values) == 0 {
		return err
	}
	packages := make([]int64, len(w.diff.insert))
	for i, row := range w.diff.insert {
		packages[i] = row.packageID
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	if err := w.insertFixes(packages); err != nil {
		return err
	}
	if err := w.decideInserted(packages); err != nil {
		return err
	}
	return w.dueInserted(packages)
}

// updateQueue takes packages that were answered for the next result set out of its queue. Those that were answered for the
// current one have to be matched for the next one too.
func (w *answerWriter) updateQueue(ids []int64) error {
	switch {
	case w.target == w.next:
		done, err := w.Change("DELETE FROM rematch_queue WHERE package_pk IN ?", ids)
		if err != nil || done == 0 {
			return err
		}
		return w.Execute("UPDATE generations SET matched = matched + ? WHERE number = ?", done, w.next)
	case w.next != 0:
		return w.queue(w.next, ids)
	default:
		return nil
	}
}

// queue puts packages into the queue of the next result set.
func (t *txn) queue(next int64, ids []int64) error {
	var added int64
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		queued, err := t.Change(`INSERT INTO rematch_queue (package_pk) SELECT p.id FROM packages p WHERE p.id IN ?
			AND NOT EXISTS (SELECT 1 FROM rematch_queue q WHERE q.package_pk = p.id)`, part)
		if err != nil {
			return err
		}
		added += queued
	}
	if added == 0 {
		return nil
	}
	return t.Execute("UPDATE generations SET queued = queued + ? WHERE number = ?", added, next)
}
