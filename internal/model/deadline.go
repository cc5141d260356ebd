package model

import "time"

// MaxDueDays is the maximum of the days of DueIn.
const MaxDueDays = 3650

// DueFrom is from when on the days of a deadline count.
type DueFrom string

// The beginnings of deadlines.
const (
	// DueFromFirstSeen counts from when the finding was first seen in the image.
	DueFromFirstSeen DueFrom = "firstSeen"
	// DueFromFixAvailable counts from when a fixed version was known, and not before the finding was first seen. Without one, nothing is due.
	DueFromFixAvailable DueFrom = "fixAvailable"
)

// DueIn says within how many days findings are due, by severity; nil for those that are not due. KEV is for those that are known to be exploited,
// beside their severity.
type DueIn struct {
	Critical *int `json:"critical,omitempty"`
	High     *int `json:"high,omitempty"`
	Medium   *int `json:"medium,omitempty"`
	Low      *int `json:"low,omitempty"`
	KEV      *int `json:"kev,omitempty"`
}

// Days returns those of a severity, nil for none.
func (d *DueIn) Days(severity Severity) *int {
	switch severity {
	case SeverityCritical:
		return d.Critical
	case SeverityHigh:
		return d.High
	case SeverityMedium:
		return d.Medium
	case SeverityLow:
		return d.Low
	default:
		return nil
	}
}

// Deadline is until when a finding is due.
type Deadline struct {
	At time.Time
	// Policy is the name of the policy whose date comes first.
	Policy string
	// Overdue says that the date has passed.
	Overdue bool
}
