//go:build faults

package faults

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// report is what the lines say about each point.
type report struct {
	// last is the last result of each point.
	last map[place]line
	// before are the points that failed in an earlier run and not in the last one.
	before []place
	// points is the number of points that there are, with those that were not tried.
	points int
	count  map[string]int
}

// place is a point of a scenario.
type place struct {
	scenario string
	point
}

// String names a place like its test.
func (p place) String() string { return p.scenario + "/" + p.point.String() }

// newReport reads lines about one operator, in the order in which they were written.
func newReport(lines []line) *report {
	r := &report{last: map[place]line{}, count: map[string]int{}}
	positions, everFailed := map[string]map[string]int{}, map[place]bool{}
	for _, l := range lines {
		if l.Positions != nil {
			positions[l.Scenario] = l.Positions
			continue
		}
		at := place{l.Scenario, l.at()}
		r.last[at] = l
		everFailed[at] = everFailed[at] || l.Result == failed
	}
	for _, l := range r.last {
		r.count[l.Result]++
	}
	for at := range everFailed {
		if everFailed[at] && r.last[at].Result != failed {
			r.before = append(r.before, at)
		}
	}
	slices.SortFunc(r.before, func(a, b place) int { return strings.Compare(a.String(), b.String()) })
	every := slices.Concat(scenarios, sqlScenarios())
	for i := range every {
		r.points += len(every[i].points(positions[every[i].name]))
	}
	return r
}

// summary counts the results.
func (r *report) summary() string {
	return fmt.Sprintf("%d of %d points were tried: %d passed and %d failed. At %d more, the request did not come again",
		r.count[passed]+r.count[failed], r.points, r.count[passed], r.count[failed], r.count[notReached])
}

// with returns the points with a result, sorted by name.
func (r *report) with(result string) (places []place) {
	for at, l := range r.last {
		if l.Result == result {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.String(), b.String()) })
	return places
}

// maxNotReached is which part of the points of a kind may not be reached: runs of one scenario differ, and it is not known what the operator
// would have done there.
const maxNotReached = 0.05

// unreached returns an error that lists the points that were not reached, of the kinds of which these are too many.
func (r *report) unreached() error {
	all, missed := map[string]int{}, map[string][]string{}
	for at := range r.last {
		all[at.kind]++
	}
	for _, at := range r.with(notReached) {
		missed[at.kind] = append(missed[at.kind], at.String())
	}
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(missed)) {
		if n := len(missed[kind]); float64(n) > maxNotReached*float64(all[kind]) {
			errs = append(errs, fmt.Errorf("%d of %d points of %s were not reached, more than %.0f %%:\n  %s", n, all[kind], kind, 100*maxNotReached,
				strings.Join(missed[kind], "\n  ")))
		}
	}
	return errors.Join(errs...)
}

// write writes tables of all points: requests, watch events and transactions.
func (r *report) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Fault injection\n\nThe result of `make faults`, which docs/explanation/reliability.md explains.\n\n")
	fmt.Fprintf(&b, "%s (–).", r.summary())
	quiet := map[float64]int{}
	for _, l := range r.last {
		quiet[l.Quiet]++
	}
	for _, seconds := range slices.Sorted(maps.Keys(quiet)) {
		fmt.Fprintf(&b, " At %d points the operator had to write nothing for %g s.", quiet[seconds], seconds)
	}
	b.WriteString("\n")
	if places := r.with(failed); len(places) > 0 {
		b.WriteString("\n## Failed\n\n")
		for _, at := range places {
			fmt.Fprintf(&b, "- `%s`\n\n  ```text\n  %s\n  ```\n", at, strings.ReplaceAll(strings.TrimSpace(r.last[at].Reason), "\n", "\n  "))
		}
	}
	list(&b, "Failed in an earlier run", r.before)
	list(&b, "Not reached", r.with(notReached))
	request := func(kind string) bool {
		return !strings.HasPrefix(kind, watchPrefix) && !strings.HasPrefix(kind, sqlPrefix)
	}
	r.table(&b, "Requests", requestFaults, request)
	r.table(&b, "Requests during which servers are killed, or the leader gets a signal", slices.Concat(serverFaults, leaderFaults), request)
	r.table(&b, "Watch events", watchFaults, func(kind string) bool { return strings.HasPrefix(kind, watchPrefix) })
	r.table(&b, "Transactions of the SQL database", allSQLFaults(), func(kind string) bool { return strings.HasPrefix(kind, sqlPrefix) })
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

