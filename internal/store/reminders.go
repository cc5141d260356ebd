package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Bounds of reminders.
const (
	// ExpiringWithin is how long before its end an event says that a decision expires. Of one that lasts less than twice as long, it says so in the
	// middle of its time.
	ExpiringWithin = 7 * 24 * time.Hour
	// MaxLostContainers is the most containers that one EventCoverageLost names.
	MaxLostContainers = 100
)

// Events that remind of what will happen, or has not happened.
const (
	// EventDecisionExpiring says that a decision expires soon. Its data is a DecisionEvent.
	EventDecisionExpiring EventKind = "decision.expiring"
	// EventDatabaseStale says that no newer database build came into use in time. Its data is a StaleDatabaseEvent.
	EventDatabaseStale EventKind = "database.stale"
	// EventCoverageLost says that containers in a namespace are not scanned any more. Its data is a CoverageLostEvent.
	EventCoverageLost EventKind = "coverage.lost"
)

// Reminders is the part of the store that writes events about what will happen, or has not happened.
type Reminders interface {
	// RecordExpiring writes events about the decisions that expire soon, once for each, at most MaxDecisionEvents and those that count the others.
	// When there is nothing to write it only reads.
	RecordExpiring(ctx context.Context) error
	// RecordStaleDatabase writes an event if the current result set is of a database build that was made longer than maxAge ago, once for each build.
	// When there is nothing to write it only reads.
	RecordStaleDatabase(ctx context.Context, maxAge time.Duration) error
}

// StaleDatabaseEvent is the data of EventDatabaseStale.
type StaleDatabaseEvent struct {
	model.DatabaseBuild
	// MaxAge is the age from which a build is too old, in seconds.
	MaxAge int64 `json:"maxAge"`
}

// CoverageLostEvent is the data of EventCoverageLost.
type CoverageLostEvent struct {
	Namespace string `json:"namespace"`
	// Containers are the first ones by workload, at most MaxLostContainers; Omitted is the number of the others.
	Containers []LostContainer `json:"containers"`
	Omitted    int             `json:"omitted,omitempty"`
}

// LostContainer is a container that was scanned, or was to be scanned, and is not any more.
type LostContainer struct {
	Workload  Workload `json:"workload"`
	Container string   `json:"container"`
	// Reference is what the pod asks for.
	Reference string `json:"reference"`
	ImageID   string `json:"imageId,omitempty"`
	// State and Reason are those of package coverage.
	State  string `json:"state"`
	Reason string `json:"reason"`
}
