package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxCell bounds a cell of the table in bytes; the other formats hold the text in full.
const maxCell = 60

var suppressedColumns = []string{"VULNERABILITY", "SEVERITY", "PACKAGE", "VERSION", "STATUS", "JUSTIFICATION", "AUTHOR", "SOURCE"}

var tableColumns = []string{"VULNERABILITY", "SEVERITY", "PACKAGE", "VERSION", "FIXED-IN", "TYPE", "EPSS", "RISK", "KEV"}

// table writes findings for terminals. It removes control characters, because names are untrusted.
func table(w io.Writer, in Input) error {
	findings, err := sortedFindings(in)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{
			f.Vulnerability.ID, f.Vulnerability.Severity.String(), f.Package.Name, f.Package.Version, fixText(f), f.Package.Type,
			epssText(f.Vulnerability.EPSS), strconv.FormatFloat(f.Vulnerability.Risk, 'f', 1, 64), yes(len(f.Vulnerability.KEV) > 0),
		})
	}
	if err := tableOf(w, "No vulnerabilities found.", tableColumns, rows); err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	if !in.ShowSuppressed {
		return nil
	}
	var suppressed [][]string
	for _, f := range sortedSuppressed(in) {
		s := f.Suppression
		status, reason := s.Status, cmp.Or(s.Justification, s.ImpactStatement)
		if s.Decision != "" {
			status, reason = string(s.Decision), cmp.Or(reason, s.Comment)
		}
		suppressed = append(suppressed, []string{
			f.Vulnerability.ID, f.Vulnerability.Severity.String(), f.Package.Name, f.Package.Version, status, reason, s.Author, s.Source + " " + s.Position,
		})
	}
	_, _ = fmt.Fprintln(w) // an error of the writer stays
	if err := tableOf(w, "No vulnerabilities are suppressed.", suppressedColumns, suppressed); err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	return nil
}

// tableOf writes rows, each once: records of several namespaces, and packages that differ in what is not shown, look alike. Without rows it
// writes the text.
func tableOf(w io.Writer, none string, columns []string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(lines, strings.Join(columns, "\t"))
	seen := map[string]bool{}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = truncate.Ellipsis(printable(cells[i]), maxCell)
		}
		if line := strings.TrimRight(strings.Join(cells, "\t"), "\t"); !seen[line] {
			seen[line] = true
			_, _ = fmt.Fprintln(lines, line)
		}
	}
	return lines.Flush() // errors of the writer stay until here
}

func fixText(f model.Finding) string {
	if f.Fix.State == model.FixStateWontFix {
		return "(won't fix)"
	}
	return strings.Join(fixedIn(f), ", ")
}

// epssText does not round a probability down to none.
func epssText(e *model.EPSS) string {
	switch {
	case e == nil:
		return ""
	case e.Score > 0 && e.Score < 0.001:
		return "<0.1%"
	default:
		return strconv.FormatFloat(e.Score*100, 'f', 1, 64) + "%"
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// printable keeps letters, marks, digits, punctuation, symbols and plain spaces. Control characters go, and so do those
// that change the direction of the text or show nothing.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
