package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// SyncReportSinks implements store.ReportSinks.
func (s *Store) SyncReportSinks(ctx context.Context, sinks []string) error {
	const what = "record the report sinks"
	wanted := map[string]bool{}
	for _, sink := range sinks {
		if err := checkIdentifier("the name of a report sink", sink); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		wanted[sink] = true
	}
	known := func(tx *gorm.DB) (map[string]bool, error) {
		var names []string
		err := tx.Raw("SELECT sink FROM report_sinks").Scan(&names).Error
		all := map[string]bool{}
		for _, name := range names {
			all[name] = true
		}
		return all, err
	}
	same := false
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		there, err := known(tx)
		same = equalKeys(there, wanted)
		return err
	})
	if err != nil || same {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		there, err := known(tx.DB)
		if err != nil {
			return err
		}
		for sink := range there {
			if wanted[sink] {
				continue
			}
			// The items follow.
			if err := tx.Execute("DELETE FROM report_sinks WHERE sink = ?", sink); err != nil {
				return err
			}
		}
		var last int64
		if err := tx.Raw("SELECT COALESCE(MAX(seq), (SELECT seq FROM event_floor WHERE id = 1)) FROM events").Scan(&last).Error; err != nil {
			return err
		}
		var values []any
		for sink := range wanted {
			if !there[sink] {
				values = append(values, sink, last, 0, 0)
			}
		}
		return tx.Insert("report_sinks", []string{"sink", "seq", "synced_at", "delivered_at"}, values, "")
	})
}

// ReportCursors implements store.ReportSinks.
func (s *Store) ReportCursors(ctx context.Context) ([]store.ReportCursor, error) {
	var cursors []store.ReportCursor
	err := s.read(ctx, "read the positions of report sinks", func(tx *gorm.DB) error {
		var rows []struct {
			Sink                       string
			Seq, SyncedAt, DeliveredAt int64
		}
		err := tx.Raw("SELECT sink, seq, synced_at, delivered_at FROM report_sinks ORDER BY sink").Scan(&rows).Error
		cursors = make([]store.ReportCursor, len(rows))
		for i, row := range rows {
			cursors[i] = store.ReportCursor{Sink: row.Sink, Sequence: row.Seq, SyncedAt: fromMicros(row.SyncedAt), DeliveredAt: fromMicros(row.DeliveredAt)}
		}
		return err
	})
	return cursors, err
}

// RunningReports implements store.ReportSinks.
func (s *Store) RunningReports(ctx context.Context) ([]store.RunningReport, error) {
	var reports []store.RunningReport
	err := s.read(ctx, "read the scanned images that run", func(tx *gorm.DB) error {
		reports = nil
		var rows []imageRow
		err := tx.Raw("SELECT i.id, i.image_id, i.platform, i.sbom_sha256, i.projection, "+perCount("i.%[1]s")+` FROM images i WHERE i.state = ? AND i.matched_at > 0
			AND EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id) ORDER BY i.image_id, i.platform`, string(store.StateScanned)).Scan(&rows).Error
		if err != nil {
			return err
		}
		running := make(map[int64]*store.RunningImage, len(rows))
		for i := range rows {
			key, err := rows[i].key()
			if err != nil {
				return err
			}
			running[rows[i].ID] = &store.RunningImage{ImageKey: key}
		}
		if err := addWorkloads(tx, tx.Table("image_uses AS u"), running); err != nil {
			return err
		}
		decided, err := decidedIn(tx, running)
		reports = make([]store.RunningReport, len(rows))
		for i := range rows {
			reports[i] = store.RunningReport{
				RunningImage: *running[rows[i].ID], SBOMSHA256: rows[i].SbomSha256, Counts: rows[i].Counts.counts(), Decided: decided[rows[i].ID],
				CatalogStamp: rows[i].Projection,
			}
		}
		return err
	})
	return reports, err
}

// reportItemRow is a row of report_items.
type reportItemRow struct {
	Sink, Item, Target, Stamp                         string
	Version, Due, Gone, Attempts, NextAt, DeliveredAt int64
	Digest, Problem                                   string
}

var reportItemColumns = []string{"sink", "item", "target", "stamp", "version", "due", "gone", "attempts", "next_at", "delivered_at", "digest", "problem"}

