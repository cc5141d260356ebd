package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// DecisionState says whether a decision applies.
type DecisionState string

// The states.
const (
	// DecisionStanding: it applies, maybe as a dry run.
	DecisionStanding DecisionState = "standing"
	// DecisionEnded: it applied until its end, or its time was over from the beginning.
	DecisionEnded DecisionState = "ended"
)

// DecisionEnd says how a decision ended.
type DecisionEnd string

// How decisions end.
const (
	// DecisionEndChanged: its object says something else. The next decision of the object began, unless that cannot be applied.
	DecisionEndChanged DecisionEnd = "Changed"
	// DecisionEndDeleted: its object is gone.
	DecisionEndDeleted DecisionEnd = "Deleted"
	// DecisionEndExpired: its time is over.
	DecisionEndExpired DecisionEnd = "Expired"
)

// DecisionSort orders decisions.
type DecisionSort string

// The orders.
const (
	// SortDecisionSince is the latest first.
	SortDecisionSince DecisionSort = "-since"
	// SortDecisionExpiry is the earliest end first. Decisions without an end come last.
	SortDecisionExpiry DecisionSort = "expiresAt"
	// SortDecisionName is by namespace, kind and name of the object, and of one object the latest first.
	SortDecisionName DecisionSort = "name"
)

// DecisionQuery asks for a page of decisions. Zero fields do not filter.
type DecisionQuery struct {
	State    DecisionState
	Statuses []model.DecisionStatus
	Source   string
	// Object keeps decisions of objects whose kind, namespace and name are those that are not "".
	Object DecisionObject
	// Vulnerability keeps decisions that name it so, without regard to ASCII case.
	Vulnerability string
	// Author keeps decisions of this author. It keeps none when not all namespaces are visible.
	Author string
	// ExpiringWithin keeps decisions whose end is at most so many days ahead, or over; nil does not filter. It is at most MaxDays.
	ExpiringWithin *int
	// Since and Until keep decisions that began at or after the one, and before the other.
	Since, Until time.Time
	Sort         DecisionSort
	Page
}

// DecisionContent is what a decision says and when it applied. Its rows never change, but for their end.
type DecisionContent struct {
	ID     int64
	Status model.DecisionStatus
	// Suppresses is false for a dry run, and for a status that suppresses nothing.
	Suppresses bool
	// Vulnerabilities, Packages, Unfixed, Justification, Comment and ExpiresAt are those of Decision. Author is too, and "" when not all namespaces are visible
	// and the object is in none.
	Vulnerabilities, Packages []string
	// Images are those of Decision, visible where Author is.
	Images []string
	// Places says in which namespaces and workloads it applies, as DecisionPlaces.Selector does; "" for everywhere. It is only visible where Author is.
	Places                         string
	Unfixed                        bool
	Justification, Comment, Author string
	// StatedAuthor is that of Decision, "" where Author is not visible.
	StatedAuthor string
	ExpiresAt    time.Time
	// Since is when it began to apply, Until when it ended, zero while it applies; EndedBy says how.
	Since, Until time.Time
	EndedBy      DecisionEnd
	// DeletedBy is the user for whom the operator deleted the object; "" if it was deleted in another way, and where Author is not visible.
	DeletedBy string
}

// State is whether the decision applies.
func (d *DecisionContent) State() DecisionState {
	if d.Until.IsZero() {
		return DecisionStanding
	}
	return DecisionEnded
}

// DecisionRecord is a decision as the history has it.
type DecisionRecord struct {
	DecisionContent
	Source string
	Object DecisionObject
	// Matched and Suppressed count findings of visible images, as those of DecisionCount; zero when the decision has ended.
	Matched, Suppressed int
	// Previous is the decision of the same object before this one, nil when there is none.
	Previous *DecisionContent
}

// DecisionPage is a page of decisions.
type DecisionPage struct {
	Decisions []DecisionRecord
	NextToken string
	Total     int
}

// DecisionCounter is the part of the store that sums up decisions.
type DecisionCounter interface {
	// DecisionSums sums up the decisions that apply. Those that end within so long are counted as expiring.
	DecisionSums(ctx context.Context, within time.Duration) (DecisionSums, error)
}

// DecisionGroup are the decisions of a source with a status.
type DecisionGroup struct {
	Source string
	Status model.DecisionStatus
}

// DecisionSums sums up the decisions that apply.
type DecisionSums struct {
	Standing map[DecisionGroup]int
	// Expiring counts those that end soon.
	Expiring int
	// Suppressed counts the findings that they suppress, each once in each image.
	Suppressed int
}
