package sqlstore

import (
	"encoding/json"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Newer tags are compared with the images that run at the end of the transaction that changes what an image or a newer tag has. tag_fixes has the tag of each
// lookup that is recommended, and tag_closings which findings of the image it closes. Decisions have no part in that: they say which of these findings count,
// and change the sums only.

// tagFix is a row of tag_fixes without its sums.
type tagFix struct {
	ID          int64
	Lookup      string
	ImagePk     int64
	ResultSet   int64
	Position    int64
	Opened      string
	OpenedRisk  int64
	OpenedCount int64 `gorm:"column:opened_findings"`
}

const tagFixColumns = "x.id, x.lookup, x.image_pk, x.result_set, x.position, x.opened, x.opened_risk, x.opened_findings"

// tagFixInserted are the columns of values.
var tagFixInserted = []string{"lookup", "image_pk", "result_set", "position", "opened", "opened_risk", "opened_findings", "risk_micros", "kev", "findings"}

func (f *tagFix) values() []any {
	return []any{f.Lookup, f.ImagePk, f.ResultSet, f.Position, f.Opened, f.OpenedRisk, f.OpenedCount, 0, 0, 0}
}

// openedByTag is what a newer tag opens, as it is stored.
type openedByTag struct {
	Counts model.SeverityCounts   `json:"counts"`
	Worst  []store.RolloutFinding `json:"worst"`
}

// compareTags makes the rows of lookups what they should be, apart from their sums. before are the rows as they are.
func (t *txn) compareTags(lookups []comparedTags, before map[string]tagFix, current int64) error {
	var present *presentFindings
	var gone []string
	for i := range lookups {
		row := &lookups[i]
		if present == nil || present.image != row.ImagePk {
			present = &presentFindings{image: row.ImagePk}
		}
		fix, closed, err := t.compareTag(row, present, current)
		if err != nil {
			return err
		}
		was, known := before[row.Lookup]
		if fix == nil {
			if known {
				gone = append(gone, row.Lookup)
			}
			continue
		}
		if err := t.saveTagFix(fix, was, known, closed); err != nil {
			return err
		}
	}
	return inParts(gone, func(part []string) error { return t.Execute("DELETE FROM tag_fixes WHERE lookup IN ?", part) })
}

// compareTag compares the newer tags of a lookup. It returns nil if none is recommended, and otherwise the findings that the tag closes, with their packages.
func (t *txn) compareTag(row *comparedTags, present *presentFindings, current int64) (fix *tagFix, closed map[int64]int64, err error) {
	if row.Matched == 0 {
		return nil, nil, nil
	}
	var tags []struct {
		Position int64
		Findings []byte
	}
	err = t.Raw(`SELECT n.position, m.findings FROM newer_tags n JOIN tag_images m ON m.id = n.image WHERE n.lookup = ? AND n.problem = ''
		AND m.problem = '' AND m.result_set = ? ORDER BY n.position`, row.Lookup, current).Scan(&tags).Error
	if err != nil || len(tags) == 0 {
		return nil, nil, err
	}
	if err := present.read(t.DB, current); err != nil || len(present.rows) > store.MaxTagFindings {
		return nil, nil, err
	}
	var best *advice.Upgrade // Those of the other tags are not kept: an image has up to store.MaxTagFindings.
	var position int64
	for _, tag := range tags {
		found, err := decodeTagFindings(tag.Findings)
		if err != nil { // What the transaction is about matters more.
			t.log.Error(err, "Cannot read the findings of a newer tag, which is left out of the fixes", "lookup", row.Lookup, "position", tag.Position)
			continue
		}
		upgrade := present.findings.UpgradeTo(findingsOfTag(found))
		if advice.Best([]*advice.Upgrade{best, &upgrade}) == 1 {
			best, position = &upgrade, tag.Position
		}
	}
	if best == nil {
		return nil, nil, nil
	}
	fix = &tagFix{Lookup: row.Lookup, ImagePk: row.ImagePk, ResultSet: current, Position: position}
	return fix, present.without(best.Closed), fix.setOpened(best)
}

// setOpened notes what an upgrade opens.
func (f *tagFix) setOpened(u *advice.Upgrade) error {
	opened := openedByTag{Counts: advice.Count(u.Opened), Worst: []store.RolloutFinding{}}
	for _, change := range u.Opened[:min(len(u.Opened), store.MaxFixVulnerabilities)] {
		opened.Worst = append(opened.Worst, store.RolloutFinding(change))
	}
	content, err := json.Marshal(opened)
	f.Opened, f.OpenedRisk, f.OpenedCount = string(content), u.OpenedRisk, int64(len(u.Opened))
	return err
}

// findingsOfTag makes findings that can be compared.
func findingsOfTag(found []store.TagFinding) []model.Finding {
	findings := make([]model.Finding, len(found))
	for i := range found {
		findings[i] = found[i].Finding()
	}
	return findings
}

// presentRow is a finding of an image.
type presentRow struct {
	ID, PackagePk, Fixable    int64
	Name, VulnerabilityID     string
	Severity, Kev, RiskMicros int64
}

// presentFindings are the findings of an image, read when they are needed.
type presentFindings struct {
	image    int64
	done     bool
	rows     []presentRow
	findings *advice.Present
}

// read reads the findings of the image, also those that decisions suppress, and one more than store.MaxTagFindings at most.
func (p *presentFindings) read(tx *gorm.DB, current int64) error {
	if p.done {
		return nil
	}
	p.done = true
	err := tx.Raw(`SELECT f.id, f.package_pk, f.fixable, p.name, v.vulnerability_id, v.severity, v.kev, v.risk_micros
		FROM image_packages ip CROSS JOIN packages p CROSS JOIN findings f CROSS JOIN vulnerabilities v
		WHERE ip.image_pk = ? AND ip.excluded = 0 AND p.id = ip.package_pk AND f.package_pk = ip.package_pk AND v.id = f.vulnerability_pk AND `+shown+` LIMIT ?`,
		p.image, current, current, store.MaxTagFindings+1).Scan(&p.rows).Error
	findings := make([]model.Finding, 0, len(p.rows))
	for i := range p.rows {
		row := &p.rows[i]
		found := store.TagFinding{
			VulnerabilityID: row.VulnerabilityID, Package: row.Name, Severity: model.Severity(row.Severity), //nolint:gosec // It was stored from one.
			Risk: float64(row.RiskMicros) / 1e6, KEV: row.Kev != 0, Fixable: row.Fixable != 0,
		}
		findings = append(findings, found.Finding())
	}
	p.findings = advice.Prepare(findings)
	return err
}

// without returns the findings that are closed, with their packages.
func (p *presentFindings) without(closed []advice.Change) map[int64]int64 {
	type key struct{ vulnerability, name string }
	gone := make(map[key]bool, len(closed))
	for i := range closed {
		gone[key{closed[i].VulnerabilityID, closed[i].Package}] = true
	}
	found := map[int64]int64{}
	for i := range p.rows {
		if row := &p.rows[i]; gone[key{row.VulnerabilityID, row.Name}] {
			found[row.ID] = row.PackagePk
		}
	}
	return found
}

// saveTagFix writes what differs of a row, and of what its tag closes.
func (t *txn) saveTagFix(fix *tagFix, was tagFix, known bool, closed map[int64]int64) error {
	if known && was.ImagePk != fix.ImagePk { // The image was deleted, and is there again: nothing stays as it was.
		if err := t.Execute("DELETE FROM tag_fixes WHERE id = ?", was.ID); err != nil {
			return err
		}
		known = false
	}
	if !known {
		if err := t.Insert("tag_fixes", tagFixInserted, fix.values(), ""); err != nil {
			return err
		}
		if err := t.Raw("SELECT id FROM tag_fixes WHERE lookup = ?", fix.Lookup).Scan(&fix.ID).Error; err != nil {
			return err
		}
		return t.saveTagClosings(fix.ID, nil, closed)
	}
	if fix.ID = was.ID; *fix != was {
		err := t.Execute("UPDATE tag_fixes SET result_set = ?, position = ?, opened = ?, opened_risk = ?, opened_findings = ? WHERE id = ?",
			fix.ResultSet, fix.Position, fix.Opened, fix.OpenedRisk, fix.OpenedCount, fix.ID)
		if err != nil {
			return err
		}
	}
	var rows []struct{ FindingID, PackagePk int64 }
	if err := t.Raw("SELECT finding_id, package_pk FROM tag_closings WHERE fix_pk = ?", fix.ID).Scan(&rows).Error; err != nil {
		return err
	}
	before := make(map[int64]int64, len(rows))
	for _, row := range rows {
		before[row.FindingID] = row.PackagePk
	}
	return t.saveTagClosings(fix.ID, before, closed)
}

// saveTagClosings writes what differs of the findings that a tag closes.
func (t *txn) saveTagClosings(fix int64, before, after map[int64]int64) error {
	var gone []int64
	for id, of := range before {
		if is, stays := after[id]; !stays || is != of {
			gone = append(gone, id)
		}
	}
	var values []any
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if of, there := before[id]; !there || of != after[id] {
			values = append(values, fix, id, after[id])
		}
	}
	slices.Sort(gone)
	err := inParts(gone, func(part []int64) error {
		return t.Execute("DELETE FROM tag_closings WHERE fix_pk = ? AND finding_id IN ?", fix, part)
	})
	if err != nil {
		return err
	}
	return t.Insert("tag_closings", []string{"fix_pk", "finding_id", "package_pk"}, values, "")
}

