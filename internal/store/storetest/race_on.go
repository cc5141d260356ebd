//go:build race

package storetest

// UnderRace reports whether the race detector is on. Tests that repeat the same steps many times then repeat them less often.
const UnderRace = true

// Sizes of the random tests. Nothing in them is concurrent, so the race detector finds no more in many steps than in a few, and
// makes the sqlite engine, which is written in Go, ten times slower. "make parity" runs all steps without it.
const (
	modelHistories   = 1
	modelSteps       = 40
	searchSeeds      = 1
	searchSteps      = 3
	rolloutHistories = 1
	rolloutSteps     = 40
	visibleSteps     = 20
)
