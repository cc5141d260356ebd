package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestHistoryIsNotRead: a synchronization reads the decisions that apply and those that a clock has ended which was ahead, however many there have been.
func TestHistoryIsNotRead(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		now := time.Now()
		clock := clocktesting.NewFakePassiveClock(now)
		config.Clock = clock
		s := openWith(t, config)
		of := func(name string, expires time.Duration) store.Decision {
			d := store.Decision{
				Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: "n", Name: name}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionFixed,
			}
			if expires > 0 {
				d.ExpiresAt = now.Add(expires)
			}
			return d
		}
		decide := func(decisions ...store.Decision) map[store.DecisionObject]store.DecisionProblem {
			t.Helper()
			problems, err := s.SyncDecisions(t.Context(), "test", decisions)
			if err != nil {
				t.Fatal(err)
			}
			return problems
		}
		many := []store.Decision{of("applies", 0), of("early", time.Hour), of("late", 3*time.Hour)}
		for i := range 20 {
			many = append(many, of(fmt.Sprint("e", i), 0), of(fmt.Sprint("x", i), 2*time.Hour))
		}
		decide(many...)
		clock.SetTime(now.Add(time.Hour))
		if _, err := s.ExpireDecisions(t.Context()); err != nil {
			t.Fatal(err)
		}
		decide(many[0], many[2])
		expect := func(what string, want ...string) {
			t.Helper()
			err := s.read(t.Context(), "read", func(tx *gorm.DB) error {
				applied, last, err := lastDecisions(tx, "test", s.now())
				if len(applied) != 2 || len(last) != len(want) {
					t.Errorf("%s: %d decisions that apply, and %d last ones, want %d", what, len(applied), len(last), len(want))
				}
				for _, name := range want {
					if last[of(name, 0).Object] == nil {
						t.Errorf("%s: %s is not read", what, name)
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		expect("at the end of early", "applies", "late")
		clock.SetTime(now.Add(time.Hour - time.Second))
		expect("with a clock that is behind", "applies", "late", "early")
		rows := func() []string { return texts(t, s, "SELECT name FROM decisions WHERE name = 'early'") }
		if problems := decide(many[:3]...); problems[many[1].Object].Reason != store.DecisionExpired || len(rows()) != 1 {
			t.Errorf("what has expired is decided again: %v, %v", problems, rows())
		}
		// Another end is another decision, which is then the last one.
		many[1].ExpiresAt = now.Add(2 * time.Hour)
		if problems := decide(many[:3]...); len(problems) > 0 || len(rows()) != 2 {
			t.Errorf("a later end: %v, %v", problems, rows())
		}
		// After that was deleted, the first one is not the last one any more.
		decide(many[0], many[2])
		many[1].ExpiresAt = now.Add(time.Hour)
		if problems := decide(many[:3]...); len(problems) > 0 || len(rows()) != 3 {
			t.Errorf("the first end again: %v, %v", problems, rows())
		}
	})
}
