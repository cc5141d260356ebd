//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// reference is how an undisturbed run ends.
type reference struct {
	state, history []string
	// positions are the numbers of requests and watch events, by kind.
	positions map[string]int
	// goroutines are those at the end.
	goroutines []string
}

// spareGoroutines is how many more goroutines an operator may have than in the undisturbed run: some come and go with requests.
const spareGoroutines = 10

// TestFaults runs each scenario undisturbed, and then once for each fault at each of its requests and watch events. After each fault, the
// operator reaches the same state, with the same creations and deletions, and then writes nothing more.
func TestFaults(t *testing.T) {
	if err := setUp(); err != nil {
		t.Fatal(err)
	}
	every := slices.Concat(scenarios, sqlScenarios())
	for i := range every {
		s := &every[i]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			var positions map[string]int
			if *resume {
				positions = results.enumerated(s.name)
			}
			if positions != nil && len(s.chosen(positions, i)) == 0 {
				return
			}
			if s.prepare != nil {
				s.prepare(t, s)
			}
			want := undisturbed(t, s)
			if positions == nil {
				positions = want.positions
				if err := results.add(line{Scenario: s.name, Positions: positions}); err != nil {
					t.Fatal(err)
				}
			}
			for _, at := range s.chosen(positions, i) {
				t.Run(at.String(), func(t *testing.T) {
					t.Parallel()
					disturbed(t, s, at, want)
				})
			}
		})
	}
}

// String names a point, as the last two parts of the name of its test.
func (p point) String() string { return fmt.Sprintf("%s-%d/%s", p.kind, p.n, p.fault) }

// chosen lists the points that are to be run: those of the part, or some with -short, without those that are finished.
func (s *scenario) chosen(positions map[string]int, number int) []point {
	points := s.points(positions)
	if testing.Short() {
		points = sample(points, s, number)
	}
	points = part.choose(s.name, points)
	if *resume {
		points = results.left(s.name, points, *quietPeriod)
	}
	return points
}

// points lists what can happen to the requests of a scenario.
func (s *scenario) points(positions map[string]int) []point {
	var points []point
	for _, kind := range slices.Sorted(maps.Keys(positions)) {
		n := positions[kind]
		if strings.HasSuffix(kind, "-"+leases) {
			// They come as long as the operator runs.
			n = min(n, 2)
		}
		faults := s.faultsAt(kind)
		for i := range n {
			for _, fault := range faults {
				points = append(points, point{kind, i + 1, fault})
			}
		}
	}
	return points
}

// faultsAt returns the faults that can happen to requests of a kind.
func (s *scenario) faultsAt(kind string) (faults []string) {
	switch {
	case strings.HasPrefix(kind, sqlPrefix):
		return sqlFaultsAt(kind, s)
	case strings.HasPrefix(kind, watchPrefix):
		if s.database == "" {
			faults = slices.DeleteFunc(slices.Clone(watchFaults), func(fault string) bool { return fault == "drop" && !s.audited(kind) })
		}
		return faults
	}
	if s.database == "" {
		faults = slices.Concat(requestFaults, serverFaults)
	}
	if s.replicas > 1 {
		faults = slices.Concat(faults, leaderFaults)
	}
	return faults
}

// sample chooses some points: each fault once, in one of the scenarios, each of which has at least one. Events and reviews are not in it.
// Scenarios with a SQL database have each fault of transactions once, and those with several operators two faults of leaders.
func sample(points []point, s *scenario, number int) []point {
	var some []point
	faults, step := slices.Concat(requestFaults, watchFaults, serverFaults), len(scenarios)
	if s.database != "" {
		faults, number, step = allSQLFaults(), 0, 1
	}
	var chosen []string
	for i := number; i < len(faults); i += step {
		chosen = append(chosen, faults[i])
	}
	if s.replicas > 1 {
		chosen = append(chosen, "sigterm", "sigstop-before")
	}
	for _, fault := range chosen {
		var candidates []point
		for _, at := range points {
			if at.fault == fault && !strings.HasSuffix(at.kind, "-"+events) && !strings.HasSuffix(at.kind, "reviews") {
				candidates = append(candidates, at)
			}
		}
		if len(candidates) > 0 {
			some = append(some, candidates[len(candidates)/2])
		}
	}
	return some
}

// audited says whether the operator compares the cache with the API server. It does so for what decides what is scanned; all else relies on
// watches that lose nothing, as the controllers of Kubernetes do.
func (s *scenario) audited(kind string) bool {
	return s.scans && (kind == "watch-pods" || kind == "watch-jobs")
}

// undisturbed runs a scenario without a fault.
func undisturbed(t *testing.T, s *scenario) reference {
	t.Helper()
	w := newWorld(t, s, point{}, planeFor(t, s, point{}))
	w.begin(t)
	w.settle(t, s.settled)
	var want reference
	w.until(t, recovery, func(ctx context.Context, w *world, now snapshot) (err error) {
		want.state, err = w.state(ctx, now)
		return err
	})
	// To watch an operator that does nothing takes no processor.
	w.slot.free()
	w.quiet(t, want, time.Time{})
	want.history, want.positions = w.trace.history(), w.trace.positions()
	want.goroutines = w.stop(t)
	return want
}

