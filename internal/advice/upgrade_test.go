package advice_test

import (
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestBest(t *testing.T) {
	high, medium, exploited := found("CVE-1", "openssl", "1", model.SeverityHigh, 5, ""), found("CVE-2", "openssl", "1", model.SeverityMedium, 1, ""), found("CVE-3", "zlib", "1", model.SeverityLow, 2, "kev")
	present := []model.Finding{high, medium, exploited}
	newHigh, newMedium, newKEV := found("CVE-7", "curl", "8", model.SeverityHigh, 0, ""), found("CVE-8", "curl", "8", model.SeverityMedium, 3, ""), found("CVE-9", "curl", "8", model.SeverityLow, 0, "kev")
	worse := found("CVE-6", "curl", "8", model.SeverityMedium, 90, "")
	other := func(findings ...model.Finding) *advice.Upgrade {
		u := advice.UpgradeOf(present, findings)
		return &u
	}
	if u := other(medium, newMedium); u.Removed != 4_000_000 || len(u.Closed) != 2 || len(u.Opened) != 1 || len(u.Remaining) != 1 {
		t.Errorf("%+v", u)
	}
	// What is suppressed is not closed, so it removes no risk.
	hidden := high
	hidden.Suppressed = true
	if u := advice.UpgradeOf([]model.Finding{hidden, medium}, nil); u.Removed != 1_000_000 {
		t.Errorf("%+v", u)
	}
	free := found("CVE-4", "bash", "1", model.SeverityLow, 0, "")
	for name, c := range map[string]struct {
		upgrades []*advice.Upgrade
		want     int
	}{
		"nothing":                      {nil, -1},
		"not compared":                 {[]*advice.Upgrade{nil, nil}, -1},
		"the same":                     {[]*advice.Upgrade{other(present...)}, -1},
		"the most risk":                {[]*advice.Upgrade{other(high), nil, other(medium), other(medium, exploited)}, 2},
		"opens High":                   {[]*advice.Upgrade{other(newHigh), other(high, medium)}, 1},
		"opens what is exploited":      {[]*advice.Upgrade{other(newKEV), other(high, medium)}, 1},
		"opens Medium":                 {[]*advice.Upgrade{other(newMedium), other(high, medium)}, 0},
		"opens more risk":              {[]*advice.Upgrade{other(worse)}, -1},
		"only opens":                   {[]*advice.Upgrade{other(high, medium, exploited, newMedium)}, -1},
		"the first of equals":          {[]*advice.Upgrade{other(), other()}, 0},
		"of equal risk the most":       {[]*advice.Upgrade{other(free), other()}, 1},
		"risk that is gone, for more":  {[]*advice.Upgrade{other(high, medium, free), other(high, medium, free, worse)}, 0},
		"without risk, the number":     {[]*advice.Upgrade{{Outcome: advice.Outcome{Closed: make([]advice.Change, 2), Opened: make([]advice.Change, 1)}}}, 0},
		"without risk, as many opened": {[]*advice.Upgrade{{Outcome: advice.Outcome{Closed: make([]advice.Change, 1), Opened: make([]advice.Change, 1)}}}, -1},
	} {
		if got := advice.Best(c.upgrades); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
