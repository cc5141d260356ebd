package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// EventsSince implements store.Events. limit is cut to store.MaxKeys.
func (s *Store) EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var events []store.Event
	err := s.read(ctx, "read events", func(tx *gorm.DB) error {
		var rows []struct {
			Seq, At                              int64
			Kind, ImageID, Platform, Data, LogID string
		}
		found := tx.Table("events AS e").Where("e.seq > ?", since)
		if !in.All() {
			found = found.Where("(e.kind IN ? AND NOT EXISTS (SELECT 1 FROM event_namespaces a WHERE a.seq = e.seq) OR e.seq IN (SELECT n.seq FROM event_namespaces n WHERE n.seq > ? AND "+isWithin("n.namespace", in)+"))",
				store.EventKindsToAll(), since)
		}
		err := found.Select(`e.seq, e.at, e.kind, e.image_id, e.platform, e.data,
			COALESCE((SELECT c.log_id FROM event_commits c WHERE c.seq >= e.seq ORDER BY c.seq LIMIT 1), '') AS log_id`).
			Order("e.seq").Limit(limit).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			events = nil
			return err
		}
		namespaces, err := eventNamespaces(tx, rows[0].Seq, rows[len(rows)-1].Seq)
		if err != nil {
			return err
		}
		events = make([]store.Event, len(rows))
		for i, row := range rows {
			events[i] = store.Event{
				Sequence: row.Seq, LogID: row.LogID, At: fromMicros(row.At), Kind: store.EventKind(row.Kind), ImageID: row.ImageID, Platform: row.Platform,
				Data: json.RawMessage(row.Data), Namespaces: namespaces[row.Seq],
			}.Limited(in)
		}
		return nil
	})
	return events, err
}

// LastSequence implements store.Events.
func (s *Store) LastSequence(ctx context.Context) (int64, error) {
	log, err := s.EventLog(ctx)
	return log.Last, err
}

// EventLog implements store.Events.
func (s *Store) EventLog(ctx context.Context) (store.EventLog, error) {
	var log store.EventLog
	err := s.read(ctx, "read the bounds of the event log", func(tx *gorm.DB) error {
		err := tx.Raw("SELECT seq FROM event_floor WHERE id = 1").Scan(&log.Floor).Error
		if err != nil {
			return err
		}
		if err := tx.Raw("SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&log.Last).Error; err != nil {
			return err
		}
		// All may have been removed.
		log.Last = max(log.Last, log.Floor)
		if log.FloorID, err = logID(tx, log.Floor); err != nil {
			return err
		}
		log.LastID, err = logID(tx, log.Last)
		return err
	})
	return log, err
}

// logID identifies the log up to a sequence number, "" at its beginning.
func logID(tx *gorm.DB, sequence int64) (string, error) {
	if sequence == 0 {
		return "", nil
	}
	var id string
	err := tx.Raw("SELECT log_id FROM event_commits WHERE seq >= ? ORDER BY seq LIMIT 1", sequence).Scan(&id).Error
	return id, err
}

// CompactEvents implements store.Events. Only events before the first that is young enough go, whatever the clocks of the
// processes said that wrote those behind it: the log has no holes.
func (s *Store) CompactEvents(ctx context.Context, before time.Time) error {
	const what = "delete old events"
	for {
		// Looked at without a lock first, so that nothing is written when nothing is old.
		var until int64
		err := s.read(ctx, what, func(tx *gorm.DB) error {
			var err error
			until, err = oldEvents(tx, micros(before))
			return err
		})
		if err != nil || until == 0 {
			return err
		}
		err = s.write(ctx, what, func(tx *txn) error {
			if err := tx.Execute("DELETE FROM events WHERE seq <= ?", until); err != nil {
				return err
			}
			if err := tx.Execute("DELETE FROM event_namespaces WHERE seq <= ?", until); err != nil {
				return err
			}
			// The row that identifies the floor stays.
			if err := tx.Execute("DELETE FROM event_commits WHERE seq < ?", until); err != nil {
				return err
			}
			return tx.Execute("UPDATE event_floor SET seq = ? WHERE id = 1 AND seq < ?", until, until)
		})
		if err != nil {
			return err
		}
	}
}

// oldEvents returns the sequence number of the last of the oldest events, batchRows at most, that are from before a time, 0 when
// there is none.
func oldEvents(tx *gorm.DB, before int64) (int64, error) {
	var rows []struct{ Seq, At int64 }
	if err := tx.Raw("SELECT seq, at FROM events ORDER BY seq LIMIT ?", batchRows).Scan(&rows).Error; err != nil {
		return 0, err
	}
	var until int64
	for _, row := range rows {
		if row.At >= before {
			break
		}
		until = row.Seq
	}
	return until, nil
}

// RecordChange implements store.Events.
func (s *Store) RecordChange(ctx context.Context, change store.ObjectChange) error {
	const what = "record a change of an object"
	if err := change.Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	object := contentDigest(string(change.Kind), change.Object.Namespace, change.Object.Name)
	news := ""
	if !change.Gone {
		news = contentDigest(string(change.Detail))
	}
	var recorded objectState
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		recorded, err = lastRecorded(tx, object)
		return err
	})
	if err != nil || recorded.Told == news && (news == "" || recorded.At > micros(s.clock.Now().Add(-seenInterval))) {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		recorded, err := lastRecorded(tx.DB, object)
		if err != nil {
			return err
		}
		if err := tx.Execute("DELETE FROM object_last_seen WHERE object = ?", object); err != nil {
			return err
		}
		if news != "" {
			if err := tx.Insert("object_last_seen", []string{"object", "at"}, []any{object, tx.now}, ""); err != nil {
				return err
			}
		}
		if recorded.Told == news {
			return nil
		}
		if err := tx.Execute("DELETE FROM object_states WHERE object = ?", object); err != nil {
			return err
		}
		if news != "" {
			if err := tx.Insert("object_states", []string{"object", "told"}, []any{object, news}, ""); err != nil {
				return err
			}
		}
		return tx.event(change.Kind, "", "", change.ObjectEvent)
	})
}

// seenInterval is how often it is noted of an object that does not change that it still exists.
const seenInterval = 24 * time.Hour

// objectState is the digest of what the last event says of an object, "" when there is no such object, and when it was last seen.
type objectState struct {
	Told string
	At   int64
}

func lastRecorded(tx *gorm.DB, object string) (objectState, error) {
	var state objectState
	err := tx.Raw(`SELECT s.told, COALESCE(l.at, 0) AS at FROM object_states s LEFT JOIN object_last_seen l ON l.object = s.object
		WHERE s.object = ?`, object).Scan(&state).Error
	return state, err
}

// RecordQueued implements store.Images.
func (s *Store) RecordQueued(ctx context.Context, key model.ImageKey, attempt int) (bool, error) {
	recorded := false
	err := s.write(ctx, "record the start of an attempt", func(tx *txn) error {
		platform := key.Platform.String()
		queued, err := tx.Change("UPDATE images SET queued = ? WHERE image_id = ? AND platform = ? AND attempts = ? AND queued <= ? AND state IN ?",
			attempt+1, key.ImageID, platform, attempt, attempt, []string{string(store.StatePending), string(store.StateFailed)})
		recorded = queued == 1
		if err != nil || !recorded {
			return err
		}
		return tx.event(store.EventImageQueued, key.ImageID, platform, store.QueuedEvent{Attempt: attempt})
	})
	return recorded && err == nil, err
}
