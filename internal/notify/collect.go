package notify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// eventPage and changePage are how many events and changes are read at a time.
	eventPage  = 500
	changePage = 500
	// maxUnreadable is how many events that cannot be read are remembered until all rules have passed them.
	maxUnreadable = 10_000
)

// collect moves all rules on by a page of events. It reports whether there are more.
func (e *Engine) collect(ctx context.Context) (more bool, err error) {
	e.mu.Lock()
	rules := maps.Clone(e.rules)
	e.mu.Unlock()
	if len(rules) == 0 {
		return false, e.noteUnread(ctx, nil, false)
	}
	cursors, err := e.Store.NotificationCursors(ctx)
	if err != nil {
		return false, err
	}
	log, err := e.Store.EventLog(ctx)
	if err != nil {
		return false, err
	}
	e.forgetUnreadable(cursors, rules, log)
	// Rules are at the same position almost always, and are moved together.
	at := map[int64][]store.NotificationCursor{}
	for _, cursor := range cursors {
		if rules[cursor.Rule] != nil && cursor.Sequence != log.Last {
			at[cursor.Sequence] = append(at[cursor.Sequence], cursor)
		}
	}
	var failed []error
	for _, sequence := range slices.Sorted(maps.Keys(at)) {
		// Rules at other positions go on.
		further, err := e.advance(ctx, sequence, at[sequence], rules, log)
		failed = append(failed, err)
		more = more || further && err == nil
	}
	err = errors.Join(failed...)
	return more, errors.Join(err, e.noteUnread(ctx, at, err != nil || more))
}

