package summary

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of the period of a report.
const (
	MinPeriod     = time.Hour
	MaxPeriod     = 400 * 24 * time.Hour
	DefaultPeriod = 7 * 24 * time.Hour
)

// ParseSince reads since when a report tells: a duration before now such as 7d, 2w or 36h, a day, or a time as of RFC 3339. Without a text it is
// DefaultPeriod ago. Errors begin with the text.
func ParseSince(text string, now time.Time) (time.Time, error) {
	since, err := parseSince(text, now)
	if err != nil {
		return time.Time{}, err
	}
	if period := now.Sub(since); period < MinPeriod || period > MaxPeriod {
		return time.Time{}, fmt.Errorf("%.40q is not between one hour and 400 days ago", text)
	}
	return since.UTC(), nil
}

func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now.Add(-DefaultPeriod), nil
	}
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		// More than 9,999 exceed the bound, and could exceed a duration.
		if digits, found := strings.CutSuffix(text, unit); found && len(digits) <= 4 {
			if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
				return now.Add(-time.Duration(n) * length), nil
			}
		}
	}
	if duration, err := time.ParseDuration(text); err == nil {
		return now.Add(-duration), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is neither a duration such as 7d or 36h, nor a date such as 2026-03-01", text)
}
