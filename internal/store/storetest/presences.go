package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// runs says that the container "c" of a Deployment in namespace "n" runs images.
func runs(name string, keys ...model.ImageKey) []store.Use {
	uses := make([]store.Use, len(keys))
	for i, key := range keys {
		uses[i] = store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: name}, Container: "c"}
	}
	return uses
}

// runAt records at so many minutes after day what runs in a scope.
func (f *fixture) runAt(t *testing.T, minutes int, scope string, uses ...store.Use) {
	t.Helper()
	f.clock.set(day.Add(time.Duration(minutes) * time.Minute))
	must(t, f.RecordUses(t.Context(), scope, uses))
}

func minutes(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return fmt.Sprint(int(at.Sub(day).Minutes()))
}

func (f *fixture) presences(t *testing.T, query store.PresenceQuery) store.PresencePage {
	t.Helper()
	page, err := f.Presences(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("Presences: %v", err)
	}
	return page
}

// ran lists "workload since-until" of an image, in minutes after day, in the order of the list.
func (f *fixture) ran(t *testing.T, key model.ImageKey) []string {
	t.Helper()
	texts := []string{}
	for _, p := range f.presences(t, store.PresenceQuery{Image: key}).Presences {
		texts = append(texts, fmt.Sprintf("%s %s-%s", p.Workload.Name, minutes(p.Since), minutes(p.Until)))
	}
	return texts
}

func (f *fixture) expectRan(t *testing.T, step string, key model.ImageKey, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.ran(t, key)); diff != "" {
		t.Errorf("%s, %s (-want +got):\n%s", step, key.ImageID, diff)
	}
}

func (f *fixture) rollouts(t *testing.T, query store.RolloutQuery) store.RolloutPage {
	t.Helper()
	page, err := f.ListRollouts(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("ListRollouts: %v", err)
	}
	return page
}

// rolled lists "minutes workload from>to", the latest first.
func (f *fixture) rolled(t *testing.T, query store.RolloutQuery) []string {
	t.Helper()
	texts := []string{}
	for _, r := range f.rollouts(t, query).Rollouts {
		texts = append(texts, fmt.Sprintf("%s %s %s>%s", minutes(r.At), r.Workload.Name, short(r.From.Image), short(r.To.Image)))
	}
	return texts
}

// short is the name and the architecture of an image of these tests.
func short(key model.ImageKey) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(key.ImageID, "registry.example/"), "@")
	return name + "/" + key.Platform.Architecture
}

