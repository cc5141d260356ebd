//go:build race

package storetest

// Under the race detector the random tests are some five times slower, and find no more: nothing in them is concurrent. "make parity"
// runs all of them without it.
const (
	modelHistories = 2
	searchSeeds    = 1
)