// attempts is how often a scenario is run whose fault does not happen: the requests of two runs are not always the same.
const attempts = 3

// disturbed runs a scenario with a fault, and keeps the result when all has been cleaned up.
func disturbed(t *testing.T, s *scenario, at point, want reference) {
	t.Helper()
	begin, reached := time.Now(), false
	var w *world
	t.Cleanup(func() {
		l := line{
			Scenario: s.name, Kind: at.kind, N: at.n, Fault: at.fault, Result: passed, Quiet: quietPeriod.Seconds(),
			Took: time.Since(begin).Round(time.Millisecond).Seconds(),
		}
		switch {
		case t.Failed():
			l.Result, l.Reason = failed, w.reason()
		case !reached:
			l.Result = notReached
		}
		if err := results.add(l); err != nil {
			t.Error(err)
		}
	})
	// All attempts have the same: they would wait for each other's otherwise.
	on := planeFor(t, s, at)
	for last := attempts - 1; last >= 0; last-- {
		w = newWorld(t, s, at, on)
		w.begin(t)
		settled := w.recover(t, at, want)
		if strings.HasPrefix(at.kind, sqlPrefix) && w.hitLater() {
			settled = w.recover(t, at, want)
		}
		if !w.trace.wasHit() && last > 0 {
			w.slot.free()
			w.stop(t)
			w.empty(t)
			continue
		}
		w.settle(t, all())
		w.trace.pass()
		// To watch an operator that does nothing takes no processor.
		w.slot.free()
		w.quiet(t, want, settled)
		if got := w.trace.history(); !slices.Equal(got, want.history) {
			w.errorf(t, "objects:\n%s\nin the undisturbed run:\n%s", strings.Join(got, "\n"), strings.Join(want.history, "\n"))
		}
		if more := surplus(w.stop(t), want.goroutines); len(more) > spareGoroutines {
			w.errorf(t, "%d goroutines more than in the undisturbed run, created by:\n%s", len(more), strings.Join(more, "\n"))
		}
		reached = w.trace.wasHit()
		return
	}
}

// recover waits until the operator has reached the state of the undisturbed run. It returns when the time for that ends.
func (w *world) recover(t *testing.T, at point, want reference) time.Time {
	t.Helper()
	begin, outage, limit := time.Now(), w.outage(), recovery+w.scenario.patience
	if w.scenario.replicas > 1 {
		limit += leaseDuration
	}
	w.until(t, limit, func(ctx context.Context, w *world, now snapshot) error {
		err := w.reached(ctx, now, want.state)
		if err == nil && strings.HasSuffix(at.kind, "-"+leases) && !w.trace.wasHit() {
			err = errors.New("the Lease was not renewed yet")
		}
		if err == nil && slices.Contains(leaderFaults, at.fault) {
			err = replaced(ctx, w, now)
		}
		return err
	})
	return begin.Add(limit + w.outage() - outage)
}

// late is how long after the state was reached a transaction may begin: some of the operator's own work begins a minute after its start.
const late = 75 * time.Second

// hitLater waits for a fault that has not happened when the operator has reached the state, and reports whether it has happened since then.
func (w *world) hitLater() (hit bool) {
	if w.trace.wasHit() {
		return false
	}
	w.slot.rest(func() {
		deadline, ticker := time.After(late), time.NewTicker(tick)
		defer ticker.Stop()
		for !hit {
			select {
			case <-deadline:
				return
			case <-ticker.C:
				hit = w.trace.wasHit()
			}
		}
	})
	return hit
}

// surplus returns what one list has more often than another one.
func surplus(list, other []string) (more []string) {
	count := map[string]int{}
	for _, entry := range other {
		count[entry]++
	}
	for _, entry := range list {
		if count[entry]--; count[entry] < 0 {
			more = append(more, entry)
		}
	}
	return more
}

// leaseDuration is how long a leader that was killed is still the leader.
const leaseDuration = 20 * time.Second

// begin brings about the beginning of a scenario, and lets it happen.
func (w *world) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { w.empty(t) })
	w.ready(t)
	w.scenario.arrange(t, w)
	existing, err := w.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.trace.arm(existing)
	w.scenario.act(t, w)
	close(w.acted)
}

// quiet checks for a while that the operator writes nothing, and that the state remains. The while begins again with writes before a time, at
// which the operator must be settled: the state can be reached before a write is repeated whose outcome was unknown, or before another leader
// reports that it leads.
func (w *world) quiet(t *testing.T, want reference, settled time.Time) {
	t.Helper()
	before, _ := w.trace.writesSoFar()
	deadline := time.After(*quietPeriod)
	for ticker := time.NewTicker(tick); ; {
		select {
		case <-deadline:
			// The operator reviews this request, too.
			w.trace.disarm()
			w.lists = nil
			s, err := w.snapshot(t.Context())
			if err == nil {
				err = w.reached(t.Context(), s, want.state)
			}
			if err != nil {
				w.errorf(t, "%s later: %v", *quietPeriod, err)
			}
			return
		case <-ticker.C:
			now, last := w.trace.writesSoFar()
			if len(now) == len(before) {
				continue
			}
			if last.After(settled) {
				w.errorf(t, "a settled operator wrote: %v", now[len(before):])
				return
			}
			before, deadline = now, time.After(*quietPeriod)
		}
	}
}
