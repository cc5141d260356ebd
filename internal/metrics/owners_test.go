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

// ownersStore returns fixed counts, and notes how many owners were asked for.
type ownersStore struct {
	counts map[string]store.Counts
	err    error
	limit  int
}

func (s *ownersStore) FindingsByOwner(_ context.Context, limit int) (map[string]store.Counts, error) {
	s.limit = limit
	return s.counts, s.err
}

func TestOwners(t *testing.T) {
	elected := make(chan struct{})
	source := &ownersStore{counts: map[string]store.Counts{
		"":      {},
		"Red ü": {SeverityCounts: model.SeverityCounts{Critical: 2, Unknown: 1}, KEV: 1, Fixable: 3},
	}}
	registry := prometheus.NewPedanticRegistry()
	if err := NewOwners(registry, source, elected, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("a replica that does not lead shows %v", shown)
	}
	close(elected)
	// Six severities and two sums of each.
	shown := gather(t, registry)
	if len(shown) != 16 || source.limit != MaxOwners {
		t.Errorf("got %d series of at most %d owners", len(shown), source.limit)
	}
	for _, want := range []string{
		`scanner_operator_owner_findings{owner="",severity="Critical"}=0`, `scanner_operator_owner_findings{owner="Red ü",severity="Critical"}=2`,
		`scanner_operator_owner_findings{owner="Red ü",severity="Unknown"}=1`, `scanner_operator_owner_findings_exploited{owner="Red ü"}=1`,
		`scanner_operator_owner_findings_fixable{owner="Red ü"}=3`,
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
