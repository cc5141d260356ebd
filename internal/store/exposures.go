package store

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxExposures bounds the exposures of a workload that WorkloadExposures names.
const MaxExposures = 20

// ExposureEnd says why a workload no longer ran an image with a vulnerability.
type ExposureEnd string

// The ends.
const (
	// ExposureEndDatabase: a database build closed the finding.
	ExposureEndDatabase ExposureEnd = "Database"
	// ExposureEndImage: the workload went on with images that do not have it.
	ExposureEndImage ExposureEnd = "Image"
	// ExposureEndWorkload: nothing of the workload ran any longer.
	ExposureEndWorkload ExposureEnd = "Workload"
)

// Exposure is an uninterrupted time in which a workload ran images with a vulnerability in any package. It is not interrupted by PresenceGap or less between two
// such images, unless a database ended it, or a container that has run such an image ran one without the vulnerability in between.
type Exposure struct {
	Since time.Time
	// Until is zero while it goes on.
	Until time.Time
	// End is "" while it goes on.
	End ExposureEnd
}

// ExposureQuery asks for a page of the workloads that run or ran images with a vulnerability, as far as history goes back: the one that did so first is first,
// then by namespace, kind and name. What decisions suppress is included: they do not apply to the past.
type ExposureQuery struct {
	Where
	// ID or alias of the vulnerability, maybe written in another case.
	ID string
	Page
}

// WorkloadExposures is when a workload ran images with a vulnerability.
type WorkloadExposures struct {
	Workload Workload
	// Since is when the first exposure began.
	Since time.Time
	// Exposures has the last MaxExposures, the earliest of them first; ExposureCount counts all.
	Exposures     []Exposure
	ExposureCount int
	// Images names those that it ran with the vulnerability, at most MaxReach by image ID and platform; ImageCount counts all. Packages are the names of the
	// packages that have it there, at most MaxReach by name; PackageCount counts all.
	Images       []model.ImageKey
	ImageCount   int
	Packages     []string
	PackageCount int
	// Suppressed says that the workload runs such an image, and that decisions suppress all of these findings in it.
	Suppressed bool
}

// ExposurePage is a page of workloads.
type ExposurePage struct {
	Workloads []WorkloadExposures
	NextToken string
	Total     int
}
