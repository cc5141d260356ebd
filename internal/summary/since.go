package summary

import (
	"fmt"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/since"
)

// Bounds of the period of a report.
const (
	MinPeriod     = time.Hour
	MaxPeriod     = 400 * 24 * time.Hour
	DefaultPeriod = 7 * 24 * time.Hour
)

// ParseSince reads since when a report tells, as since.Parse does. Without a text it is DefaultPeriod ago. Errors begin with the text.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now.Add(-DefaultPeriod).UTC(), nil
	}
	start, err := since.Parse(text, now)
	if err != nil {
		return time.Time{}, err
	}
	if period := now.Sub(start); period < MinPeriod || period > MaxPeriod {
		return time.Time{}, fmt.Errorf("%.40q is not between one hour and 400 days ago", text)
	}
	return start.UTC(), nil
}
