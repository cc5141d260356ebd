package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// What "diff" and "plan" print.

// maxCell bounds a cell of a table in bytes; JSON has the text in full.
const maxCell = 80

// cell makes a text that others chose fit for a terminal: without control characters, and short.
func cell(text string) string {
	return truncate.Ellipsis(strings.ReplaceAll(printableText(text), "\n", " "), maxCell)
}

// countText is such as "3 (1 Critical, 2 Low)".
func countText(counts model.SeverityCounts) string {
	var parts []string
	for i, n := range []int{counts.Critical, counts.High, counts.Medium, counts.Low, counts.Negligible, counts.Unknown} {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, model.Severities()[i]))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", counts.Total(), strings.Join(parts, ", "))
}

// writeChanges writes a comparison for terminals.
func writeChanges(w io.Writer, c advice.Comparison) error {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// Errors of the writer stay until the end.
	_, _ = fmt.Fprintf(lines, "Opened: %s\nClosed: %s\n", countText(advice.Count(c.Opened)), countText(advice.Count(c.Closed)))
	if len(c.Opened)+len(c.Closed) > 0 {
		_, _ = fmt.Fprintln(lines, "\nCHANGE\tVULNERABILITY\tSEVERITY\tPACKAGE\tKEV\tFIX")
	}
	writeRows(lines, "opened", c.Opened)
	writeRows(lines, "closed", c.Closed)
	return lines.Flush()
}

func writeRows(lines io.Writer, change string, rows []advice.Change) {
	for i := range rows {
		r := &rows[i]
		line := strings.Join([]string{change, cell(r.VulnerabilityID), r.Severity.String(), cell(r.Package), yesOrNo(r.KEV), yesOrNo(r.Fixable)}, "\t")
		_, _ = fmt.Fprintln(lines, line)
	}
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printableText makes a message fit for a terminal, without shortening it.
func printableText(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
