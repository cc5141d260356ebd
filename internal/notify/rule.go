package notify

import (
	"cmp"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of rules.
const (
	// MaxRules is the maximum number of rules in effect, MaxRulesPerNamespace of those of one namespace, and MaxClusterRules of those of the cluster.
	MaxRules             = 1000
	MaxRulesPerNamespace = 10
	MaxClusterRules      = 50
	// DefaultWindow is how long changes of a group are collected by default.
	DefaultWindow = 10 * time.Second
	// DefaultMessagesPerHour is how many messages a rule begins in an hour at most by default.
	DefaultMessagesPerHour = 20
)

// Kind is a kind of changes.
type Kind string

// The kinds.
const (
	// FindingOpened, FindingClosed and FindingChanged: a database build opened or closed a finding, or changed its severity or fix.
	FindingOpened  Kind = "FindingOpened"
	FindingClosed  Kind = "FindingClosed"
	FindingChanged Kind = "FindingChanged"
	// KEVAdded: the vulnerability of an open finding was added to the catalog of known exploited vulnerabilities.
	KEVAdded Kind = "KEVAdded"
	// EPSSCrossed: the probability of exploitation of an open finding rose to store.EPSSThreshold or more.
	EPSSCrossed Kind = "EPSSCrossed"
	// RolloutEvaluated: the findings of the images before and after a rollout were compared.
	RolloutEvaluated Kind = "RolloutEvaluated"
	// ImageIntroduced: an image with findings began to run in a namespace, other than by a rollout.
	ImageIntroduced Kind = "ImageIntroduced"
	// FindingOverdue: the due dates of findings of an image passed.
	FindingOverdue Kind = "FindingOverdue"
	// CoverageLost: a container that was scanned, or was to be scanned, is not any more.
	CoverageLost Kind = "CoverageLost"
	// ExceptionExpiring: an exception expires soon. ExceptionExpired: it expired. ExceptionRemoved: it was deleted, or cannot be applied any more.
	ExceptionExpiring Kind = "ExceptionExpiring"
	ExceptionExpired  Kind = "ExceptionExpired"
	ExceptionRemoved  Kind = "ExceptionRemoved"
	// DatabaseUpdated: another database build is in use. DatabaseStale: none came into use in time.
	DatabaseUpdated Kind = "DatabaseUpdated"
	DatabaseStale   Kind = "DatabaseStale"
	// ScanFailed: an attempt to scan an image failed, or a package cannot be matched.
	ScanFailed Kind = "ScanFailed"
)

// Kinds lists the kinds in the order in which messages have them.
func Kinds() []Kind {
	return []Kind{
		KEVAdded, FindingOpened, EPSSCrossed, FindingOverdue, FindingChanged, FindingClosed, RolloutEvaluated, ImageIntroduced, CoverageLost,
		ExceptionExpiring, ExceptionExpired, ExceptionRemoved, ScanFailed, DatabaseStale, DatabaseUpdated,
	}
}

// GroupBy says what the changes of a message have in common.
type GroupBy string

// The values.
const (
	ByNamespace GroupBy = "Namespace"
	ByOwner     GroupBy = "Owner"
	ByWorkload  GroupBy = "Workload"
	ByRule      GroupBy = "Rule"
)

// Type is a type of sinks.
type Type string

// The types.
const (
	Webhook      Type = "webhook"
	Alertmanager Type = "alertmanager"
	Slack        Type = "slack"
	Teams        Type = "teams"
	Email        Type = "email"
)

// Types returns all types.
func Types() []Type { return []Type{Webhook, Alertmanager, Slack, Teams, Email} }

// Sink is a receiver of messages.
type Sink struct {
	Name string
	Type Type
	// URL is where it is, "" if Credential has it. Credential names the entry with its secrets, "" for none.
	URL, Credential string
	// To are the recipients of mail.
	To []string
}

// Definition is what an object says of a rule.
type Definition struct {
	// UID, Namespace and Name are those of the object; Namespace is "" for rules of the cluster.
	UID, Namespace, Name string
	When                 string
	// MinSeverity is the name of a severity, "" for all.
	MinSeverity     string
	By              GroupBy
	Window          time.Duration
	MessagesPerHour int
	// Schedule is a cron expression, "" to send each message after Window; TimeZone is an IANA name, "" for UTC.
	Schedule, TimeZone string
	// Report is what the reports at the times of the schedule are about, nil for no reports. For a rule of a namespace, it is about this namespace.
	Report *Scope
	Sinks  []Sink
}

// Rule is a definition that can be applied. NewRule makes one.
type Rule struct {
	Definition
	selector    *policy.ChangeSelector
	minSeverity model.Severity
	// digests tells when digests are sent, nil without a schedule.
	digests *schedule
}

// NewRule reads a definition. config says which credentials it may use. Errors say what is wrong with it.
func NewRule(d Definition, config *Config) (*Rule, error) {
	r := &Rule{Definition: d}
	r.By, r.MessagesPerHour = cmp.Or(d.By, ByNamespace), cmp.Or(d.MessagesPerHour, DefaultMessagesPerHour)
	if r.Window < 0 || r.Window > 24*time.Hour {
		return nil, fmt.Errorf("group.window: %s is not from 0s to 24h", r.Window)
	}
	var err error
	if d.MinSeverity != "" {
		if r.minSeverity, err = model.ParseSeverity(d.MinSeverity); err != nil {
			return nil, fmt.Errorf("minSeverity: %w", err)
		}
	}
	if r.selector, err = policy.CompileChange(d.When); err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	if r.digests, err = newSchedule(d.Schedule, d.TimeZone); err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	if r.Report, err = d.reportScope(); err != nil {
		return nil, fmt.Errorf("digest.report: %w", err)
	}
	for i := range d.Sinks {
		if err := checkSink(&d.Sinks[i], d.Namespace, config); err != nil {
			return nil, fmt.Errorf("sinks: %s: %w", d.Sinks[i].Name, err)
		}
	}
	return r, nil
}

func checkSink(s *Sink, namespace string, config *Config) error {
	if s.Credential != "" {
		if err := config.permits(s.Credential, namespace); err != nil {
			return err
		}
	} else {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
			return fmt.Errorf("the URL is not http:// or https://HOST/PATH without a user name and a password")
		}
	}
	for _, to := range s.To {
		if _, err := mail.ParseAddress(to); err != nil || strings.ContainsAny(to, "\r\n<>") {
			return fmt.Errorf("%q is not an email address", to)
		}
	}
	return nil
}

