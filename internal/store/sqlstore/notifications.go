package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sinkName names a sink of a rule.
type sinkName struct{ Rule, Sink string }

// SyncNotificationRules implements store.Notifications.
func (s *Store) SyncNotificationRules(ctx context.Context, rules []store.NotificationRule) error {
	const what = "record the notification rules"
	wantedRules, wantedSinks := map[string]bool{}, map[sinkName]bool{}
	for _, rule := range rules {
		for _, name := range append([]string{rule.UID}, rule.Sinks...) {
			if err := checkIdentifier("the name of a notification rule or sink", name); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		wantedRules[rule.UID] = true
		for _, sink := range rule.Sinks {
			wantedSinks[sinkName{rule.UID, sink}] = true
		}
	}
	differs := func(tx *gorm.DB) (knownRules map[string]bool, knownSinks map[sinkName]bool, different bool, err error) {
		if knownRules, knownSinks, err = notificationNames(tx); err != nil {
			return nil, nil, false, err
		}
		return knownRules, knownSinks, !equalKeys(wantedRules, knownRules) || !equalKeys(wantedSinks, knownSinks), nil
	}
	var different bool
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		_, _, different, err = differs(tx)
		return err
	})
	if err != nil || !different {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		knownRules, knownSinks, _, err := differs(tx.DB)
		if err != nil {
			return err
		}
		for sink := range knownSinks {
			if wantedSinks[sink] {
				continue
			}
			// The messages follow.
			if err := tx.Execute("DELETE FROM notification_sinks WHERE rule = ? AND sink = ?", sink.Rule, sink.Sink); err != nil {
				return err
			}
		}
		for rule := range knownRules {
			if wantedRules[rule] {
				continue
			}
			if err := tx.Execute("DELETE FROM notification_rules WHERE rule = ?", rule); err != nil {
				return err
			}
		}
		var last int64
		if err := tx.Raw("SELECT COALESCE(MAX(seq), (SELECT seq FROM event_floor WHERE id = 1)) FROM events").Scan(&last).Error; err != nil {
			return err
		}
		var newRules, newSinks []any
		for rule := range wantedRules {
			if !knownRules[rule] {
				newRules = append(newRules, rule, last, 0, 0)
			}
		}
		for sink := range wantedSinks {
			if !knownSinks[sink] {
				newSinks = append(newSinks, sink.Rule, sink.Sink, 0, 0, 0)
			}
		}
		if err := tx.Insert("notification_rules", []string{"rule", "seq", "hour_at", "begun"}, newRules, ""); err != nil {
			return err
		}
		return tx.Insert("notification_sinks", []string{"rule", "sink", "delivered_at", "delivered", "dropped"}, newSinks, "")
	})
}

func equalKeys[K comparable](a, b map[K]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for key := range a {
		if !b[key] {
			return false
		}
	}
	return true
}

func notificationNames(tx *gorm.DB) (map[string]bool, map[sinkName]bool, error) {
	var names []string
	if err := tx.Raw("SELECT rule FROM notification_rules").Scan(&names).Error; err != nil {
		return nil, nil, err
	}
	var sinkNames []sinkName
	if err := tx.Raw("SELECT rule, sink FROM notification_sinks").Scan(&sinkNames).Error; err != nil {
		return nil, nil, err
	}
	rules, sinks := map[string]bool{}, map[sinkName]bool{}
	for _, name := range names {
		rules[name] = true
	}
	for _, name := range sinkNames {
		sinks[name] = true
	}
	return rules, sinks, nil
}

// NotificationCursors implements store.Notifications.
func (s *Store) NotificationCursors(ctx context.Context) ([]store.NotificationCursor, error) {
	var cursors []store.NotificationCursor
	err := s.read(ctx, "read the positions of notification rules", func(tx *gorm.DB) error {
		var rows []struct {
			Rule               string
			Seq, HourAt, Begun int64
		}
		err := tx.Raw("SELECT rule, seq, hour_at, begun FROM notification_rules ORDER BY rule").Scan(&rows).Error
		cursors = make([]store.NotificationCursor, len(rows))
		for i, row := range rows {
			cursors[i] = store.NotificationCursor{Rule: row.Rule, Sequence: row.Seq, Hour: fromMicros(row.HourAt), Begun: int(row.Begun)}
		}
		return err
	})
	return cursors, err
}

// SkipNotifications implements store.Notifications.
func (s *Store) SkipNotifications(ctx context.Context, rules []string, from, to int64) error {
	if len(rules) == 0 {
		return nil
	}
	return s.write(ctx, "move notification rules", func(tx *txn) error {
		return inParts(rules, func(part []string) error {
			return tx.Execute("UPDATE notification_rules SET seq = ? WHERE seq = ? AND rule IN ?", to, from, part)
		})
	})
}

