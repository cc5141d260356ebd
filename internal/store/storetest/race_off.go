//go:build !race

package storetest

// UnderRace reports whether the race detector is on. Tests that repeat the same steps many times then repeat them less often.
const UnderRace = false

// Sizes of the random tests.
const (
	modelHistories   = 8
	modelSteps       = 100
	searchSeeds      = 4
	searchSteps      = 8
	rolloutHistories = 3
	rolloutSteps     = 120
	visibleSteps     = 40
)
