package store

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxDays bounds the numbers of days in an ImageQuery: a hundred years.
const MaxDays = 36_500

// Lifecycles is the part of the store about the ends of life of distributions and the ages of images. One process at a time writes
// through it.
type Lifecycles interface {
	// OutdatedLifecycles returns up to limit distributions of images whose lifecycle was not saved for this database build, by name.
	OutdatedLifecycles(ctx context.Context, buildID string, limit int) ([]string, error)
	// SaveLifecycles replaces what is known of distributions by what a database build says, at most MaxKeys at a time.
	SaveLifecycles(ctx context.Context, buildID string, lifecycles map[string]model.Lifecycle) error
	// RunningAges counts the images that something runs now, at most distros distributions one by one.
	RunningAges(ctx context.Context, distros int, days []int) (RunningAges, error)
}

// RunningAges are numbers of images that something runs, each image once, whatever the number of its containers.
type RunningAges struct {
	// Ended counts images by release of a distribution, of the releases that have reached their end of life, most images first. An image counts for
	// the release that the database build means, whatever version it states, so that there are not more than the database knows.
	Ended []DistroImages
	// OtherEnded counts the images of those distributions that are not in Ended.
	OtherEnded int
	// Older counts the images that were created at least so many days ago. Unknown counts those of which that is not known.
	Older   map[int]int
	Unknown int
}

// DistroImages is a number of images of a distribution.
type DistroImages struct {
	// Distro is the Release of a model.Lifecycle.
	Distro string
	Images int
}
