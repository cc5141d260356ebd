package metrics

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// policiesStore returns fixed policies.
type policiesStore struct {
	store.Policies
	policies []store.PolicySummary
	err      error
}

func (s *policiesStore) ListPolicies(context.Context, store.Namespaces) ([]store.PolicySummary, error) {
	return s.policies, s.err
}

func TestOverdue(t *testing.T) {
	source := &policiesStore{policies: []store.PolicySummary{
		{Policy: store.Policy{Name: "default"}, Due: model.SeverityCounts{High: 9}, Overdue: model.SeverityCounts{Critical: 2, Low: 1}}, {Policy: store.Policy{Name: "idle"}},
	}}
	registry := prometheus.NewPedanticRegistry()
	overdue, err := NewOverdue(registry, source)
	if err != nil {
		t.Fatal(err)
	}
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("before the first count %v is shown", shown)
	}
	count := func() {
		t.Helper()
		if counted, err := overdue.ListPolicies(t.Context(), store.AllNamespaces()); !errors.Is(err, source.err) || len(counted) != len(source.policies) && err == nil {
			t.Errorf("%d policies, %v", len(counted), err)
		}
	}
	count()
	shown := gather(t, registry)
	if len(shown) != 12 {
		t.Errorf("got %d series, want one for each policy and severity", len(shown))
	}
	for _, want := range []string{
		`scanner_operator_findings_overdue{policy="default",severity="Critical"}=2`, `scanner_operator_findings_overdue{policy="default",severity="High"}=0`,
		`scanner_operator_findings_overdue{policy="idle",severity="Low"}=0`,
	} {
		if !slices.Contains(shown, want) {
			t.Errorf("%s is missing in %v", want, shown)
		}
	}
	// A scrape reads nothing.
	source.policies = nil
	if shown := gather(t, registry); len(shown) != 12 {
		t.Errorf("got %d series before the next count, want 12", len(shown))
	}
	source.err = errors.New("the database is away")
	count()
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("without a store %v is shown", shown)
	}
}
