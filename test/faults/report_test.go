//go:build faults

package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// results are those of all points that were run.
var results report

type report struct {
	mu sync.Mutex
	// lines holds results by scenario and position, then by fault; count counts them.
	lines map[string]map[string]string
	count map[string]int
	// points is the number of points that there are, with those that were not tried.
	points int
}

// found counts the points of a scenario.
func (r *report) found(points int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.points += points
}

// summary counts the results.
func (r *report) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d of %d points were tried: %d passed and %d failed. At %d more, the request did not come again",
		r.count[passed]+r.count[failed], r.points, r.count[passed], r.count[failed], r.count[notReached])
}

// The results of a point.
const (
	passed     = "ok"
	failed     = "**failed**"
	notReached = "–"
)

func (r *report) add(t *testing.T, scenario string, at point, reached bool) {
	t.Helper()
	result := passed
	switch {
	case t.Failed():
		result = failed
	case !reached:
		result = notReached
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines == nil {
		r.lines, r.count = map[string]map[string]string{}, map[string]int{}
	}
	position := fmt.Sprintf("%s | %s %d", scenario, at.kind, at.n)
	if r.lines[position] == nil {
		r.lines[position] = map[string]string{}
	}
	r.lines[position][at.fault] = result
	r.count[result]++
}

// write writes tables of all points: requests, watch events and transactions.
func (r *report) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Fault injection\n\nThe result of `make faults`, which docs/explanation/reliability.md explains.\n\n")
	fmt.Fprintf(&b, "%s (%s). After each fault, the operator had to write nothing for %s.\n", r.summary(), notReached, *quietPeriod)
	request := func(kind string) bool {
		return !strings.HasPrefix(kind, watchPrefix) && !strings.HasPrefix(kind, sqlPrefix)
	}
	r.table(&b, "Requests", requestFaults, request)
	r.table(&b, "Requests during which servers are killed, or the leader gets a signal", slices.Concat(serverFaults, leaderFaults), request)
	r.table(&b, "Watch events", watchFaults, func(kind string) bool { return strings.HasPrefix(kind, watchPrefix) })
	r.table(&b, "Transactions of the SQL database", allSQLFaults(), func(kind string) bool { return strings.HasPrefix(kind, sqlPrefix) })
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

func (r *report) table(b *strings.Builder, title string, faults []string, of func(kind string) bool) {
	fmt.Fprintf(b, "\n## %s\n\n| Scenario | Request | %s |\n|---|---|%s\n", title, strings.Join(faults, " | "), strings.Repeat("---|", len(faults)))
	var positions []string
	for position := range r.lines {
		if _, kind, _ := strings.Cut(position, " | "); of(kind) {
			positions = append(positions, position)
		}
	}
	slices.Sort(positions)
	for _, position := range positions {
		fmt.Fprintf(b, "| %s |", position)
		for _, fault := range faults {
			fmt.Fprintf(b, " %s |", r.lines[position][fault])
		}
		b.WriteString("\n")
	}
}
