package summary

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Bounds of what a page shows of others.
const (
	// maxText is the most bytes of a text: a name, a version, an image.
	maxText = 300
	// maxListed is the most entries of a list in a cell.
	maxListed = 5
)

//go:embed page.css
var style string

//go:embed page.html
var page string

// Policy is the Content-Security-Policy of a page: it has its own style and nothing else.
var Policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}()

// PageOptions are what a page says beside its report.
type PageOptions struct {
	// Version is that of the program.
	Version string
	// URL is where browsers reach the UI, without a slash at the end; without it, the page has no links.
	URL string
	// Versions finds the version that a package is updated to; without it, the page does not name any.
	Versions Versions
}

// WritePage writes a report as a page of HTML that needs nothing else. Texts of images, packages and other users are shown as they are, but for characters
// that draw nothing or turn the direction of what follows, and cut.
func WritePage(w io.Writer, report *Report, options PageOptions) error {
	own, err := pages.Clone()
	if err != nil {
		return fmt.Errorf("make a page of a report: %w", err)
	}
	own.Funcs(template.FuncMap{
		"version": func() string { return options.Version },
		"home":    func() string { return options.URL },
		"action": func(fix store.Fix) string {
			version := ""
			if fix.Kind == store.FixUpdate && len(fix.Packages) > 0 {
				version = FixVersion(&fix.Packages[0], options.Versions)
			}
			return text(Action(&fix, version))
		},
		"vulnerabilityLink": func(id string) string { return link(options.URL, "vulnerabilities", id) },
		"imageLink":         func(key model.ImageKey) string { return link(options.URL, "images", key.ImageID) },
	})
	var content bytes.Buffer
	if err := own.Execute(&content, report); err != nil {
		return fmt.Errorf("make a page of a report: %w", err)
	}
	_, err = content.WriteTo(w)
	return err
}

// pages is the template of pages. Functions that depend on the options are replaced in a copy.
var pages = template.Must(template.New("page").Funcs(template.FuncMap{
	"policy": func() string { return Policy },
	"style":  func() template.CSS { return template.CSS(style) }, //nolint:gosec // It is ours.
	"title":  title, "day": day, "moment": moment, "newer": time.Time.After,
	"text": text, "list": list, "imageName": imageName, "string": func(s model.DecisionStatus) string { return string(s) },
	"number": number, "risk": func(risk float64) string { return number(int(math.Round(risk))) }, "plural": plural, "percent": percent, "change": change, "more": func(shown, total int) int { return total - shown },
	"severities": severities, "severityClass": func(s model.Severity) string { return strings.ToLower(s.String()) },
	"rows": severityRows, "required": func(s coverage.Summary) int { return s.Total - s.Skipped },
	"version": func() string { return "" }, "home": func() string { return "" }, "action": func(store.Fix) string { return "" },
	"vulnerabilityLink": func(string) string { return "" }, "imageLink": func(model.ImageKey) string { return "" },
}).Parse(page))

// link is the address of a page of the UI, "" without that of the UI, and for an ID that is cut.
func link(base, kind, id string) string {
	if base == "" || len(id) > maxText {
		return ""
	}
	return base + "/" + kind + "/" + url.PathEscape(id)
}

// Title is the heading of a report.
func (s Scope) title() string {
	if s.Kind == Cluster {
		return "Cluster"
	}
	return string(s.Kind) + " " + text(s.Name)
}

func title(s Scope) string { return s.title() }

func day(t time.Time) string { return t.UTC().Format("2 January 2006") }

func moment(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 MST") }

// text makes a text of others safe to look at.
func text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, truncate.Ellipsis(s, maxText))
}

// imageName is an image ID with the beginning of its digest.
func imageName(id string) string {
	const digits = 12
	if name, digest, found := strings.Cut(id, "@sha256:"); found && len(digest) > digits {
		return text(name) + "@sha256:" + text(digest[:digits]) + "…"
	}
	return text(id)
}

func list(texts []string) string {
	shown := make([]string, 0, maxListed+1)
	for _, one := range texts[:min(len(texts), maxListed)] {
		shown = append(shown, text(one))
	}
	if more := len(texts) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}

// number writes a number with commas.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural is a word for a number of things; its plural ends with s unless it is given.
func plural(n int, word string, plural ...string) string {
	switch {
	case n == 1:
		return word
	case len(plural) > 0:
		return plural[0]
	default:
		return word + "s"
	}
}

// percent rounds down: 100% means all.
func percent(ratio float64) string { return strconv.Itoa(int(100*ratio)) + "%" }

func change(now, before int) string {
	switch {
	case now > before:
		return "+" + number(now-before)
	case now < before:
		return "−" + number(before-now)
	default:
		return "±0"
	}
}

// severityCount is a number of a severity.
type severityCount struct {
	Severity model.Severity
	Count    int
}

// severities lists the counts that are not 0, the worst first.
func severities(counts model.SeverityCounts) []severityCount {
	var list []severityCount
	for _, severity := range model.Severities() {
		if n := countOf(counts, severity); n > 0 {
			list = append(list, severityCount{severity, n})
		}
	}
	return list
}

// severityRow is a row of the table by severity.
type severityRow struct {
	Severity                                  model.Severity
	Findings, Before, Opened, Closed, Overdue int
}

func severityRows(r *Report) []severityRow {
	var before store.TrendDay
	if r.Before != nil {
		before = *r.Before
	}
	var rows []severityRow
	for _, severity := range model.Severities() {
		rows = append(rows, severityRow{
			severity, countOf(r.Counts.SeverityCounts, severity), countOf(before.Counts.SeverityCounts, severity),
			countOf(r.Opened.Counts, severity), countOf(r.Closed.Counts, severity), countOf(r.Overdue.Counts, severity),
		})
	}
	return rows
}

func countOf(c model.SeverityCounts, severity model.Severity) int {
	switch severity {
	case model.SeverityCritical:
		return c.Critical
	case model.SeverityHigh:
		return c.High
	case model.SeverityMedium:
		return c.Medium
	case model.SeverityLow:
		return c.Low
	case model.SeverityNegligible:
		return c.Negligible
	case model.SeverityUnknown:
		return c.Unknown
	default:
		return 0
	}
}
