package summary

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// printed is a report with rows of up to twenty lines, on several pages.
func printed() *Report {
	r := full()
	for i := range 30 {
		worst := r.Opened.Worst[i%2]
		worst.ID, worst.Packages = fmt.Sprint("CVE-2026-", 1000+i), []string{strings.Repeat("long-name-", 5+i%20)}
		r.Opened.Worst = append(r.Opened.Worst, worst)
		due := r.Overdue.First[0]
		due.Fixes, due.DueAt = []string{strings.Repeat("1.2.3-", 5+i%20)}, due.DueAt.Add(-time.Duration(i)*time.Hour)
		r.Overdue.First = append(r.Overdue.First, due)
		action := r.Fixes[i%2]
		action.Packages = []store.FixPackage{{Package: r.Fixes[0].Packages[0].Package}}
		action.Packages[0].Package.Name = strings.Repeat("long-name-", 5+i%20)
		r.Fixes = append(r.Fixes, action)
	}
	return r
}

// color is one that the page does not use.
func color(kind, n int) [3]int { return [3]int{100 + kind, n % 100, n / 100} }

// The parts of a PDF that Chromium writes.
var (
	pdfPage     = regexp.MustCompile(`(?s)/Type /Page\n.*?/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\].*?/Contents ([0-9]+) 0 R`)
	pdfFill     = regexp.MustCompile(`([0-9.]+) ([0-9.]+) ([0-9.]+) rg`)
	tableOrRow  = regexp.MustCompile(`<table class="rows">|<tr>`)
	policyInTag = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)
)

// colored gives the headings of each table of rows, and each of its rows, a color of its own. It returns the number of rows of each table.
func colored(page string) (string, []int) {
	var rows []int
	page = policyInTag.ReplaceAllString(page, "")
	return tableOrRow.ReplaceAllStringFunc(page, func(tag string) string {
		if tag != "<tr>" {
			// The first row is that of the headings.
			rows = append(rows, -1)
			return tag
		}
		if len(rows) == 0 {
			return tag
		}
		table := len(rows) - 1
		rows[table]++
		c := color(rows[table], table)
		return fmt.Sprintf(`<tr style="--muted: rgb(%[1]d,%[2]d,%[3]d); color: rgb(%[1]d,%[2]d,%[3]d)">`, c[0], c[1], c[2])
	}), rows
}

// pagesOf returns on which pages of a PDF each color is, after checking their size.
func pagesOf(t *testing.T, pdf []byte) (pages int, colors map[[3]int][]int) {
	t.Helper()
	colors = map[[3]int][]int{}
	for _, match := range pdfPage.FindAllSubmatch(pdf, -1) {
		pages++
		for i, want := range []float64{595.28, 841.89} {
			if got, err := strconv.ParseFloat(string(match[1+i]), 64); err != nil || got < want-1 || got > want+1 {
				t.Errorf("page %d has the size %s x %s points, want A4: %v", pages, match[1], match[2], err)
			}
		}
		_, object, found := bytes.Cut(pdf, fmt.Appendf(nil, "\n%s 0 obj\n", match[3]))
		_, stream, isStream := bytes.Cut(object, []byte("stream\n"))
		if !found || !isStream {
			t.Fatalf("page %d has no content", pages)
		}
		unpacked, err := zlib.NewReader(bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		for _, fill := range pdfFill.FindAllSubmatch(content, -1) {
			var c [3]int
			for i := range c {
				part, err := strconv.ParseFloat(string(fill[1+i]), 64)
				if err != nil {
					t.Fatal(err)
				}
				c[i] = int(255*part + 0.5)
			}
			if !slices.Contains(colors[c], pages) {
				colors[c] = append(colors[c], pages)
			}
		}
	}
	return pages, colors
}

// A report is printed on A4. No row is cut in two, and tables have their headings on each page.
func TestPrintedReport(t *testing.T) {
	const program = "chromium-headless-shell"
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("%s is not installed; make setup installs it", program)
	}
	page, rows := colored(pageOf(t, printed(), PageOptions{Version: "v1.2.3", URL: "https://scanner.example", Versions: byText{}}))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "report.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	browser := exec.CommandContext(t.Context(), program, "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
		"--print-to-pdf="+filepath.Join(dir, "report.pdf"), "file://"+filepath.Join(dir, "report.html"))
	if output, err := browser.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	pdf, err := os.ReadFile(filepath.Join(dir, "report.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	pages, colors := pagesOf(t, pdf)
	divided := 0
	for table, n := range rows {
		var with []int
		for row := range n {
			on := colors[color(row+1, table)]
			if len(on) != 1 {
				t.Errorf("row %d of table %d is on the pages %v", row+1, table+1, on)
			}
			with = append(with, on...)
		}
		slices.Sort(with)
		with = slices.Compact(with)
		if headings := colors[color(0, table)]; !slices.Equal(headings, with) {
			t.Errorf("table %d is on the pages %v, and its headings are on %v", table+1, with, headings)
		}
		if len(with) > 1 {
			divided++
		}
	}
	if pages < 6 || divided < 3 {
		t.Errorf("%d pages, %d tables on more than one", pages, divided)
	}
}
