package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// tagLookupRow is a row of tag_lookups.
type tagLookupRow struct {
	ID, ImageID, Platform, Repository, Tag, Nonce string
	Attempts, Failures                            int
	NextAt, UnwantedSince, LookedUpAt             int64
	Source                                        string
	Listed                                        int
	Incomplete, Reason, Message                   string
	FailedReason, FailedMessage, ForNamespace     string
}

const tagLookupColumns = `l.id, l.image_id, l.platform, l.repository, l.tag, l.nonce, l.attempts, l.failures, l.next_at, l.unwanted_since, l.looked_up_at,
	l.source, l.listed, l.incomplete, l.reason, l.message, l.failed_reason, l.failed_message, l.for_namespace`

func (r *tagLookupRow) lookup() (store.TagLookup, error) {
	key, err := keyOf(r.ImageID, r.Platform)
	return store.TagLookup{
		ID: r.ID, WantedTags: store.WantedTags{Key: key, Repository: r.Repository, Tag: r.Tag}, Nonce: r.Nonce, Attempts: r.Attempts, Failures: r.Failures,
		NextAttempt: fromMicros(r.NextAt), LookedUpAt: fromMicros(r.LookedUpAt), Source: r.Source, Listed: r.Listed, Incomplete: r.Incomplete,
		Reason: r.Reason, Message: r.Message, Failure: model.Outcome{Reason: model.Reason(r.FailedReason), Message: r.FailedMessage}, For: r.ForNamespace,
	}, err
}

// tagLookupID is the ID of what a scope looks up.
func tagLookupID(scope string, wanted *store.WantedTags) string {
	return contentDigest(scope, wanted.Key.ImageID, wanted.Key.Platform.String(), wanted.Repository, wanted.Tag)
}