func (f *fixture) expectRolled(t *testing.T, step string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.rolled(t, store.RolloutQuery{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

var presenceTests = map[string]func(*testing.T, *fixture){
	"Presences begin and end": func(t *testing.T, f *fixture) {
		a, arm := image("a", amd64), image("a", arm64)
		if _, err := f.Presences(t.Context(), store.AllNamespaces(), store.PresenceQuery{Image: a}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of an image that is not known: %v", err)
		}
		f.want(t, a, arm)
		f.runAt(t, 0, "s1", runs("web", a)...)
		f.runAt(t, 1, "s2", runs("web", a, arm)...)
		f.expectRan(t, "in two scopes", a, "web 0-")
		f.expectRan(t, "on another platform", arm, "web 1-")
		f.runAt(t, 2, "s1")
		f.expectRan(t, "gone from one scope", a, "web 0-")
		f.runAt(t, 3, "s2", runs("web", arm)...)
		f.expectRan(t, "gone", a, "web 0-3")
		f.runAt(t, 12, "s1", runs("web", a)...)
		f.expectRan(t, "back soon", a, "web 0-")
		f.runAt(t, 13, "s1", runs("db", a)...)
		f.runAt(t, 23, "s1", slices.Concat(runs("web", a), runs("db", a))...)
		f.expectRan(t, "back late", a, "web 23-", "db 13-", "web 0-13")
		f.expectRan(t, "of all platforms", model.ImageKey{ImageID: a.ImageID}, "web 23-", "db 13-", "web 1-", "web 0-13")
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID))
		if _, err := f.Presences(t.Context(), store.AllNamespaces(), store.PresenceQuery{Image: a}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("of an image that was deleted: %v", err)
		}
		f.expectRolled(t, "of one image")
	},
	"A rollback soon after is a rollout": func(t *testing.T, f *fixture) {
		one, two, arm := image("a", amd64), image("bb", amd64), image("a", arm64)
		f.want(t, one, two, arm)
		f.runAt(t, 0, "s", runs("web", one)...)
		f.runAt(t, 1, "s", runs("web", two)...)
		f.runAt(t, 2, "s", runs("web", one)...)
		f.expectRan(t, "rolled back", one, "web 2-", "web 0-1")
		f.expectRan(t, "rolled back", two, "web 1-2")
		f.expectRolled(t, "rolled back", "2 web bb/amd64>a/amd64", "1 web a/amd64>bb/amd64")
		// What is back while nothing else has begun was never gone.
		f.runAt(t, 3, "s")
		f.runAt(t, 4, "s", runs("web", one)...)
		f.expectRan(t, "flapping", one, "web 2-", "web 0-1")
		f.runAt(t, 5, "s", runs("web", two)...)
		f.runAt(t, 6, "s", runs("web", arm)...)
		f.expectRan(t, "to another platform", two, "web 5-6", "web 1-2")
		f.expectRolled(t, "to another platform", "6 web bb/amd64>a/arm64", "5 web a/amd64>bb/amd64", "2 web bb/amd64>a/amd64", "1 web a/amd64>bb/amd64")
		// All of it at the same time.
		f.runAt(t, 60, "s", runs("db", one)...)
		f.runAt(t, 60, "s", runs("db", two)...)
		f.runAt(t, 60, "s", runs("db", one)...)
		f.expectRan(t, "at once", two, "db 60-60", "web 5-6", "web 1-2")
	},
	"A flapping image is no rollout": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		for minute := range 9 {
			f.runAt(t, minute, "s", runs("web", []model.ImageKey{key}[minute%2:]...)...)
		}
		f.expectRan(t, "flapping", key, "web 0-")
		f.expectRolled(t, "flapping")
	},
	"Presences tell all": func(t *testing.T, f *fixture) {
		key, odd := image("a", arm64), strings.Repeat("long/", 60)
		f.want(t, key)
		use := store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Odd/Kind", Name: odd}, Container: "main"}
		f.runAt(t, 5, "s", use)
		f.runAt(t, 6, "s")
		f.runAt(t, 7, "s", use)
		use.Workload.Name = odd[:255]
		want := []store.Presence{{Image: key, Workload: use.Workload, Container: "main", Since: day.Add(5 * time.Minute)}}
		if diff := cmp.Diff(want, f.presences(t, store.PresenceQuery{Image: key}).Presences); diff != "" {
			t.Error(diff)
		}
	},
	"Pages of presences": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		var all []store.Use
		for i := range 7 {
			all = append(all, runs(fmt.Sprint("w", i), key)...)
		}
		f.runAt(t, 0, "s", all...)
		f.runAt(t, 1, "s", all[3:]...)
		whole := f.presences(t, store.PresenceQuery{Image: key})
		if len(whole.Presences) != 7 || whole.Total != 7 || whole.NextToken != "" || whole.Presences[3].Until != (time.Time{}) || whole.Presences[4].Until.IsZero() {
			t.Fatalf("got %+v", whole)
		}
		for size := 1; size < 8; size++ {
			var got []store.Presence
			query := store.PresenceQuery{Image: key, Page: store.Page{Size: size}}
			for more := true; more; more = query.Token != "" {
				page := f.presences(t, query)
				got, query.Token = append(got, page.Presences...), page.NextToken
			}
			if diff := cmp.Diff(whole.Presences, got); diff != "" {
				t.Errorf("size %d: %s", size, diff)
			}
		}
		token := f.presences(t, store.PresenceQuery{Image: key, Page: store.Page{Size: 1}}).NextToken
		if _, err := f.Presences(t.Context(), store.AllNamespaces(), store.PresenceQuery{Image: model.ImageKey{ImageID: key.ImageID}, Page: store.Page{Token: token}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("the token of another query: %v", err)
		}
	},
	"Rollouts": func(t *testing.T, f *fixture) {
		one, two, three := image("a", amd64), image("bb", amd64), image("ccc", amd64)
		f.want(t, one, two, three)
		f.runAt(t, 0, "s", runs("web", one)...)
		f.expectRolled(t, "the first image")
		last := f.last(t)
		f.runAt(t, 1, "s", runs("web", one, two)...)
		f.expectRolled(t, "beside another", "1 web a/amd64>bb/amd64")
		expectKinds(t, f.kinds(t, last), store.EventRolloutChanged)
		f.runAt(t, 2, "s", runs("web", two)...)
		f.runAt(t, 3, "s", runs("web", one)...)
		f.expectRolled(t, "back at once", "3 web bb/amd64>a/amd64", "1 web a/amd64>bb/amd64")
		f.runAt(t, 4, "s", runs("web", three)...)
		f.expectRolled(t, "in place of what ran last", "4 web a/amd64>ccc/amd64", "3 web bb/amd64>a/amd64", "1 web a/amd64>bb/amd64")
	},
}

