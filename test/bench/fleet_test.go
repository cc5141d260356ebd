package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

const (
	// grypeSample is how many images of a fleet grype is measured on. Its time for all of them follows from that.
	grypeSample = 20
	// dailyChange is the part of the packages that a database has other records of a day later. All EPSS figures are others, too.
	dailyChange = 0.01

	// maxDaily is promised for the re-match of maxImages after a daily change, on two processors, and maxPeak meanwhile.
	maxImages = 10_000
	maxDaily  = time.Minute
	maxPeak   = 400 << 20
)

// fleet is a number of images and the stores that phases leave.
type fleet struct {
	dir         string
	images      int
	before, day vulndb.Installed
	grype       time.Duration // of CPU, for all images
	ingested    usage
}

// BenchmarkFleet takes in fleets of images, matches them for the first time, once more as a whole, and after a daily change of the
// database, against the grype command for each image.
func BenchmarkFleet(b *testing.B) {
	before := database(b)
	day := later(b, before)
	for _, images := range fleetSizes(b) {
		b.Run(strconv.Itoa(images), func(b *testing.B) {
			f := newFleet(b, images, before, day)
			b.Run("ingest", f.ingest)
			b.Run("first", f.first)
			b.Run("full", f.full)
			b.Run("daily", f.daily)
		})
	}
}

// goImports is the part of the Go modules of which a record names imports, as most of the Go vulnerability database do.
const goImports = 0.5

// database is the real database, or the sample where there is none. It has EPSS figures for all CVEs, and records of Go modules that name
// imports, as the official one has.
func database(tb testing.TB) vulndb.Installed {
	tb.Helper()
	return dbtest.Mutate(tb, dbtest.SharedOrSample(tb), 1,
		dbtest.Change{Kind: dbtest.EPSSForAll}, dbtest.Change{Kind: dbtest.Imports, Fraction: goImports})
}

// later is a database a day later.
func later(tb testing.TB, installed vulndb.Installed) vulndb.Installed {
	tb.Helper()
	return dbtest.Mutate(tb, installed, 1, append(dbtest.Fraction(dailyChange), dbtest.Change{Kind: dbtest.EPSSDrift})...)
}

func fleetSizes(tb testing.TB) []int {
	tb.Helper()
	text := os.Getenv("SCANNER_BENCH_IMAGES")
	if text == "" {
		return []int{1000, maxImages}
	}
	var out []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			tb.Fatalf("SCANNER_BENCH_IMAGES is %q: name numbers of images, such as 1000,10000", text)
		}
		out = append(out, n)
	}
	return out
}

func newFleet(tb testing.TB, images int, before, day vulndb.Installed) *fleet {
	tb.Helper()
	f := &fleet{dir: tb.TempDir(), images: images, before: before, day: day}
	generate := f.generate(tb)
	sample := rand.New(rand.NewPCG(1, 1)).Perm(images)
	sample = sample[:min(grypeSample, images)]
	var total time.Duration
	for i, index := range sample {
		sbom := decompress(tb, generate.sbomFile(index))
		if i == 0 {
			run(tb, grype(tb, before, sbom)) // so that all of them are warm
		}
		total += run(tb, grype(tb, before, sbom)).CPU
	}
	f.grype = total / time.Duration(len(sample)) * time.Duration(images)
	return f
}

// generate makes the SBOMs and returns the phase that did.
func (f *fleet) generate(tb testing.TB) phase {
	tb.Helper()
	p := f.phase(phaseGenerate)
	if err := os.Mkdir(p.SBOMs, 0o700); err != nil {
		tb.Fatal(err)
	}
	_, figures := measurePhase(tb, p)
	tb.Logf("%d images of %.0f KB of SBOM each", f.images, figures["SBOM-KB"])
	return p
}

// phase is a phase on the store that the first match leaves.
func (f *fleet) phase(name string) phase {
	return phase{
		Name: name, As: name, Images: f.images, SBOMs: filepath.Join(f.dir, "sboms"), Store: filepath.Join(f.dir, "store", "db"),
		Builds: []vulndb.Installed{f.before},
	}
}

func (f *fleet) title() string {
	return fmt.Sprintf("%d images, database of %s", f.images, sizeOf(f.before))
}

func (f *fleet) row(name string, ours usage) row {
	return row{
		group: f.title(), name: name, ours: ours,
		against: fmt.Sprintf("grype for each (%d measured): %s CPU", min(grypeSample, f.images), seconds(f.grype)),
		ratio:   f.grype.Seconds() / ours.CPU.Seconds(),
	}
}

func (f *fleet) ingest(b *testing.B) {
	f.ingested, _ = measurePhase(b, f.phase(phaseIngest))
	r := f.row("upload of the SBOMs", f.ingested)
	r.against, r.ratio = "", 0
	table.add(b, r)
}

func (f *fleet) first(b *testing.B) {
	p := f.phase(phaseMatch)
	p.As = "first"
	ours, figures := measurePhase(b, p)
	report(b, figures)
	_, all := measurePhase(b, f.phase(phaseCount))
	report(b, all)
	table.add(b, f.row(fmt.Sprintf("first match (%.0f packages)", figures["matched"]), ours))
	b.ReportMetric(f.grype.Seconds()/f.ingested.plus(ours).CPU.Seconds(), "factor-with-upload")
}

func (f *fleet) full(b *testing.B) {
	p := f.again(b, "full")
	p.Full = true
	ours, figures := measurePhase(b, p)
	report(b, figures)
	table.add(b, f.row(fmt.Sprintf("full re-match (%.0f packages)", figures["matched"]), ours))
}

func (f *fleet) daily(b *testing.B) {
	p := f.again(b, "daily")
	p.Builds = append(p.Builds, f.day)
	ours, figures := measurePhase(b, p)
	report(b, figures)
	table.add(b, f.row(fmt.Sprintf("re-match after a daily change (%.0f packages)", figures["matched"]), ours))
	if f.images == maxImages {
		table.note(row{f.title(), "  its time", ours, "at most " + seconds(maxDaily), maxDaily.Seconds() / ours.Wall.Seconds()})
	}
	table.note(row{f.title(), "  its memory", ours, fmt.Sprintf("at most %.0f MiB", mebibytes(maxPeak)), maxPeak / float64(ours.Peak)})
}

// again is a match on a copy of the store that the first match left.
func (f *fleet) again(tb testing.TB, name string) phase {
	tb.Helper()
	p := f.phase(phaseMatch)
	p.As = name
	dir := filepath.Join(tb.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(p.Store))); err != nil {
		tb.Fatal(err)
	}
	p.Store = filepath.Join(dir, filepath.Base(p.Store))
	return p
}

func report(b *testing.B, f figures) {
	b.Helper()
	for name, value := range f {
		b.ReportMetric(value, name)
	}
}

// sizeOf is the size of a database file, in words.
func sizeOf(installed vulndb.Installed) string {
	info, err := os.Stat(filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.0f MB", float64(info.Size())/1e6)
}
