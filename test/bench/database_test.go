package bench

import (
	"fmt"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// officialCopies makes the shared database as large as the official one, some 1 GB.
const officialCopies = 20

// BenchmarkDatabase opens a database as large as the official one, and finds its difference to that of a day later.
func BenchmarkDatabase(b *testing.B) {
	before := dbtest.Inflate(b, database(b), officialCopies)
	p := phase{Builds: []vulndb.Installed{before, later(b, before)}}
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
		})
	})
}
