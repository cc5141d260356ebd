package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestHistoryIsNotRead: a synchronization reads the decisions that apply and the last ones of the objects that are wanted, however many there have been.
func TestHistoryIsNotRead(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		of := func(namespace, name string) store.Decision {
			return store.Decision{
				Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: namespace, Name: name}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionFixed,
			}
		}
		decide := func(decisions ...store.Decision) {
			t.Helper()
			if problems, err := s.SyncDecisions(t.Context(), "test", decisions); err != nil || len(problems) > 0 {
				t.Fatal(problems, err)
			}
		}
		var many []store.Decision
		for i := range endedPerQuery + 20 {
			many = append(many, of("n", fmt.Sprint("e", i)))
		}
		decide(many...)
		decide(of("n", "applies"))
		over := of("n", "e1") // Its time is over.
		over.ExpiresAt = time.Now().Add(-time.Hour)
		wanted := append([]store.Decision{of("n", "applies"), of("n", "new"), of("other", "e1"), of("n", "e\x00"), over}, many[3:endedPerQuery+10]...)
		err := s.read(t.Context(), "read", func(tx *gorm.DB) error {
			applied, last, err := lastDecisions(tx, "test", wanted, s.now())
			if len(applied) != 1 || len(last) != 1+endedPerQuery+7 {
				t.Errorf("%d decisions that apply, and %d last ones", len(applied), len(last))
			}
			for i := range many {
				is := last[many[i].Object] != nil
				if want := i >= 3 && i < endedPerQuery+10; is != want {
					t.Errorf("%s is read: %t", many[i].Object.Name, is)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		again := of("n", "e5")
		again.Comment = "again"
		decide(again)
		decide()
		err = s.read(t.Context(), "read", func(tx *gorm.DB) error {
			_, last, err := lastDecisions(tx, "test", []store.Decision{again}, s.now())
			wanted, _ := decisionOf(&again)
			if row := last[again.Object]; len(last) != 1 || row == nil || row.Digest != wanted.row.Digest {
				t.Errorf("the last one of e5 is %+v", row)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
