//go:build !race

package vulndb_test

// underRace says that the race detector watches, which makes reading databases some fifteen times slower.
const underRace = false
