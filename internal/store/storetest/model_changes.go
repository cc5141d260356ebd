package storetest

import (
	"fmt"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// nextChanges compares what is visible with what will be.
func (m *storeModel) nextChanges() store.ChangeCounts {
	var counts store.ChangeCounts
	reached := map[model.ImageKey]bool{}
	for i := range modelPackages {
		name := fmt.Sprintf("p%d", i)
		var holders []model.ImageKey
		for key, image := range m.images {
			if excluded, held := image.held[name]; held && !excluded {
				holders = append(holders, key)
			}
		}
		if len(holders) == 0 {
			continue
		}
		after := m.answers[name]
		if failed, answered := m.nextFailures[name]; answered && !failed {
			after = m.nextAnswers[name]
		}
		// The same change in several images counts once.
		counted := map[string]bool{}
		for _, key := range holders {
			before, next := m.open(key, name, m.answers[name]), m.open(key, name, after)
			if m.countChanges(&counts, counted, sidesOf(before, m.worlds[m.current]), sidesOf(next, m.worlds[m.next])) {
				reached[key] = true
			}
		}
	}
	counts.Images = len(reached)
	return counts
}

// open are the findings of a package that count in an image.
func (m *storeModel) open(key model.ImageKey, name string, findings []model.PackageFinding) []model.PackageFinding {
	p := pkg(name)
	return slices.DeleteFunc(slices.Clone(findings), func(f model.PackageFinding) bool { return m.decisions.suppress(key.ImageID, &p, &f) })
}

// countChanges counts the changes that are not counted yet, and says whether there are any.
func (m *storeModel) countChanges(all *store.ChangeCounts, counted map[string]bool, before, after map[string]store.ChangeSide) bool {
	found := false
	for id := range sides(before, after) {
		was, now := map[string]store.ChangeSide{}, map[string]store.ChangeSide{}
		if side, open := before[id]; open {
			was[id] = side
		}
		if side, open := after[id]; open {
			now[id] = side
		}
		var counts store.ChangeCounts
		if !countChange(&counts, was, now) {
			continue
		}
		found = true
		if what := fmt.Sprint(was, now); !counted[what] {
			counted[what] = true
			all.Opened, all.Closed, all.Changed = all.Opened+counts.Opened, all.Closed+counts.Closed, all.Changed+counts.Changed
			all.OpenedCritical, all.NewKEV = all.OpenedCritical+counts.OpenedCritical, all.NewKEV+counts.NewKEV
		}
	}
	return found
}

// sides are the vulnerabilities that one of the sides has.
func sides(before, after map[string]store.ChangeSide) map[string]bool {
	ids := map[string]bool{}
	for _, side := range []map[string]store.ChangeSide{before, after} {
		for id := range side {
			ids[id] = true
		}
	}
	return ids
}

// countChange counts what became of one vulnerability, and says whether it is a change.
func countChange(counts *store.ChangeCounts, before, after map[string]store.ChangeSide) bool {
	old := *counts
	for id, side := range after {
		was, stays := before[id]
		switch {
		case !stays:
			counts.Opened++
			if side.Severity == model.SeverityCritical {
				counts.OpenedCritical++
			}
			if side.KEV {
				counts.NewKEV++
			}
		case was.Severity != side.Severity || was.FixState != side.FixState || !slices.Equal(was.FixVersions, side.FixVersions) ||
			was.KEV != side.KEV || (was.EPSS < store.EPSSThreshold) != (side.EPSS < store.EPSSThreshold):
			counts.Changed++
			if side.KEV && !was.KEV {
				counts.NewKEV++
			}
		}
	}
	for id := range before {
		if _, stays := after[id]; !stays {
			counts.Closed++
		}
	}
	return *counts != old
}

// sidesOf joins the findings of each vulnerability.
func sidesOf(findings []model.PackageFinding, w *world) map[string]store.ChangeSide {
	sides := map[string]store.ChangeSide{}
	for i := range findings {
		id := findings[i].Vulnerability.ID
		side, found := sides[id]
		if !found || findings[i].Fix.State == model.FixStateFixed {
			side.FixState = findings[i].Fix.State
		}
		side.Severity = max(side.Severity, findings[i].Vulnerability.Severity)
		side.FixVersions = append(side.FixVersions, findings[i].Fix.Versions...)
		slices.Sort(side.FixVersions)
		side.FixVersions = slices.Compact(side.FixVersions)
		side.EPSS, side.KEV = w.epss[id], w.kev[id]
		sides[id] = side
	}
	return sides
}
