package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Extent is how much of the random tests runs. The zero value is all of them.
type Extent struct {
	// SomeReads has them choose one of several readers, or parameters, at random after each step, and read for each after the last one. Otherwise, they read for
	// each after each step: reading and comparing takes nearly all of their time.
	SomeReads bool
	// Only seeds run with seed % Shares == Share; all if Shares is 0.
	Shares, Share uint64
}

// randomTest makes up what happens from a seed, and compares the store with a model of it, or with what it said before.
type randomTest struct {
	name  string
	seeds uint64
	run   func(t *testing.T, f *fixture, seed uint64)
}

var randomTests = []randomTest{
	{"A random history equals a model", modelHistories, randomHistory},
	{"A random search equals a model", searchSeeds, randomSearch},
	{"A random series of rollouts tells what runs", rolloutHistories, randomRollouts},
	{"Counts by namespace and by owner equal a model", runningSeeds, randomUses},
	{"Random deadlines equal a model", policySeeds, randomDeadlines},
	{"Random decisions that end restore every count", restoreSeeds, decideAndRestore},
	{"Random newer tags equal a model", tagFixSeeds, randomNewerTags},
	{"Selections of policies that end restore every date", restoreSeeds, selectAndRestore},
}

// randomTests are one for each seed.
func (e Extent) randomTests(t *testing.T) map[string]func(*testing.T, *fixture) {
	t.Helper()
	tests := map[string]func(*testing.T, *fixture){}
	for _, test := range randomTests {
		if e.Shares > 0 && (e.Share >= e.Shares || test.seeds < e.Shares) {
			t.Errorf("%s: no seed has the share %d of %d", test.name, e.Share, e.Shares)
		}
		for seed := range test.seeds {
			if e.Shares == 0 || seed%e.Shares == e.Share {
				tests[fmt.Sprintf("%s, seed %d", test.name, seed)] = func(t *testing.T, f *fixture) { test.run(t, f, seed) }
			}
		}
	}
	return tests
}

// chosen are those of several readers, or parameters, that a random test reads for after a step.
func chosen[T any](f *fixture, random *rand.Rand, last bool, all ...T) []T {
	if !f.extent.SomeReads || last || len(all) == 0 {
		return all
	}
	n := random.IntN(len(all))
	return all[n : n+1]
}
