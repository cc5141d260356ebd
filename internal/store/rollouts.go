package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Rollouts is the part of the store about changes of image in workloads, and what they did to what is vulnerable.
type Rollouts interface {
	// EvaluateRollouts compares the findings of both images of those rollouts that wait and whose images are both matched, the latest
	// first. Rollouts from before timeOutBefore whose images are not matched time out. It returns how many it took off the queue, at most
	// limit, which is at most MaxEvaluated. A rollout is evaluated once, also when several processes evaluate.
	EvaluateRollouts(ctx context.Context, timeOutBefore time.Time, limit int) (int, error)
	// UnreportedRollouts returns evaluated rollouts with an ID greater than after that were not reported at their workloads, by ID, at
	// most limit, which is at most MaxEvaluated.
	UnreportedRollouts(ctx context.Context, after int64, limit int) ([]RolloutDetail, error)
	// MarkRolloutReported records that a rollout was reported at its workload.
	MarkRolloutReported(ctx context.Context, id int64) error
}

// Bounds of what is said of rollouts.
const (
	// MaxEvaluated is the maximum number of rollouts that one call evaluates.
	MaxEvaluated = 100
	// MaxRolloutFindings is the most findings that are kept of each side, the worst ones.
	MaxRolloutFindings = 100
	// maxEventFindings is the most findings of each side that the event log names.
	maxEventFindings = 10
)

// Rollout is a change of the image of a container of a workload: another image began to run in it, or the image that the latest rollout
// brought is gone from it while another one runs, as when a rolling update is undone.
type Rollout struct {
	ID         int64
	At         time.Time
	Cluster    string
	Workload   Workload
	Container  string
	From, To   RolloutSide
	Evaluation RolloutEvaluation
}

// RolloutSide is one of the images of a rollout.
type RolloutSide struct {
	Image model.ImageKey
	// State and Counts are those of today, "" and nil when the image is not known any more; Counts is nil when it was not matched.
	State  State
	Counts *Counts
	// Reason and Message say why the image failed, if it did.
	Reason  model.Reason
	Message string
}

// Scanned reports whether it is known what the image is vulnerable to.
func (s RolloutSide) Scanned() bool { return s.Counts != nil }

// RolloutState says whether it is known what a rollout did.
type RolloutState string

// The states.
const (
	// RolloutWaiting: one of its images is not scanned yet.
	RolloutWaiting RolloutState = "waiting"
	// RolloutEvaluated: the findings of both images were compared.
	RolloutEvaluated RolloutState = "evaluated"
	// RolloutTimedOut: one of its images was not scanned in time.
	RolloutTimedOut RolloutState = "timedOut"
)

// RolloutEvaluation is what a rollout did to what is vulnerable.
type RolloutEvaluation struct {
	State RolloutState
	// At is when it was evaluated or timed out, zero while it waits.
	At time.Time
	// Opened counts vulnerabilities of packages that the image that began to run has and the one before had not, Closed the others way
	// round; as the findings were when it was evaluated. A finding is told by vulnerability and name of the package: another version with the
	// same vulnerability is neither opened nor closed.
	Opened, Closed model.SeverityCounts
}

// RolloutCounts are the findings that a rollout opened and closed.
type RolloutCounts struct {
	Opened, Closed model.SeverityCounts
	// OpenedKEV counts the opened ones that are known to be exploited.
	OpenedKEV int
}

// RolloutDetail is a rollout with the worst findings that it opened and closed, at most MaxRolloutFindings each, the worst first.
type RolloutDetail struct {
	Rollout
	WorstOpened, WorstClosed []RolloutFinding
}

// Comparison is what another image opens and closes, compared as the images of a rollout are.
type Comparison struct {
	From, To RolloutSide
	// Evaluation is RolloutWaiting while one of the images is not matched. It has no time.
	Evaluation RolloutEvaluation
	// WorstOpened and WorstClosed have at most MaxRolloutFindings each, the worst first.
	WorstOpened, WorstClosed []RolloutFinding
}

// RolloutFinding is a vulnerability of a package.
type RolloutFinding struct {
	VulnerabilityID string         `json:"vulnerabilityId"`
	Package         string         `json:"package"`
	Severity        model.Severity `json:"severity"`
	KEV             bool           `json:"kev"`
	// Fixable says that there is a fixed version.
	Fixable bool `json:"fixable"`
}

// RolloutEvent is the data of EventRolloutChanged, which is about the image that began to run.
type RolloutEvent struct {
	Workload  Workload     `json:"workload"`
	Container string       `json:"container"`
	From      RolloutImage `json:"from"`
	To        RolloutImage `json:"to"`
}

// RolloutEvaluatedEvent is the data of EventRolloutEvaluated, which is about the image that began to run. Counts are absent when the rollout
// timed out. OpenedKEV counts the opened findings that are known to be exploited; EvaluatedEvent does not know it. Each list names the worst ten.
type RolloutEvaluatedEvent struct {
	ID int64 `json:"id"`
	RolloutEvent
	State       RolloutState          `json:"state"`
	Opened      *model.SeverityCounts `json:"opened,omitempty"`
	OpenedKEV   int                   `json:"openedKev,omitempty"`
	Closed      *model.SeverityCounts `json:"closed,omitempty"`
	WorstOpened []RolloutFinding      `json:"worstOpened,omitempty"`
	WorstClosed []RolloutFinding      `json:"worstClosed,omitempty"`
}

// EvaluatedEvent is the data of the event that a rollout was evaluated or timed out.
func (d *RolloutDetail) EvaluatedEvent() RolloutEvaluatedEvent {
	image := func(side RolloutSide) RolloutImage {
		return RolloutImage{ImageID: side.Image.ImageID, Platform: side.Image.Platform.String()}
	}
	event := RolloutEvaluatedEvent{
		ID: d.ID, State: d.Evaluation.State,
		RolloutEvent: RolloutEvent{Workload: d.Workload, Container: d.Container, From: image(d.From), To: image(d.To)},
	}
	if d.Evaluation.State == RolloutEvaluated {
		event.Opened, event.Closed = &d.Evaluation.Opened, &d.Evaluation.Closed
		event.WorstOpened = d.WorstOpened[:min(len(d.WorstOpened), maxEventFindings)]
		event.WorstClosed = d.WorstClosed[:min(len(d.WorstClosed), maxEventFindings)]
	}
	return event
}

// RolloutImage names an image of a rollout.
type RolloutImage struct {
	ImageID  string `json:"imageId"`
	Platform string `json:"platform"`
}

// RolloutQuery asks for a page of rollouts. Zero fields do not filter.
type RolloutQuery struct {
	Namespace string
	Workload  string
	Ownership
	ImageID string
	// Since and Until keep rollouts from this time on and before that time.
	Since, Until time.Time
	Page
}

// RolloutPage is a page of rollouts.
type RolloutPage struct {
	Rollouts  []Rollout
	NextToken string
	Total     int
}
