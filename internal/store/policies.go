package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Bounds of policies.
const (
	// MaxPolicies is the most policies that apply at a time.
	MaxPolicies = 100
	// MaxPolicyRows is the most deadlines of distinct findings, and the most places, that all policies have together.
	MaxPolicyRows = 1_000_000
	// MaxOverdueEvents is the most events that one call of RecordOverdue writes about single images, and the most images that an event about a namespace
	// names.
	MaxOverdueEvents = 100
	// MaxFindingKeys is the most findings of which an event has the keys.
	MaxFindingKeys = 2000
)

// EventFindingOverdue says that findings of an image became overdue. Its data is an OverdueEvent.
const EventFindingOverdue EventKind = "finding.overdue"

// EventNamespaceOverdue says that findings of images in a namespace became overdue for who sees this namespace alone. Its data is a NamespaceOverdueEvent.
const EventNamespaceOverdue EventKind = "namespace.overdue"

// Policies is the part of the store about until when findings are due. An open finding in an image that something runs is due on the earliest date of
// the policies that select it there. It is overdue from that moment on.
type Policies interface {
	// SyncPolicies makes these the policies that apply; the list is complete. One that applies unchanged is left alone. If there are more than the
	// bounds allow, the first ones apply. It returns why policies do not apply, or not everywhere, by name. When nothing differs it only reads.
	SyncPolicies(ctx context.Context, policies []Policy) (map[string]PolicyProblem, error)
	// RecordOverdue writes events about the findings that are overdue and open, and returns when the next date passes, zero when there is none. Each
	// finding is told once in each image, also one whose date passed before the image was cataloged, while a decision suppressed the finding, or while
	// nothing ran the image. It is told again when a policy has moved its date and the new one passes. What was overdue when its policy began to apply
	// is not told. The same is told to each namespace in an event of its own, about the dates that follow from this namespace alone.
	RecordOverdue(ctx context.Context) (time.Time, error)
}

// Policy says until when findings are due.
type Policy struct {
	// Name is that of the object.
	Name string
	// Select is the expression that selects findings, as of policy.Compile; "" selects all.
	Select string
	// Places are those that its selectors select, nil for everywhere. With another Selector it is another policy. With the same Selector, other Namespaces and
	// Workloads only change where the policy applies. Of a PolicySummary, it has the Selector alone.
	Places *DecisionPlaces
	From   model.DueFrom
	DueIn  model.DueIn
}

// PolicyReason says why a policy does not apply.
type PolicyReason string

// The reasons.
const (
	// PolicyInvalid: it cannot be read.
	PolicyInvalid PolicyReason = "Invalid"
	// PolicyTooBroad: its deadlines or places are more than the bounds allow, or its selectors select more places than a Decision can have.
	PolicyTooBroad PolicyReason = "TooBroad"
	// PolicyTooMany: there are more policies than MaxPolicies.
	PolicyTooMany PolicyReason = "TooMany"
	// PolicyEvaluationFailed: it applies, but its expression cannot be evaluated for some findings or places. It does not select these.
	PolicyEvaluationFailed PolicyReason = "EvaluationFailed"
)

// PolicyProblem says why a policy does not apply, or not everywhere.
type PolicyProblem struct {
	Reason PolicyReason
	// Message says what is wrong, and where in the expression.
	Message string
}

// PolicySummary is a policy that applies, and what is due because of it. A finding counts once in each image that something runs, for the policy whose
// date comes first; of several, the first by name.
type PolicySummary struct {
	Policy
	// Due counts the open findings with a date, Overdue those whose date has passed.
	Due, Overdue model.SeverityCounts
	// Next is the next date, zero when no date lies ahead.
	Next time.Time
}

// OverdueEvent is the data of EventFindingOverdue.
type OverdueEvent struct {
	// Findings counts those of the image that are overdue and that no event told of. An event with Omitted has none.
	Findings model.SeverityCounts `json:"findings"`
	// DueAt is the earliest of their dates, and Policies are the policies that set the dates, by name.
	DueAt    *time.Time `json:"dueAt,omitempty"`
	Policies []string   `json:"policies,omitempty"`
	// Owners are those of the workloads that run the image, by name, at most MaxImageOwners.
	Owners []string `json:"owners,omitempty"`
	// Keys are those of the findings, none if these are more than MaxFindingKeys.
	Keys FindingKeys `json:"keys,omitempty"`
	// Omitted is the number of images with such findings that have no event of their own.
	Omitted int `json:"omitted,omitempty"`
}

// NamespaceOverdueEvent is the data of EventNamespaceOverdue.
type NamespaceOverdueEvent struct {
	Namespace string `json:"namespace"`
	// Images are those with the worst findings, at most MaxOverdueEvents; Omitted is the number of the others.
	Images  []OverdueImage `json:"images"`
	Omitted int            `json:"omitted,omitempty"`
	// Policies are those that set the dates of the images, by name.
	Policies []string `json:"policies"`
}

// OverdueImage is an image with overdue findings.
type OverdueImage struct {
	ImageID  string `json:"imageId"`
	Platform string `json:"platform"`
	// Findings counts those that are overdue and that no event told of, and DueAt is the earliest of their dates.
	Findings model.SeverityCounts `json:"counts"`
	DueAt    time.Time            `json:"dueAt"`
	// Owners are those of the workloads of the namespace that run the image, by name, at most MaxImageOwners.
	Owners []string `json:"owners,omitempty"`
	// Keys are those of the findings, none if all of the event together are more than MaxFindingKeys.
	Keys FindingKeys `json:"keys,omitempty"`
}
