package metrics

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// policiesStore returns fixed policies.
type policiesStore struct {
	policies []store.PolicySummary
	err      error
}

func (s *policiesStore) ListPolicies(context.Context, store.Namespaces) ([]store.PolicySummary, error) {
	return s.policies, s.err
}

func TestOverdue(t *testing.T) {
	elected := make(chan struct{})
	source := &policiesStore{policies: []store.PolicySummary{
		{Policy: store.Policy{Name: "default"}, Due: model.SeverityCounts{High: 9}, Overdue: model.SeverityCounts{Critical: 2, Low: 1}}, {Policy: store.Policy{Name: "idle"}},
	}}
	registry := prometheus.NewPedanticRegistry()
	if err := NewOverdue(registry, source, elected, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("a replica that does not lead shows %v", shown)
	}
	close(elected)
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
	source.err = errors.New("the database is away")
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("without a store %v is shown", shown)
	}
}