// noteUnread keeps since when rules are behind the event log, so that they are seen to be delayed like messages that wait.
func (e *Engine) noteUnread(ctx context.Context, at map[int64][]store.NotificationCursor, behind bool) error {
	var since time.Time
	if behind {
		events, err := e.Store.EventsSince(ctx, store.AllNamespaces(), slices.Min(slices.Collect(maps.Keys(at))), 1)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			since = events[0].At
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unread = since
	return nil
}

// unreadableError says that an event cannot be read. It never will, so the rules go on behind it.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// noteUnreadable counts an event that a rule was moved behind although it cannot be read. Rules at other positions meet it again, and it is not counted again.
func (e *Engine) noteUnreadable(sequence int64, err error) {
	if e.unreadable[sequence] {
		return
	}
	if len(e.unreadable) < maxUnreadable {
		e.unreadable[sequence] = true
	}
	e.Log.Error(err, "An event cannot be read; notification rules continue behind it")
	e.Observer.Skipped(1)
}

// forgetUnreadable forgets the events that all rules have passed, and those that the database lost.
func (e *Engine) forgetUnreadable(cursors []store.NotificationCursor, rules map[string]*Rule, log store.EventLog) {
	if len(e.unreadable) == 0 {
		return
	}
	passed := log.Last
	for _, cursor := range cursors {
		if rules[cursor.Rule] != nil {
			passed = min(passed, cursor.Sequence)
		}
	}
	maps.DeleteFunc(e.unreadable, func(sequence int64, _ bool) bool { return sequence <= passed || sequence > log.Last })
}

// unmarshal reads the data of an event.
func unmarshal(event *store.Event, into any) error {
	if err := json.Unmarshal(event.Data, into); err != nil {
		return &unreadableError{fmt.Errorf("read event %d: %w", event.Sequence, err)}
	}
	return nil
}

// advance moves rules at one position on by a page of events.
func (e *Engine) advance(ctx context.Context, from int64, cursors []store.NotificationCursor, rules map[string]*Rule, log store.EventLog) (bool, error) {
	names := make([]string, len(cursors))
	for i := range cursors {
		names[i] = cursors[i].Rule
	}
	switch {
	case from > log.Last:
		// The database lost events, and maybe the position before them.
		return true, e.Store.SkipNotifications(ctx, names, from, log.Last)
	case from < log.Floor:
		if err := e.Store.SkipNotifications(ctx, names, from, log.Floor); err != nil {
			return false, err
		}
		e.Log.Info("Events were removed before notification rules had read them; increase --event-retention", "rules", len(names), "events", log.Floor-from)
		e.Observer.Skipped(log.Floor - from)
		return true, nil
	}
	events, err := e.Store.EventsSince(ctx, store.AllNamespaces(), from, eventPage)
	if err != nil || len(events) == 0 {
		return false, err
	}
	// Events may have been removed since the log was looked at.
	if log, err = e.Store.EventLog(ctx); err != nil || from < log.Floor {
		return err == nil, err
	}
	to := events[len(events)-1].Sequence
	cursors, batches, failed := e.newBatches(ctx, cursors, rules)
	if len(batches) == 0 {
		return false, failed
	}
	unreadable := map[int64]error{}
	for i := range events {
		if err := e.addEvent(ctx, batches, &events[i]); err != nil {
			if _, is := errors.AsType[*unreadableError](err); !is {
				return false, err
			}
			unreadable[events[i].Sequence] = err
		}
	}
	var without []string
	moved := false
	for i, b := range batches {
		e.noteFailures(b)
		if len(b.selected()) == 0 {
			without = append(without, b.rule.UID)
		} else if err := e.queue(ctx, cursors[i], to, b); err != nil {
			failed = errors.Join(failed, err)
		} else {
			moved = true
		}
	}
	err = e.Store.SkipNotifications(ctx, without, from, to)
	if moved || err == nil && len(without) > 0 {
		for _, sequence := range slices.Sorted(maps.Keys(unreadable)) {
			e.noteUnreadable(sequence, unreadable[sequence])
		}
	}
	if err != nil {
		return false, errors.Join(failed, err)
	}
	e.nudge()
	return len(events) == eventPage, failed
}

// newBatches returns an empty batch for each cursor. The labels of namespaces are read if a rule needs them; if they cannot be, these rules are left out, and stay
// where they are.
func (e *Engine) newBatches(ctx context.Context, cursors []store.NotificationCursor, rules map[string]*Rule) (kept []store.NotificationCursor, batches []*batch, err error) {
	var labels map[string]map[string]string
	for _, cursor := range cursors {
		rule := rules[cursor.Rule]
		if rule.selector.NamespaceLabels() {
			if labels == nil && err == nil {
				if labels, err = e.Labels(ctx); err != nil {
					err = fmt.Errorf("read the labels of namespaces: %w", err)
				}
			}
			if err != nil {
				continue
			}
		}
		kept, batches = append(kept, cursor), append(batches, newBatch(rule, labels))
	}
	return kept, batches, err
}

// noteFailures keeps what the expression of a rule could not be evaluated for, for its status.
func (e *Engine) noteFailures(b *batch) {
	if b.failures == 0 {
		return
	}
	e.mu.Lock()
	// The rule may have been deleted since its events were read.
	if e.rules[b.rule.UID] != nil {
		e.failures[b.rule.UID] = fmt.Sprintf("when: failed for %d changes or workloads of the last events, which are not reported; the first: %s", b.failures, b.failure)
	}
	e.mu.Unlock()
	e.Changed()
}

// addEvent adds what an event says to batches.
func (e *Engine) addEvent(ctx context.Context, batches []*batch, event *store.Event) error {
	switch event.Kind {
	case store.EventDatabaseUpdated:
		return e.addDatabase(ctx, batches, event)
	case store.EventRolloutEvaluated:
		for _, b := range batches {
			if err := b.addRollout(event); err != nil {
				return err
			}
		}
	case store.EventImageIntroduced:
		return e.addIntroduced(ctx, batches, event)
	case store.EventFindingOverdue:
		return e.addOverdue(ctx, batches, event)
	case store.EventNamespaceOverdue:
		return e.addOverdueIn(ctx, batches, event)
	case store.EventImageFailed:
		return e.addFailed(ctx, batches, event)
	case store.EventDecisionExpired, store.EventDecisionExpiring, store.EventDecisionChanged:
		return addDecision(batches, event)
	case store.EventDatabaseStale:
		var data store.StaleDatabaseEvent
		if err := unmarshal(event, &data); err != nil {
			return err
		}
		text := fmt.Sprintf("no vulnerability database that is newer than that of %s came into use: findings that were published since are missing",
			data.Built.UTC().Format(time.DateTime))
		for _, b := range batches {
			b.addCluster(DatabaseStale, event.At, "", 1, text)
		}
	case store.EventCoverageLost:
		var data store.CoverageLostEvent
		if err := unmarshal(event, &data); err != nil {
			return err
		}
		for _, b := range batches {
			b.addLost(&data, event.At)
		}
	default:
		// The other events are about single steps, or are contained in these.
	}
	return nil
}

// addDecision adds an exception that expired, expires soon, or does not apply any more.
func addDecision(batches []*batch, event *store.Event) error {
	var data store.DecisionEvent
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	kind, says, then, others := ExceptionExpired, "expired", "count again", "expired"
	switch event.Kind {
	case store.EventDecisionExpiring:
		kind, says, then, others = ExceptionExpiring, "expires soon", "count again then", "expire soon"
		if data.ExpiresAt != nil {
			says = "expires on " + data.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")
		}
	case store.EventDecisionChanged:
		if data.Action != store.DecisionRemoved {
			return nil
		}
		kind, says, then, others = ExceptionRemoved, "was deleted or cannot be applied any more", "do not match it any more", "were deleted or cannot be applied any more"
	default:
	}
	object, namespace, count := cmp.Or(data.Kind, "VulnerabilityException"), data.Namespace, data.Omitted
	var text string
	if data.Object != nil {
		object, namespace, count = data.Object.Kind, data.Object.Namespace, 1
		name := data.Object.Name
		if namespace != "" {
			name = namespace + "/" + name
		}
		text = fmt.Sprintf("%s %s %s: %d findings %s", object, name, says, data.Findings, then)
		if data.Findings == 1 {
			text = fmt.Sprintf("%s %s %s: 1 finding %s", object, name, says, strings.NewReplacer("count", "counts", "do not", "does not").Replace(then))
		}
	} else if text = fmt.Sprintf("%d further exceptions %s", count, others); namespace != "" {
		text = fmt.Sprintf("%d further exceptions in %s %s", count, namespace, others)
	}
	// Statements of VEX documents are no exceptions.
	if !strings.HasSuffix(object, "VulnerabilityException") {
		return nil
	}
	for _, b := range batches {
		b.addCluster(kind, event.At, namespace, count, text)
	}
	return nil
}

// addDatabase adds the changes of a database build.
func (e *Engine) addDatabase(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.DatabaseEvent
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	text := fmt.Sprintf("the vulnerability database of %s is in use: it opens %d findings, closes %d and changes %d in %d images",
		data.Built.UTC().Format(time.DateTime), data.Changes.Opened, data.Changes.Closed, data.Changes.Changed, data.Changes.Images)
	for _, b := range batches {
		b.addCluster(DatabaseUpdated, event.At, "", 1, text)
	}
	byNamespace := map[string][]*batch{}
	for _, b := range batches {
		byNamespace[b.rule.Namespace] = append(byNamespace[b.rule.Namespace], b)
	}
	// A build reports only the places that knew an image before, other events all that run it now.
	forgetPlaces := func() {
		for _, b := range batches {
			clear(b.placed)
		}
	}
	forgetPlaces()
	defer forgetPlaces()
	for token := ""; ; {
		page, err := e.Store.PlacedChanges(ctx, data.ID, event.At, store.Page{Token: token, Size: changePage})
		if err != nil {
			return err
		}
		addChanges(byNamespace, page.Changes)
		if token = page.NextToken; token == "" {
			return nil
		}
	}
}

// addChanges adds changes to batches, which are by the namespace of their rule. A rule of a namespace gets only the images that run there: the work for 1,000
// rules would be too much otherwise.
func addChanges(batches map[string][]*batch, changes []store.PlacedChange) {
	// Changes share what runs an image, so its namespaces are looked for once.
	known := map[*store.RunningImage][]string{}
	for i := range changes {
		c := &changes[i]
		here := map[string][]*store.RunningImage{"": c.Running}
		for _, running := range c.Running {
			namespaces, found := known[running]
			if !found {
				namespaces = namespacesOf(running, batches)
				known[running] = namespaces
			}
			for _, namespace := range namespaces {
				here[namespace] = append(here[namespace], running)
			}
		}
		for namespace, images := range here {
			for _, b := range batches[namespace] {
				b.addChange(&c.Change, images)
			}
		}
	}
	// Other pages share nothing with this one.
	for _, here := range batches {
		for _, b := range here {
			clear(b.partly)
		}
	}
}

// namespacesOf returns the namespaces that run an image and have batches, each once.
func namespacesOf(running *store.RunningImage, batches map[string][]*batch) []string {
	var namespaces []string
	for i := range running.Workloads {
		namespace := running.Workloads[i].Namespace
		if namespace != "" && len(batches[namespace]) > 0 && !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// addFailed adds a failed attempt at an image. Messages of failures can name other namespaces, so only the reason is told.
func (e *Engine) addFailed(ctx context.Context, batches []*batch, event *store.Event) error {
	var data struct {
		Reason model.Reason `json:"reason"`
	}
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	running, err := e.runningImage(ctx, store.AllNamespaces(), event.ImageID, event.Platform)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s", event.ImageID, data.Reason)
	for _, b := range batches {
		b.addRunning(ScanFailed, event.At, nil, running, text)
	}
	return nil
}

func (e *Engine) runningImage(ctx context.Context, in store.Namespaces, imageID, platform string) (*store.RunningImage, error) {
	parsed, err := model.ParsePlatform(platform)
	if err != nil {
		return nil, &unreadableError{fmt.Errorf("read an event about %s: %w", imageID, err)}
	}
	return e.Store.RunningImage(ctx, in, model.ImageKey{ImageID: imageID, Platform: parsed})
}

// digest is a short text for some texts.
func digest(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// problemText bounds an error for a status.
func problemText(err error) string { return truncate.Ellipsis(err.Error(), 2*maxText) }
