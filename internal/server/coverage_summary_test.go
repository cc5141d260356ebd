package server

import (
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// The ratio is that of the Scanner's status and of the metric: what is known from an older database alone, or of a part of an image, is not covered.
func TestCoverageSummary(t *testing.T) {
	got := toCoverageSummary(coverage.SummaryOf(map[string]int{"Scanned": 3, "Partial": 1, "Stale": 1, "Pending": 1, "Failed": 6, "Skipped": 9}))
	want := api.CoverageSummary{Scanned: 3, Partial: 1, Stale: 1, Pending: 1, Failed: 6, Skipped: 9, Ratio: 0.25}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
