package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Introductions is the part of the store about images that begin to run in a namespace in which they were not known.
type Introductions interface {
	// ReportIntroductions writes an EventImageIntroduced about each image that began to run in a namespace, once it is matched. Images without findings there, and
	// images that only run because of rollouts, have none: a rollout has its own event. Those from before timeOutBefore that are not matched are forgotten. It
	// returns how many it took off the queue, at most limit, which is at most MaxIntroduced.
	ReportIntroductions(ctx context.Context, timeOutBefore time.Time, limit int) (int, error)
}

// MaxIntroduced is the maximum number of introductions that one call reports.
const MaxIntroduced = 1000

// Introduction is an image in a namespace.
type Introduction struct {
	Namespace string
	Image     model.ImageKey
}

// IntroducedEvent is the data of EventImageIntroduced, which is about the image. What decisions suppress in the namespace is not counted.
type IntroducedEvent struct {
	Namespace string `json:"namespace"`
	// Findings counts the findings by severity, KEV those that are known to be exploited.
	Findings model.SeverityCounts `json:"counts"`
	KEV      int                  `json:"kev"`
	// Owners are those of the workloads in the namespace that run it, at most MaxImageOwners.
	Owners []string `json:"owners,omitempty"`
}
