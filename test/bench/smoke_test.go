package bench

import (
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestPhases runs the phases on a few images, so that the benchmarks are known to work.
func TestPhases(t *testing.T) {
	before := dbtest.Sample(t)
	f := &fleet{dir: t.TempDir(), images: 5, before: before, day: later(t, before)}
	f.generate(t)
	measurePhase(t, f.phase(phaseIngest))
	first, figures := measurePhase(t, f.phase(phaseMatch))
	if figures["matched"] == 0 || first.CPU == 0 || first.Wall == 0 {
		t.Errorf("the first match took %+v and reported %v", first, figures)
	}
	full := f.again(t, "full")
	full.Full = true
	if _, again := measurePhase(t, full); again["matched"] != figures["matched"] {
		t.Errorf("%v packages were matched again, want %v", again["matched"], figures["matched"])
	}
	daily := f.again(t, "daily")
	daily.Builds = append(daily.Builds, f.day)
	if _, again := measurePhase(t, daily); again["matched"] >= figures["matched"] {
		t.Errorf("%v packages were matched again, want less than %v", again["matched"], figures["matched"])
	}
	compare := phase{Name: phaseCompare, Builds: []vulndb.Installed{before, f.day}}
	if _, difference := measurePhase(t, compare); difference["keys"] == 0 {
		t.Errorf("the databases do not differ: %v", difference)
	}
}
