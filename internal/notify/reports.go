package notify

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The period of a report, which ends when it is sent.
const (
	minReportPeriod = time.Hour
	maxReportPeriod = 400 * 24 * time.Hour
)

// reportGroup is the ID of the group of reports. No other group has it.
const reportGroup = "\x00report"

// Scope is what a report is about: the cluster, or a part of it.
type Scope struct {
	// Namespace is the namespace, Owner the owner of the workloads; "" for all.
	Namespace string `json:"namespace,omitempty"`
	Owner     string `json:"owner,omitempty"`
}

// String names the scope, such as "owner payments in namespace shop".
func (s Scope) String() string {
	var parts []string
	if s.Owner != "" {
		parts = append(parts, "owner "+clean(s.Owner))
	}
	if s.Namespace != "" {
		parts = append(parts, "namespace "+clean(s.Namespace))
	}
	if len(parts) == 0 {
		return "the cluster"
	}
	return strings.Join(parts, " in ")
}

// Report is a report that a mail has attached.
type Report struct {
	Scope
	// Since is the beginning of its period.
	Since time.Time `json:"since"`
}

// Attachment is a page of HTML with its file name, which has ASCII letters, digits, dots and hyphens only.
type Attachment struct {
	Name string
	Page []byte
}

// reportScope is what the reports of a rule are about, nil if it has none.
func (d *Definition) reportScope() (*Scope, error) {
	switch {
	case d.Report == nil:
		return nil, nil //nolint:nilnil // There is none.
	case d.Schedule == "":
		return nil, errors.New("a report needs a schedule")
	case d.Namespace != "" && d.Report.Namespace != "":
		return nil, errors.New("only rules of the cluster can have a report about another namespace")
	case !slices.ContainsFunc(d.Sinks, isMail):
		return nil, errors.New("a report needs a sink of type email")
	}
	scope := *d.Report
	if d.Namespace != "" {
		scope.Namespace = d.Namespace
	}
	return &scope, nil
}

func isMail(s Sink) bool { return s.Type == Email }

// planned is the next report of a rule.
type planned struct {
	schedule, zone string
	at             time.Time
}

// planReports queues the next report of each rule that has none in its queue. It is called by one goroutine at a time.
func (e *Engine) planReports(ctx context.Context) error {
	e.mu.Lock()
	rules := map[string]*Rule{}
	for uid, rule := range e.rules {
		if rule.Report != nil {
			rules[uid] = rule
		}
	}
	e.mu.Unlock()
	maps.DeleteFunc(e.reports, func(uid string, p planned) bool {
		rule := rules[uid]
		return rule == nil || rule.Schedule != p.schedule || rule.TimeZone != p.zone
	})
	now := e.Clock.Now()
	maps.DeleteFunc(rules, func(uid string, _ *Rule) bool { return e.reports[uid].at.After(now) })
	if len(rules) == 0 {
		return nil
	}
	cursors, err := e.Store.NotificationCursors(ctx)
	if err != nil {
		return err
	}
	for _, cursor := range cursors {
		rule := rules[cursor.Rule]
		if rule == nil {
			continue
		}
		at, err := e.planReport(ctx, cursor, rule, now)
		if err != nil {
			return err
		}
		e.reports[rule.UID] = planned{rule.Schedule, rule.TimeZone, at}
	}
	return nil
}

// planReport queues a report at the next time of the schedule, for each mail sink that has none waiting. It returns when the next one is due.
func (e *Engine) planReport(ctx context.Context, cursor store.NotificationCursor, rule *Rule, now time.Time) (time.Time, error) {
	open, _, err := e.collecting(ctx, rule, now)
	if err != nil {
		return time.Time{}, err
	}
	at, group := rule.readyAt(now), digest(reportGroup)
	message := &Message{Rule: rule.String(), Report: &Report{*rule.Report, rule.digests.before(at)}, From: now, To: now, Counts: map[Kind]int{}}
	if e.Link != nil {
		message.Link = e.Link(message)
	}
	content, err := message.encode()
	if err != nil {
		return time.Time{}, err
	}
	var missing []store.NotificationMessage
	next := at
	for i := range rule.Sinks {
		if !isMail(rule.Sinks[i]) {
			continue
		}
		sink := rule.Sinks[i].Name
		if waiting := open[group][sink]; waiting != nil {
			// That of a schedule that has changed since.
			if waiting.ReadyAt.Before(next) {
				next = waiting.ReadyAt
			}
			continue
		}
		missing = append(missing, store.NotificationMessage{
			Rule: rule.UID, Sink: sink, Group: group, Key: digest(rule.UID, "report", strconv.FormatInt(at.Unix(), 10)), ReadyAt: at, Content: content,
		})
	}
	if len(missing) == 0 {
		return next, nil
	}
	queued, err := e.Store.QueueNotifications(ctx, cursor, cursor, missing)
	if err == nil && !queued {
		// The position was moved meanwhile.
		return time.Time{}, nil
	}
	return next, err
}

// before is the time of the schedule before another one: at least minReportPeriod and at most maxReportPeriod earlier.
func (s *schedule) before(at time.Time) time.Time {
	follows := func(from time.Time) bool {
		next := s.after(from)
		return !next.IsZero() && next.Before(at)
	}
	from, until := at.Add(-maxReportPeriod), at
	if !follows(from) {
		return from
	}
	// There is a time of the schedule after from, and none from until on.
	for until.Sub(from) > time.Minute {
		if middle := from.Add(until.Sub(from) / 2); follows(middle) {
			from = middle
		} else {
			until = middle
		}
	}
	previous, latest := s.after(from), at.Add(-minReportPeriod)
	if previous.After(latest) {
		return latest
	}
	return previous
}
