package scanner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestQueues(t *testing.T) {
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	wants := func(namespaces map[string]int) demand { return demand{limitOperator: namespaces} }
	var q queues
	for i, step := range []struct {
		scanner string
		demand  demand
		served  []string
		want    queue
	}{
		{"a", wants(map[string]int{"shop": 2}), nil, queue{"shop": {2, 1}}},
		// Who came first stays first, and two Scanners that wait for the same images wait once.
		{"b", wants(map[string]int{"shop": 1, "bank": 3}), nil, queue{"shop": {2, 1}, "bank": {3, 2}}},
		// Who is served and still waits goes to the end.
		{"b", wants(map[string]int{"bank": 3}), []string{"shop"}, queue{"shop": {2, 3}, "bank": {3, 2}}},
		{"a", nil, nil, queue{"bank": {3, 2}}},
		{"a", wants(map[string]int{"shop": 1}), nil, queue{"shop": {1, 4}, "bank": {3, 2}}},
		{"b", nil, nil, queue{"shop": {1, 4}}},
	} {
		q.set(name(step.scanner), step.demand, step.served...)
		waiting, _ := q.get(name("other"), nil)
		if diff := cmp.Diff(step.want, waiting[limitOperator], cmp.AllowUnexported(turn{})); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	// Of its own demand, a Scanner sees no more than what is due.
	if waiting, places := q.get(name("a"), nil); len(waiting) != 0 || places["shop"] != 4 {
		t.Errorf("got %v and %v, want no demand, and the place as before", waiting, places)
	}
	q.set(name("a"), nil)
	if len(q.waiting)+len(q.places) != 0 {
		t.Errorf("%v and %v are kept of Scanners that do not wait", q.waiting, q.places)
	}
}

func TestSlots(t *testing.T) {
	type holder struct {
		running, late int
		turn
	}
	const asks = "asks"
	for name, tt := range map[string]struct {
		size    int
		holders map[string]holder
		want    int
	}{
		"all are free":                    {4, nil, 4},
		"some are taken":                  {4, map[string]holder{"other": {running: 3}}, 1},
		"all are taken":                   {4, map[string]holder{"other": {running: 4}}, 0},
		"late ones are those of others":   {4, map[string]holder{"other": {late: 4}}, 4},
		"late ones are its own":           {4, map[string]holder{asks: {late: 3}}, 1},
		"more are late than there may be": {4, map[string]holder{"one": {late: 4}, "two": {late: 3}}, 1},
		"others wait":                     {4, map[string]holder{"one": {turn: turn{9, 1}}, "two": {turn: turn{9, 2}}}, 1},
		"others wait for little":          {4, map[string]holder{"one": {turn: turn{1, 1}}}, 3},
		"others wait, and hold some":      {6, map[string]holder{"one": {running: 2, turn: turn{9, 1}}}, 3},
		"others wait, and hold too many":  {6, map[string]holder{"one": {running: 5, turn: turn{9, 1}}}, 1},
		"more wait than there are slots":  {2, map[string]holder{"1": {turn: turn{1, 1}}, "2": {turn: turn{1, 2}}, "3": {turn: turn{1, 3}}}, 0},
		"it waits for longest":            {2, map[string]holder{"1": {turn: turn{1, 7}}, "2": {turn: turn{1, 8}}, asks: {turn: turn{9, 6}}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			waiting := queue{}
			for namespace, holder := range tt.holders {
				if holder.images > 0 {
					waiting[namespace] = holder.turn
				}
			}
			s := newSlots(tt.size, waiting)
			for namespace, holder := range tt.holders {
				for i := range holder.running + holder.late {
					s.add(namespace, i < holder.late)
				}
			}
			place := noTurn
			if turn, waits := waiting[asks]; waits {
				place = turn.place
			}
			got := 0
			for ; s.admits(asks, place); got++ {
				s.take(asks)
				place = noTurn
			}
			if got != tt.want {
				t.Errorf("%d slots are taken, want %d", got, tt.want)
			}
		})
	}
}

// TestRegistriesOfOthersStopNoOtherWork has images of another Scanner wait for slots: lookups of newer tags and SBOMs that are replaced wait if they need the same.
func TestRegistriesOfOthersStopNoOtherWork(t *testing.T) {
	for name, tt := range map[string]struct {
		waiting demand
		waits   bool
	}{
		"nothing waits":    {demand{}, false},
		"another registry": {demand{limitOfRegistry("evil"): {"evil": 16}}, false},
		"another node":     {demand{limitOfNode("node-1"): {"evil": 16}}, false},
		"another Scanner":  {demand{limitOfScanner(client.ObjectKey{Namespace: "evil", Name: "s"}): {"evil": 16}}, false},
		"the registry":     {demand{limitOfRegistry("r.example"): {"evil": 16}}, true},
		"the operator":     {demand{limitOperator: {"evil": 16}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			scanner := types.NamespacedName{Namespace: "evil", Name: "s"}
			lookups := newWorld().tagged("a", "1.0", model.SeverityCounts{High: 1}).lookup("a")
			lookups.queues.set(scanner, tt.waiting)
			if p := makePlan(scannerWith(withNewerTags), lookups.observed, DefaultLimits(), Recatalog{}, now); (p.lookup == nil) != tt.waits {
				t.Errorf("the lookup is planned: %t, want %t", p.lookup != nil, !tt.waits)
			}
			again := newWorld().cataloged("a", "syft v1")
			again.queues.set(scanner, tt.waiting)
			if p := makePlan(scannerWith(nil), again.observed, DefaultLimits(), Recatalog{PerHour: 10, Cataloger: "syft v2"}, now); (p.recataloging == 0) != tt.waits {
				t.Errorf("%d images are cataloged again, want one: %t", p.recataloging, !tt.waits)
			}
			// The same of images of its own Scanner.
			w := newWorld()
			p, free := plan{waiting: tt.waiting}, newLimited(scannerWith(nil), w.observed, DefaultLimits(), nil, now)
			if got := p.awaited(w.observed, free, free.of(imageKey("a"), false)); got != tt.waits {
				t.Errorf("waits for images of its own Scanner: %t, want %t", got, tt.waits)
			}
		})
	}
}
