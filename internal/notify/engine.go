package notify

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// poll is how often the event log and the queues are looked at when nothing tells of a change.
	poll = time.Second
	// rest is the shortest time between two readings of the event log: what happens meanwhile is read together.
	rest = time.Second
	// retryFirst and retryMost are the first and the longest pause before a message is sent again.
	retryFirst = 5 * time.Second
	retryMost  = 10 * time.Minute
	// giveUp is how long a message is tried after it is ready, if its sink fails for as long.
	giveUp = 24 * time.Hour
	// hastenEvery is how often messages are looked for that are ready later than their rule says now.
	hastenEvery = time.Minute
	// maxSending and maxSendingPerNamespace bound the messages that are sent at the same time.
	maxSending             = 32
	maxSendingPerNamespace = 4
	// sendTimeout bounds one attempt.
	sendTimeout = 15 * time.Second
	// reportTimeout bounds how long a report is made for an attempt.
	reportTimeout = 2 * time.Minute
)

// Store is what the engine needs of the store.
type Store interface {
	store.Notifications
	EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error)
	EventLog(ctx context.Context) (store.EventLog, error)
	Changed() <-chan struct{}
}

// Observer counts attempts; the metrics implement it.
type Observer interface {
	// Sent says that a sink of a type accepted a message, or that a message is "failed", and is sent again, or "dropped".
	Sent(sink, result string)
	// Pending says how many messages wait, and since when the first of them is due or rules are behind the event log, zero for neither.
	Pending(messages int, since time.Time)
	// Skipped says that events were removed before rules had read them, or cannot be read.
	Skipped(events int64)
}

// The results of attempts.
const (
	Delivered = "delivered"
	Failed    = "failed"
	Dropped   = "dropped"
)

// Results returns all results of attempts.
func Results() []string { return []string{Delivered, Failed, Dropped} }

// EngineConfig says what an Engine works with.
type EngineConfig struct {
	Store  Store
	Sender Sender
	Clock  clock.PassiveClock
	// Labels returns the labels of all namespaces, by name. It is called when the expression of a rule reads them.
	Labels func(ctx context.Context) (map[string]map[string]string, error)
	// Link returns where the UI shows more about a message; nil for nowhere.
	Link     func(*Message) string
	Observer Observer
	Log      logr.Logger
	// Changed is called when a state of States may be another one; it must return at once.
	Changed func()
}

// Engine collects and sends the messages of rules. One process at a time runs it. NewEngine makes one.
type Engine struct {
	EngineConfig
	wake chan struct{}

	mu sync.Mutex
	// rules are those in effect, by UID; nil before SetRules.
	rules map[string]*Rule
	lanes map[laneName]*lane
	// failures are what expressions could not be evaluated for.
	failures map[string]string
	queues   map[laneName]store.NotificationQueue
	// unread is since when an event waits that rules have not read, zero if none does.
	unread time.Time
	// sending counts the messages that are being sent, by namespace.
	sending map[string]int
	running sync.WaitGroup

	// reports are the next ones of rules, by UID, hastened is when messages were looked for that are ready too late, of which rules, and unreadable are the
	// events that were counted because they cannot be read and that not all rules have passed. The goroutine that collects uses them.
	reports  map[string]planned
	hastened struct {
		at    time.Time
		rules map[string]*Rule
	}
	unreadable map[int64]bool
}

// laneName names a sink of a rule.
type laneName struct{ rule, sink string }

// lane is what is known of a sink besides its queue. Its messages are sent one after the other.
type lane struct {
	busy     bool
	failures int
	retryAt  time.Time
	problem  string
	// unended is a message that was sent and has not been ended, because the store failed. The goroutine that sends uses it.
	unended *ending
	// failing is since when the sink accepts nothing from this process, zero if it does or was not tried. The goroutine that sends uses it.
	failing time.Time
}

// ending is how a message ends: delivered at a time, or dropped if that is zero; and what attempt returns then.
type ending struct {
	message   *store.NotificationMessage
	delivered time.Time
	problem   error
	result    string
}

// NewEngine returns an engine without rules.
func NewEngine(config EngineConfig) *Engine {
	return &Engine{
		EngineConfig: config, wake: make(chan struct{}, 1), lanes: map[laneName]*lane{}, failures: map[string]string{},
		queues: map[laneName]store.NotificationQueue{}, sending: map[string]int{}, reports: map[string]planned{},
		unreadable: map[int64]bool{},
	}
}

