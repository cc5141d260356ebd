package sqlstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// saidOf is what decisions say of findings.
type saidOf struct {
	// byFinding has the decisions about each finding, the one that matters most first.
	byFinding map[int64][]reachingDecision
	// reached has the images in which decisions say something.
	reached covers
	// placed has the reaches with places in which findings are suppressed, closed where they do not count for that.
	placed map[int64]int64
	closed covers
}

// reachingDecision is a decision with its reach.
type reachingDecision struct {
	reach int64
	model.Decision
}

// in is what they say of a finding in an image; nothing if s is nil.
func (s *saidOf) in(image, finding int64) (suppressed bool, decisions []model.Decision) {
	if s == nil {
		return false, nil
	}
	reach, placed := s.placed[finding]
	suppressed = placed && s.closed.reached[reach][image]
	for _, one := range s.byFinding[finding] {
		if one.reach != everywhere && !s.reached.reached[one.reach][image] {
			continue
		}
		suppressed = suppressed || one.Suppresses && !one.Placed
		if len(decisions) < model.MaxDecisionsShown {
			decisions = append(decisions, one.Decision)
		}
	}
	return suppressed, decisions
}

// decisionsAbout selects the decisions that apply about findings. It begins with the findings: there may be 10,000 decisions.
const decisionsAbout = `SELECT m.finding_id, d.reach, d.kind, d.namespace, d.name, d.status, d.justification, d.comment, d.author, d.suppresses, d.unfixed, d.expires_at, d.since,
	CASE WHEN EXISTS (SELECT 1 FROM placed_reaches q WHERE q.reach = d.reach) THEN 1 ELSE 0 END AS placed
	FROM decision_findings m CROSS JOIN decisions d WHERE d.id = m.decision_pk AND m.finding_id IN ? AND d.until_time = ?`

// decidedOf reads what decisions say of findings in images: those that apply in a visible place. Who sees some namespaces does not see who decided,
// unless the object is in one of them. suppressed says that decisions may suppress some of the findings there; otherwise all of them are known to be open.
func decidedOf(tx *gorm.DB, view seen, findings, images []int64, suppressed bool) (*saidOf, error) {
	in, decided := view.in, decisionsAbout
	if !in.All() {
		decided += " AND (d.namespace = '' OR " + isWithin("d.namespace", in) + ")"
	}
	s := &saidOf{
		byFinding: map[int64][]reachingDecision{}, reached: covers{reached: map[int64]map[int64]bool{}},
		placed: map[int64]int64{}, closed: covers{view: view, reached: map[int64]map[int64]bool{}},
	}
	err := inParts(findings, func(part []int64) error {
		var rows []struct {
			FindingID, Reach                                              int64
			Kind, Namespace, Name, Status, Justification, Comment, Author string
			Suppresses, Unfixed, ExpiresAt, Since, Placed                 int64
		}
		err := tx.Raw(decided, part, int64(stillOpen)).Scan(&rows).Error
		for _, row := range rows {
			one := model.Decision{
				Kind: row.Kind, Namespace: row.Namespace, Name: row.Name, Status: model.DecisionStatus(row.Status), Justification: row.Justification,
				Comment: row.Comment, Since: fromMicros(row.Since), ExpiresAt: fromMicros(row.ExpiresAt), Suppresses: row.Suppresses != 0,
				Placed: row.Placed != 0, Unfixed: row.Unfixed != 0,
			}
			if in.All() || row.Namespace != "" {
				one.Author = row.Author
			}
			s.byFinding[row.FindingID] = append(s.byFinding[row.FindingID], reachingDecision{row.Reach, one})
			if row.Reach != everywhere {
				s.reached.reached[row.Reach] = map[int64]bool{}
			}
		}
		if err != nil || !suppressed {
			return err
		}
		var suppressions []struct{ FindingID, Reach int64 }
		err = tx.Raw("SELECT fs.finding_id, fs.reach FROM finding_suppressions fs JOIN placed_reaches q ON q.reach = fs.reach WHERE fs.finding_id IN ?", part).Scan(&suppressions).Error
		for _, row := range suppressions {
			s.placed[row.FindingID], s.closed.reached[row.Reach] = row.Reach, map[int64]bool{}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, decisions := range s.byFinding {
		slices.SortFunc(decisions, func(a, b reachingDecision) int { return decision.Compare(a.Decision, b.Decision) })
	}
	return s, errors.Join(s.closed.readSome(tx, images, &s.reached), s.reached.readTouched(tx, in, images))
}

// addDecisions adds to findings in an image what decisions say of them: in some workloads of the image alone, unless workloads is nil.
func addDecisions(tx *gorm.DB, view seen, workloads *workloadReaches, suppressed bool, image int64, rows []findingRow, findings []model.Finding) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].FindingID
	}
	says, err := decidedOf(tx, view, ids, []int64{image}, suppressed)
	if err != nil {
		return err
	}
	if workloads != nil {
		says.limitTo(image, workloads)
	}
	for i, id := range ids {
		findings[i].Suppressed, findings[i].Decisions = says.in(image, id)
	}
	return nil
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
			ID, Suppresses, Since            int64
			Kind, Namespace, Name, Statement string
		}
		err = tx.Raw(`SELECT d.id, d.suppresses, d.since, d.kind, d.namespace, d.name, COALESCE(r.statement, '') AS statement
			FROM decisions d LEFT JOIN decision_rules r ON r.decision_pk = d.id WHERE d.source = ? AND d.until_time = ?`,
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
			counts[store.DecisionObject{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name, Statement: row.Statement}] = count
		}
		return nil
	})
	return counts, err
}

