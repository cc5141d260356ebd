package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// CSV writes rows for spreadsheets, as RFC 4180 has it. No cell is left that a spreadsheet would run.
type CSV struct{ lines *csv.Writer }

// NewCSV begins with a row of column names.
func NewCSV(w io.Writer, columns ...string) CSV {
	lines := csv.NewWriter(w)
	lines.UseCRLF = true
	_ = lines.Write(columns) // an error stays until the flush
	return CSV{lines}
}

// Row writes a row. Cells lose what cannot be printed.
func (c CSV) Row(cells ...string) error {
	for i := range cells {
		cells[i] = inert(cells[i])
	}
	return c.lines.Write(cells)
}

// Flush writes what is buffered, and returns the first error of any write.
func (c CSV) Flush() error {
	c.lines.Flush()
	return c.lines.Error()
}

var (
	csvColumns = []string{
		"vulnerability", "severity", "package", "version", "fixed_in", "type", "epss", "risk", "kev",
		"fix_state", "namespace", "purl", "locations", "data_source",
	}
	csvHistoryColumns  = []string{"first_seen", "fixed_at"}
	csvDecisionColumns = slices.Concat([]string{"suppressed"}, DecisionColumns)
	csvDeadlineColumns = slices.Concat(DeadlineColumns, []string{"owners"})
	csvImageColumns    = []string{"image_id", "platform", "distro", "end_of_life", "image_created"}
)

// csvText writes the findings of one image.
func csvText(w io.Writer, in Input) error {
	columns := csvColumns
	if in.History {
		columns = slices.Concat(columns, csvHistoryColumns)
	}
	if in.Decisions {
		columns = slices.Concat(columns, csvDecisionColumns)
	}
	if in.History {
		columns = slices.Concat(columns, csvDeadlineColumns)
	}
	return csvImage(NewCSV(w, columns...), in)
}

// csvImage writes a row for each finding, which begins with the cells before.
func csvImage(rows CSV, in Input, before ...string) error {
	findings, err := sortedFindings(in)
	if err != nil {
		return err
	}
	for _, f := range findings {
		cells := slices.Concat(before, csvCells(f))
		if in.History {
			cells = append(cells, csvTime(f.FirstSeen), csvTime(f.FixedAt))
		}
		if in.Decisions {
			cells = append(append(cells, yes(f.Suppressed)), DecisionCells(f.Decisions)...)
		}
		if in.History {
			cells = append(append(cells, DeadlineCells(f.Deadline)...), strings.Join(in.Owners, ", "))
		}
		_ = rows.Row(cells...) // an error stays until the flush
	}
	if err := rows.Flush(); err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	return nil
}

func csvCells(f model.Finding) []string {
	epss := ""
	if f.Vulnerability.EPSS != nil {
		epss = strconv.FormatFloat(f.Vulnerability.EPSS.Score, 'f', -1, 64)
	}
	paths := make([]string, 0, len(f.Locations))
	for _, l := range f.Locations {
		paths = append(paths, l.Path)
	}
	return []string{
		f.Vulnerability.ID, f.Vulnerability.Severity.String(), f.Package.Name, f.Package.Version, strings.Join(fixedIn(f), " "),
		f.Package.Type, epss, strconv.FormatFloat(f.Vulnerability.Risk, 'f', -1, 64), yes(len(f.Vulnerability.KEV) > 0),
		string(f.Fix.State), f.Vulnerability.Namespace, f.Package.PURL, strings.Join(paths, " "), f.Vulnerability.DataSource,
	}
}

// csvImageCells are the cells of csvImageColumns.
func csvImageCells(in Input) []string {
	endOfLife := ""
	if ends := in.Lifecycle.EndOfLife; !ends.IsZero() {
		endOfLife = ends.UTC().Format(time.DateOnly)
	}
	return []string{in.ImageID, in.Platform.String(), in.Distro, endOfLife, csvTime(in.Created)}
}

// DeadlineColumns are the columns of CSV about until when a finding is due.
var DeadlineColumns = []string{"due_at", "overdue", "policy"}

// DeadlineCells returns the cells of DeadlineColumns; d is nil for a finding that is not due.
func DeadlineCells(d *model.Deadline) []string {
	if d == nil {
		return []string{"", "", ""}
	}
	return []string{csvTime(d.At), yes(d.Overdue), d.Policy}
}

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// inert makes a text that a spreadsheet would take for a formula a plain one
// (https://owasp.org/www-community/attacks/CSV_Injection). Some look behind leading spaces, and some take the wide forms
// of the characters as well.
func inert(s string) string {
	s = printable(s)
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " "))
	if strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + s
	}
	return s
}
