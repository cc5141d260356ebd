package sqlstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestPoliciesTooBroad goes to the bound of what policies select. A policy that was refused applies as soon as there is room, whether another one was deleted
// or selects less than before.
func TestPoliciesTooBroad(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		if s.policyRows != store.MaxPolicyRows {
			t.Errorf("the bound is %d", s.policyRows)
		}
		s.policyRows = 12
		// Two packages, each with four vulnerabilities.
		hold(t, s, 2, 4)
		days := 1
		in := model.DueIn{Critical: &days, High: &days, Medium: &days, Low: &days}
		all := func(name string) store.Policy {
			return store.Policy{Name: name, From: model.DueFromFirstSeen, DueIn: in}
		}
		half := func(name string) store.Policy {
			p := all(name)
			p.Select = `finding.package.name == "package-0"`
			return p
		}
		for _, step := range []struct {
			name     string
			policies []store.Policy
			want     map[string]store.PolicyReason
		}{
			{"both would have 16 rows", []store.Policy{all("a"), all("b")}, map[string]store.PolicyReason{"b": store.PolicyTooBroad}},
			{"again", []store.Policy{all("a"), all("b")}, map[string]store.PolicyReason{"b": store.PolicyTooBroad}},
			{"the first has 4, the second 8", []store.Policy{half("a"), all("b")}, map[string]store.PolicyReason{}},
			{"a third would have 4 more", []store.Policy{half("a"), all("b"), half("c")}, map[string]store.PolicyReason{"c": store.PolicyTooBroad}},
			{"one is deleted", []store.Policy{all("b"), half("c")}, map[string]store.PolicyReason{}},
		} {
			problems, err := s.SyncPolicies(t.Context(), step.policies)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]store.PolicyReason{}
			for name, problem := range problems {
				got[name] = problem.Reason
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s: %s", step.name, diff)
			}
		}
	})
}