// tagSums are the sums of a row of tag_fixes.
type tagSums struct{ ID, RiskMicros, Kev, Findings int64 }

func (s *tagSums) add(closed *tagClosed) {
	s.RiskMicros, s.Kev, s.Findings = s.RiskMicros+closed.risk, s.Kev+closed.kev, s.Findings+closed.findings
}

func (s *tagSums) subtract(risk, kev, findings int64) {
	s.RiskMicros, s.Kev, s.Findings = s.RiskMicros-risk, s.Kev-kev, s.Findings-findings
}

// countTagFixes makes the sums of rows what they should be.
func (t *txn) countTagFixes(ids []int64, current int64) error {
	var before []tagSums
	if err := t.Raw("SELECT id, risk_micros, kev, findings FROM tag_fixes WHERE id IN ? ORDER BY id", ids).Scan(&before).Error; err != nil {
		return err
	}
	after := make(map[int64]tagSums, len(before))
	err := eachClosed(t.DB, t.Dialect, seen{in: store.AllNamespaces()}.hide, current, ids, func(fix int64, closed map[int64]*tagClosed) {
		sums := after[fix]
		for _, one := range closed {
			sums.add(one)
		}
		after[fix] = sums
	})
	if err != nil {
		return err
	}
	for _, was := range before {
		is := after[was.ID]
		if is.ID = was.ID; is == was {
			continue
		}
		if err := t.Execute("UPDATE tag_fixes SET risk_micros = ?, kev = ?, findings = ? WHERE id = ?", is.RiskMicros, is.Kev, is.Findings, is.ID); err != nil {
			return err
		}
	}
	return nil
}
