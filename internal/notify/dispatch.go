package notify

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Sender sends messages to sinks.
type Sender interface {
	// Send sends a message once. An error that is ErrRefused says that the same message will not be accepted later either; one that is a *PartialError, that the
	// message was accepted.
	Send(ctx context.Context, sink *Sink, key string, message *Message) error
}

// PartialError says that a receiver accepted a message, but not for everybody whom the sink names. The message is not sent again.
type PartialError struct{ problem string }

// Error says for whom the message was not accepted.
func (e *PartialError) Error() string { return e.problem }

// ErrRefused says that a receiver does not accept a message, whenever it is sent.
var ErrRefused = errors.New("the receiver refuses the message")

// dispatch begins to send what is ready, at most one message of each sink at a time.
func (e *Engine) dispatch(ctx context.Context) error {
	queues, err := e.Store.NotificationQueues(ctx)
	if err != nil {
		return err
	}
	now := e.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rules == nil {
		return nil
	}
	e.remember(queues, now)
	// The one that waits longest is first. Sinks whose last attempt failed come after all others, so that those that never answer do not take all places; those of
	// namespaces with fewer messages on their way come before others, so that no namespace takes all places with sinks that answer late.
	slices.SortStableFunc(queues, func(a, b store.NotificationQueue) int {
		switch failedA, failedB := e.failed(&a), e.failed(&b); {
		case failedA && !failedB:
			return 1
		case failedB && !failedA:
			return -1
		default:
			return a.NextReady.Compare(b.NextReady)
		}
	})
	for len(queues) > 0 && e.occupied() < maxSending {
		next := e.next(queues, now)
		if next < 0 {
			break
		}
		q := queues[next]
		queues = slices.Delete(queues, next, next+1)
		rule := e.rules[q.Rule]
		sink := slices.IndexFunc(rule.Sinks, func(s Sink) bool { return s.Name == q.Sink })
		l := e.lanes[laneName{q.Rule, q.Sink}]
		l.busy = true
		e.sending[rule.Namespace]++
		e.running.Go(func() { e.send(ctx, rule, &rule.Sinks[sink], l) })
	}
	return nil
}

// next returns the index of the queue from which to send next, -1 if there is none.
func (e *Engine) next(queues []store.NotificationQueue, now time.Time) int {
	next, fewest := -1, maxSendingPerNamespace
	for i := range queues {
		q := &queues[i]
		rule := e.rules[q.Rule]
		if rule == nil || q.Pending == 0 || q.NextReady.After(now) || !slices.ContainsFunc(rule.Sinks, func(s Sink) bool { return s.Name == q.Sink }) {
			continue
		}
		name := laneName{q.Rule, q.Sink}
		if e.lanes[name] == nil {
			e.lanes[name] = &lane{}
		}
		l := e.lanes[name]
		if l.busy || now.Before(l.retryAt) {
			continue
		}
		if next >= 0 && e.failed(q) && !e.failed(&queues[next]) {
			break
		}
		if sending := e.sending[rule.Namespace]; sending < fewest {
			next, fewest = i, sending
		}
	}
	return next
}

// failed reports whether the last attempt at the sink of a queue failed.
func (e *Engine) failed(q *store.NotificationQueue) bool {
	l := e.lanes[laneName{q.Rule, q.Sink}]
	return l != nil && l.failures > 0
}

// occupied is the number of messages that are being sent.
func (e *Engine) occupied() int {
	n := 0
	for _, one := range e.sending {
		n += one
	}
	return n
}

// remember keeps the queues for States.
func (e *Engine) remember(queues []store.NotificationQueue, now time.Time) {
	known := make(map[laneName]store.NotificationQueue, len(queues))
	pending, since := 0, time.Time{}
	for _, q := range queues {
		known[laneName{q.Rule, q.Sink}] = q
		pending += q.Pending
		if q.Pending > 0 && !q.NextReady.After(now) && (since.IsZero() || q.NextReady.Before(since)) {
			since = q.NextReady
		}
	}
	if since.IsZero() || !e.unread.IsZero() && e.unread.Before(since) {
		since = e.unread
	}
	e.Observer.Pending(pending, since)
	if !maps.Equal(known, e.queues) {
		e.queues = known
		e.Changed()
	}
}

// send sends the first message of a sink that is ready.
func (e *Engine) send(ctx context.Context, rule *Rule, sink *Sink, l *lane) {
	problem, result, err := e.attempt(ctx, rule, sink, l)
	e.mu.Lock()
	defer e.mu.Unlock()
	l.busy = false
	if e.sending[rule.Namespace]--; e.sending[rule.Namespace] == 0 {
		delete(e.sending, rule.Namespace)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		e.Log.Error(err, "Failed to read or end a message", "rule", rule.String(), "sink", sink.Name)
		l.problem = "the database of the operator failed"
		l.retryLater(e.Clock.Now())
		e.Changed()
		return
	}
	if result == "" {
		// There is nothing to send any more, or the end of a message was written that could not be before.
		if l.failures > 0 {
			l.problem, l.failures, l.retryAt = "", 0, time.Time{}
			e.nudge()
			e.Changed()
		}
		return
	}
	l.problem = ""
	if problem != nil {
		l.problem = problemText(problem)
		e.Log.Info("Notification was not delivered to everybody", "rule", rule.String(), "sink", sink.Name, "result", result, "problem", l.problem)
	}
	if result == Failed {
		l.retryLater(e.Clock.Now())
	} else {
		l.failures, l.retryAt = 0, time.Time{}
		e.nudge()
	}
	e.Observer.Sent(string(sink.Type), result)
	e.Changed()
}

