package scanner

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestQueues(t *testing.T) {
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	var q queues
	for _, step := range []struct {
		scanner string
		waits   bool
		want    map[string]int
	}{
		{"a", false, map[string]int{"a": 0, "b": 0}},
		{"a", true, map[string]int{"a": 0, "b": 1}},
		{"b", true, map[string]int{"a": 1, "b": 1, "c": 2}},
		{"a", false, map[string]int{"a": 1, "b": 0}},
	} {
		q.set(name(step.scanner), step.waits)
		for scanner, want := range step.want {
			if got := q.others(name(scanner)); got != want {
				t.Errorf("after %+v, %d others than %s wait, want %d", step, got, scanner, want)
			}
		}
	}
}
