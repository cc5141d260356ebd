package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// expiringAt is when an event says that a decision expires.
func (r *decisionRow) expiringAt() int64 {
	return max(r.ExpiresAt-store.ExpiringWithin.Microseconds(), r.Since+(r.ExpiresAt-r.Since)/2)
}

// RecordExpiring implements store.Reminders.
func (s *Store) RecordExpiring(ctx context.Context) error {
	const what = "report decisions that expire soon"
	due := func(tx *gorm.DB, now int64) ([]decisionRow, error) {
		var rows []decisionRow
		err := tx.Raw("SELECT "+decisionColumns+" FROM decisions d LEFT JOIN expiring_told o ON o.decision_pk = d.id"+
			" WHERE d.until_time = ? AND d.expires_at > ? AND d.expires_at <= ? AND o.decision_pk IS NULL ORDER BY d.expires_at, d.id",
			int64(stillOpen), now, now+store.ExpiringWithin.Microseconds()).Scan(&rows).Error
		return slices.DeleteFunc(rows, func(row decisionRow) bool { return row.expiringAt() > now }), err
	}
	var rows []decisionRow
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		rows, err = due(tx, s.now())
		return err
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		rows, err := due(tx.DB, tx.now)
		if err != nil {
			return err
		}
		matched, err := matchesOfRows(tx.DB, tx.Dialect, rows)
		if err != nil {
			return err
		}
		counts, err := countVisibleMatches(tx.DB, tx.Dialect, rows, matched)
		if err != nil {
			return err
		}
		audiences, err := audiencesOf(tx, matched, clusterwide(rows))
		if err != nil {
			return err
		}
		values := make([]any, len(rows))
		for i := range rows {
			values[i] = rows[i].ID
		}
		if err := tx.Insert("expiring_told", []string{"decision_pk"}, values, ""); err != nil {
			return err
		}
		return tx.writeDecisionEvents(store.EventDecisionExpiring, eventsOf(rows, counts, audiences))
	})
}

// RecordStaleDatabase implements store.Reminders.
func (s *Store) RecordStaleDatabase(ctx context.Context, maxAge time.Duration) error {
	const what = "report that the vulnerability database is old"
	stale := func(tx *gorm.DB) (*resultSetRow, error) {
		current, _, err := liveResultSets(tx)
		if err != nil || current == nil || current.Built == 0 || s.now()-current.Built <= maxAge.Microseconds() {
			return nil, err
		}
		var told []string
		err = tx.Raw("SELECT build_id FROM stale_told WHERE build_id = ?", current.BuildID).Scan(&told).Error
		if len(told) > 0 {
			return nil, err
		}
		return current, err
	}
	var current *resultSetRow
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		current, err = stale(tx)
		return err
	})
	if err != nil || current == nil {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		current, err := stale(tx.DB)
		if err != nil || current == nil {
			return err
		}
		if err := tx.Execute("DELETE FROM stale_told"); err != nil {
			return err
		}
		if err := tx.Insert("stale_told", []string{"build_id"}, []any{current.BuildID}, ""); err != nil {
			return err
		}
		return tx.event(store.EventDatabaseStale, "", "", store.StaleDatabaseEvent{DatabaseBuild: current.build(), MaxAge: int64(maxAge / time.Second)})
	})
}

// uncovered reports whether nothing will scan a container in a state without a change of something.
func uncovered(state string) bool { return state == "Failed" || state == "Skipped" }

// lostCoverage returns the rows of a scope that are uncovered now, of containers that were there before and were not.
func lostCoverage(before map[string]*coverageRow, added []coverageRow) []coverageRow {
	type container struct{ namespace, kind, name, container string }
	of := func(r *coverageRow) container { return container{r.Namespace, r.Kind, r.Name, r.Container} }
	covered, lost := map[container]bool{}, []coverageRow(nil)
	for _, row := range before {
		if known, found := covered[of(row)]; !found || known {
			covered[of(row)] = !uncovered(row.State)
		}
	}
	for i := range added {
		if row := &added[i]; uncovered(row.State) && covered[of(row)] {
			lost = append(lost, *row)
		}
	}
	return lost
}

// writeCoverageEvents writes an event for each namespace that lost coverage: what a namespace is told does not depend on others.
func (t *txn) writeCoverageEvents(lost []coverageRow) error {
	if len(lost) == 0 {
		return nil
	}
	slices.SortFunc(lost, func(a, b coverageRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Container, b.Container),
			cmp.Compare(a.RowKey, b.RowKey))
	})
	for len(lost) > 0 {
		end := slices.IndexFunc(lost, func(row coverageRow) bool { return row.Namespace != lost[0].Namespace })
		if end < 0 {
			end = len(lost)
		}
		here := lost[:end]
		lost = lost[end:]
		event := store.CoverageLostEvent{Namespace: here[0].Namespace, Omitted: max(0, len(here)-store.MaxLostContainers)}
		workloads := make([]store.Workload, min(len(here), store.MaxLostContainers))
		for i := range workloads {
			workloads[i] = store.Workload{Namespace: here[i].Namespace, Kind: here[i].Kind, Name: here[i].Name}
		}
		if err := setOwners(t.DB, pointersTo(workloads)); err != nil {
			return err
		}
		for i := range workloads {
			row := &here[i]
			event.Containers = append(event.Containers, store.LostContainer{
				Workload: workloads[i], Container: row.Container, Reference: row.Reference, ImageID: row.ImageID, State: row.State, Reason: row.Reason,
			})
		}
		if err := t.event(store.EventCoverageLost, "", "", event); err != nil {
			return err
		}
	}
	return nil
}
