package notify

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxPending is how many messages wait for a sink before further changes are combined.
	maxPending = 100
	// maxPendingInNamespace is how many messages wait for the sinks of all rules of a namespace before further changes are combined.
	maxPendingInNamespace = 1000
	// maxConflicts is how often the messages of a rule are made again because one of them is being sent.
	maxConflicts = 5
	// combined is the ID of the group of all changes beyond the messages of an hour. No other group has it.
	combined = "\x00combined"
)

// queue keeps the messages of a batch and moves the rule, in one transaction.
func (e *Engine) queue(ctx context.Context, from store.NotificationCursor, to int64, b *batch) error {
	for range maxConflicts {
		done, err := e.tryQueue(ctx, from, to, b)
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("the messages of rule %s were changed by another process %d times", b.rule, maxConflicts)
}

func (e *Engine) tryQueue(ctx context.Context, from store.NotificationCursor, to int64, b *batch) (bool, error) {
	now := e.Clock.Now()
	next := store.NotificationCursor{Rule: from.Rule, Sequence: to, Hour: from.Hour, Begun: from.Begun}
	if hour := now.Truncate(time.Hour); !hour.Equal(next.Hour) {
		next.Hour, next.Begun = hour, 0
	}
	open, full, err := e.collecting(ctx, b.rule, now)
	if err != nil {
		return false, err
	}
	// The keys of new messages follow from nothing that could be there again, such as the position after the database was restored: receivers would take the
	// message for another one.
	fresh := rand.Text()
	// Reports are no messages about changes.
	delete(open, digest(reportGroup))
	changed := map[*store.NotificationMessage]*Message{}
	var order []*store.NotificationMessage
	for _, id := range b.selected() {
		own, begun := digest(id), false
		// The messages of an hour are counted for the rule, and those of all sinks about a group count once.
		first := len(open[own]) == 0
		limited := first && b.rule.full(next.Begun, len(open))
		for _, sink := range b.rule.sinkNames() {
			group, ready, content := own, b.rule.readyAt(now), b.groups[id].message
			if open[own][sink] == nil && (limited || full[sink]) {
				group, ready = digest(combined), b.rule.combinedAt(now)
				content.Group, content.Combined = "", true
			} else {
				begun = begun || first
			}
			if open[group] == nil {
				open[group] = map[string]*store.NotificationMessage{}
			}
			m := open[group][sink]
			if m == nil {
				m = &store.NotificationMessage{
					Rule: b.rule.UID, Sink: sink, Group: group, Key: digest(fresh, group), ReadyAt: ready,
				}
				open[group][sink] = m
			}
			// One that is collected already may have begun with another schedule, or while the clock was ahead.
			if ready.Before(m.ReadyAt) {
				m.ReadyAt = ready
			}
			if changed[m] == nil {
				if changed[m], err = existing(m); err != nil {
					return false, err
				}
				order = append(order, m)
			}
			changed[m].Rule, changed[m].Group, changed[m].Combined = content.Rule, content.Group, content.Combined
			changed[m].merge(&content)
		}
		if begun {
			next.Begun++
		}
	}
	messages := make([]store.NotificationMessage, len(order))
	for i, m := range order {
		if e.Link != nil {
			changed[m].Link = e.Link(changed[m])
		}
		if m.Content, err = changed[m].encode(); err != nil {
			return false, err
		}
		messages[i] = *m
	}
	return e.Store.QueueNotifications(ctx, from, next, messages)
}

// existing is the content of a message that more is added to.
func existing(m *store.NotificationMessage) (*Message, error) {
	if m.ID == 0 {
		return &Message{}, nil
	}
	return decode(m.Content)
}

// collecting returns the messages that more can be added to, by group and sink, and the sinks for which too many wait.
func (e *Engine) collecting(ctx context.Context, rule *Rule, now time.Time) (open map[string]map[string]*store.NotificationMessage, full map[string]bool, err error) {
	messages, err := e.Store.CollectingNotifications(ctx, rule.UID, now)
	if err != nil {
		return nil, nil, err
	}
	open, full = map[string]map[string]*store.NotificationMessage{}, map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if open[m.Group] == nil {
			open[m.Group] = map[string]*store.NotificationMessage{}
		}
		open[m.Group][m.Sink] = m
	}
	queues, err := e.Store.NotificationQueues(ctx)
	waiting := 0
	e.mu.Lock()
	for i := range queues {
		if other := e.rules[queues[i].Rule]; rule.Namespace != "" && other != nil && other.Namespace == rule.Namespace {
			waiting += queues[i].Pending
		}
	}
	e.mu.Unlock()
	for i := range queues {
		if q := &queues[i]; q.Rule == rule.UID && (q.Pending >= maxPending || waiting >= maxPendingInNamespace) {
			full[q.Sink] = true
		}
	}
	return open, full, err
}