// matchesOf counts the findings of visible images that each decision matches: of these, at most sqldb.MaxIn, or of all.
func (s *Store) matchesOf(tx *gorm.DB, in store.Namespaces, current int64, decisions ...int64) (map[int64]int, error) {
	type matches struct {
		decision int64
		findings int
	}
	reaches, reached, err := reachesOfDecisions(tx, in, decisions...)
	if err != nil {
		return nil, err
	}
	held := map[int64][]matches{}
	found := tx.Table("decision_findings AS m").Joins("CROSS JOIN findings f").Where("f.id = m.finding_id AND "+shown, current, current).
		Select("f.package_pk, m.decision_pk, COUNT(*)").Group("f.package_pk, m.decision_pk")
	if len(decisions) > 0 {
		found = found.Where("m.decision_pk IN ?", decisions)
	}
	err = eachRow(found, func(scan func(...any) error) error {
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
				inReach := len(images)
				if reach := reaches[one.decision]; reach != everywhere {
					inReach = 0
					for _, image := range images {
						if reached.reached[reach][image] {
							inReach++
						}
					}
				}
				counts[one.decision] += one.findings * inReach
			}
		})
	})
	return counts, err
}

// reachesOfDecisions reads the reaches of the decisions that apply to some images or places only, and the images of which they have a visible place: of
// these decisions, or of all.
func reachesOfDecisions(tx *gorm.DB, in store.Namespaces, decisions ...int64) (map[int64]int64, *covers, error) {
	var rows []struct{ ID, Reach int64 }
	chosen := tx.Table("decisions AS d").Where("d.until_time = ? AND d.reach > 0", int64(stillOpen))
	if len(decisions) > 0 {
		chosen = chosen.Where("d.id IN ?", decisions)
	}
	if err := chosen.Select("d.id, d.reach").Scan(&rows).Error; err != nil {
		return nil, nil, err
	}
	reaches, reached := make(map[int64]int64, len(rows)), &covers{reached: map[int64]map[int64]bool{}}
	for _, row := range rows {
		reaches[row.ID], reached.reached[row.Reach] = row.Reach, map[int64]bool{}
	}
	return reaches, reached, errors.Join(reached.read(tx, slices.Sorted(maps.Keys(reached.reached))), reached.readTouched(tx, in, nil))
}
