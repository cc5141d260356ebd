package sqlstore

import (
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestRematchedDecisionsHaveEvents expects that what is remembered of suppressed findings does not outlast another version of the matcher, and that readers of events
// learn of the decisions that match other findings.
func TestRematchedDecisionsHaveEvents(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a")
		all := []store.Decision{cluster("one", "CVE-0"), cluster("other", "CVE-1")}
		s.decide(t, all...)
		suppressed := func(what string, want int) {
			t.Helper()
			sums, err := s.DecisionSums(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if sums.Suppressed != want {
				t.Errorf("%s: %d findings are suppressed, want %d", what, sums.Suppressed, want)
			}
		}
		const events = "SELECT kind FROM events WHERE kind = 'decision.changed'"
		suppressed("at first", 2)
		before := len(texts(t, s.Store, events))
		// As if only an earlier version had accepted the pattern.
		err := s.write(t.Context(), "spoil", func(tx *txn) error {
			return tx.Execute("UPDATE decisions SET spec = ? WHERE name = 'one'", `{"vulnerabilities":["CVE-0"],"packages":["pkg:generic/%EF%BF%BF"]}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		s.matcherVersion++
		s.decide(t, all...)
		suppressed("matched again", 1)
		if told := len(texts(t, s.Store, events)) - before; told != 1 {
			t.Errorf("%d events, want one about the decision that matches other findings", told)
		}
		s.matcherVersion++
		s.decide(t, all...)
		if told := len(texts(t, s.Store, events)) - before; told != 1 {
			t.Errorf("%d events, though nothing differs the second time", told)
		}
	})
}

// cluster is an exception of the cluster.
func cluster(name, vulnerability string) store.Decision {
	return store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}, Status: model.DecisionFixed, Vulnerabilities: []string{vulnerability},
	}
}
