package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Of more exceptions than have events of their own, messages count each one: in a rule of the cluster, and in those of the namespaces of the exceptions.
func TestMessagesCountManyExceptions(t *testing.T) {
	// Of those in the namespace one, three have no event of their own, and none of those in two has one.
	const inOne, inTwo = store.MaxDecisionEvents + 3, 4
	for name, c := range map[string]struct {
		kind   Kind
		change func(*testing.T, *fixture)
		// says is what the message says of those without an event of their own.
		says string
	}{
		"removed": {ExceptionRemoved, func(t *testing.T, f *fixture) {
			t.Helper()
			_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, nil)
			must(t, err)
		}, "were deleted or cannot be applied any more"},
		"expired": {ExceptionExpired, func(t *testing.T, f *fixture) {
			t.Helper()
			f.clock.move(9 * 24 * time.Hour)
			_, err := f.ExpireDecisions(t.Context())
			must(t, err)
		}, "expired"},
		"expire soon": {ExceptionExpiring, func(t *testing.T, f *fixture) {
			t.Helper()
			f.clock.move(5 * 24 * time.Hour)
			must(t, f.RecordExpiring(t.Context()))
		}, "expire soon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFixture(t), gomega.NewWithT(t)
			var all []store.Decision
			for namespace, n := range map[string]int{"": 1, "one": inOne, "two": inTwo} {
				for i := range n {
					d := store.Decision{
						Object:          store.DecisionObject{Kind: "VulnerabilityException", Namespace: namespace, Name: fmt.Sprintf("e%03d", i)},
						Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionNotAffected, Comment: "why", ExpiresAt: f.clock.Now().Add(8 * 24 * time.Hour),
					}
					if namespace == "" {
						d.Object.Kind = "ClusterVulnerabilityException"
					}
					all = append(all, d)
				}
			}
			_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, all)
			must(t, err)
			r := &recorder{}
			e, _ := f.engine(t, f.Store, r)
			when := fmt.Sprintf(`change.kind == %q`, c.kind)
			rules := []*Rule{
				rule(t, Definition{Name: "cluster", By: ByRule, When: when}), rule(t, Definition{Namespace: "one", Name: "own", When: when}),
				rule(t, Definition{Namespace: "two", Name: "own", When: when}), rule(t, Definition{Namespace: "three", Name: "own", When: when}),
			}
			f.rules(t, e, rules...)
			c.change(t, f)
			f.start(t, e, rules...)
			counted := func() []string {
				var got []string
				for _, one := range r.all() {
					got = append(got, fmt.Sprintf("%s: %v", one.message.Rule, one.message.Counts))
				}
				slices.Sort(got)
				return got
			}
			g.Eventually(counted, patience, tick).Should(gomega.Equal([]string{
				fmt.Sprintf("cluster: map[%s:%d]", c.kind, 1+inOne+inTwo), fmt.Sprintf("one/own: map[%s:%d]", c.kind, inOne), fmt.Sprintf("two/own: map[%s:%d]", c.kind, inTwo),
			}))
			for _, one := range r.all() {
				if one.message.Rule != "two/own" {
					continue
				}
				if diff := cmp.Diff([]Other{{Kind: c.kind, Text: fmt.Sprintf("%d further exceptions in two %s", inTwo, c.says)}}, one.message.Others); diff != "" {
					t.Errorf("the message of two (-want +got):\n%s", diff)
				}
				if text := defaultTexts.Text(&one.message); !strings.Contains(text, fmt.Sprint(inTwo, " ")) {
					t.Errorf("the text of two is\n%s", text)
				}
			}
		})
	}
}

// Events of previous versions count further exceptions of all namespaces; statements of VEX documents are no exceptions, however many are removed.
func TestFurtherDecisionsOfEvents(t *testing.T) {
	for data, want := range map[string]map[Kind]int{
		`{"action":"removed","findings":0,"omitted":3}`:                                                                 {ExceptionRemoved: 3},
		`{"action":"removed","findings":0,"omitted":3,"kind":"VulnerabilityException","namespace":"one"}`:               {ExceptionRemoved: 3},
		`{"action":"removed","findings":0,"omitted":3,"kind":"ClusterVulnerabilityException"}`:                          {ExceptionRemoved: 3},
		`{"action":"removed","findings":0,"omitted":3,"kind":"VEXSource"}`:                                              nil,
		`{"action":"changed","findings":0,"omitted":3,"kind":"VulnerabilityException","namespace":"one"}`:               nil,
		`{"action":"removed","findings":2,"object":{"kind":"VEXSource","name":"v"}}`:                                    nil,
		`{"action":"removed","findings":2,"object":{"kind":"VulnerabilityException","namespace":"one","name":"e"}}`:     {ExceptionRemoved: 1},
		`{"action":"removed","findings":0,"omitted":1000000,"kind":"VulnerabilityException","namespace":"one\u0000\n"}`: {ExceptionRemoved: 1_000_000},
	} {
		b := newBatch(rule(t, Definition{Name: "r", By: ByRule}), nil)
		must(t, addDecision([]*batch{b}, &store.Event{Kind: store.EventDecisionChanged, Data: []byte(data)}))
		var got map[Kind]int
		if g := b.groups[""]; g != nil {
			got = g.message.Counts
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
}
