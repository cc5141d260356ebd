package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Prune implements store.ResultSets. When it fails half-way the rest is left for the next call.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	const what = "delete expired data"
	// closed is the newest result set that became current before the time: what it closed is old.
	var current, closed int64
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var err error
		if current, err = currentNumber(tx); err != nil {
			return err
		}
		return tx.Raw("SELECT COALESCE(MAX(number), 0) FROM generations WHERE current_since > 0 AND current_since < ?", micros(before)).
			Scan(&closed).Error
	})
	if err != nil {
		return err
	}
	for _, step := range []batchChange{
		{
			action: "DELETE FROM closed_suppressions", table: "closed_suppressions", column: "change_id", values: []any{micros(s.clock.Now().Add(-closedSuppressions))},
			condition: "EXISTS (SELECT 1 FROM finding_changes c JOIN generations g ON g.number = c.generation WHERE c.id = closed_suppressions.change_id AND g.current_since < ?)",
		},
		{action: "DELETE FROM change_packages", table: "change_packages", column: "generation", condition: "generation <= ?", values: []any{closed}},
		{action: "DELETE FROM finding_changes", table: "finding_changes", column: "id", condition: "generation <= ?", values: []any{closed}},
		{action: "DELETE FROM findings", table: "findings", column: "package_pk", condition: "until_gen <= ?", values: []any{closed}},
		{action: "DELETE FROM image_presences", table: "image_presences", column: "id", condition: endedPresence, values: []any{micros(before)}},
		{action: "DELETE FROM reports", table: "reports", column: "id", condition: unusedReport, values: []any{micros(before)}},
		// Documents change more often than exceptions, and each change is a new row. What counts as exceptions do stays as those do.
		{
			action: "DELETE FROM decisions", table: "decisions", column: "id", values: []any{micros(before)},
			condition: "source = '" + store.DecisionSourceVEX + "' AND until_time < ? AND NOT " + countsInFull,
		},
		{action: "DELETE FROM rollouts", table: "rollouts", column: "id", condition: "at < ?", values: []any{micros(before)}},
		// Answers have no history: only the current ones and those of the next result set are ever read.
		{action: "DELETE FROM package_answers", table: "package_answers", column: "package_pk", condition: "until_gen <= ?", values: []any{current}},
	} {
		if err := s.inBatches(ctx, what, step); err != nil {
			return err
		}
	}
	if err := s.deleteAbandoned(ctx); err != nil {
		return err
	}
	if err := s.prunePackages(ctx, what); err != nil {
		return err
	}
	if err := s.pruneVulnerabilities(ctx, what); err != nil {
		return err
	}
	if err := s.pruneRest(ctx, what, before, closed); err != nil {
		return err
	}
	return storeError(s.db.Reclaim(ctx))
}

// closedSuppressions is how long is kept where closed findings were suppressed: messages about them are begun within seconds.
const closedSuppressions = 24 * time.Hour

// pruneRest deletes what is little enough for one transaction.
func (s *Store) pruneRest(ctx context.Context, what string, before time.Time, closed int64) error {
	return s.write(ctx, what, func(tx *txn) error {
		if err := deleteSums(tx, dayOf(s.clock.Now().AddDate(0, 0, -store.MaxTrendDays))); err != nil {
			return err
		}
		unseen := min(micros(before), micros(s.clock.Now().Add(-2*seenInterval)))
		for _, step := range []struct {
			statement string
			before    int64
		}{
			{"DELETE FROM repository_sizes WHERE updated_at < ? AND repository NOT IN (SELECT i.repository FROM images i)", micros(before)},
			{"DELETE FROM object_states WHERE COALESCE((SELECT l.at FROM object_last_seen l WHERE l.object = object_states.object), 0) < ?", unseen},
			{"DELETE FROM object_last_seen WHERE at < ?", unseen},
		} {
			if err := tx.Execute(step.statement, step.before); err != nil {
				return err
			}
		}
		if err := tx.dropReaches(); err != nil {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM distro_lifecycles WHERE distro NOT IN (SELECT i.distro FROM images i)",
			"DELETE FROM workload_owners WHERE " + forgottenOwner,
		} {
			if err := tx.Execute(statement); err != nil {
				return err
			}
		}
		return tx.Execute(`DELETE FROM generations WHERE state = ? AND number <= ?
			AND NOT EXISTS (SELECT 1 FROM finding_changes c WHERE c.generation = generations.number)
			AND NOT EXISTS (SELECT 1 FROM findings f WHERE f.from_gen = generations.number)
			AND NOT EXISTS (SELECT 1 FROM findings f WHERE f.until_gen = generations.number)
			AND NOT EXISTS (SELECT 1 FROM findings f WHERE f.opened_gen = generations.number AND f.opened_gen <> f.from_gen)`, string(store.ResultSetPast), closed)
	})
}

