package advice

import (
	"maps"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Outcome is what becomes of the findings of some packages in other versions. Lists have the worst first, as those of Comparison.
type Outcome struct {
	// Opened are the findings that the other versions have and the present ones have not, Closed those that they have not any more, and Remaining those of
	// both.
	Opened, Closed, Remaining []Change
}

// OutcomeOf compares the findings of packages with those of other versions of the same packages. Suppressed findings are neither closed nor remaining, and not
// opened.
func OutcomeOf(present, other []model.Finding) Outcome {
	return Prepare(present).outcome(changesOf(other))
}

// Present are findings that are compared with those of several others.
type Present struct{ all, counted map[changeKey]*rankedChange }

// Prepare makes findings ready to be compared.
func Prepare(present []model.Finding) *Present {
	var counted []model.Finding
	for i := range present {
		if !present[i].Suppressed {
			counted = append(counted, present[i])
		}
	}
	return &Present{changesOf(present), changesOf(counted)}
}

func (p *Present) outcome(after map[changeKey]*rankedChange) Outcome {
	closed, open := without(p.counted, after), maps.Clone(p.counted)
	for i := range closed {
		delete(open, changeKey{closed[i].VulnerabilityID, closed[i].Package})
	}
	return Outcome{Opened: without(after, p.all), Closed: closed, Remaining: without(open, nil)}
}