// messageRow is a row of notification_messages.
type messageRow struct {
	ID                              int64
	Rule, Sink, InGroup, MessageKey string
	ReadyAt, Sealed                 int64
	Content                         string
}

const messageColumns = "id, rule, sink, in_group, message_key, ready_at, sealed, content"

func (r *messageRow) message() store.NotificationMessage {
	return store.NotificationMessage{
		ID: r.ID, Rule: r.Rule, Sink: r.Sink, Group: r.InGroup, Key: r.MessageKey, ReadyAt: fromMicros(r.ReadyAt), Content: []byte(r.Content),
	}
}

// CollectingNotifications implements store.Notifications.
func (s *Store) CollectingNotifications(ctx context.Context, rule string, after time.Time) ([]store.NotificationMessage, error) {
	var messages []store.NotificationMessage
	err := s.read(ctx, "read messages that are collected", func(tx *gorm.DB) error {
		var rows []messageRow
		err := tx.Raw("SELECT "+messageColumns+" FROM notification_messages WHERE rule = ? AND ready_at > ? AND sealed = 0 ORDER BY id", rule, micros(after)).
			Scan(&rows).Error
		messages = make([]store.NotificationMessage, len(rows))
		for i := range rows {
			messages[i] = rows[i].message()
		}
		return err
	})
	return messages, err
}