// ReportItems implements store.ReportSinks.
func (s *Store) ReportItems(ctx context.Context, sink string) ([]store.ReportItem, error) {
	var items []store.ReportItem
	err := s.read(ctx, "read the items of a report sink", func(tx *gorm.DB) error {
		var rows []reportItemRow
		err := tx.Raw(`SELECT sink, item, target, stamp, version, due, gone, attempts, next_at, delivered_at, digest, problem FROM report_items
			WHERE sink = ? ORDER BY item`, sink).Scan(&rows).Error
		items = make([]store.ReportItem, len(rows))
		for i := range rows {
			r := &rows[i]
			items[i] = store.ReportItem{
				Sink: r.Sink, Key: r.Item, Target: r.Target, Stamp: r.Stamp, Version: r.Version, Due: r.Due != 0, Gone: r.Gone != 0, Attempts: int(r.Attempts),
				NextAt: fromMicros(r.NextAt), DeliveredAt: fromMicros(r.DeliveredAt), Digest: r.Digest, Problem: r.Problem,
			}
		}
		return err
	})
	return items, err
}

func checkReportItem(item *store.ReportItem) error {
	for name, text := range map[string]string{"the key of an item": item.Key, "the stamp of an item": item.Stamp} {
		if err := checkIdentifier(name, text); err != nil {
			return err
		}
	}
	if item.Digest != "" {
		if err := checkIdentifier("the digest of an item", item.Digest); err != nil {
			return err
		}
	}
	if len(item.Target) > store.MaxReportTarget {
		return fmt.Errorf("the target of an item has %d bytes, the maximum is %d", len(item.Target), store.MaxReportTarget)
	}
	return nil
}

// PlanReports implements store.ReportSinks.
func (s *Store) PlanReports(ctx context.Context, from, to store.ReportCursor, items []store.ReportItem, deleted []string) (bool, error) {
	const what = "plan the items of a report sink"
	if n := len(items) + len(deleted); n > store.MaxReportPart {
		return false, fmt.Errorf("%s: %d items, the maximum is %d: write them in parts", what, n, store.MaxReportPart)
	}
	replaced := slices.Clone(deleted)
	for i := range items {
		if err := checkReportItem(&items[i]); err != nil {
			return false, fmt.Errorf("%s: %w", what, err)
		}
		replaced = append(replaced, items[i].Key)
	}
	done := false
	err := s.write(ctx, what, func(tx *txn) error {
		done = false
		var at []int64
		if err := tx.Raw("SELECT seq FROM report_sinks WHERE sink = ?", from.Sink).Scan(&at).Error; err != nil || !slices.Equal(at, []int64{from.Sequence}) {
			return err
		}
		if err := tx.Execute("UPDATE report_sinks SET seq = ?, synced_at = ? WHERE sink = ?", to.Sequence, micros(to.SyncedAt), from.Sink); err != nil {
			return err
		}
		err := inParts(replaced, func(part []string) error {
			return tx.Execute("DELETE FROM report_items WHERE sink = ? AND item IN ?", from.Sink, part)
		})
		if err != nil {
			return err
		}
		values := make([]any, 0, len(reportItemColumns)*len(items))
		for i := range items {
			r := &items[i]
			values = append(values, from.Sink, r.Key, r.Target, r.Stamp, r.Version, boolean(r.Due), boolean(r.Gone), r.Attempts, micros(r.NextAt), micros(r.DeliveredAt),
				r.Digest, sqldb.Truncate(r.Problem, store.MaxReportProblem))
		}
		done = true
		return tx.Insert("report_items", reportItemColumns, values, "")
	})
	return done && err == nil, err
}

// EndReport implements store.ReportSinks.
func (s *Store) EndReport(ctx context.Context, item *store.ReportItem) (bool, error) {
	const what = "end an attempt to deliver a report"
	if err := checkReportItem(item); err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	done := false
	err := s.write(ctx, what, func(tx *txn) error {
		var there int
		err := tx.Raw("SELECT COUNT(*) FROM report_items WHERE sink = ? AND item = ? AND version = ?", item.Sink, item.Key, item.Version).Scan(&there).Error
		if done = err == nil && there > 0; !done {
			return err
		}
		if item.Gone && !item.Due {
			err = tx.Execute("DELETE FROM report_items WHERE sink = ? AND item = ?", item.Sink, item.Key)
		} else {
			err = tx.Execute("UPDATE report_items SET due = ?, attempts = ?, next_at = ?, delivered_at = ?, digest = ?, problem = ? WHERE sink = ? AND item = ?",
				boolean(item.Due), item.Attempts, micros(item.NextAt), micros(item.DeliveredAt), item.Digest, sqldb.Truncate(item.Problem, store.MaxReportProblem),
				item.Sink, item.Key)
		}
		if err != nil || item.Due {
			return err
		}
		// An item that did not have to be delivered again was delivered before others.
		return tx.Execute("UPDATE report_sinks SET delivered_at = ? WHERE sink = ? AND delivered_at < ?", micros(item.DeliveredAt), item.Sink, micros(item.DeliveredAt))
	})
	return done && err == nil, err
}
