package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// officialCopies makes the shared database as large as the official one, some 1 GB, by copies of its records under other names.
const officialCopies = 15

// maxDifference bounds the CPU time of a comparison of two databases of that size.
const maxDifference = 5 * time.Second

// officialFleet is how many images are matched with it.
const officialFleet = 1000

// BenchmarkOfficialSize works with a database as large as the official one: opens it, finds its difference to that of a day
// later, and re-matches 1,000 images after that day.
func BenchmarkOfficialSize(b *testing.B) {
	before := dbtest.Inflate(b, database(b), officialCopies)
	day := later(b, before)
	p := phase{Builds: []vulndb.Installed{before, day}}
	group := "database of " + sizeOf(before)
	b.Run("open", func(b *testing.B) {
		p.Name, p.As = phaseNothing, phaseNothing
		start, _ := measurePhase(b, p)
		p.Name, p.As = phaseOpen, phaseOpen
		ours, figures := measurePhase(b, p)
		report(b, figures)
		ours.Wall, ours.CPU = ours.Wall-start.Wall, ours.CPU-start.CPU
		table.add(b, row{group: group, name: "open", ours: ours})
	})
	b.Run("difference", func(b *testing.B) {
		p.Name, p.As = phaseCompare, phaseCompare
		ours, figures := measurePhase(b, p)
		report(b, figures)
		table.add(b, row{
			group: group, name: fmt.Sprintf("difference to a day later (%.0f keys, %.0f CVEs)", figures["keys"], figures["CVEs"]), ours: ours,
			against: "at most " + seconds(maxDifference) + " CPU", ratio: maxDifference.Seconds() / ours.CPU.Seconds(),
		})
	})
	b.Run("fleet", func(b *testing.B) {
		f := newFleet(b, officialFleet, before, day)
		b.Run("ingest", f.ingest)
		b.Run("first", f.first)
		b.Run("daily", f.daily)
	})
}
