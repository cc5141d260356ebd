package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// History is the part of the store about time: what ran where and when, what was found since when, and sums per day.
type History interface {
	// RecordDay keeps the sums of today, for the cluster as a whole and for each namespace, in place of earlier ones of the
	// same day. When nothing differs it only reads.
	RecordDay(ctx context.Context) error
}

// Presence is one uninterrupted time in which a container of a workload ran an image. What stops for less than PresenceGap is not
// interrupted, unless another image begins there meanwhile.
type Presence struct {
	Image     model.ImageKey
	Cluster   string
	Workload  Workload
	Container string
	Since     time.Time
	// Until is when it was seen to be gone, zero while it runs.
	Until time.Time
}

// PresenceGap is how long a container may be gone without its Presence ending.
const PresenceGap = 10 * time.Minute

// PresenceQuery asks for a page of presences. With a zero Platform those of all platforms are meant.
type PresenceQuery struct {
	Image model.ImageKey
	Page
}

// PresencePage is a page of presences.
type PresencePage struct {
	Presences []Presence
	NextToken string
	Total     int
}

// MaxTrendDays bounds the days of a TrendQuery.
const MaxTrendDays = 400

// TrendQuery asks for the days From to To, both included, of UTC; only their dates are read. More than MaxTrendDays are an error; there
// are none when From is after To.
type TrendQuery struct {
	From, To time.Time
	// Namespace limits the sums, the changes and the rollouts to one namespace, "" means the whole cluster.
	Namespace string
}

// TrendDay sums up one day as it was when it was last looked at.
type TrendDay struct {
	// Day is its beginning, in UTC.
	Day time.Time
	// Images is the number of distinct images that ran, Scanned how many of them had been matched. Counts are over those, each
	// image once.
	Images, Scanned int
	Counts          Counts
	// Opened and Closed count the findings of distinct packages that database updates opened and closed on that day, in packages of images that were in the
	// visible namespaces then, or in that of the query; as far as changes are kept.
	Opened, Closed model.SeverityCounts
	// Databases is how many database updates came into use on that day, Rollouts how many rollouts began in the visible namespaces, or in that
	// of the query; as far as they are kept.
	Databases, Rollouts int
}

// Coverage is the part of the store that shows, on every replica, what the Scanner controller finds out about containers.
type Coverage interface {
	// RecordCoverage replaces what is known of the containers in a scope, such as that of one Scanner, and the owners of their workloads.
	// When nothing differs it only reads. No containers at all forget the scope. More than MaxUses are an error. Containers that become Failed or Skipped, and
	// were there in other states only, are in an EventCoverageLost of their namespace.
	RecordCoverage(ctx context.Context, scope string, containers []ContainerCoverage) error
}

// ContainerCoverage says of a container of a workload how far the scan of its image is. Pods of a workload whose container is in
// the same state with the same image count together.
type ContainerCoverage struct {
	Workload  Workload
	Container string
	// Image is what runs; its ImageID is "" while that is not known.
	Image model.ImageKey
	// Reference is what the pod asks for.
	Reference string
	Pods      int
	// State and Reason are those of package coverage.
	State, Reason, Message string
	// NextAttempt is when the next attempt to scan is due, zero where none is. The earliest counts where containers count together.
	NextAttempt time.Time
	// Source is how the image was read for its SBOM, "" if that is not known; not read by RecordCoverage.
	Source model.ImageSource
	// Since is when the container was first seen in this state, without a break since; not read by RecordCoverage.
	Since time.Time
}

// CoverageQuery asks for a page of containers. Zero fields do not filter.
type CoverageQuery struct {
	Namespace string
	Workload  string
	Ownership
	States []string
	Reason string
	// Text must be contained in the reference, the image ID, the name of the workload or of the container, without regard to
	// ASCII case.
	Text string
	Page
}

// CoveragePage is a page of containers. Counts is by state over all containers that the query without its States and Reason
// matches, weighted by pods.
type CoveragePage struct {
	Containers []ContainerCoverage
	NextToken  string
	Total      int
	Counts     map[string]int
}
