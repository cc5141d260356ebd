package sqlstore

import (
	"context"
	"encoding/json"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// EventsSince implements store.Events. limit is cut to store.MaxKeys.
func (s *Store) EventsSince(ctx context.Context, since int64, limit int) ([]store.Event, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var events []store.Event
	err := s.read(ctx, "read events", func(tx *gorm.DB) error {
		var rows []struct {
			Seq, At                       int64
			Kind, ImageID, Platform, Data string
		}
		err := tx.Raw("SELECT seq, at, kind, image_id, platform, data FROM events WHERE seq > ? ORDER BY seq LIMIT ?", since, limit).
			Scan(&rows).Error
		if err != nil {
			return err
		}
		events = make([]store.Event, len(rows))
		for i, row := range rows {
			events[i] = store.Event{
				Sequence: row.Seq, At: fromMicros(row.At), Kind: store.EventKind(row.Kind), ImageID: row.ImageID, Platform: row.Platform,
				Data: json.RawMessage(row.Data),
			}
		}
		return nil
	})
	return events, err
}

// LastSequence implements store.Events.
func (s *Store) LastSequence(ctx context.Context) (int64, error) {
	var last int64
	err := s.read(ctx, "read the last event", func(tx *gorm.DB) error {
		return tx.Raw("SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&last).Error
	})
	return last, err
}
