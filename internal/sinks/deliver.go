package sinks

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// receiver is a system of some type.
type receiver interface {
	// parts is the number of parts of a target. longest is the most bytes of a result of a template, and clean makes such a result valid.
	parts() int
	longest() int
	clean(text string) string
	// most is the most items.
	most() int
	// config tells apart the configurations between which what is delivered, or where to, differs.
	config() string
	// findings says that what is delivered depends on findings, and removes that what runs no more is removed.
	findings() bool
	removes() bool
	// encode makes what is delivered of a target.
	encode(ctx context.Context, t *target, r *reports) ([]document, error)
	// deliver delivers documents: the same ones again have the same effect. fresh says that nothing was delivered to the target yet, or that it was removed. An
	// error that is ErrRefused says that the same documents will not be accepted later either.
	deliver(ctx context.Context, t *target, documents []document, fresh bool) error
	// remove removes a target. One that is not there is no error.
	remove(ctx context.Context, t *target) error
}

// document is what is delivered.
type document struct {
	// name tells the documents of a target apart.
	name, contentType string
	body              []byte
}

// dispatch begins to deliver what is due, at most one item of each sink at a time.
func (e *Engine) dispatch(ctx context.Context) {
	now := e.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, sink := range e.sinks {
		l := e.lanes[uid]
		if l == nil || !l.planned || l.stale || l.busy || now.Before(l.retryAt) {
			continue
		}
		item := l.next(now)
		if item == nil {
			continue
		}
		l.busy = true
		// The next one begins later, whatever becomes of this one.
		l.retryAt = now.Add(time.Minute / time.Duration(sink.PerMinute))
		t := l.targets[item.Key]
		e.running.Go(func() { e.run(ctx, sink, l, item, t) })
	}
}

// next returns the item that is due and waits longest, nil if there is none. Those that failed come last.
func (l *lane) next(now time.Time) *store.ReportItem {
	var first *store.ReportItem
	for key, item := range l.items {
		if !item.Due || item.NextAt.After(now) || !item.Gone && l.targets[key] == nil {
			continue
		}
		if first == nil || item.Attempts < first.Attempts ||
			item.Attempts == first.Attempts && (item.Version < first.Version || item.Version == first.Version && key < first.Key) {
			first = item
		}
	}
	if first == nil {
		return nil
	}
	item := *first
	return &item
}

// run delivers an item and writes what became of it.
func (e *Engine) run(ctx context.Context, sink *Sink, l *lane, item *store.ReportItem, t *target) {
	limited, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	result, err := e.attempt(limited, sink, item, t)
	if ctx.Err() != nil {
		// The process ends. The next one delivers again.
		return
	}
	now := e.Clock.Now()
	switch err {
	case nil:
		item.Due, item.Attempts, item.NextAt, item.Problem = false, 0, time.Time{}, ""
		if result != Unchanged {
			item.DeliveredAt = now
		}
	default:
		result = Failed
		item.Problem = truncate.Ellipsis(err.Error(), store.MaxReportProblem)
		switch {
		case errors.Is(err, ErrUnavailable):
			// All items of the sink wait.
		case errors.Is(err, ErrRefused):
			item.NextAt = now.Add(backoff(refusedFirst, refusedMost, item.Attempts))
		default:
			item.NextAt = now.Add(backoff(retryFirst, retryMost, item.Attempts))
		}
		item.Attempts++
		e.Log.Info("Report was not delivered", "sink", sink.Name, "problem", item.Problem)
	}
	l.store.Lock()
	defer l.store.Unlock()
	done, storeErr := e.Store.EndReport(ctx, item)
	e.mu.Lock()
	defer e.mu.Unlock()
	l.busy = false
	if storeErr != nil {
		// The item is delivered again.
		e.Log.Error(storeErr, "Failed to end the delivery of a report", "sink", sink.Name)
		l.wait(now.Add(retryFirst))
		return
	}
	e.Observer.Delivered(string(sink.Type), result)
	switch {
	case !done:
		// It changed meanwhile: the next plan knows.
		delete(l.items, item.Key)
		nudge(e.replan)
	case item.Gone && !item.Due:
		delete(l.items, item.Key)
	default:
		l.items[item.Key] = item
	}
	switch {
	case errors.Is(err, ErrUnavailable):
		l.problem = item.Problem
		l.wait(now.Add(backoff(retryFirst, retryMost, l.failures)))
		l.failures++
	case err == nil:
		l.failures, l.problem = 0, ""
		if result == Unchanged {
			l.retryAt = time.Time{}
		} else {
			l.deliveredAt = now
		}
	default:
		l.failures, l.problem = 0, ""
	}
	e.observe()
	e.Changed()
	nudge(e.wake)
}

// wait begins no delivery before a time, nor before the pace of the sink permits it.
func (l *lane) wait(until time.Time) {
	if until.After(l.retryAt) {
		l.retryAt = until
	}
}

// backoff is the pause after a number of earlier failures.
func backoff(first, most time.Duration, failures int) time.Duration {
	return min(most, first<<min(failures, 20))
}

// errForeign says that an item was planned for another definition.
var errForeign = errors.New("it is no item of the sink as it is defined now")

// attempt delivers an item once.
func (e *Engine) attempt(ctx context.Context, sink *Sink, item *store.ReportItem, t *target) (result string, err error) {
	if item.Gone {
		if t, err = decodeTarget(item.Target); err != nil {
			return "", err
		}
		remover := sink.remover(t.Type)
		if remover == nil || len(t.Parts) != remover.parts() {
			return "", errForeign
		}
		return Removed, remover.remove(ctx, t)
	}
	if t.Type != sink.Type || len(t.Parts) != sink.receiver.parts() {
		return "", errForeign
	}
	if n := len(t.images); n > maxImages {
		return "", refusal("%s has %d images, the maximum is %d: use templates that put fewer images into one", t, n, maxImages)
	}
	select {
	case e.encoding <- struct{}{}:
		defer func() { <-e.encoding }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	r := &reports{reader: e.Store, version: e.Version, in: t.in(), name: t.String()}
	r.keys, r.uses = t.reported()
	documents, err := sink.receiver.encode(ctx, t, r)
	if errors.Is(err, store.ErrNotFound) {
		// An image was removed since the plan; the next plan knows.
		return "", errChanged
	}
	if err != nil {
		return "", err
	}
	digest := digestOfDocuments(sink.receiver.config(), t, documents)
	if digest == item.Digest && len(t.Former) == 0 {
		return Unchanged, nil
	}
	if err := sink.receiver.deliver(ctx, t, documents, item.Digest == ""); err != nil {
		return "", err
	}
	item.Digest = digest
	return Delivered, nil
}

// digestOfDocuments tells apart what is delivered.
func digestOfDocuments(config string, t *target, documents []document) string {
	texts := append([]string{config}, slices.Sorted(maps.Keys(t.labels))...)
	for _, d := range documents {
		sum := sha256.Sum256(d.body)
		texts = append(texts, d.name, string(sum[:]))
	}
	return digestOf(texts...)
}