// endedPresence is the condition that a presence ended before a time, and that the image does not run there again.
const endedPresence = `until_time < ? AND NOT EXISTS (SELECT 1 FROM image_uses u WHERE u.namespace = image_presences.namespace
	AND u.name = image_presences.name AND u.kind = image_presences.kind AND u.image_pk = image_presences.image_pk
	AND u.container = image_presences.container)`

// unusedReport is the condition that a report was uploaded before a time, and that nothing runs its image or ran it as long as scopes keep
// that. ForgetImages removes the image.
const unusedReport = `saved_at < ? AND NOT EXISTS (SELECT 1 FROM images i JOIN image_uses u ON u.image_pk = i.id WHERE i.image_id = reports.image_id)
	AND NOT EXISTS (SELECT 1 FROM images i JOIN namespace_last_uses l ON l.image_pk = i.id WHERE i.image_id = reports.image_id)`

// prunePackages deletes the packages that no image holds and no change is about, with all that is known of them.
func (s *Store) prunePackages(ctx context.Context, what string) error {
	return s.pruneUnused(ctx, what, "packages", "NOT EXISTS (SELECT 1 FROM image_packages ip WHERE ip.package_pk = t.id) AND "+
		"NOT EXISTS (SELECT 1 FROM finding_changes c WHERE c.package_pk = t.id)",
		"DELETE FROM package_answers WHERE package_pk IN ?",
		"DELETE FROM findings WHERE package_pk IN ?",
		"DELETE FROM rematch_queue WHERE package_pk IN ?",
		"DELETE FROM packages WHERE id IN ?")
}

// pruneVulnerabilities deletes those that no finding names; details and scores go with them, by foreign keys.
func (s *Store) pruneVulnerabilities(ctx context.Context, what string) error {
	return s.pruneUnused(ctx, what, "vulnerabilities", "NOT EXISTS (SELECT 1 FROM findings f WHERE f.vulnerability_pk = t.id)",
		"DELETE FROM vulnerabilities WHERE id IN ?")
}

// pruneUnused runs the statements for the ids of the rows of table t that meet the condition, some at a time. The condition is
// looked at without a lock first, so that a pass that finds nothing writes nothing.
func (s *Store) pruneUnused(ctx context.Context, what, table, condition string, statements ...string) error {
	for after := int64(0); ; {
		var ids []int64
		err := s.read(ctx, what, func(tx *gorm.DB) error {
			return tx.Raw("SELECT t.id FROM "+table+" t WHERE t.id > ? AND "+condition+" ORDER BY t.id LIMIT ?", after, sqldb.MaxIn).Scan(&ids).Error
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		err = s.write(ctx, what, func(tx *txn) error {
			var unused []int64
			err := tx.Raw("SELECT t.id FROM "+table+" t WHERE t.id IN ? AND "+condition, ids).Scan(&unused).Error
			if err != nil || len(unused) == 0 {
				return err
			}
			for _, statement := range statements {
				if err := tx.Execute(statement, unused); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}