// SetRules makes these the rules; the list is complete. known are those that exist: one that is not in effect keeps its position and its messages.
func (e *Engine) SetRules(ctx context.Context, rules []*Rule, known []store.NotificationRule) error {
	if err := e.Store.SyncNotificationRules(ctx, known); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.rules
	e.rules = make(map[string]*Rule, len(rules))
	for _, rule := range rules {
		e.rules[rule.UID] = rule
		if old := before[rule.UID]; old == nil || old.When != rule.When {
			delete(e.failures, rule.UID)
		}
	}
	maps.DeleteFunc(e.failures, func(rule, _ string) bool { return e.rules[rule] == nil })
	// Those of rules that are not in effect stay: they may be about a message that was sent.
	existing := map[laneName]bool{}
	for i := range known {
		rule := &known[i]
		for _, sink := range rule.Sinks {
			existing[laneName{rule.UID, sink}] = true
		}
	}
	maps.DeleteFunc(e.lanes, func(name laneName, l *lane) bool { return !existing[name] && !l.busy })
	e.nudge()
	return nil
}

// nudge makes Run look at once.
func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// State is what is known of a rule.
type State struct {
	Queues map[string]store.NotificationQueue
	// Problems say why the last attempt of a sink failed.
	Problems map[string]string
	// Failure says what its expression could not be evaluated for, "" for nothing.
	Failure string
}

// States returns those of all rules, by UID.
func (e *Engine) States() map[string]State {
	e.mu.Lock()
	defer e.mu.Unlock()
	states := map[string]State{}
	state := func(rule string) State {
		s, found := states[rule]
		if !found {
			s = State{Queues: map[string]store.NotificationQueue{}, Problems: map[string]string{}, Failure: e.failures[rule]}
			states[rule] = s
		}
		return s
	}
	for name, queue := range e.queues {
		state(name.rule).Queues[name.sink] = queue
	}
	for name, lane := range e.lanes {
		if lane.problem != "" {
			state(name.rule).Problems[name.sink] = lane.problem
		}
	}
	return states
}

// Run collects and sends until ctx ends. A message that is being sent then is sent again by the next Run.
func (e *Engine) Run(ctx context.Context) error {
	defer e.running.Wait()
	collecting := make(chan struct{})
	go func() {
		defer close(collecting)
		e.collectAlways(ctx)
	}()
	for ctx.Err() == nil {
		if err := e.dispatch(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(err, "Failed to read the queues of messages")
		}
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-time.After(poll):
		}
	}
	<-collecting
	return nil
}

// collectAlways reads the event log whenever it has grown.
func (e *Engine) collectAlways(ctx context.Context) {
	for ctx.Err() == nil {
		changed := e.Store.Changed()
		more, err := e.collect(ctx)
		if err != nil && ctx.Err() == nil {
			e.Log.Error(err, "Failed to collect notifications; trying again")
		}
		if err := e.hasten(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(err, "Failed to look for messages that are ready too late; trying again")
		}
		if err := e.planReports(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(err, "Failed to plan reports; trying again")
		}
		if more && err == nil {
			continue
		}
		pause(ctx, rest)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(poll):
		}
	}
}

// hasten makes messages ready that wait for longer than their rule says: its schedule or window has changed, or the clock was ahead when they began. Reports
// keep their time, which is that of the schedule under which they were planned.
func (e *Engine) hasten(ctx context.Context) error {
	e.mu.Lock()
	rules := maps.Clone(e.rules)
	e.mu.Unlock()
	now := e.Clock.Now()
	if passed := now.Sub(e.hastened.at); maps.Equal(rules, e.hastened.rules) && passed >= 0 && passed < hastenEvery {
		return nil
	}
	ready, together := make(map[string]time.Time, len(rules)), make(map[string]time.Time, len(rules))
	for uid, rule := range rules {
		ready[uid], together[uid] = rule.readyAt(now), rule.combinedAt(now)
	}
	if err := e.Store.HastenNotifications(ctx, ready, []string{digest(combined), digest(reportGroup)}, true); err != nil {
		return err
	}
	if err := e.Store.HastenNotifications(ctx, together, []string{digest(combined)}, false); err != nil {
		return err
	}
	e.hastened.at, e.hastened.rules = now, rules
	return nil
}

// pause waits for a time or the end of ctx.
func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
