package advice

import (
	"cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Upgrade is what another tag of an image does to its findings.
type Upgrade struct {
	Outcome
	// Removed is the risk of the closed findings without that of the opened ones, in millionths.
	Removed int64
	// OpenedRisk is the risk of the opened findings, in millionths.
	OpenedRisk int64
}

// UpgradeOf compares the findings of an image with those of another tag.
func UpgradeOf(present, other []model.Finding) Upgrade { return Prepare(present).UpgradeTo(other) }

// UpgradeTo compares the findings with those of another tag.
func (p *Present) UpgradeTo(other []model.Finding) Upgrade {
	after := changesOf(other)
	u := Upgrade{Outcome: p.outcome(after)}
	u.OpenedRisk = riskOf(u.Opened, after)
	u.Removed = riskOf(u.Closed, p.all) - u.OpenedRisk
	return u
}

func riskOf(changes []Change, ranked map[changeKey]*rankedChange) (sum int64) {
	for i := range changes {
		sum += ranked[changeKey{changes[i].VulnerabilityID, changes[i].Package}].risk
	}
	return sum
}

// Recommended reports whether an upgrade opens nothing that is High, Critical or known to be exploited, and closes more than it opens: by risk, or by number
// if the risk stays the same.
func (u *Upgrade) Recommended() bool {
	for i := range u.Opened {
		if u.Opened[i].KEV || u.Opened[i].Severity >= model.SeverityHigh {
			return false
		}
	}
	return cmp.Or(cmp.Compare(u.Removed, 0), cmp.Compare(len(u.Closed), len(u.Opened))) > 0
}

// Best returns the index of the recommended upgrade that removes the most risk, -1 if none is recommended. Of upgrades that remove the same, it is the one
// that closes the most findings more than it opens, and then the first. Those that are nil are left out.
func Best(upgrades []*Upgrade) int {
	best := -1
	for i, u := range upgrades {
		if u == nil || !u.Recommended() {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(u.Removed, upgrades[best].Removed), cmp.Compare(u.net(), upgrades[best].net())) > 0 {
			best = i
		}
	}
	return best
}

func (u *Upgrade) net() int { return len(u.Closed) - len(u.Opened) }
