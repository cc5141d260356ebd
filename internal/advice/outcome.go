package advice

import "github.com/scanner-operator/scanner-operator/internal/model"

// Outcome is what becomes of the findings of some packages in other versions. Lists have the worst first, as those of Comparison.
type Outcome struct {
	// Opened are the findings that the other versions have and the present ones have not, Closed those that they have not any more, and Remaining those of
	// both.
	Opened, Closed, Remaining []Change
}

// OutcomeOf compares the findings of packages with those of other versions of the same packages. Suppressed findings are neither closed nor remaining, and not
// opened.
func OutcomeOf(present, other []model.Finding) Outcome {
	all, after := changesOf(present), changesOf(other)
	var counted []model.Finding
	for i := range present {
		if !present[i].Suppressed {
			counted = append(counted, present[i])
		}
	}
	open := changesOf(counted)
	closed := without(open, after)
	for i := range closed {
		delete(open, changeKey{closed[i].VulnerabilityID, closed[i].Package})
	}
	return Outcome{Opened: without(after, all), Closed: closed, Remaining: without(open, nil)}
}
