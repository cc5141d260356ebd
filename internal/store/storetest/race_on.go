//go:build race

package storetest

// UnderRace reports whether the race detector is on. It makes the sqlite engine, which is written in Go, ten times slower.
const UnderRace = true
