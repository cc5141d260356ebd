package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// planRest is the shortest time between two plans: what happens meanwhile is planned together.
	planRest = 5 * time.Second
	// planMost is the longest time between two plans: what runs changes without events.
	planMost = time.Minute
	// tick is how often items are looked for whose time has come.
	tick = time.Second
	// eventPage is how many events are read at a time, and maxEvents how many for one plan: if there are more, each item may differ.
	eventPage = 1000
	maxEvents = 20_000
	// retryFirst and retryMost are the first and the longest pause of a sink that cannot be reached.
	retryFirst = 5 * time.Second
	retryMost  = 10 * time.Minute
	// refusedFirst and refusedMost are those of an item that the sink refuses.
	refusedFirst = time.Minute
	refusedMost  = 6 * time.Hour
	// deliveryTimeout bounds one attempt.
	deliveryTimeout = 2 * time.Minute
	// encoders is how many reports are in memory at the same time.
	encoders = 2
)

// The errors of deliveries that are told apart.
var (
	// ErrRefused says that a sink does not accept a report, whenever it is sent, until something changes.
	ErrRefused = errors.New("the receiver refuses the report")
	// ErrUnavailable says that a sink accepts nothing now.
	ErrUnavailable = errors.New("the receiver is not available")
)

// Store is what the engine needs of the store.
type Store interface {
	store.ReportSinks
	Reader
	EventsSince(ctx context.Context, in store.Namespaces, since int64, limit int) ([]store.Event, error)
	EventLog(ctx context.Context) (store.EventLog, error)
	Changed() <-chan struct{}
}

// Observer counts attempts; the metrics implement it.
type Observer interface {
	// Delivered says what became of an attempt at a sink of a type: "delivered", "unchanged", "removed" or "failed".
	Delivered(sink, result string)
	// Pending says how many items of all sinks are due, how many of them failed, and of how many sinks the last plan failed.
	Pending(due, failed, unplanned int)
}

// The results of attempts.
const (
	Delivered = "delivered"
	Unchanged = "unchanged"
	Removed   = "removed"
	Failed    = "failed"
)

// EngineConfig says what an Engine works with.
type EngineConfig struct {
	Store Store
	Clock clock.PassiveClock
	// Cluster is the name of the cluster in templates, and Version that of the operator in reports.
	Cluster, Version string
	Observer         Observer
	Log              logr.Logger
	// Changed is called when a state of States may be another one; it must return at once.
	Changed func()
}

// Engine plans and delivers. One process at a time runs it. NewEngine makes one.
type Engine struct {
	EngineConfig
	wake, replan chan struct{}
	encoding     chan struct{}
	running      sync.WaitGroup
	// part is how much of a plan is written at a time.
	part int

	mu sync.Mutex
	// sinks are those in effect, by UID; nil before SetSinks.
	sinks map[string]*Sink
	lanes map[string]*lane
}

// lane is what is known of a sink. One item at a time is delivered.
type lane struct {
	// store is held while items are read or written, and what follows from that is remembered.
	store sync.Mutex

	// items are those of the store, by key, and targets what they are about. planned says that there was a plan since the process began.
	items   map[string]*store.ReportItem
	targets map[string]*target
	planned bool
	// stale says that the definition has changed since the last plan, and unplanned that the last attempt to plan failed.
	stale, unplanned bool
	omitted          int
	// deliveredAt is when the last item was delivered.
	deliveredAt time.Time

	busy     bool
	failures int
	retryAt  time.Time
	problem  string
}

// NewEngine returns an engine without sinks.
func NewEngine(config EngineConfig) *Engine {
	return &Engine{
		EngineConfig: config, wake: make(chan struct{}, 1), replan: make(chan struct{}, 1), encoding: make(chan struct{}, encoders), lanes: map[string]*lane{},
		part: store.MaxReportPart,
	}
}

// SetSinks makes these the sinks; the list is complete. A changed definition is another Sink. known are the UIDs of those that exist: one that is not in effect keeps its items.
func (e *Engine) SetSinks(ctx context.Context, sinks []*Sink, known []string) error {
	if err := e.Store.SyncReportSinks(ctx, known); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.sinks
	e.sinks = make(map[string]*Sink, len(sinks))
	for _, sink := range sinks {
		e.sinks[sink.UID] = sink
		if e.lanes[sink.UID] == nil {
			e.lanes[sink.UID] = &lane{}
		}
		if before[sink.UID] != sink {
			e.lanes[sink.UID].stale = true
		}
	}
	maps.DeleteFunc(e.lanes, func(uid string, _ *lane) bool { return !slices.Contains(known, uid) })
	e.observe()
	nudge(e.replan)
	return nil
}

