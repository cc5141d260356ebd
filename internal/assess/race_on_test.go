//go:build race

package assess

// underRace says that the race detector watches, which makes matching some ten times slower.
const underRace = true
