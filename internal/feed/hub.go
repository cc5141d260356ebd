// Package feed brings the event log of the store to subscribers in this process as it grows, whichever process wrote
// the events.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// BufferSize is how many events a subscriber may be behind before it is evicted.
const BufferSize = 256

const (
	// batchSize is less than BufferSize, so that a subscriber that keeps up has the time of a query to drain its buffer in a
	// burst.
	batchSize = BufferSize / 2
	// defaultPollInterval is how soon events of other processes are seen.
	defaultPollInterval = time.Second
	// maxBackoff is the longest pause while the store is unavailable.
	maxBackoff = 5 * time.Second
)

var (
	// ErrSlow is the end of a subscription that was more than BufferSize events behind. What it missed is in the event log.
	ErrSlow = errors.New("the subscriber is too slow")
	// ErrReset is the end of every subscription when events were removed before they could be delivered, or the log is another
	// one than before: a backup was restored. Who knows a state from events has to fetch it anew.
	ErrReset = errors.New("the event log does not continue at the last position")
	// ErrStopped is the end of every subscription when the hub stops.
	ErrStopped = errors.New("the event feed stopped")
)

// Log is the event log as store.Events has it.
type Log interface {
	Reader
	Changed() <-chan struct{}
}

// Config sets up a Hub. Zero fields have defaults.
type Config struct {
	// PollInterval is how often the event log is read when no commit of this process says that it grew; one second by default.
	PollInterval time.Duration
	Log          logr.Logger
	// Clock is the real one by default.
	Clock clock.Clock
}

// Filter chooses events. Zero fields do not filter.
type Filter struct {
	// Kinds keeps events of these kinds.
	Kinds []store.EventKind
	// ImageID keeps events about this image.
	ImageID string
	// Namespace keeps events about objects and workloads in this namespace.
	Namespace string
}

// Matches reports whether the filter keeps the event.
func (f Filter) Matches(event store.Event) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, event.Kind)) && (f.ImageID == "" || f.ImageID == event.ImageID) &&
		(f.Namespace == "" || f.Namespace == event.Namespace())
}

// Hub reads the event log once and hands each event to all subscribers. It is a runnable of a controller-runtime
// manager, on every replica.
type Hub struct {
	log     Log
	config  Config
	started chan struct{}

	mu            sync.Mutex
	position      Position
	running       bool
	stopped       bool
	subscriptions map[*Subscription]struct{}
}

// New returns a hub that does nothing until Run.
func New(log Log, config Config) *Hub {
	if config.PollInterval <= 0 {
		config.PollInterval = defaultPollInterval
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Hub{
		log: log, config: config, started: make(chan struct{}), subscriptions: map[*Subscription]struct{}{},
	}
}

// NeedLeaderElection says that the hub runs on every replica.
func (h *Hub) NeedLeaderElection() bool { return false }

// Started is closed once Run knows where the event log ends.
func (h *Hub) Started() <-chan struct{} { return h.started }

// Run follows the event log from its end until the context is done, then ends all subscriptions. While the store is
// unavailable it tries again with growing pauses; no event is lost by that. A hub runs once.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.running {
		h.mu.Unlock()
		return errors.New("the event feed was already started")
	}
	h.running = true
	h.mu.Unlock()
	defer h.stop()

	trouble := backoff{hub: h}
	for {
		// Taken before the log is read, so that no commit falls between reading and waiting.
		changed := h.log.Changed()
		more, err := h.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			// A commit does not cut this short: it would make a busy loop of a store that can write but not read.
			h.wait(ctx, nil, trouble.next(err))
		case more:
			trouble.over()
		default:
			trouble.over()
			h.wait(ctx, changed, h.config.PollInterval)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Start is Run, under the name that a controller-runtime manager calls.
func (h *Hub) Start(ctx context.Context) error { return h.Run(ctx) }

// advance delivers the next batch and reports whether there may be more at once. The first call finds the end of the log.
func (h *Hub) advance(ctx context.Context) (bool, error) {
	h.mu.Lock()
	position, started := h.position, h.isStarted()
	h.mu.Unlock()
	if !started {
		return true, h.begin(ctx)
	}
	page, err := ReadPage(ctx, h.log, position, batchSize)
	if err != nil {
		return false, fmt.Errorf("read the event log: %w", err)
	}
	if !page.Continues {
		h.reset(position, page.Log)
		return false, nil // A log that changes all the time must not be read all the time.
	}
	h.publish(page.Events)
	return len(page.Events) == batchSize, nil
}

// begin finds the end of the log, from where on events are delivered.
func (h *Hub) begin(ctx context.Context) error {
	log, err := h.log.EventLog(ctx)
	if err != nil {
		return fmt.Errorf("find the end of the event log: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position = End(log)
	for subscription := range h.subscriptions {
		subscription.since = log.Last
	}
	close(h.started)
	return nil
}

// reset ends all subscriptions, because the log does not go on where it was read last. It is followed from its end.
func (h *Hub) reset(position Position, log store.EventLog) {
	h.config.Log.Info("The event log does not continue at the last position", "position", position.Sequence, "logID", position.LogID,
		"floor", log.Floor, "last", log.Last, "lastID", log.LastID)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position = End(log)
	for subscription := range h.subscriptions {
		h.end(subscription, ErrReset)
	}
}

func (h *Hub) isStarted() bool {
	select {
	case <-h.started:
		return true
	default:
		return false
	}
}

// publish never blocks: a subscriber without room is evicted.
func (h *Hub) publish(events []store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, event := range events {
		h.position = Of(event)
		for subscription := range h.subscriptions {
			if !subscription.filter.Matches(event) {
				continue
			}
			select {
			case subscription.channel <- event:
			default:
				h.end(subscription, ErrSlow)
			}
		}
	}
}

func (h *Hub) wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	timer := h.config.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C():
	}
}

func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	for subscription := range h.subscriptions {
		h.end(subscription, ErrStopped)
	}
}

// end closes the channel of a subscription; h.mu is held.
func (h *Hub) end(subscription *Subscription, reason error) {
	if _, found := h.subscriptions[subscription]; !found {
		return
	}
	delete(h.subscriptions, subscription)
	subscription.err = reason
	close(subscription.channel)
}

// backoff is the pause between attempts to read a store that fails. It logs the first failure and the recovery.
type backoff struct {
	hub      *Hub
	failures int
	pause    time.Duration
}

func (b *backoff) next(err error) time.Duration {
	if b.failures == 0 {
		b.hub.config.Log.Error(err, "Cannot read the event log, will retry")
		b.pause = b.hub.config.PollInterval
	} else {
		b.pause = min(2*b.pause, max(maxBackoff, b.hub.config.PollInterval))
	}
	b.failures++
	return b.pause
}

func (b *backoff) over() {
	if b.failures > 0 {
		b.hub.config.Log.Info("Reading the event log again", "failures", b.failures)
		b.failures = 0
	}
}
