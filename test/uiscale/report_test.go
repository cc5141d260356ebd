//go:build uiscale

package uiscale

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Bounds of what is measured, in milliseconds. They depend on what else the machine does, so a test fails by them only with -bounds.
const (
	frameBound       = 32
	interactionBound = 100
)

// plainPage is the title of the spec that shows a table without any script: what the machine does at best. It has no bounds.
const plainPage = "Plain table, for comparison"

// shownShift is the least layout shift that is printed with what moved.
const shownShift = 0.01

// result is what a spec measured on a page. web/e2e-scale/measure.ts writes it.
type result struct {
	Page string `json:"page"`
	// Frames are the times between frames while the page was scrolled, Interactions the times until the next paint, in milliseconds.
	Frames       []float64 `json:"frames"`
	Interactions []float64 `json:"interactions"`
	// Shift is the sum of layout shifts without input, while data arrived. LaterShift is the one of those that came later than half a second after an input.
	Shift      float64 `json:"shift"`
	LaterShift float64 `json:"laterShift"`
	// Requests are the times of answers of the API, in milliseconds. Steps is how many changes the store had meanwhile.
	Requests []float64 `json:"requests"`
	Steps    int       `json:"steps"`
	// Kinds counts the requests by path.
	Kinds map[string]int `json:"kinds"`
	// Moves are the layout shifts, with the elements that moved.
	Moves []move `json:"moves"`
}

type move struct {
	Value float64  `json:"value"`
	What  []string `json:"what"`
}

// percentile of times, "-" when there are none.
func percentile(times []float64, of int) string {
	if len(times) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", at(times, of))
}

func at(times []float64, of int) float64 {
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*of/100)]
}

// within says whether times of a page are below a bound.
func within(page string, times []float64, bound float64) string {
	switch {
	case len(times) == 0 || page == plainPage:
		return ""
	case at(times, 95) < bound:
		return " met"
	default:
		return " **missed**"
	}
}

// missed are the bounds that a page misses.
func missed(r *result) []string {
	var all []string
	if r.Page == plainPage {
		return nil
	}
	for _, measured := range []struct {
		what  string
		times []float64
		bound float64
	}{{"frames while scrolling", r.Frames, frameBound}, {"interactions until the next paint", r.Interactions, interactionBound}} {
		if len(measured.times) > 0 && at(measured.times, 95) >= measured.bound {
			all = append(all, fmt.Sprintf("%s, %s: the 95th percentile is %.0f ms, and has to be less than %.0f ms", r.Page, measured.what, at(measured.times, 95), measured.bound))
		}
	}
	if r.Shift > 0 {
		all = append(all, fmt.Sprintf("%s: the layout shifts by %.3f while data arrives, and must not", r.Page, r.Shift))
	}
	return all
}

// writeReport prints a table of the results, and writes it to the file that was asked for. With -bounds, each bound that a page misses fails the test.
func writeReport(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no spec measured anything: %v", err)
	}
	results := json.NewDecoder(bytes.NewReader(content))
	var rows strings.Builder
	var all result
	var moves, requests []string
	for {
		var one result
		if err := results.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		row(&rows, one)
		if *bounds {
			for _, message := range missed(&one) {
				t.Error(message)
			}
		}
		requests = append(requests, fmt.Sprintf("requests of %q: %v", one.Page, one.Kinds))
		for _, m := range one.Moves {
			if m.Value >= shownShift {
				moves = append(moves, fmt.Sprintf("%.3f on %q: %q", m.Value, one.Page, m.What))
			}
		}
		if one.Page == plainPage {
			continue
		}
		all.Frames, all.Interactions, all.Requests = append(all.Frames, one.Frames...), append(all.Interactions, one.Interactions...), append(all.Requests, one.Requests...)
		all.Shift, all.LaterShift, all.Steps = all.Shift+one.Shift, all.LaterShift+one.LaterShift, all.Steps+one.Steps
	}
	slices.SortStableFunc(moves, func(a, b string) int { return -cmp.Compare(a, b) })
	all.Page = "**all**"
	row(&rows, all)
	table := fmt.Sprintf(`%d images on PostgreSQL, Chromium, the server and the database on %d processors. Times are in milliseconds.

| Page | Changes meanwhile | Frames while scrolling: p50, p95 (less than %d) | Interactions: number, p95 until the next paint (less than %d) | Layout shift without input, as data arrives (0) | Shift after slow answers | Requests: number, p50, p95 |
|---|---|---|---|---|---|---|
%s`, *images, runtime.NumCPU(), frameBound, interactionBound, rows.String())
	fmt.Println(table)
	for _, m := range slices.Concat(requests, moves) {
		fmt.Println(m)
	}
	if *report == "" {
		return
	}
	if err := os.WriteFile(*report, []byte("# The UI with many images\n\n"+table), 0o600); err != nil {
		t.Error(err)
	}
}

func TestMissed(t *testing.T) {
	fast, slow := slices.Repeat([]float64{16}, 99), []float64{200}
	for _, test := range []struct {
		name   string
		result result
		want   int
	}{
		{"nothing was measured", result{}, 0},
		{"one of a hundred is slow", result{Frames: append(slow, fast...), Interactions: append(slow, fast...)}, 0},
		{"frames are slow", result{Frames: slow, Interactions: fast}, 1},
		{"all is slow, and the page moves", result{Frames: slow, Interactions: slow, Shift: 0.1}, 3},
		{"a page without bounds", result{Page: plainPage, Frames: slow, Interactions: slow, Shift: 0.1}, 0},
		{"at the bounds", result{Frames: []float64{frameBound}, Interactions: []float64{interactionBound}}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := missed(&test.result); len(got) != test.want {
				t.Errorf("missed %q, want %d bounds", got, test.want)
			}
		})
	}
}

// shiftWithin says whether a page stayed where it was.
func shiftWithin(r *result) string {
	switch {
	case r.Page == plainPage:
		return ""
	case r.Shift == 0:
		return " met"
	default:
		return " **missed**"
	}
}

func row(out io.Writer, r result) {
	fmt.Fprintf(out, "| %s | %d | %s, %s%s | %d, %s%s | %.3f%s | %.3f | %d, %s, %s |\n", r.Page, r.Steps,
		percentile(r.Frames, 50), percentile(r.Frames, 95), within(r.Page, r.Frames, frameBound),
		len(r.Interactions), percentile(r.Interactions, 95), within(r.Page, r.Interactions, interactionBound),
		r.Shift, shiftWithin(&r), r.LaterShift,
		len(r.Requests), percentile(r.Requests, 50), percentile(r.Requests, 95))
}
