package kube

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestExpectations(t *testing.T) {
	key, start := types.NamespacedName{Namespace: "ns", Name: "owner"}, time.Unix(1000, 0)
	const owner types.UID = "owner"
	type shown = map[types.UID]bool
	tests := map[string]struct {
		expect func(e *Expectations)
		shown  shown
		want   time.Time // zero: nothing is unseen
	}{
		"nothing was written":       {func(*Expectations) {}, shown{"a": true}, time.Time{}},
		"a new one is not shown":    {func(e *Expectations) { e.Added(key, owner, "a", start) }, shown{"b": true}, start},
		"a new one is shown":        {func(e *Expectations) { e.Added(key, owner, "a", start) }, shown{"a": true}, time.Time{}},
		"a new one is on its way":   {func(e *Expectations) { e.Added(key, owner, "a", start) }, shown{"a": false}, time.Time{}},
		"a deleted one is shown":    {func(e *Expectations) { e.Removed(key, owner, "a", start) }, shown{"a": true}, start},
		"a deleted one is going":    {func(e *Expectations) { e.Removed(key, owner, "a", start) }, shown{"a": false}, time.Time{}},
		"a deleted one is gone":     {func(e *Expectations) { e.Removed(key, owner, "a", start) }, shown{}, time.Time{}},
		"an owner of the same name": {func(e *Expectations) { e.Added(key, "earlier", "a", start) }, shown{}, time.Time{}},
		"the oldest counts": {func(e *Expectations) {
			e.Added(key, owner, "a", start.Add(time.Second))
			e.Removed(key, owner, "b", start)
			e.Added(key, owner, "c", start.Add(-time.Second))
		}, shown{"b": true, "c": true}, start},
		"the last word counts": {func(e *Expectations) {
			e.Added(key, owner, "a", start)
			e.Removed(key, owner, "a", start)
		}, shown{}, time.Time{}},
		"a forgotten owner": {func(e *Expectations) {
			e.Added(key, owner, "a", start)
			e.Forget(key)
		}, shown{}, time.Time{}},
		"a new one was removed by somebody": {func(e *Expectations) {
			e.Added(key, owner, "a", start)
			e.Correct(key, shown{})
		}, shown{}, time.Time{}},
		"the API server has a new one": {func(e *Expectations) {
			e.Added(key, owner, "a", start)
			e.Correct(key, shown{"a": true})
		}, shown{}, start},
		"a removed one was given back": {func(e *Expectations) {
			e.Removed(key, owner, "a", start)
			e.Correct(key, shown{"a": true})
		}, shown{"a": true}, time.Time{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := &Expectations{}
			tt.expect(e)
			since, unseen := e.Unseen(key, owner, tt.shown)
			if unseen != !tt.want.IsZero() || !since.Equal(tt.want) {
				t.Errorf("unseen %t since %s, want %s", unseen, since, tt.want)
			}
		})
	}
}

// An entry for each PodSet that ever was would be a leak.
func TestExpectationsKeepNothingThatIsSeen(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "owner"}
	e := &Expectations{}
	e.Added(key, "owner", "a", time.Unix(1000, 0))
	if _, unseen := e.Unseen(key, "owner", map[types.UID]bool{"a": true}); unseen || len(e.owners) != 0 {
		t.Errorf("unseen %t, %d owners kept", unseen, len(e.owners))
	}
}
