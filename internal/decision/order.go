package decision

import (
	"cmp"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// statusOrder has the statuses, the one that matters most first.
var statusOrder = []model.DecisionStatus{
	model.DecisionNotAffected, model.DecisionFixed, model.DecisionFalsePositive, model.DecisionAcceptedRisk, model.DecisionAffected,
	model.DecisionUnderInvestigation,
}

// Compare orders decisions about the same finding, the one that matters most first: those that suppress it before others, those that apply
// everywhere before those with places, those that do not end with a fix before those that do, those of the cluster before those of a namespace, then
// by status, then by the latest end, then by name. So the first one is the one that VEX documents can state. It says only what is shown: that one
// decision suppresses a finding is enough, whatever others say.
func Compare(a, b model.Decision) int {
	return cmp.Or(
		first(a.Suppresses, b.Suppresses),
		first(!a.Placed, !b.Placed),
		first(!a.Unfixed, !b.Unfixed),
		first(a.Namespace == "", b.Namespace == ""),
		cmp.Compare(rank(a.Status), rank(b.Status)),
		first(a.ExpiresAt.IsZero(), b.ExpiresAt.IsZero()),
		b.ExpiresAt.Compare(a.ExpiresAt),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Kind, b.Kind),
	)
}

// first puts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func rank(status model.DecisionStatus) int {
	if at := slices.Index(statusOrder, status); at >= 0 {
		return at
	}
	return len(statusOrder)
}
