package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// countsInFull is the condition that a decision of a VEX document counts as those of exceptions do. No text within the JSON has this: its quotation marks are escaped.
const countsInFull = `spec LIKE '%"full":true%'`

// gone reports whether an object is known not to exist. Statements of VEX documents are not objects.
func (s *Store) gone(source string, object store.DecisionObject) bool {
	objects := s.existing.of(source)
	return source == store.DecisionSourceVEX || objects != nil && !objects[object]
}

// endedRow is a decision that has ended. Latest is 1 if no later decision has the same object.
type endedRow struct {
	ID                            int64
	Source, Kind, Namespace, Name string
	UntilTime, Latest             int64
}

// endedDecisions selects decisions that ended before a time, as far as PruneDecisions deletes them, behind one of them in the order of their ends.
const endedDecisions = `SELECT d.id, d.source, d.kind, d.namespace, d.name, d.until_time, CASE WHEN EXISTS (SELECT 1 FROM decisions n
		WHERE n.source = d.source AND n.kind = d.kind AND n.namespace = d.namespace AND n.name = d.name AND n.id > d.id) THEN 0 ELSE 1 END AS latest
	FROM decisions d WHERE d.until_time < ? AND d.until_time >= ? AND (d.until_time > ? OR d.id > ?)
		AND (d.source <> '` + store.DecisionSourceVEX + `' OR d.` + countsInFull + `) ORDER BY d.until_time, d.id LIMIT ?`

// PruneDecisions implements store.ResultSets. Rows that have ended do not change, so they are looked for without a lock. What refers to them is deleted by foreign keys.
func (s *Store) PruneDecisions(ctx context.Context, before time.Time) error {
	const what = "delete decisions that have ended"
	var last endedRow
	for more := true; more; {
		var rows []endedRow
		err := s.read(ctx, what, func(tx *gorm.DB) error {
			return tx.Raw(endedDecisions, micros(before), last.UntilTime, last.UntilTime, last.ID, batchRows).Scan(&rows).Error
		})
		if err != nil {
			return err
		}
		var old []int64
		for i := range rows {
			row := &rows[i]
			object := store.DecisionObject{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name}
			if row.Latest == 0 || s.gone(row.Source, object) {
				old = append(old, row.ID)
			}
		}
		if more = len(rows) == batchRows; more {
			last = rows[len(rows)-1]
		}
		if len(old) == 0 {
			continue
		}
		err = s.write(ctx, what, func(tx *txn) error {
			return inParts(old, func(part []int64) error {
				return tx.Execute("DELETE FROM decisions WHERE id IN ? AND until_time < ?", part, micros(before))
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
