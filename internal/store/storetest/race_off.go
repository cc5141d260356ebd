//go:build !race

package storetest

// How many random histories and random stores to search there are.
const (
	modelHistories = 8
	searchSeeds    = 4
)
