package metrics

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// runningStore returns fixed counts, and notes how many groups were asked for and how often.
type runningStore struct {
	counts       map[string]store.RunningCounts
	err          error
	limit, calls int
}

func (s *runningStore) FindingsByOwner(_ context.Context, limit int) (map[string]store.RunningCounts, error) {
	s.limit = limit
	s.calls++
	return s.counts, s.err
}

func (s *runningStore) FindingsByNamespace(ctx context.Context, limit int) (map[string]store.RunningCounts, error) {
	return s.FindingsByOwner(ctx, limit)
}

func TestRunning(t *testing.T) {
	type newCollector = func(prometheus.Registerer, store.RunningCounter, <-chan struct{}, clock.PassiveClock, logr.Logger) error
	for group, test := range map[string]struct {
		register newCollector
		limit    int
		want     []string
	}{
		"owner": {NewOwners, MaxOwners, []string{
			`scanner_operator_owner_findings{owner="",severity="Critical"}=0`, `scanner_operator_owner_findings{owner="Red ü",severity="Critical"}=2`,
			`scanner_operator_owner_findings{owner="Red ü",severity="Unknown"}=1`, `scanner_operator_owner_findings_exploited{owner="Red ü"}=1`,
			`scanner_operator_owner_findings_fixable{owner="Red ü"}=3`, `scanner_operator_owner_findings_critical_fixable{owner="Red ü"}=4`,
		}},
		"namespace": {NewNamespaces, MaxNamespaces, []string{
			`scanner_operator_namespace_findings{severity="Critical",workload_namespace="Red ü"}=2`,
			`scanner_operator_namespace_findings_exploited{workload_namespace="Red ü"}=1`,
			`scanner_operator_namespace_findings_fixable{workload_namespace="Red ü"}=3`,
			`scanner_operator_namespace_findings_critical_fixable{workload_namespace="Red ü"}=4`,
		}},
	} {
		t.Run(group, func(t *testing.T) {
			elected := make(chan struct{})
			source := &runningStore{counts: map[string]store.RunningCounts{
				"": {},
				"Red ü": {
					Counts: store.Counts{SeverityCounts: model.SeverityCounts{Critical: 2, Unknown: 1}, KEV: 1, Fixable: 3}, CriticalFixable: 4,
				},
			}}
			registry, clk := prometheus.NewPedanticRegistry(), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			if err := test.register(registry, source, elected, clk, logr.Discard()); err != nil {
				t.Fatal(err)
			}
			if shown := gather(t, registry); len(shown) != 0 {
				t.Errorf("a replica that does not lead shows %v", shown)
			}
			close(elected)
			// Six severities and three sums of each.
			shown := gather(t, registry)
			if len(shown) != 18 || source.limit != test.limit {
				t.Errorf("got %d series of at most %d groups", len(shown), source.limit)
			}
			for _, want := range test.want {
				if !slices.Contains(shown, want) {
					t.Errorf("%s is missing in %v", want, shown)
				}
			}

			source.counts = map[string]store.RunningCounts{"blue": {}}
			if clk.SetTime(time.Unix(1059, 0)); len(gather(t, registry)) != 18 || source.calls != 1 {
				t.Errorf("counted %d times within a minute", source.calls)
			}
			if clk.SetTime(time.Unix(1060, 0)); len(gather(t, registry)) != 9 {
				t.Error("the counts are older than a minute")
			}
			clk.SetTime(time.Unix(2000, 0))
			source.err = errors.New("the database is away")
			if shown := gather(t, registry); len(shown) != 0 {
				t.Errorf("without a store %v is shown", shown)
			}
		})
	}
}
