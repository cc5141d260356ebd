package notify

import (
	"fmt"
	htmltemplate "html/template"
	"strings"
	"time"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// color is that of a severity, dark enough for white text.
func color(severity model.Severity) htmltemplate.CSS {
	switch severity {
	case model.SeverityCritical:
		return "#a3122b"
	case model.SeverityHigh:
		return "#b4460b"
	case model.SeverityMedium:
		return "#866000"
	default:
		return "#5b6470"
	}
}

// nouns are what counts of kinds are called, for one and for several.
var nouns = map[Kind][2]string{
	KEVAdded:          {"finding now known to be exploited (KEV)", "findings now known to be exploited (KEV)"},
	FindingOpened:     {"new finding", "new findings"},
	EPSSCrossed:       {"finding with a higher probability of exploitation", "findings with a higher probability of exploitation"},
	FindingOverdue:    {"image with overdue findings", "images with overdue findings"},
	FindingChanged:    {"changed finding", "changed findings"},
	FindingClosed:     {"closed finding", "closed findings"},
	RolloutEvaluated:  {"evaluated rollout", "evaluated rollouts"},
	ImageIntroduced:   {"new image", "new images"},
	CoverageLost:      {"container no longer scanned", "containers no longer scanned"},
	ExceptionExpiring: {"exception that expires soon", "exceptions that expire soon"},
	ExceptionExpired:  {"expired exception", "expired exceptions"},
	ExceptionRemoved:  {"removed exception", "removed exceptions"},
	ScanFailed:        {"failed scan", "failed scans"},
	DatabaseStale:     {"outdated vulnerability database", "outdated vulnerability databases"},
	DatabaseUpdated:   {"database update", "database updates"},
}

// counted is a number with what it counts.
func counted(kind Kind, n int) string {
	forms, known := nouns[kind]
	switch {
	case !known:
		return fmt.Sprintf("%d %s", n, kind)
	case n == 1:
		return "1 " + forms[0]
	default:
		return fmt.Sprintf("%d %s", n, forms[1])
	}
}

// titleKinds is how many kinds of changes a title names.
const titleKinds = 2

// Title is a message in one line.
func Title(m *Message) string {
	switch {
	case m.Test:
		return "Test message of the notification rule " + clean(m.Rule)
	case m.Report != nil:
		return "Report about " + m.Report.String()
	}
	var said []string
	for _, kind := range Kinds() {
		if m.Counts[kind] > 0 && len(said) < titleKinds {
			said = append(said, counted(kind, m.Counts[kind]))
		}
	}
	title := strings.Join(said, ", ")
	switch {
	case m.Combined:
		title += " in several groups"
	case m.Group != "":
		title += " in " + clean(m.Group)
	case len(m.Workloads) > 0:
		title += " in " + m.workloadCount()
	}
	if severity := m.Severity(); severity > model.SeverityUnknown {
		return fmt.Sprintf("[%s] %s", severity, title)
	}
	return title
}

// fix says how a finding of a message is fixed.
func fix(f Finding) string {
	switch {
	case f.Kind == FindingClosed:
		return "closed"
	case f.FixedIn != "":
		return "fixed in " + f.FixedIn
	default:
		return "no fix"
	}
}

// images is the number of images of a finding as text.
func images(f Finding) string {
	if f.Images == 1 {
		return "1 image"
	}
	return fmt.Sprintf("%d images", f.Images)
}

// lines are the counts, a line for each kind.
func lines(m *Message) []string {
	var all []string
	for _, kind := range Kinds() {
		if m.Counts[kind] == 0 {
			continue
		}
		line := counted(kind, m.Counts[kind])
		if counts, found := m.Severities[kind]; found {
			line += ": " + severityText(counts)
		}
		all = append(all, line)
	}
	return all
}

func severityText(c model.SeverityCounts) string {
	var parts []string
	for _, one := range []struct {
		n    int
		name string
	}{{c.Critical, "Critical"}, {c.High, "High"}, {c.Medium, "Medium"}, {c.Low, "Low"}, {c.Negligible, "Negligible"}, {c.Unknown, "Unknown"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.name))
		}
	}
	return strings.Join(parts, ", ")
}

// names are the first workloads.
func names(m *Message) []string { return m.Workloads[:min(len(m.Workloads), maxWorst)] }

// span says from when to when the changes are, "" if they are of the same hour.
func span(m *Message) string {
	if m.To.Sub(m.From) < time.Hour {
		return ""
	}
	const layout = "2006-01-02 15:04"
	return m.From.UTC().Format(layout) + " to " + m.To.UTC().Format(layout) + " UTC"
}

// period says what the report of a message covers.
func period(m *Message) string {
	const layout = "2006-01-02 15:04"
	return "The attached page compares now with " + m.Report.Since.UTC().Format(layout) + " UTC. Open it in a browser."
}

// clean makes text from images and databases fit into a line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
