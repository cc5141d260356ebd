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
		if m.countChanges(&counts, sidesOf(m.open(name, m.answers[name]), m.worlds[m.current]), sidesOf(m.open(name, after), m.worlds[m.next])) {
			for _, key := range holders {
				reached[key] = true
			}
		}
	}
	counts.Images = len(reached)
	return counts
}

// open are the findings of a package that count.
func (m *storeModel) open(name string, findings []model.PackageFinding) []model.PackageFinding {
	p := pkg(name)
	return slices.DeleteFunc(slices.Clone(findings), func(f model.PackageFinding) bool { return m.decisions.suppress(&p, &f) })
}

func (m *storeModel) countChanges(counts *store.ChangeCounts, before, after map[string]store.ChangeSide) bool {
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