func nudge(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// State is what is known of a sink.
type State struct {
	// Planned says that the other fields but Problem are known.
	Planned bool
	// Items counts what the sink has or is to be given, Pending what is due, and Failed those of them whose last attempt failed. Omitted counts what is
	// beyond the bound of items.
	Items, Pending, Failed, Omitted int
	// DeliveredAt is when the last item was delivered, zero if none was.
	DeliveredAt time.Time
	// Problem says that the last plan failed, or else why the sink cannot be reached, or why an item failed; "" for none of them.
	Problem string
}

// problemPlan is State.Problem if the last plan failed. Errors of the database are for administrators only.
const problemPlan = "what has changed cannot be read or written in the SQL database; it is tried again, and the log of the operator states the error"

// States returns those of all sinks, by UID.
func (e *Engine) States() map[string]State {
	e.mu.Lock()
	defer e.mu.Unlock()
	states := make(map[string]State, len(e.lanes))
	for uid, l := range e.lanes {
		states[uid] = l.state()
	}
	return states
}

func (l *lane) state() State {
	problem := l.problem
	if l.unplanned {
		problem = problemPlan
	}
	s := State{Planned: l.planned, Items: len(l.items), Omitted: l.omitted, DeliveredAt: l.deliveredAt, Problem: problem}
	first := ""
	for key, item := range l.items {
		if !item.Due {
			continue
		}
		s.Pending++
		if item.Problem == "" {
			continue
		}
		s.Failed++
		if problem == "" && (first == "" || key < first) {
			first, s.Problem = key, item.Problem
		}
	}
	return s
}

// Run plans and delivers until ctx ends. An item that is being delivered then is delivered again by the next Run.
func (e *Engine) Run(ctx context.Context) error {
	defer e.running.Wait()
	// What another process did meanwhile is read from the store.
	e.mu.Lock()
	for uid := range e.lanes {
		e.lanes[uid] = &lane{}
	}
	e.mu.Unlock()
	e.running.Go(func() { e.planAlways(ctx) })
	for ctx.Err() == nil {
		e.dispatch(ctx)
		select {
		case <-ctx.Done():
		case <-e.wake:
		case <-time.After(tick):
		}
	}
	return nil
}

// planAlways plans whenever the event log has grown, a sink changed, or some time has passed.
func (e *Engine) planAlways(ctx context.Context) {
	for ctx.Err() == nil {
		changed := e.Store.Changed()
		if err := e.plan(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(err, "Failed to plan the reports of sinks; trying again")
		}
		begun := time.Now()
		select {
		case <-ctx.Done():
		case <-e.replan:
			continue
		case <-changed:
		case <-time.After(planMost):
		}
		select {
		case <-ctx.Done():
		case <-e.replan:
		case <-time.After(planRest - time.Since(begun)):
		}
	}
}

// plan brings the items of all sinks up to date. One whose plan fails does not hold up others.
func (e *Engine) plan(ctx context.Context) error {
	e.mu.Lock()
	sinks := maps.Clone(e.sinks)
	e.mu.Unlock()
	if len(sinks) == 0 {
		return nil
	}
	p, err := e.present(ctx)
	if err != nil {
		for uid := range sinks {
			e.notPlanned(ctx, uid)
		}
		return err
	}
	var problems []error
	for _, cursor := range p.cursors {
		sink := sinks[cursor.Sink]
		if sink == nil {
			continue
		}
		if err := e.planSink(ctx, sink, cursor, p); err != nil {
			problems = append(problems, fmt.Errorf("sink %s: %w", sink.Name, err))
			e.notPlanned(ctx, sink.UID)
		}
	}
	nudge(e.wake)
	return errors.Join(problems...)
}

// present is what sinks are planned with.
type present struct {
	cursors []store.ReportCursor
	log     store.EventLog
	running []store.RunningReport
	// changes are those since a position in the log.
	changes map[int64]*changes
}

// present reads what sinks are planned with.
func (e *Engine) present(ctx context.Context) (p *present, err error) {
	p = &present{changes: map[int64]*changes{}}
	if p.cursors, err = e.Store.ReportCursors(ctx); err != nil {
		return nil, err
	}
	// The log first: what is read afterwards contains all changes up to its end.
	if p.log, err = e.Store.EventLog(ctx); err != nil {
		return nil, err
	}
	p.running, err = e.Store.RunningReports(ctx)
	return p, err
}

// notPlanned notes that the plan of a sink failed.
func (e *Engine) notPlanned(ctx context.Context, uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[uid]
	if l == nil || l.unplanned || ctx.Err() != nil {
		return
	}
	l.unplanned = true
	e.observe()
	e.Changed()
}

// changesSince reads the events after a position up to the end of the log.
func (e *Engine) changesSince(ctx context.Context, from int64, log store.EventLog) (*changes, error) {
	c := &changes{images: map[string]bool{}, decided: map[string]bool{}}
	if from > log.Last || from < log.Floor {
		// The database lost events, or they were removed before they were read.
		c.all = true
		return c, nil
	}
	for read := 0; from < log.Last; {
		if read >= maxEvents {
			c.all = true
			return c, nil
		}
		events, err := e.Store.EventsSince(ctx, store.AllNamespaces(), from, eventPage)
		if err != nil || len(events) == 0 {
			return c, err
		}
		for i := range events {
			c.add(&events[i])
		}
		read += len(events)
		from = events[len(events)-1].Sequence
	}
	return c, nil
}

// planSink brings the items of a sink up to date, and moves it to the end of the log.
func (e *Engine) planSink(ctx context.Context, sink *Sink, cursor store.ReportCursor, p *present) error {
	now := e.Clock.Now()
	e.mu.Lock()
	l := e.lanes[sink.UID]
	e.mu.Unlock()
	if l == nil {
		return nil
	}
	c := p.changes[cursor.Sequence]
	if c == nil {
		var err error
		if c, err = e.changesSince(ctx, cursor.Sequence, p.log); err != nil {
			return err
		}
		p.changes[cursor.Sequence] = c
	}
	l.store.Lock()
	defer l.store.Unlock()
	stored, err := e.Store.ReportItems(ctx, sink.UID)
	if err != nil {
		return err
	}
	items := make(map[string]*store.ReportItem, len(stored))
	for i := range stored {
		items[stored[i].Key] = &stored[i]
	}
	resync := !cursor.SyncedAt.IsZero() && now.Sub(cursor.SyncedAt) >= sink.Resync
	next := store.ReportCursor{Sink: cursor.Sink, Sequence: p.log.Last, SyncedAt: cursor.SyncedAt}
	if resync || cursor.SyncedAt.IsZero() {
		next.SyncedAt = now
	}
	targets := sink.targets(p.running, e.Cluster)
	d, err := sink.compare(targets, items, c, resync, now)
	if err != nil {
		return err
	}
	if next.Sequence != cursor.Sequence || !next.SyncedAt.Equal(cursor.SyncedAt) || len(d.items)+len(d.deleted) > 0 {
		done, err := e.write(ctx, cursor, next, d)
		if err != nil {
			return err
		}
		if !done {
			// Another process leads, or the sink is gone.
			return nil
		}
	}
	for _, key := range d.deleted {
		delete(items, key)
	}
	for i := range d.items {
		items[d.items[i].Key] = &d.items[i]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := l.state()
	l.items, l.targets, l.planned, l.unplanned, l.omitted = items, targets, true, false, d.omitted
	l.stale = e.sinks[sink.UID] != sink
	if cursor.DeliveredAt.After(l.deliveredAt) {
		l.deliveredAt = cursor.DeliveredAt
	}
	if l.state() != before {
		e.Changed()
	}
	e.observe()
	return nil
}

// write writes a plan in parts, and moves the position with the last one: if the process ends before, the next plan writes what is missing.
func (e *Engine) write(ctx context.Context, from, to store.ReportCursor, d difference) (bool, error) {
	for {
		items := min(len(d.items), e.part)
		deleted := min(len(d.deleted), e.part-items)
		next, last := from, items == len(d.items) && deleted == len(d.deleted)
		if last {
			next = to
		}
		done, err := e.Store.PlanReports(ctx, from, next, d.items[:items], d.deleted[:deleted])
		if err != nil || !done || last {
			return done, err
		}
		d.items, d.deleted = d.items[items:], d.deleted[deleted:]
	}
}

// observe counts what is due, and the sinks in effect that are not planned.
func (e *Engine) observe() {
	due, failed, unplanned := 0, 0, 0
	for uid, l := range e.lanes {
		s := l.state()
		due, failed = due+s.Pending, failed+s.Failed
		if l.unplanned && e.sinks[uid] != nil {
			unplanned++
		}
	}
	e.Observer.Pending(due, failed, unplanned)
}
