package advice

import (
	"cmp"
	"math"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Change is a vulnerability of a package that one image has and another one has not. A finding is told by vulnerability and name of the package, as for
// rollouts: another version of the package with the same vulnerability is no change.
type Change struct {
	VulnerabilityID string         `json:"vulnerabilityId"`
	Package         string         `json:"package"`
	Severity        model.Severity `json:"severity"`
	// KEV says that the vulnerability is known to be exploited, Fixable that there is a fixed version.
	KEV     bool `json:"kev"`
	Fixable bool `json:"fixable"`
}

// Comparison is what another image does to findings. Lists have the worst first: by severity, KEV, risk, vulnerability and package.
type Comparison struct {
	Opened, Closed []Change
}

// Count counts changes by severity.
func Count(changes []Change) model.SeverityCounts {
	var counts model.SeverityCounts
	for i := range changes {
		counts.Add(changes[i].Severity)
	}
	return counts
}

// Compare compares the findings of two images. Several findings of a vulnerability in packages with the same name are one, as bad as the worst of them.
func Compare(from, to []model.Finding) Comparison {
	before, after := changesOf(from), changesOf(to)
	return Comparison{Opened: without(after, before), Closed: without(before, after)}
}

type changeKey struct{ vulnerability, name string }

// rankedChange is a change with the risk of the vulnerability in millionths, as the store keeps it.
type rankedChange struct {
	Change
	risk int64
}

func changesOf(findings []model.Finding) map[changeKey]*rankedChange {
	changes := make(map[changeKey]*rankedChange, len(findings))
	for i := range findings {
		v := &findings[i].Vulnerability
		key := changeKey{v.ID, findings[i].Package.Name}
		one := changes[key]
		if one == nil {
			one = &rankedChange{Change: Change{VulnerabilityID: v.ID, Package: key.name}}
			changes[key] = one
		}
		one.Severity, one.risk = max(one.Severity, v.Severity), max(one.risk, int64(math.Round(v.Risk*1e6)))
		one.KEV = one.KEV || len(v.KEV) > 0
		one.Fixable = one.Fixable || findings[i].Fix.State == model.FixStateFixed
	}
	return changes
}

// without lists the changes that others have not.
func without(changes, others map[changeKey]*rankedChange) []Change {
	var left []*rankedChange
	for key, one := range changes {
		if others[key] == nil {
			left = append(left, one)
		}
	}
	slices.SortFunc(left, func(a, b *rankedChange) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), compareBool(b.KEV, a.KEV), cmp.Compare(b.risk, a.risk),
			cmp.Compare(a.VulnerabilityID, b.VulnerabilityID), cmp.Compare(a.Package, b.Package))
	})
	list := make([]Change, len(left))
	for i, one := range left {
		list[i] = one.Change
	}
	return list
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
