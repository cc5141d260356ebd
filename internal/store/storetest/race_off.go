//go:build !race

package storetest

// UnderRace reports whether the race detector is on.
const UnderRace = false
