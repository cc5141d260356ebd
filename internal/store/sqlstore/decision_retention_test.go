package sqlstore

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// endedColumns are those of endedDecision.
var endedColumns = strings.Split("id source kind namespace name digest reach status suppresses unfixed spec justification comment author expires_at since until_time ended_by", " ")

// endedDecision are the values of a decision of a ClusterVulnerabilityException that has ended.
func endedDecision(id int, name string, until int64) []any {
	return []any{id, store.DecisionSourceKubernetes, "ClusterVulnerabilityException", "", name, fmt.Sprint(id), everywhere, "Fixed", 1, 0, "{}", "", "", "", 1, 1, until, endExpired}
}

// TestManyDecisionsAreDeleted: more decisions than one transaction deletes, thousands of which have ended at the same time, with what refers to them. Until the objects of a
// source are known, the last decision of each one stays.
func TestManyDecisionsAreDeleted(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clock
		s := openWith(t, config)
		const many = 2*batchRows + 10
		// Each hundredth is the second decision of an object that exists.
		name := func(i int) string {
			if i%100 < 2 {
				return fmt.Sprint("exists ", i/100)
			}
			return fmt.Sprint("gone ", i)
		}
		var exist []store.Decision
		ended := micros(clock.Now())
		err := s.write(t.Context(), "fill", func(tx *txn) error {
			var values, asked []any
			for i := range many {
				values = append(values, endedDecision(i+1, name(i), ended+int64(i/batchRows))...)
				asked = append(asked, fmt.Sprint(i), i+1, "jane", ended)
				if i%100 == 1 {
					exist = append(exist, store.Decision{
						Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name(i)}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionFixed, ExpiresAt: clock.Now(),
					})
				}
			}
			return cmp.Or(tx.Insert("decisions", endedColumns, values, ""), tx.Insert("decision_deletions", []string{"request", "decision_pk", "author", "requested_at"}, asked, ""))
		})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(step string, rows, objects int) {
			t.Helper()
			if err := s.PruneDecisions(t.Context(), clock.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprint(rows), fmt.Sprint(objects), fmt.Sprint(rows)}
			got := texts(t, s, "SELECT COUNT(*) FROM decisions")
			got = append(got, texts(t, s, "SELECT COUNT(DISTINCT name) FROM decisions WHERE name LIKE 'exists%'")...)
			if got = append(got, texts(t, s, "SELECT COUNT(*) FROM decision_deletions")...); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %v decisions, objects that exist, and requests to delete them, want %v", step, got, want)
			}
		}
		expect("before objects are known", many-len(exist), len(exist))
		if _, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, exist); err != nil {
			t.Fatal(err)
		}
		expect("known objects", len(exist), len(exist))
		if _, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, exist[:1]); err != nil {
			t.Fatal(err)
		}
		expect("one object", 1, 1)
	})
}
