//go:build scale

package scale

import (
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

//go:embed bounds.txt
var boundsFile string

// unitSeconds is the unit of durations.
const unitSeconds = "s"

// bound is the maximum of a measured value.
type bound struct {
	most float64
	unit string
}

// parseBounds reads a range file: lines of a measure, a bound and a unit, and comments.
func parseBounds(text string) (map[string]bound, error) {
	found := map[string]bound{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("%q: want a measure, a bound and a unit", line)
		}
		most, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if _, twice := found[fields[0]]; twice {
			return nil, fmt.Errorf("%s has two bounds", fields[0])
		}
		found[fields[0]] = bound{most, fields[2]}
	}
	return found, nil
}

// measures are the values of a run, and their bounds.
type measures struct {
	bounds map[string]bound
	// checked are the bounds that a value was compared with.
	checked map[string]bool
	table   strings.Builder
}

func newMeasures(t *testing.T) *measures {
	t.Helper()
	read, err := parseBounds(boundsFile)
	if err != nil {
		t.Fatalf("bounds.txt: %v", err)
	}
	m := &measures{bounds: read, checked: map[string]bool{}}
	m.table.WriteString("| Measure | Value | Bound |\n|---|---|---|\n")
	return m
}

// note reports a value that has no bound.
func (m *measures) note(t *testing.T, what, format string, args ...any) {
	t.Helper()
	value := fmt.Sprintf(format, args...)
	t.Logf("%s: %s", what, value)
	fmt.Fprintf(&m.table, "| %s | %s | |\n", what, value)
}

// of returns a bound.
func (m *measures) of(t *testing.T, name string) bound {
	t.Helper()
	b, known := m.bounds[name]
	if !known {
		t.Fatalf("bounds.txt has no bound of %s", name)
	}
	m.checked[name] = true
	return b
}

// check compares a value, in the unit of its bound, with it.
func (m *measures) check(t *testing.T, name, what string, value float64) {
	t.Helper()
	m.compare(t, what, value, m.of(t, name))
}

func (m *measures) compare(t *testing.T, what string, value float64, b bound) {
	t.Helper()
	t.Logf("%s: %.3g %s, at most %.4g", what, value, b.unit, b.most)
	fmt.Fprintf(&m.table, "| %s | %.3g %s | %.4g %s |\n", what, value, b.unit, b.most, b.unit)
	// The sample runs beside other tests, which delay it.
	if value > b.most && (!testing.Short() || b.unit != unitSeconds) {
		t.Errorf("%s: %.3g %s, more than %.4g", what, value, b.unit, b.most)
	}
}

// report writes the values to a file, if there is to be one. Each bound must have been compared with a value.
func (m *measures) report(t *testing.T, file, title string) {
	t.Helper()
	for name := range m.bounds {
		if !m.checked[name] {
			t.Errorf("bounds.txt has a bound of %s, which is not measured", name)
		}
	}
	if file == "" {
		return
	}
	if err := os.WriteFile(file, []byte("# "+title+"\n\n"+m.table.String()), 0o600); err != nil {
		t.Error(err)
	}
}

func TestParseBounds(t *testing.T) {
	for text, want := range map[string]string{
		"# a comment\n\nmemory 100 MiB\n": "map[memory:{100 MiB}]",
		"memory 100\n":                    `"memory 100\n": want a measure, a bound and a unit`,
		"memory many MiB\n":               `"memory many MiB\n": strconv.ParseFloat: parsing "many": invalid syntax`,
		"memory 1 MiB\nmemory 2 MiB\n":    "memory has two bounds",
	} {
		found, err := parseBounds(text)
		got := fmt.Sprint(found)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q gives %s, want %s", text, got, want)
		}
	}
}
