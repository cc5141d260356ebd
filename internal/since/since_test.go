package since

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"7d": "2026-03-01T12:00:00Z", "2w": "2026-02-22T12:00:00Z", "36h": "2026-03-07T00:00:00Z", "90m": "2026-03-08T10:30:00Z", "0d": "2026-03-08T12:00:00Z",
		"2026-03-01": "2026-03-01T00:00:00Z", "2026-03-01T10:00:00+02:00": "2026-03-01T10:00:00+02:00", "-1h": "2026-03-08T13:00:00Z",
		"9999d": "1998-10-22T12:00:00Z", "99999d": "neither", "": "neither", "d": "neither", "-7d": "neither", "1y": "neither", "1e3h": "neither", "9999999h": "neither",
		"yesterday": `"yesterday" is neither`, strings.Repeat("x", 1000): `"` + strings.Repeat("x", 40) + `" is neither`,
	} {
		got, err := Parse(text, now)
		shown := got.Format(time.RFC3339)
		if err != nil {
			shown = err.Error()
		}
		if !strings.Contains(shown, want) {
			t.Errorf("%q: %s, want %s", text, shown, want)
		}
	}
}
