package policy

import (
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Terms say until when the findings that a policy selects are due.
type Terms struct {
	From  model.DueFrom
	DueIn model.DueIn
}

// Times are the points in time that deadlines of a finding count from, in microseconds since 1970. Opened and Fixable are 0 while that is when the
// result set that is being prepared becomes current.
type Times struct {
	// Opened is since when the package has the vulnerability, Fixable since when a fixed version is known.
	Opened, Fixable int64
	// Exploited is since when the vulnerability is known to be exploited, 0 when that is not known.
	Exploited int64
}

// Rule says that a finding is due so many days after the later one of Since and of when its image has findings.
type Rule struct {
	Days int
	// Since is in microseconds, 0 while it is when the result set that is being prepared becomes current.
	Since int64
}

// Rules returns those of a finding, at most two: by its severity, and because it is known to be exploited.
func (t *Terms) Rules(severity model.Severity, f *Finding, at Times) []Rule {
	since, known := at.Opened, at.Opened != 0
	if t.From == model.DueFromFixAvailable {
		if !f.Fixable {
			return nil
		}
		since, known = max(since, at.Fixable), known && at.Fixable != 0
	}
	var rules []Rule
	add := func(days *int, since int64) {
		if days == nil || len(rules) > 0 && rules[0].Days == *days {
			return
		}
		if !known {
			since = 0
		}
		rules = append(rules, Rule{*days, since})
	}
	add(t.DueIn.Days(severity), since)
	if f.KEV {
		add(t.DueIn.KEV, max(since, at.Exploited))
	}
	return rules
}
