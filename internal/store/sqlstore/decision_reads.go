package sqlstore

import (
	"context"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// decided is what decisions say of a finding.
type decided struct {
	suppressed bool
	decisions  []model.Decision
}

// decidedOf reads what decisions say of findings. Who sees some namespaces does not see who decided.
func decidedOf(tx *gorm.DB, in store.Namespaces, findings []int64) (map[int64]decided, error) {
	all := map[int64]decided{}
	err := inParts(findings, func(part []int64) error {
		var rows []struct {
			FindingID                                                     int64
			Kind, Namespace, Name, Status, Justification, Comment, Author string
			Suppresses, ExpiresAt, Since                                  int64
		}
		err := tx.Raw(`SELECT m.finding_id, d.kind, d.namespace, d.name, d.status, d.justification, d.comment, d.author, d.suppresses, d.expires_at, d.since
			FROM decision_findings m JOIN decisions d ON d.id = m.decision_pk WHERE m.finding_id IN ? AND d.until_time = ?`, part, int64(stillOpen)).Scan(&rows).Error
		for _, row := range rows {
			one := model.Decision{
				Kind: row.Kind, Namespace: row.Namespace, Name: row.Name, Status: model.DecisionStatus(row.Status), Justification: row.Justification,
				Comment: row.Comment, Since: fromMicros(row.Since), ExpiresAt: fromMicros(row.ExpiresAt), Suppresses: row.Suppresses != 0,
			}
			if in.All() {
				one.Author = row.Author
			}
			d := all[row.FindingID]
			d.suppressed = d.suppressed || one.Suppresses
			d.decisions = append(d.decisions, one)
			all[row.FindingID] = d
		}
		return err
	})
	for id, d := range all {
		slices.SortFunc(d.decisions, decision.Compare)
		d.decisions = d.decisions[:min(len(d.decisions), model.MaxDecisionsShown)]
		all[id] = d
	}
	return all, err
}

// addDecisions adds to findings what decisions say of them.
func addDecisions(tx *gorm.DB, in store.Namespaces, rows []findingRow, findings []model.Finding) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].FindingID
	}
	says, err := decidedOf(tx, in, ids)
	for i, id := range ids {
		findings[i].Suppressed, findings[i].Decisions = says[id].suppressed, says[id].decisions
	}
	return err
}

// DecisionCounts implements store.Decisions.
func (s *Store) DecisionCounts(ctx context.Context, in store.Namespaces, source string) (map[store.DecisionObject]store.DecisionCount, error) {
	var counts map[store.DecisionObject]store.DecisionCount
	err := s.read(ctx, "count what decisions match", func(tx *gorm.DB) error {
		counts = map[store.DecisionObject]store.DecisionCount{}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		var rows []struct {
			ID, Suppresses, Since int64
			Kind, Namespace, Name string
		}
		err = tx.Raw("SELECT d.id, d.suppresses, d.since, d.kind, d.namespace, d.name FROM decisions d WHERE d.source = ? AND d.until_time = ?",
			source, int64(stillOpen)).Scan(&rows).Error
		if err != nil {
			return err
		}
		matched, err := s.matchesOf(tx, in, current)
		if err != nil {
			return err
		}
		for _, row := range rows {
			count := store.DecisionCount{Matched: matched[row.ID], Since: fromMicros(row.Since)}
			if row.Suppresses != 0 {
				count.Suppressed = count.Matched
			}
			counts[store.DecisionObject{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name}] = count
		}
		return nil
	})
	return counts, err
}

// matchesOf counts the findings of visible images that each decision matches.
func (s *Store) matchesOf(tx *gorm.DB, in store.Namespaces, current int64) (map[int64]int, error) {
	type matches struct {
		decision int64
		findings int
	}
	held := map[int64][]matches{}
	found := tx.Table("decision_findings AS m").Joins("CROSS JOIN findings f").Where("f.id = m.finding_id AND "+shown, current, current).
		Select("f.package_pk, m.decision_pk, COUNT(*)").Group("f.package_pk, m.decision_pk")
	err := eachRow(found, func(scan func(...any) error) error {
		var id int64
		var one matches
		err := scan(&id, &one.decision, &one.findings)
		held[id] = append(held[id], one)
		return err
	})
	if err != nil {
		return nil, err
	}
	unmatched, err := unmatchedImages(tx)
	if err != nil {
		return nil, err
	}
	packages := make([]int64, 0, len(held))
	for id := range held {
		packages = append(packages, id)
	}
	slices.Sort(packages)
	counts := map[int64]int{}
	err = inParts(packages, func(part []int64) error {
		holders := tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.package_pk IN ?", part)
		if !in.All() {
			holders = holders.Where("ip.image_pk IN (?)", visibleImages(tx, in))
		}
		return eachList(holders, s.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
			images = slices.DeleteFunc(images, func(image int64) bool { return unmatched[image] })
			for _, one := range held[id] {
				counts[one.decision] += one.findings * len(images)
			}
		})
	})
	return counts, err
}
