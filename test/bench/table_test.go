package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// row is one line of the table.
type row struct {
	// group is the heading above the row.
	group, name string
	ours        usage
	// against is what ours is compared with, in words; ratio what it takes divided by ours, 0 when there is nothing to compare.
	against string
	ratio   float64
}

// rows is the table that is printed at the end.
type rows struct {
	mu   sync.Mutex
	rows []row
}

var table rows

// add adds a row and reports its figures as those of a benchmark.
func (t *rows) add(b *testing.B, r row) {
	b.Helper()
	b.ReportMetric(r.ours.Wall.Seconds(), "wall-s")
	b.ReportMetric(r.ours.CPU.Seconds(), "cpu-s")
	b.ReportMetric(mebibytes(r.ours.Peak), "peak-MiB")
	if r.ratio > 0 {
		b.ReportMetric(r.ratio, "factor")
	}
	t.note(r)
}

// note adds a row that compares with a bound what add has reported.
func (t *rows) note(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

func (t *rows) print(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	group := ""
	for _, r := range t.rows {
		if r.group != group {
			group = r.group
			fmt.Fprintf(out, "\n%s\twall\tCPU\tpeak\tcompared with\tfactor\n", group)
			fmt.Fprintf(out, "%s\t----\t---\t----\t-------------\t------\n", strings.Repeat("-", len(group)))
		}
		ratio := ""
		if r.ratio > 0 {
			ratio = fmt.Sprintf("%.1f", r.ratio)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%.0f MiB\t%s\t%s\n", r.name, seconds(r.ours.Wall), seconds(r.ours.CPU), mebibytes(r.ours.Peak), r.against, ratio)
	}
	_ = out.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
