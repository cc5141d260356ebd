package sqlstore

import (
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// lastDecisions reads the decisions of a source that apply, and the last decision of each object that has one that applies, or one that a clock which is ahead has ended at
// an end that is still to come: such a decision does not begin again. All others that have ended are history, which only grows and is not read.
func lastDecisions(tx *gorm.DB, source string, now int64) (applied []decisionRow, last map[store.DecisionObject]*decisionRow, err error) {
	err = tx.Raw("SELECT "+decisionColumns+" FROM decisions d WHERE d.source = ? AND d.until_time = ? ORDER BY d.id", source, int64(stillOpen)).Scan(&applied).Error
	if err != nil {
		return nil, nil, err
	}
	last = make(map[store.DecisionObject]*decisionRow, len(applied))
	var ahead []decisionRow
	err = tx.Raw("SELECT "+decisionColumns+" FROM decisions d WHERE d.source = ? AND d.until_time > ? AND d.until_time < ? AND d.expires_at > ? AND d.ended_by = ?"+
		" AND NOT EXISTS (SELECT 1 FROM decisions n WHERE n.source = d.source AND n.kind = d.kind AND n.namespace = d.namespace AND n.name = d.name AND n.id > d.id)",
		source, now, int64(stillOpen), now, endExpired).Scan(&ahead).Error
	for _, rows := range [][]decisionRow{ahead, applied} {
		for i := range rows {
			last[rows[i].object()] = &rows[i]
		}
	}
	return applied, last, err
}

// overAt reports whether an end, as of endOf, has passed.
func overAt(end, now int64) bool { return end > 0 && end <= now }
