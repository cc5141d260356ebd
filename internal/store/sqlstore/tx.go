package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// txn is a transaction that writes, and the events that it writes at its end.
type txn struct {
	*sqldb.Tx
	now    int64
	log    logr.Logger
	events []newEvent
	// changed says that something was changed that no event is about.
	changed bool
	// gone are the namespaces of images that the transaction deletes.
	gone map[imageName][]string
	// namespaces are the numbers of namespaces in audiences.
	namespaces namespaceNumbers
	// movedImages are those that were given to moved.
	movedImages map[int64]bool
	// fixPackages and fixImages are those that were given to noteFixes and noteReachedFixes, packages with whether noteFixes got them; fixAll says that all
	// packages may have changed.
	fixPackages, fixImages map[int64]bool
	fixAll                 bool
	// tagLookups, tagPackages and tagImages are those that were given to noteTags.
	tagLookups             map[string]bool
	tagPackages, tagImages map[int64]bool
	// lackImages are those that were given to noteLacks.
	lackImages map[int64]bool
}

// newEvent is an event that is to be written.
type newEvent struct {
	kind  store.EventKind
	image imageName
	data  string
	// namespaces are those of an object or a workload that the event is about.
	namespaces []string
}

// event adds an entry to the event log, which becomes visible with the commit. data is written as JSON.
func (t *txn) event(kind store.EventKind, imageID, platform string, data any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", kind, err)
	}
	event := newEvent{kind: kind, image: imageName{imageID, platform}, data: string(content)}
	if namespace := (store.Event{Kind: kind, Data: content}).Namespace(); namespace != "" {
		event.namespaces = []string{namespace}
	}
	t.events = append(t.events, event)
	return nil
}

// publish writes the events. Their numbers follow those of the previous transaction, which has ended: sequences of databases
// would leave gaps where a transaction was rolled back, and a reader could not distinguish them from events that it missed.
func (t *txn) publish() error {
	if len(t.events) == 0 {
		return nil
	}
	var last int64
	if err := t.Raw("SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&last).Error; err != nil {
		return err
	}
	if last == 0 { // All may have been removed.
		if err := t.Raw("SELECT seq FROM event_floor WHERE id = 1").Scan(&last).Error; err != nil {
			return err
		}
	}
	values := make([]any, 0, 6*len(t.events))
	for i, event := range t.events {
		values = append(values, last+int64(i)+1, t.now, string(event.kind), event.image.imageID, event.image.platform, event.data)
	}
	if err := t.Insert("events", []string{"seq", "at", "kind", "image_id", "platform", "data"}, values, ""); err != nil {
		return err
	}
	if err := t.publishAudience(last); err != nil {
		return err
	}
	if err := t.Insert("event_commits", []string{"seq", "log_id"}, []any{last + int64(len(t.events)), newNonce()}, ""); err != nil {
		return err
	}
	return t.Notify()
}

// write runs work in a transaction of sqldb.DB.Write and publishes its events.
func (s *Store) write(ctx context.Context, what string, work func(tx *txn) error) error {
	var wrote, recorded bool
	request := store.ChangeRequestOf(ctx)
	err := s.db.Write(ctx, what, func(tx *sqldb.Tx) error {
		t := &txn{Tx: tx, now: s.now(), log: s.log}
		if err := work(t); err != nil {
			return err
		}
		if err := t.replace(); err != nil {
			return err
		}
		if err := t.placeMoved(); err != nil {
			return err
		}
		if err := t.refreshFixes(); err != nil {
			return err
		}
		if err := t.refreshTagFixes(); err != nil {
			return err
		}
		if err := t.refreshLacks(); err != nil {
			return err
		}
		wrote = len(t.events) > 0 || t.changed && request != nil
		if recorded = wrote && request != nil && !request.Recorded; recorded {
			if err := t.changeRequest(*request, store.ChangeSucceeded); err != nil {
				return err
			}
		}
		return t.publish()
	})
	if err != nil {
		return storeError(err)
	}
	if recorded {
		request.Recorded = true
	}
	if wrote {
		s.announce()
	}
	return nil
}

// read runs work in a transaction of sqldb.DB.Read, which sees one state of the database.
func (s *Store) read(ctx context.Context, what string, work func(tx *gorm.DB) error) error {
	return storeError(s.db.Read(ctx, what, work))
}