// revise leaves out of a message what decisions suppress, and what is not overdue any more, compares the images of rollouts again, and counts the findings of
// new images again, when it is sent first. It returns nil if nothing is left.
func (e *Engine) revise(ctx context.Context, rule *Rule, content []byte) ([]byte, error) {
	message, err := decode(content)
	if err != nil {
		return content, nil //nolint:nilerr // The attempt drops it.
	}
	changed := false
	if changes := message.changeIDs(); len(changes) > 0 {
		suppressed, err := e.Store.SuppressedChanges(ctx, changes, message.concerned(rule))
		if err != nil {
			return nil, err
		}
		if changed = len(suppressed) > 0; changed {
			slices.Sort(suppressed)
			message.leaveOut(suppressed)
		}
	}
	if images := message.overdueImages(); len(images) > 0 {
		in := store.AllNamespaces()
		if rule.Namespace != "" {
			in = store.OnlyNamespaces(rule.Namespace)
		}
		still, err := e.Store.OverdueFindings(ctx, in, images)
		if err != nil {
			return nil, err
		}
		changed = message.keepOverdue(rule, still) || changed
	}
	if rollouts := message.rolloutIDs(); len(rollouts) > 0 {
		present, err := e.Store.PresentRollouts(ctx, rollouts)
		if err != nil {
			return nil, err
		}
		changed = message.compareRollouts(rule, present) || changed
	}
	if images := message.introductions(); len(images) > 0 {
		present, err := e.Store.PresentIntroductions(ctx, images)
		if err != nil {
			return nil, err
		}
		changed = message.countIntroduced(rule, present) || changed
	}
	switch {
	case !changed:
		return content, nil
	case len(message.Counts) == 0:
		return nil, nil
	}
	if e.Link != nil {
		message.Link = e.Link(message)
	}
	return message.encode()
}

// retryLater delays the next attempt, longer after each failure.
func (l *lane) retryLater(now time.Time) {
	l.retryAt = now.Add(min(retryMost, retryFirst<<min(l.failures, 20)))
	l.failures++
}

// end ends a message. If that fails, it is tried again before anything else is sent to the sink, and the message is not sent again.
func (e *Engine) end(ctx context.Context, l *lane, how ending) (problem error, result string, err error) {
	l.unended = &how
	if err := e.Store.EndNotification(ctx, how.message, how.delivered); err != nil {
		return nil, "", err
	}
	l.unended = nil
	return how.problem, how.result, nil
}

// attempt sends one message. problem says why the sink did not accept it, or not for everybody; result is "" if nothing was sent.
func (e *Engine) attempt(ctx context.Context, rule *Rule, sink *Sink, l *lane) (problem error, result string, err error) {
	if unended := l.unended; unended != nil {
		return e.end(ctx, l, *unended)
	}
	message, err := e.Store.SealNotification(ctx, rule.UID, sink.Name, e.Clock.Now(), func(content []byte) ([]byte, error) { return e.revise(ctx, rule, content) })
	if err != nil || message == nil {
		return nil, "", err
	}
	content, err := decode(message.Content)
	if err != nil {
		// No later attempt could read it.
		return e.end(ctx, l, ending{message: message, problem: err, result: Dropped})
	}
	timeout := sendTimeout
	if content.Report != nil {
		if rule.Report == nil {
			// The rule has no reports any more.
			return e.end(ctx, l, ending{message: message})
		}
		content.Report.Scope = *rule.Report
		timeout += reportTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	problem = e.Sender.Send(limited, sink, message.Key, content.forReceivers())
	now := e.Clock.Now()
	if l.failing.IsZero() {
		l.failing = now
	}
	partial, isPartial := errors.AsType[*PartialError](problem)
	switch {
	case problem == nil:
		l.failing = time.Time{}
		return e.end(ctx, l, ending{message: message, delivered: now, result: Delivered})
	case isPartial:
		l.failing = time.Time{}
		return e.end(ctx, l, ending{message: message, delivered: now, problem: partial, result: Delivered})
	case errors.Is(problem, ErrRefused):
		l.failing = time.Time{}
		return e.end(ctx, l, ending{message: message, problem: problem, result: Dropped})
	// Of messages that waited for a leader, or while their rule was not valid, the first attempt here is not the last.
	case now.Sub(message.ReadyAt) >= giveUp && now.Sub(l.failing) >= giveUp:
		return e.end(ctx, l, ending{message: message, problem: problem, result: Dropped})
	default:
		return problem, Failed, nil
	}
}
