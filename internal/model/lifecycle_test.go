package model_test

import (
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestLifecycleEnded(t *testing.T) {
	end := time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]bool{end.Add(-time.Second): false, end: true, end.AddDate(1, 0, 0): true} {
		if got := (model.Lifecycle{EndOfLife: end}).Ended(now); got != want {
			t.Errorf("at %s: %t", now, got)
		}
	}
	if (model.Lifecycle{EndOfSupport: end}).Ended(end.AddDate(9, 0, 0)) {
		t.Error("an end of life that is not known has passed")
	}
}

func TestCreatedAt(t *testing.T) {
	now := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	first := time.Date(2013, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ stated, want time.Time }{
		"none":                {time.Time{}, time.Time{}},
		"1970":                {time.Unix(0, 0), time.Time{}},
		"1980":                {time.Date(1980, 1, 1, 0, 0, 1, 0, time.UTC), time.Time{}},
		"before containers":   {first.Add(-time.Second), time.Time{}},
		"real":                {first, first},
		"in another zone":     {first.In(time.FixedZone("x", -3600)), first},
		"clock slightly off":  {now.Add(24 * time.Hour), now.Add(24 * time.Hour)},
		"in the future":       {now.Add(25 * time.Hour), time.Time{}},
		"year of five digits": {time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
	} {
		if got := model.CreatedAt(test.stated, now); !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
