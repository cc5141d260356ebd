package sqlstore

import "testing"

// A page ends where its locations are too long, but has a package at least.
func TestPackagesThatFitAPage(t *testing.T) {
	many := make([]layeredPackage, 10)
	for i := range many {
		many[i].bytes = maxPageBytes / 3
	}
	long := []layeredPackage{{bytes: 2 * maxPageBytes}, {}}
	for _, c := range []struct {
		packages    []layeredPackage
		limit, want int
	}{{many, 2, 2}, {many, 10, 3}, {many[:2], 10, 2}, {long, 10, 1}, {nil, 10, 0}, {make([]layeredPackage, 10), 10, 10}, {make([]layeredPackage, 11), 10, 10}} {
		if got := fitting(c.packages, c.limit); got != c.want {
			t.Errorf("%d packages, at most %d: %d, want %d", len(c.packages), c.limit, got, c.want)
		}
	}
}