func list(b *strings.Builder, title string, places []place) {
	if len(places) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", title)
	for _, at := range places {
		fmt.Fprintf(b, "- `%s`\n", at)
	}
}

func (r *report) table(b *strings.Builder, title string, faults []string, of func(kind string) bool) {
	fmt.Fprintf(b, "\n## %s\n\n| Scenario | Request | %s |\n|---|---|%s\n", title, strings.Join(faults, " | "), strings.Repeat("---|", len(faults)))
	shown := map[string]string{passed: passed, failed: "**failed**", notReached: "–"}
	rows := map[place]map[string]string{}
	for at, l := range r.last {
		if !of(at.kind) {
			continue
		}
		row := at
		row.fault = ""
		if rows[row] == nil {
			rows[row] = map[string]string{}
		}
		rows[row][at.fault] = shown[l.Result]
	}
	order := func(a, b place) int {
		if c := strings.Compare(a.scenario+" "+a.kind, b.scenario+" "+b.kind); c != 0 {
			return c
		}
		return a.n - b.n
	}
	for _, row := range slices.SortedFunc(maps.Keys(rows), order) {
		fmt.Fprintf(b, "| %s | %s %d |", row.scenario, row.kind, row.n)
		for _, fault := range faults {
			fmt.Fprintf(b, " %s |", rows[row][fault])
		}
		b.WriteString("\n")
	}
}

func TestReportOfLines(t *testing.T) {
	lines := []line{{Scenario: "new-image", Positions: map[string]int{"create-jobs": 4}}}
	add := func(n int, fault, result string) {
		lines = append(lines, line{Scenario: "new-image", Kind: "create-jobs", N: n, Fault: fault, Result: result, Quiet: 60, Reason: "because"})
	}
	for n := range 4 {
		for _, fault := range requestFaults {
			add(n+1, fault, passed)
		}
	}
	add(1, "reset", failed)
	add(2, "reset", failed)
	add(2, "reset", passed)
	add(3, "hang", notReached)
	add(4, "hang", notReached)
	r := newReport(lines)
	if want := "46 of 56 points were tried: 45 passed and 1 failed. At 2 more"; !strings.HasPrefix(r.summary(), want) {
		t.Errorf("%q does not begin with %q", r.summary(), want)
	}
	if err := r.unreached(); err != nil {
		t.Errorf("2 of 48 were not reached: %v", err)
	}
	path := t.TempDir() + "/faults.md"
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## Failed\n\n- `new-image/create-jobs-1/reset`\n\n  ```text\n  because\n",
		"## Failed in an earlier run\n\n- `new-image/create-jobs-2/reset`\n\n",
		"## Not reached\n\n- `new-image/create-jobs-3/hang`\n- `new-image/create-jobs-4/hang`\n",
		"\n| new-image | create-jobs 1 | ok | ok | ok | ok | ok | **failed** | ok |",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the report lacks %q:\n%s", want, content)
		}
	}
	add(2, "hang", notReached)
	if err := newReport(lines).unreached(); err == nil || !strings.Contains(err.Error(), "3 of 48 points of create-jobs") ||
		!strings.Contains(err.Error(), "new-image/create-jobs-2/hang\n  new-image/create-jobs-3/hang") {
		t.Errorf("3 of 48 were not reached: %v", err)
	}
}
