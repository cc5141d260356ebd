package sqlstore

import (
	"context"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// DecisionSums implements store.DecisionCounter.
func (s *Store) DecisionSums(ctx context.Context, within time.Duration) (store.DecisionSums, error) {
	var sums store.DecisionSums
	err := s.read(ctx, "sum up decisions", func(tx *gorm.DB) error {
		sums = store.DecisionSums{Standing: map[store.DecisionGroup]int{}}
		var rows []struct {
			Source, Status string
			Decisions      int
		}
		err := tx.Raw("SELECT d.source, d.status, COUNT(*) AS decisions FROM decisions d WHERE d.until_time = ? GROUP BY d.source, d.status",
			int64(stillOpen)).Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			sums.Standing[store.DecisionGroup{Source: row.Source, Status: model.DecisionStatus(row.Status)}] = row.Decisions
		}
		err = tx.Raw("SELECT COUNT(*) FROM decisions d WHERE d.until_time = ? AND d.expires_at > 0 AND d.expires_at <= ?",
			int64(stillOpen), s.now()+within.Microseconds()).Scan(&sums.Expiring).Error
		if err != nil {
			return err
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		sums.Suppressed, err = s.suppressedIn(tx, seen{in: store.AllNamespaces()}, nil, current)
		return err
	})
	return sums, err
}

// suppressedCount remembers how many findings were suppressed in all images when the newest transaction with events was the one of log. Each
// transaction that changes the number writes events.
type suppressedCount struct {
	mu    sync.Mutex
	log   string
	count int
}

// suppressedIn counts the findings of visible matched images that decisions suppress. images are the visible ones, nil if these are not known.
func (s *Store) suppressedIn(tx *gorm.DB, view seen, images *someImages, current int64) (int, error) {
	if !view.in.All() {
		return suppressedFindings(tx, view, images, current)
	}
	// What runs changes the number without events then.
	if placed, err := somePlaced(tx); err != nil {
		return 0, err
	} else if placed {
		return suppressedFindings(tx, view, nil, current)
	}
	var log string
	if err := tx.Raw("SELECT log_id FROM event_commits ORDER BY seq DESC LIMIT 1").Scan(&log).Error; err != nil {
		return 0, err
	}
	last := &s.suppressed
	last.mu.Lock()
	defer last.mu.Unlock()
	if log != "" && log == last.log {
		return last.count, nil
	}
	count, err := suppressedFindings(tx, view, nil, current)
	if err == nil {
		last.log, last.count = log, count
	}
	return count, err
}

// suppressedFindings counts the findings of matched images that decisions suppress, each once in each image. images are the visible ones, nil if these are not known.
func suppressedFindings(tx *gorm.DB, view seen, images *someImages, current int64) (int, error) {
	chosen := place{in: view.in}
	var all, some int
	if err := suppressedOf(tx, chosen, current).Select("COALESCE(SUM(n.findings), 0)").Scan(&all).Error; err != nil {
		return 0, err
	}
	unplaced, there, err := view.countThere(tx, images)
	if err != nil {
		return 0, err
	}
	if unplaced { // Otherwise PostgreSQL takes milliseconds to plan for nothing.
		if err := tx.Table("(?) AS n", dividedOf(tx, chosen, current)).Select("COUNT(*)").Scan(&some).Error; err != nil {
			return 0, err
		}
	}
	return all + some + there, nil
}

// sumOfReached is the number of findings of rows c of reached_counts.
const sumOfReached = "COALESCE(SUM(c.critical + c.high + c.medium + c.low + c.negligible + c.unknown), 0)"

// countThere counts the findings that decisions with places suppress in visible matched images, and reports whether a decision without places may suppress others.
func (s seen) countThere(tx *gorm.DB, images *someImages) (unplaced bool, findings int, err error) {
	if images != nil {
		return s.countAmong(tx, images.ids)
	}
	var reaches []int64
	err = tx.Raw("SELECT r.id FROM reaches r WHERE NOT EXISTS (SELECT 1 FROM placed_reaches q WHERE q.reach = r.id) LIMIT 1").Scan(&reaches).Error
	if err != nil {
		return false, 0, err
	}
	placed, err := somePlaced(tx)
	if err == nil && placed {
		err = s.countsThere(tx).Select(sumOfReached).Scan(&findings).Error
	}
	return len(reaches) > 0, findings, err
}

// countAmong is countThere for these images, of which it reads nothing that other reaches suppress: an image that runs everywhere can have thousands of them.
func (s seen) countAmong(tx *gorm.DB, images []int64) (unplaced bool, findings int, err error) {
	var row struct{ Findings, Unplaced int }
	err = tx.Table("reached AS x").Joins("LEFT JOIN placed_reaches q ON q.reach = x.reach").Joins("LEFT JOIN reached_counts c ON c.reach = x.reach AND c.image_pk = x.image_pk").
		Where("x.image_pk IN (?)", numberList(images)).Select(sumOfReached + " AS findings, COALESCE(MAX(CASE WHEN q.reach IS NULL THEN 1 ELSE 0 END), 0) AS unplaced").Scan(&row).Error
	if err != nil || !s.placed {
		return row.Unplaced != 0, row.Findings, err
	}
	var here int
	if s.closedHere != nil {
		err = tx.Table("reached_counts AS c").Where(s.named("c.reach", "c.image_pk")+" AND c.image_pk IN (?)", numberList(images)).Select(sumOfReached).Scan(&here).Error
	} else {
		err = tx.Table("(?) AS c", s.elsewhere(tx, nil)).Select(sumOfReached).Scan(&here).Error
	}
	return row.Unplaced != 0, row.Findings + here, err
}

// countsThere selects rows c of reached_counts of images in which findings do not count because of them.
func (s seen) countsThere(tx *gorm.DB) *gorm.DB {
	return visibleOnly(tx, tx.Table(s.reachedCounted()+" AS y").Joins("JOIN reached_counts c ON c.reach = y.reach AND c.image_pk = y.image_pk"), "y.image_pk", s.in)
}

// dividedOf selects findings and the matched images in which decisions without places suppress them, of those that are not suppressed everywhere.
func dividedOf(tx *gorm.DB, chosen place, current int64) *gorm.DB {
	held := tx.Table("reaches AS r").Joins("CROSS JOIN finding_suppressions fs").Joins("CROSS JOIN findings f").Joins("CROSS JOIN reached x").Joins("CROSS JOIN image_packages ip").
		Where("r.id NOT IN (SELECT q.reach FROM placed_reaches q) AND fs.reach = r.id AND f.id = fs.finding_id AND "+shown+" AND "+unsuppressed, current, current).
		Where("x.reach = fs.reach AND ip.image_pk = x.image_pk AND ip.package_pk = f.package_pk AND ip.excluded = 0").
		Where("ip.image_pk NOT IN (SELECT id FROM images WHERE matched_at = 0)")
	if !chosen.everywhere() {
		held = held.Where("ip.image_pk IN (?)", chosen.images(tx))
	}
	return held.Distinct("fs.finding_id, ip.image_pk")
}

// suppressedOf selects packages ip of matched images, and how many findings of each are suppressed everywhere.
func suppressedOf(tx *gorm.DB, chosen place, current int64) *gorm.DB {
	byPackage := tx.Table("finding_suppressions AS fs").Joins("CROSS JOIN findings f").
		Where("fs.reach = ? AND f.id = fs.finding_id AND "+shown, everywhere, current, current).
		Select("f.package_pk, COUNT(*) AS findings").Group("f.package_pk")
	held := tx.Table("(?) AS n", byPackage).Joins("CROSS JOIN image_packages ip").
		Where("ip.package_pk = n.package_pk AND ip.excluded = 0 AND ip.image_pk NOT IN (SELECT id FROM images WHERE matched_at = 0)")
	if !chosen.everywhere() {
		held = held.Where("ip.image_pk IN (?)", chosen.images(tx))
	}
	return held
}