// String names the rule: NAMESPACE/NAME, or NAME for a rule of the cluster.
func (r *Rule) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// sees reports whether a rule may know of something in a namespace; "" stands for the cluster.
func (r *Rule) sees(namespace string) bool { return r.Namespace == "" || r.Namespace == namespace }

// selects reports whether a rule selects a change, wherever it is. It sets the severity of the change, nil if it has none.
func (r *Rule) selects(change *policy.Change, severity *model.Severity, finding *policy.ChangedFinding) (bool, error) {
	if severity != nil {
		if *severity < r.minSeverity {
			return false, nil
		}
		change.Severity = severity.String()
	}
	return r.selector.Change(change, finding)
}

// keeps reports whether a rule still selects a change about several findings after some of them were left out. If the expression cannot be evaluated, it does.
func (r *Rule) keeps(kind Kind, left model.SeverityCounts, kev bool) bool {
	selected, err := r.selects(&policy.Change{Kind: string(kind), KEV: kev}, new(worstOf(left)), &policy.ChangedFinding{})
	return selected || err != nil
}

// group returns what tells the group of a workload apart, and how it is called.
func (r *Rule) group(w *store.Workload) (id, label string) {
	switch r.By {
	case ByOwner:
		return w.Owner, cmp.Or(w.Owner, "workloads without an owner")
	case ByWorkload:
		id = w.Namespace + "/" + w.Kind + "/" + w.Name
		return id, w.Namespace + "/" + w.Name
	case ByRule:
		return "", ""
	case ByNamespace:
		return w.Namespace, w.Namespace
	default:
		return w.Namespace, w.Namespace
	}
}

// sinkNames are the names of the sinks, sorted.
func (r *Rule) sinkNames() []string {
	names := make([]string, len(r.Sinks))
	for i := range r.Sinks {
		names[i] = r.Sinks[i].Name
	}
	slices.Sort(names)
	return names
}
