package model

import "time"

// Lifecycle says until when a release of a distribution is maintained, as a vulnerability database states it. Dates are the beginning of
// a day in UTC, and zero if they are not known.
type Lifecycle struct {
	// Release is the release that the database means, as Catalog.Distro names it: "rhel:9" also for the distribution "rhel:9.4". It is "" if the
	// database does not know the release. Of images it is not kept.
	Release string
	// EndOfSupport is the end of active support: from then on, there are security updates only.
	EndOfSupport time.Time
	// EndOfLife is the end of security updates.
	EndOfLife time.Time
}

// Ended reports whether the release has reached its end of life.
func (l Lifecycle) Ended(now time.Time) bool {
	return !l.EndOfLife.IsZero() && !now.Before(l.EndOfLife)
}

const (
	// firstImages is the year of the first container images. Reproducible builds state an earlier time, such as 1970 or 1980, in place of
	// the real one.
	firstImages = 2013
	// clockSkew is how far the clock of a builder may be ahead of ours.
	clockSkew = 24 * time.Hour
)

// CreatedAt returns when an image was created by the time in its configuration, zero if that cannot be the real one: before there were
// images, or more than a day after now.
func CreatedAt(stated, now time.Time) time.Time {
	if stated.UTC().Year() < firstImages || stated.After(now.Add(clockSkew)) {
		return time.Time{}
	}
	return stated.UTC()
}
