// Package since reads how far back to look, as users write it for reports, lists and the kubectl plugin.
package since

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a time: a duration before now such as 7d, 2w or 36h, a day, or a time as of RFC 3339. Errors begin with the text.
func Parse(text string, now time.Time) (time.Time, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		// More than 9,999 could exceed a duration.
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
