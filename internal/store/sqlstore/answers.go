package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// SaveAnswers implements store.Generations.
func (s *Store) SaveAnswers(ctx context.Context, generation int64, answers map[int64]vuln.PackageAnswer) error {
	const what = "save answers"
	if len(answers) > store.MaxKeys {
		return fmt.Errorf("%s: %d are more than the limit of %d", what, len(answers), store.MaxKeys)
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
		w := answerWriter{txn: tx, answers: contents}
		if err := w.choose(generation); err != nil {
			return err
		}
		for part := range slices.Chunk(ids, maxIn) {
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
	// current and next are the live generations, 0 when there is none; target is the one that is written to.
	current, next, target int64
	diff                  answerDiff
}

// answerDiff is what has to be written for some packages.
type answerDiff struct {
	// Rows of findings that end, that open again, and that go without a trace.
	end, reopen, remove []int64
	insert              []newFinding
	// The same for answers, by package. replace have other content in the row that they have.
	endAnswer, reopenAnswer, removeAnswer []int64
	insertAnswer, replaceAnswer           []int64
}

type newFinding struct {
	packageID int64
	content   *findingContent
}

// storedFinding and storedAnswer are what is visible under one of the live generations.
type storedFinding struct {
	ID, PackagePk, FromGen, UntilGen int64
	Digest                           string
}

type storedAnswer struct {
	PackagePk, FromGen, UntilGen int64
	SearchKeys                   []byte
	Failure                      string
}

func (w *answerWriter) choose(generation int64) error {
	current, next, err := liveGenerations(w.DB)
	if err != nil {
		return err
	}
	if current != nil {
		w.current = current.Number
	}
	if next != nil {
		w.next = next.Number
	}
	if w.target = generation; generation <= 0 || generation != w.current && generation != w.next {
		return fmt.Errorf("generation %d is neither current nor next: %w", generation, store.ErrNotFound)
	}
	return nil
}

// save writes the answers of up to maxIn packages.
func (w *answerWriter) save(ids []int64) error {
	if err := w.Raw("SELECT id FROM packages WHERE id IN ? ORDER BY id", ids).Scan(&ids).Error; err != nil || len(ids) == 0 {
		return err
	}
	var answers []storedAnswer
	err := w.Raw(`SELECT package_pk, from_gen, until_gen, search_keys, failure FROM package_answers
		WHERE package_pk IN ? AND until_gen > ? AND (from_gen <= ? OR from_gen = ?)`, ids, w.current, w.current, w.next).Scan(&answers).Error
	if err != nil {
		return err
	}
	var findings []storedFinding
	err = w.Raw(`SELECT id, package_pk, from_gen, until_gen, digest FROM findings
		WHERE package_pk IN ? AND until_gen > ? AND (from_gen <= ? OR from_gen = ?) ORDER BY id`,
		ids, w.current, w.current, w.next).Scan(&findings).Error
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
	w.diff = answerDiff{}
	for _, id := range ids {
		answer := w.answers[id]
		if w.target == w.current {
			w.compareCurrent(id, &answer, answersOf[id], findingsOf[id])
		} else {
			w.compareNext(id, &answer, answersOf[id], findingsOf[id])
		}
	}
	if err := w.writeDiff(); err != nil {
		return err
	}
	return w.updateQueue(ids)
}

// compareCurrent finds what makes the answer visible at once. What is prepared for the next generation stays as it is, since
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
	for _, row := range findings {
		if row.FromGen > w.current {
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
	d.insertMissing(id, answer, missing)
}

// compareNext finds what makes the answer the one that the next generation shows, whatever was prepared for it before.
func (w *answerWriter) compareNext(id int64, answer *answerContent, answers []storedAnswer, findings []storedFinding) {
	w.compareNextAnswer(id, answer, answers)
	d := &w.diff
	missing := answer.byDigest()
	for _, row := range findings {
		if row.FromGen > w.current {
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
	for _, row := range findings {
		if row.FromGen != w.next {
			continue
		}
		if _, stays := missing[row.Digest]; stays {
			delete(missing, row.Digest)
		} else {
			d.remove = append(d.remove, row.ID)
		}
	}
	d.insertMissing(id, answer, missing)
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
func (d *answerDiff) insertMissing(id int64, answer *answerContent, missing map[string]*findingContent) {
	for i := range answer.findings {
		if content, found := missing[answer.findings[i].digest]; found {
			d.insert = append(d.insert, newFinding{id, content})
		}
	}
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
		for part := range slices.Chunk(change.ids, maxIn) {
			if err := w.exec(change.statement, append(slices.Clone(change.values), part)...); err != nil {
				return err
			}
		}
	}
	if err := w.replaceAnswers(); err != nil {
		return err
	}
	var values []any
	for _, id := range d.insertAnswer {
		answer := w.answers[id]
		values = append(values, id, target, open, answer.failure, answer.keys)
	}
	err := w.insert("package_answers", []string{"package_pk", "from_gen", "until_gen", "failure", "search_keys"}, values, "")
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
		err := w.exec("UPDATE package_answers SET failure = ?, search_keys = ? WHERE package_pk = ? AND "+condition+" AND until_gen > ?",
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
	values := make([]any, 0, 9*len(w.diff.insert))
	for _, row := range w.diff.insert {
		c := row.content
		id, found := ids[c.vulnerability.digest]
		if !found {
			return fmt.Errorf("vulnerability %s of %s was not recorded", c.vulnerability.id, c.vulnerability.namespace)
		}
		values = append(values, row.packageID, id, c.digest, w.target, int64(stillOpen), c.fixState, c.fixable, c.fixVersions, c.detail)
	}
	return w.insert("findings", []string{
		"package_pk", "vulnerability_pk", "digest", "from_gen", "until_gen", "fix_state", "fixable", "fix_versions", "details",
	}, values, "")
}

// updateQueue takes packages that were answered for the next generation out of its queue. Those that were answered for the
// current one have to be matched for the next one too.
func (w *answerWriter) updateQueue(ids []int64) error {
	switch {
	case w.target == w.next:
		done := w.Exec("DELETE FROM rematch_queue WHERE package_pk IN ?", ids)
		if done.Error != nil || done.RowsAffected == 0 {
			return done.Error
		}
		return w.exec("UPDATE generations SET matched = matched + ? WHERE number = ?", done.RowsAffected, w.next)
	case w.next != 0:
		return w.queue(w.next, ids)
	default:
		return nil
	}
}

// queue puts packages into the queue of the next generation.
func (t *txn) queue(next int64, ids []int64) error {
	var added int64
	for part := range slices.Chunk(ids, maxIn) {
		queued := t.Exec("INSERT INTO rematch_queue (package_pk) SELECT id FROM packages WHERE id IN ?"+
			t.dialect.ignoreConflict("package_pk"), part)
		if queued.Error != nil {
			return queued.Error
		}
		added += queued.RowsAffected
	}
	if added == 0 {
		return nil
	}
	return t.exec("UPDATE generations SET queued = queued + ? WHERE number = ?", added, next)
}

// saveVulnerabilities records those that are not known and returns the ids of all, by digest.
func (w *answerWriter) saveVulnerabilities(all map[string]*vulnerabilityContent) (map[string]int64, error) {
	digests := slices.Sorted(maps.Keys(all))
	ids, early, err := knownVulnerabilities(w.DB, digests, w.current)
	if err != nil {
		return nil, err
	}
	if w.target == w.current {
		for digest, id := range early {
			if err := w.takeEarly(id, all[digest].scores); err != nil {
				return nil, err
			}
		}
	}
	var values []any
	var added []string
	for _, digest := range digests {
		if _, known := ids[digest]; known {
			continue
		}
		v := all[digest]
		added = append(added, digest)
		values = append(append(values, digest, v.id, v.namespace, v.severity, w.target), v.scores.values()...)
	}
	if len(added) == 0 {
		return ids, nil
	}
	columns := append([]string{"digest", "vulnerability_id", "namespace", "severity", "from_gen"}, scoreColumns...)
	if err := w.insert("vulnerabilities", columns, values, ""); err != nil {
		return nil, err
	}
	fresh, _, err := knownVulnerabilities(w.DB, added, w.current)
	if err != nil {
		return nil, err
	}
	maps.Copy(ids, fresh)
	details := make([]any, 0, 2*len(added))
	for _, digest := range added {
		details = append(details, ids[digest], all[digest].detail)
	}
	return ids, w.insert("vulnerability_details", []string{"vulnerability_pk", "detail"}, details, "")
}

// knownVulnerabilities returns the ids of those that are stored, by digest. early are those among them that only the next
// generation has named so far.
func knownVulnerabilities(tx *gorm.DB, digests []string, current int64) (ids, early map[string]int64, err error) {
	ids, early = make(map[string]int64, len(digests)), map[string]int64{}
	for part := range slices.Chunk(digests, maxIn) {
		var rows []struct {
			ID, FromGen int64
			Digest      string
		}
		if err := tx.Raw("SELECT id, digest, from_gen FROM vulnerabilities WHERE digest IN ?", part).Scan(&rows).Error; err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			if ids[row.Digest] = row.ID; row.FromGen > current {
				early[row.Digest] = row.ID
			}
		}
	}
	return ids, early, nil
}

// takeEarly gives a vulnerability that the next generation named first the scores of the current one, and keeps those that
// it had for the switch.
func (w *answerWriter) takeEarly(id int64, now scoresRow) error {
	if w.next != 0 {
		err := w.exec(`INSERT INTO staged_scores (vulnerability_pk, epss_micros, risk_micros, kev, scores)
			SELECT id, epss_micros, risk_micros, kev, scores FROM vulnerabilities WHERE id = ?`+
			w.dialect.ignoreConflict("vulnerability_pk"), id)
		if err != nil {
			return err
		}
	}
	return w.exec("UPDATE vulnerabilities SET from_gen = ?, epss_micros = ?, risk_micros = ?, kev = ?, scores = ? WHERE id = ?",
		append(append([]any{w.current}, now.values()...), id)...)
}
