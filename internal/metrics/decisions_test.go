package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// decisionStore does not apply decisions whose status is a reason.
type decisionStore struct {
	store.Decisions
	sums store.DecisionSums
	err  error
}

func (s *decisionStore) SyncDecisions(_ context.Context, _ string, decisions []store.Decision) (map[store.DecisionObject]store.DecisionProblem, error) {
	problems := map[store.DecisionObject]store.DecisionProblem{}
	for _, d := range decisions {
		problems[d.Object] = store.DecisionProblem{Reason: store.DecisionReason(d.Status)}
	}
	return problems, s.err
}

func (s *decisionStore) DecisionSums(_ context.Context, within time.Duration) (store.DecisionSums, error) {
	if within != 7*24*time.Hour {
		return store.DecisionSums{}, errors.New("unexpected bounds")
	}
	return s.sums, s.err
}

func TestDecisions(t *testing.T) {
	registry, elected := prometheus.NewRegistry(), make(chan struct{})
	s := &decisionStore{sums: store.DecisionSums{
		Standing: map[store.DecisionGroup]int{
			{Source: store.DecisionSourceKubernetes, Status: model.DecisionFixed}: 1, {Source: "upload", Status: model.DecisionFixed}: 3,
		},
		Expiring: 2, Suppressed: 9,
	}}
	d, err := NewDecisions(registry, s, elected, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got, want := strings.Join(gather(t, registry), "\n"), strings.Join(strings.Fields(want), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	decide := func(source string, reasons ...store.DecisionReason) {
		t.Helper()
		var decisions []store.Decision
		for i, reason := range reasons {
			decisions = append(decisions, store.Decision{Object: store.DecisionObject{Name: fmt.Sprint(i)}, Status: model.DecisionStatus(reason)})
		}
		if problems, err := d.SyncDecisions(t.Context(), source, decisions); !errors.Is(err, s.err) || len(problems) != len(reasons) {
			t.Errorf("problems %v, %v", problems, err)
		}
	}
	decide("kubernetes", store.DecisionExpired, store.DecisionTooBroad)
	expect("")
	close(elected)
	decide("upload", store.DecisionExpired)
	all := `
		scanner_operator_decisions{source="kubernetes",status="Fixed"}=1
		scanner_operator_decisions{source="upload",status="Fixed"}=3
		scanner_operator_decisions_expiring=2
		scanner_operator_decisions_not_applied{reason="Expired"}=%d
		scanner_operator_decisions_not_applied{reason="Invalid"}=0
		scanner_operator_decisions_not_applied{reason="TooBroad"}=%d
		scanner_operator_decisions_not_applied{reason="TooMany"}=0
		scanner_operator_findings_suppressed=9`
	expect(fmt.Sprintf(all, 2, 1))
	decide("kubernetes")
	expect(fmt.Sprintf(all, 1, 0))
	d.NotApplied(store.DecisionSourceVEX, map[store.DecisionReason]int{store.DecisionTooBroad: 3})
	expect(fmt.Sprintf(all, 1, 3))
	d.NotApplied(store.DecisionSourceVEX, nil)
	expect(fmt.Sprintf(all, 1, 0))
	// What was not applied before is still not applied when a call fails.
	s.err = errors.New("away")
	decide("upload")
	expect("")
	s.err = nil
	expect(fmt.Sprintf(all, 1, 0))
	// What the store is not asked to apply is not applied either.
	d.Refused(map[store.DecisionReason]int{store.DecisionTooBroad: 2})
	expect(fmt.Sprintf(all, 1, 2))
	d.Refused(nil)
	expect(fmt.Sprintf(all, 1, 0))
}

func TestSourcesOfDecisionsAreBounded(t *testing.T) {
	standing := map[store.DecisionGroup]int{{Source: store.DecisionSourceKubernetes, Status: model.DecisionFixed}: 1}
	for i := range 100 {
		standing[store.DecisionGroup{Source: fmt.Sprintf("source-%03d", i), Status: model.DecisionFixed}] = 1000 - i
	}
	got := boundSources(standing)
	other := got[store.DecisionGroup{Source: "other", Status: model.DecisionFixed}]
	if len(got) != maxDecisionSources+1 || got[store.DecisionGroup{Source: store.DecisionSourceKubernetes, Status: model.DecisionFixed}] != 1 ||
		got[store.DecisionGroup{Source: "source-018", Status: model.DecisionFixed}] != 982 || other != 81*1000-(19+99)*81/2 {
		t.Errorf("%d groups, other %d: %v", len(got), other, got)
	}
}