// QueueNotifications implements store.Notifications.
func (s *Store) QueueNotifications(ctx context.Context, from, to store.NotificationCursor, messages []store.NotificationMessage) (bool, error) {
	const what = "queue messages"
	for i := range messages {
		for name, text := range map[string]string{"the group of a message": messages[i].Group, "the key of a message": messages[i].Key} {
			if err := checkIdentifier(name, text); err != nil {
				return false, fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	done := false
	err := s.write(ctx, what, func(tx *txn) error {
		done = false
		var at []int64
		if err := tx.Raw("SELECT seq FROM notification_rules WHERE rule = ?", from.Rule).Scan(&at).Error; err != nil {
			return err
		}
		if !slices.Equal(at, []int64{from.Sequence}) {
			return nil
		}
		_, sinks, err := notificationNames(tx.DB)
		if err != nil {
			return err
		}
		var ids []int64
		for i := range messages {
			if messages[i].ID != 0 {
				ids = append(ids, messages[i].ID)
			}
		}
		open := 0
		err = inParts(ids, func(part []int64) error {
			var n int
			err := tx.Raw("SELECT COUNT(*) FROM notification_messages WHERE sealed = 0 AND id IN ?", part).Scan(&n).Error
			open += n
			return err
		})
		if err != nil || open != len(ids) {
			return err
		}
		if err := tx.Execute("UPDATE notification_rules SET seq = ?, hour_at = ?, begun = ? WHERE rule = ?",
			to.Sequence, micros(to.Hour), to.Begun, from.Rule); err != nil {
			return err
		}
		var values []any
		for i := range messages {
			m := &messages[i]
			if m.ID != 0 {
				if err := tx.Execute("UPDATE notification_messages SET content = ?, ready_at = ? WHERE id = ?", string(m.Content), micros(m.ReadyAt), m.ID); err != nil {
					return err
				}
				continue
			}
			// The rule may have lost a sink since it was read.
			if sinks[sinkName{m.Rule, m.Sink}] {
				values = append(values, m.Rule, m.Sink, m.Group, m.Key, 0, micros(m.ReadyAt), string(m.Content))
			}
		}
		done = true
		return tx.Insert("notification_messages", []string{"rule", "sink", "in_group", "message_key", "sealed", "ready_at", "content"}, values, "")
	})
	return done && err == nil, err
}

// HastenNotifications implements store.Notifications.
func (s *Store) HastenNotifications(ctx context.Context, latest map[string]time.Time, groups []string, others bool) error {
	const what = "make messages ready earlier"
	chosen := "in_group IN ?"
	if others {
		chosen = "in_group NOT IN ?"
	}
	late := func(tx *gorm.DB) ([]string, error) {
		var rows []struct {
			Rule    string
			ReadyAt int64
		}
		err := tx.Raw("SELECT rule, MAX(ready_at) AS ready_at FROM notification_messages WHERE "+chosen+" GROUP BY rule ORDER BY rule", groups).Scan(&rows).Error
		var rules []string
		for _, row := range rows {
			if bound, known := latest[row.Rule]; known && row.ReadyAt > micros(bound) {
				rules = append(rules, row.Rule)
			}
		}
		return rules, err
	}
	var found []string
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		found, err = late(tx)
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		rules, err := late(tx.DB)
		if err != nil {
			return err
		}
		for _, rule := range rules {
			bound := micros(latest[rule])
			if err := tx.Execute("UPDATE notification_messages SET ready_at = ? WHERE rule = ? AND ready_at > ? AND "+chosen, bound, rule, bound, groups); err != nil {
				return err
			}
		}
		return nil
	})
}

// NotificationQueues implements store.Notifications.
func (s *Store) NotificationQueues(ctx context.Context) ([]store.NotificationQueue, error) {
	var queues []store.NotificationQueue
	err := s.read(ctx, "read the queues of messages", func(tx *gorm.DB) error {
		var rows []struct {
			Rule, Sink                                          string
			Pending, NextReady, DeliveredAt, Delivered, Dropped int64
		}
		err := tx.Raw(`SELECT s.rule, s.sink, s.delivered_at, s.delivered, s.dropped, COALESCE(m.pending, 0) AS pending, COALESCE(m.next_ready, 0) AS next_ready
			FROM notification_sinks s LEFT JOIN (SELECT rule, sink, COUNT(*) AS pending, MIN(ready_at) AS next_ready FROM notification_messages GROUP BY rule, sink) m
			ON m.rule = s.rule AND m.sink = s.sink ORDER BY s.rule, s.sink`).Scan(&rows).Error
		queues = make([]store.NotificationQueue, len(rows))
		for i, row := range rows {
			queues[i] = store.NotificationQueue{
				Rule: row.Rule, Sink: row.Sink, Pending: int(row.Pending), NextReady: fromMicros(row.NextReady), DeliveredAt: fromMicros(row.DeliveredAt),
				Delivered: row.Delivered, Dropped: row.Dropped,
			}
		}
		return err
	})
	return queues, err
}

// maxSealConflicts is how often a message is revised because more was added to it meanwhile.
const maxSealConflicts = 5

// SealNotification implements store.Notifications. revise is called without the writer's lock.
func (s *Store) SealNotification(ctx context.Context, rule, sink string, now time.Time, revise func([]byte) ([]byte, error)) (*store.NotificationMessage, error) {
	const what = "read the next message"
	first := func(tx *gorm.DB) (*messageRow, error) {
		var rows []messageRow
		err := tx.Raw("SELECT "+messageColumns+" FROM notification_messages WHERE rule = ? AND sink = ? AND ready_at <= ? ORDER BY ready_at, id LIMIT 1",
			rule, sink, micros(now)).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return &rows[0], nil
	}
	for conflicts := 0; conflicts < maxSealConflicts; {
		var row *messageRow
		err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
			row, err = first(tx)
			return err
		})
		if err != nil || row == nil {
			return nil, err
		}
		if row.Sealed != 0 {
			return new(row.message()), nil
		}
		revised, err := revise([]byte(row.Content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		conflict := false
		err = s.write(ctx, what, func(tx *txn) error {
			again, err := first(tx.DB)
			if conflict = err == nil && (again == nil || *again != *row); err != nil || conflict {
				return err
			}
			if revised == nil {
				return tx.Execute("DELETE FROM notification_messages WHERE id = ?", row.ID)
			}
			return tx.Execute("UPDATE notification_messages SET sealed = 1, content = ? WHERE id = ?", string(revised), row.ID)
		})
		switch {
		case err != nil:
			return nil, err
		case conflict:
			conflicts++
		case revised != nil:
			row.Content = string(revised)
			return new(row.message()), nil
		}
	}
	return nil, fmt.Errorf("%s: it was changed %d times meanwhile", what, maxSealConflicts)
}

// EndNotification implements store.Notifications.
func (s *Store) EndNotification(ctx context.Context, message *store.NotificationMessage, delivered time.Time) error {
	return s.write(ctx, "end a message", func(tx *txn) error {
		ended, err := tx.Change("DELETE FROM notification_messages WHERE id = ?", message.ID)
		if err != nil || ended == 0 {
			return err
		}
		if delivered.IsZero() {
			return tx.Execute("UPDATE notification_sinks SET dropped = dropped + 1 WHERE rule = ? AND sink = ?", message.Rule, message.Sink)
		}
		return tx.Execute("UPDATE notification_sinks SET delivered = delivered + 1, delivered_at = ? WHERE rule = ? AND sink = ?",
			micros(delivered), message.Rule, message.Sink)
	})
}