// WantTagLookups implements store.TagLookups.
func (s *Store) WantTagLookups(ctx context.Context, scope string, wanted []store.WantedTags) ([]store.TagLookup, error) {
	const what = "record which tags are looked up"
	byID, err := wantedLookups(scope, wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	expired := s.now() - store.TagLookupGrace.Microseconds()
	var diff tagLookupDiff
	read := func(tx *gorm.DB) error {
		diff, err = compareTagLookups(tx, scope, byID, expired)
		return err
	}
	if err := s.read(ctx, what, read); err != nil {
		return nil, err
	}
	if !diff.same() {
		err := s.write(ctx, what, func(tx *txn) error {
			if err := read(tx.DB); err != nil {
				return err
			}
			if err := diff.write(tx, scope); err != nil {
				return err
			}
			return read(tx.DB)
		})
		if err != nil {
			return nil, err
		}
	}
	lookups := make([]store.TagLookup, len(wanted))
	for i := range wanted {
		row := diff.known[tagLookupID(scope, &wanted[i])]
		if lookups[i], err = row.lookup(); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		lookups[i].Namespaces = wanted[i].Namespaces
	}
	return lookups, nil
}

// wantedLookups returns what is wanted by ID.
func wantedLookups(scope string, wanted []store.WantedTags) (map[string]*store.WantedTags, error) {
	if err := checkIdentifier("the scope", scope); err != nil {
		return nil, err
	}
	if len(wanted) > store.MaxTagLookups {
		return nil, fmt.Errorf("%d lookups, the maximum is %d", len(wanted), store.MaxTagLookups)
	}
	byID := make(map[string]*store.WantedTags, len(wanted))
	for i := range wanted {
		w := &wanted[i]
		if err := checkKeys([]model.ImageKey{w.Key}); err != nil {
			return nil, err
		}
		if w.Repository == "" || model.RepositoryOf(w.Repository) != w.Repository || w.Tag == "" || len(w.Tag) > store.MaxTag {
			return nil, fmt.Errorf("%q with the tag %q is not a repository with a tag", sqldb.Truncate(w.Repository, maxIdentifier), sqldb.Truncate(w.Tag, maxIdentifier))
		}
		byID[tagLookupID(scope, w)] = w
	}
	if len(byID) != len(wanted) {
		return nil, errors.New("a lookup is wanted twice")
	}
	return byID, nil
}

// tagLookupDiff is what differs between the lookups of a scope and those that it wants.
type tagLookupDiff struct {
	known map[string]*tagLookupRow
	added map[string]*store.WantedTags
	// again are wanted again, dropped not any more, and gone for long enough.
	again, dropped, gone []string
	// places are the namespaces of lookups that differ, none for those that are dropped.
	places map[string][]string
}

func (d *tagLookupDiff) same() bool {
	return len(d.added)+len(d.again)+len(d.dropped)+len(d.gone)+len(d.places) == 0
}

func compareTagLookups(tx *gorm.DB, scope string, wanted map[string]*store.WantedTags, expired int64) (tagLookupDiff, error) {
	diff := tagLookupDiff{known: map[string]*tagLookupRow{}, added: maps.Clone(wanted), places: map[string][]string{}}
	var rows []*tagLookupRow
	if err := tx.Raw("SELECT "+tagLookupColumns+" FROM tag_lookups l WHERE l.scope = ? ORDER BY l.id", scope).Scan(&rows).Error; err != nil {
		return diff, err
	}
	places, err := tagLookupPlaces(tx, scope)
	if err != nil {
		return diff, err
	}
	for _, row := range rows {
		diff.known[row.ID] = row
		w, isWanted := wanted[row.ID]
		delete(diff.added, row.ID)
		switch {
		case isWanted && row.UnwantedSince != 0:
			diff.again = append(diff.again, row.ID)
		case isWanted:
		case row.UnwantedSince == 0:
			diff.dropped = append(diff.dropped, row.ID)
		case row.UnwantedSince < expired:
			diff.gone = append(diff.gone, row.ID)
		}
		if isWanted && !equalKeys(set(w.Namespaces), places[row.ID]) || !isWanted && len(places[row.ID]) > 0 {
			diff.places[row.ID] = nil
			if isWanted {
				diff.places[row.ID] = w.Namespaces
			}
		}
	}
	return diff, nil
}

// tagLookupPlaces returns the namespaces that see the lookups of a scope.
func tagLookupPlaces(tx *gorm.DB, scope string) (map[string]map[string]bool, error) {
	var rows []struct{ Lookup, Namespace string }
	err := tx.Raw("SELECT p.lookup, p.namespace FROM tag_lookup_places p JOIN tag_lookups l ON l.id = p.lookup WHERE l.scope = ?", scope).Scan(&rows).Error
	places := map[string]map[string]bool{}
	for _, row := range rows {
		if places[row.Lookup] == nil {
			places[row.Lookup] = map[string]bool{}
		}
		places[row.Lookup][row.Namespace] = true
	}
	return places, err
}

func set(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}

var tagLookupInsert = []string{
	"id", "scope", "image_id", "platform", "repository", "tag", "nonce", "attempts", "failures", "next_at", "unwanted_since", "looked_up_at", "source", "listed", "incomplete",
	"reason", "message", "failed_reason", "failed_message", "for_namespace",
}

// write makes the lookups of a scope those that it wants.
func (d *tagLookupDiff) write(tx *txn, scope string) error {
	var values []any
	for _, id := range slices.Sorted(maps.Keys(d.added)) {
		w := d.added[id]
		values = append(values, id, scope, w.Key.ImageID, w.Key.Platform.String(), w.Repository, w.Tag, newNonce(), 0, 0, 0, 0, 0, "", 0, "", "", "", "", "", "")
		d.places[id] = w.Namespaces
	}
	if err := tx.Insert("tag_lookups", tagLookupInsert, values, ""); err != nil {
		return err
	}
	for _, change := range []struct {
		statement string
		values    []any
		ids       []string
	}{
		{"UPDATE tag_lookups SET unwanted_since = 0 WHERE id IN ?", nil, d.again},
		{"UPDATE tag_lookups SET unwanted_since = ? WHERE id IN ?", []any{tx.now}, d.dropped},
		{"DELETE FROM tag_lookups WHERE id IN ?", nil, d.gone},
		{"DELETE FROM tag_lookup_places WHERE lookup IN ?", nil, slices.Sorted(maps.Keys(d.places))},
	} {
		for part := range slices.Chunk(change.ids, sqldb.MaxIn) {
			if err := tx.Execute(change.statement, append(slices.Clone(change.values), part)...); err != nil {
				return err
			}
		}
	}
	values = nil
	for _, id := range slices.Sorted(maps.Keys(d.places)) {
		for _, namespace := range slices.Sorted(maps.Keys(set(d.places[id]))) {
			values = append(values, id, namespace)
		}
	}
	if err := tx.Insert("tag_lookup_places", []string{"lookup", "namespace"}, values, ""); err != nil {
		return err
	}
	if len(d.gone) == 0 {
		return nil
	}
	return forgetTagImages(tx, scope)
}

// forgetTagImages removes the images of a scope that are those of no newer tag.
func forgetTagImages(tx *txn, scope string) error {
	return tx.Execute("DELETE FROM tag_images WHERE scope = ? AND NOT EXISTS (SELECT 1 FROM newer_tags t WHERE t.image = tag_images.id)", scope)
}

// forgetTagLookups removes all lookups of a scope.
func (s *Store) forgetTagLookups(ctx context.Context, scope string) error {
	const what = "forget the newer tags of a scope"
	var count int64
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		return tx.Raw("SELECT COUNT(*) FROM tag_lookups WHERE scope = ?", scope).Scan(&count).Error
	})
	if err != nil || count == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := tx.Execute("DELETE FROM tag_lookups WHERE scope = ?", scope); err != nil {
			return err
		}
		return forgetTagImages(tx, scope)
	})
}

// FailTagLookup implements store.TagLookups.
func (s *Store) FailTagLookup(ctx context.Context, id string, attempt int, outcome model.Outcome, namespace string, next time.Time) (ended bool, err error) {
	err = s.write(ctx, "record a failed lookup of tags", func(tx *txn) error {
		ended = false
		var rows []struct {
			LookedUpAt   int64
			ForNamespace string
		}
		err := tx.Raw("SELECT looked_up_at, for_namespace FROM tag_lookups WHERE id = ? AND attempts = ?", id, attempt).Scan(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		ended = true
		// The texts of the last result are those of its namespace.
		message, of := outcome.Message, namespace
		if rows[0].LookedUpAt > 0 && rows[0].ForNamespace != namespace {
			message, of = "the attempt was made for a workload of another namespace than the last result; the log of the operator has the details", rows[0].ForNamespace
		}
		if outcome.Succeeded() {
			return tx.Execute("UPDATE tag_lookups SET attempts = attempts + 1, next_at = ? WHERE id = ?", micros(next), id)
		}
		return tx.Execute("UPDATE tag_lookups SET attempts = attempts + 1, failures = failures + 1, next_at = ?, failed_reason = ?, failed_message = ?, for_namespace = ? WHERE id = ?",
			micros(next), string(outcome.Reason), sqldb.Truncate(message, store.MaxTagText), of, id)
	})
	return ended && err == nil, err
}
