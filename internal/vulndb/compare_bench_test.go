package vulndb_test

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// BenchmarkCompare compares a database with one that differs in a hundredth of its packages. SCANNER_BENCH_DATABASE names an
// archive or a folder of a database to take instead of the shared one, SCANNER_BENCH_COPIES how many times its records are put
// into it under other names: with 15 the shared one has the size of the official one, a gigabyte.
func BenchmarkCompare(b *testing.B) {
	from := benchDatabase(b)
	to := dbtest.Mutate(b, from, 1, dbtest.Fraction(0.01)...)
	info, err := os.Stat(databaseFile(from))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(2 * info.Size())
	b.ResetTimer()
	var difference *vulndb.Difference
	peak := watchHeap(func() {
		for b.Loop() {
			if difference, err = vulndb.Compare(b.Context(), from, to); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(peak)/1e6, "peak-MB")
	b.ReportMetric(float64(info.Size())/1e6, "file-MB")
	b.Logf("%+v", difference.Summary())
}

// watchHeap is the most that was on the heap while something ran, in bytes, beyond what was there before.
func watchHeap(run func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	run()
	close(done)
	<-ended
	return peak - min(peak, before)
}

func benchDatabase(b *testing.B) vulndb.Installed {
	b.Helper()
	installed := givenDatabase(b)
	if copies, _ := strconv.Atoi(os.Getenv("SCANNER_BENCH_COPIES")); copies > 0 {
		return dbtest.Inflate(b, installed, copies)
	}
	return installed
}

func givenDatabase(b *testing.B) vulndb.Installed {
	b.Helper()
	given := os.Getenv("SCANNER_BENCH_DATABASE")
	if given == "" {
		return dbtest.Shared(b)
	}
	library, err := vulndb.New(vulndb.Config{Dir: b.TempDir(), UpdateURL: vulndb.UpdateURLNone})
	if err != nil {
		b.Fatal(err)
	}
	installed, err := library.Import(b.Context(), given)
	if err != nil {
		b.Fatal(err)
	}
	return installed
}