var rolloutTests = map[string]func(*testing.T, *fixture){
	"A rollout tells": func(t *testing.T, f *fixture) {
		from, to := image("a", amd64), image("bb", arm64)
		f.catalog(t, from, "1", catalogOf("p"))
		f.match(t, from, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		f.want(t, to)
		f.runAt(t, 0, "s", runs("web", from)...)
		last := f.last(t)
		f.runAt(t, 1, "s", runs("web", to)...)
		events := f.events(t, last)
		var data store.RolloutEvent
		if len(events) != 1 || events[0].Kind != store.EventRolloutChanged || events[0].ImageID != to.ImageID || events[0].Platform != to.Platform.String() {
			t.Fatalf("got %+v", events)
		}
		must(t, json.Unmarshal(events[0].Data, &data))
		want := store.RolloutEvent{
			Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}, Container: "c",
			From: store.RolloutImage{ImageID: from.ImageID, Platform: "linux/amd64"}, To: store.RolloutImage{ImageID: to.ImageID, Platform: "linux/arm64/v8"},
		}
		if diff := cmp.Diff(want, data); diff != "" || events[0].Namespace() != "n" {
			t.Errorf("namespace %q, %s", events[0].Namespace(), diff)
		}
		page := f.rollouts(t, store.RolloutQuery{})
		rollout := store.Rollout{
			At: day.Add(time.Minute), Workload: want.Workload, Container: "c",
			From: store.RolloutSide{Image: from, State: store.StateScanned, Counts: &store.Counts{SeverityCounts: model.SeverityCounts{High: 1}}},
			To:   store.RolloutSide{Image: to, State: store.StatePending}, Evaluation: store.RolloutEvaluation{State: store.RolloutWaiting},
		}
		if len(page.Rollouts) == 1 {
			rollout.ID = page.Rollouts[0].ID
		}
		if diff := cmp.Diff(store.RolloutPage{Rollouts: []store.Rollout{rollout}, Total: 1}, page); diff != "" || rollout.ID == 0 {
			t.Error(diff)
		}
		// It outlives the images.
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), from.ImageID))
		rollout.From = store.RolloutSide{Image: from}
		if diff := cmp.Diff([]store.Rollout{rollout}, f.rollouts(t, store.RolloutQuery{}).Rollouts); diff != "" {
			t.Error(diff)
		}
	},
	"What is no rollout, and what is": func(t *testing.T, f *fixture) {
		one, two, three := image("a", amd64), image("bb", amd64), image("ccc", amd64)
		oneArm, twoArm := image("a", arm64), image("bb", arm64)
		f.want(t, one, two, three, oneArm, twoArm)
		f.runAt(t, 0, "s", runs("first", one, two)...)
		f.expectRolled(t, "two images at first")
		f.runAt(t, 1, "s", runs("web", one)...)
		f.runAt(t, 2, "s", runs("web", one, oneArm)...)
		f.expectRolled(t, "another platform")
		f.runAt(t, 3, "s", runs("web", one, oneArm, two)...)
		f.runAt(t, 4, "s", runs("web", two, twoArm)...)
		f.expectRolled(t, "platform after platform", "3 web a/arm64>bb/amd64")
		f.runAt(t, 5, "other", runs("web", two)...)
		f.expectRolled(t, "another scope", "3 web a/arm64>bb/amd64")
		f.runAt(t, 6, "s")
		f.runAt(t, 7, "other")
		f.runAt(t, 16, "s", runs("web", three)...)
		f.expectRolled(t, "soon after another", "16 web bb/amd64>ccc/amd64", "3 web a/arm64>bb/amd64")
		f.runAt(t, 17, "s")
		f.runAt(t, 27, "s", runs("web", one)...)
		f.expectRolled(t, "long after another", "16 web bb/amd64>ccc/amd64", "3 web a/arm64>bb/amd64")
	},
	"Filters and pages of rollouts": func(t *testing.T, f *fixture) {
		one, two, three := image("a", amd64), image("bb", amd64), image("ccc", amd64)
		f.want(t, one, two, three)
		other := store.Use{Image: one, Workload: store.Workload{Namespace: "other", Kind: "Deployment", Name: "web"}, Container: "c"}
		f.runAt(t, 0, "s", append(slices.Concat(runs("web", one), runs("db", one)), other)...)
		other.Image = three
		f.runAt(t, 1, "s", append(slices.Concat(runs("web", two), runs("db", one)), other)...)
		f.runAt(t, 2, "s", append(slices.Concat(runs("web", three), runs("db", two)), other)...)
		all := []string{"2 db a/amd64>bb/amd64", "2 web bb/amd64>ccc/amd64", "1 web a/amd64>ccc/amd64", "1 web a/amd64>bb/amd64"}
		for name, c := range map[string]struct {
			query store.RolloutQuery
			want  []string
		}{
			"none":         {store.RolloutQuery{}, all},
			"namespace":    {store.RolloutQuery{Namespace: "other"}, all[2:3]},
			"workload":     {store.RolloutQuery{Workload: "web", Namespace: "n"}, []string{all[1], all[3]}},
			"either image": {store.RolloutQuery{ImageID: two.ImageID}, []string{all[0], all[1], all[3]}},
			"since":        {store.RolloutQuery{Since: day.Add(2 * time.Minute)}, all[:2]},
			"until":        {store.RolloutQuery{Until: day.Add(2 * time.Minute)}, all[2:]},
			"nothing":      {store.RolloutQuery{ImageID: "x"}, nil},
		} {
			for size := 1; size <= 5; size++ {
				var got []string
				query := c.query
				query.Size = size
				for more := true; more; more = query.Token != "" {
					page := f.rollouts(t, query)
					for _, r := range page.Rollouts {
						got = append(got, fmt.Sprintf("%s %s %s>%s", minutes(r.At), r.Workload.Name, short(r.From.Image), short(r.To.Image)))
					}
					if query.Token = page.NextToken; page.Total != len(c.want) {
						t.Errorf("%s: total %d", name, page.Total)
					}
				}
				if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, slices.Sorted(slices.Values(c.want))) {
					t.Errorf("%s, size %d: got %q, want %q", name, size, got, c.want)
				}
			}
		}
		token := f.rollouts(t, store.RolloutQuery{Page: store.Page{Size: 1}}).NextToken
		for name, query := range map[string]store.RolloutQuery{
			"namespace": {Namespace: "n"}, "workload": {Workload: "web"}, "image": {ImageID: "x"}, "since": {Since: day}, "until": {Until: day},
		} {
			query.Token = token
			if _, err := f.ListRollouts(t.Context(), store.AllNamespaces(), query); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("the token of a query without %s: %v", name, err)
			}
		}
	},
}
