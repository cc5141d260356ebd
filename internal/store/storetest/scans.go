package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// forget forgets images that ran in any scope until before.
func (f *fixture) forget(t *testing.T, before time.Time, limit int) []model.ImageKey {
	t.Helper()
	scopes, err := f.Scopes(t.Context())
	must(t, err)
	for _, scope := range append(scopes, "") {
		must(t, f.ExpireUses(t.Context(), scope, before))
	}
	keys, err := f.ForgetImages(t.Context(), before, limit)
	if err != nil {
		t.Fatalf("ForgetImages: %v", err)
	}
	return keys
}

func (f *fixture) pauses(t *testing.T) []store.RegistryPause {
	t.Helper()
	pauses, err := f.RegistryPauses(t.Context())
	if err != nil {
		t.Fatalf("RegistryPauses: %v", err)
	}
	return pauses
}

var scanTests = map[string]func(*testing.T, *fixture){
	"Scopes of uses and of coverage": func(t *testing.T, f *fixture) {
		want := func(want ...string) {
			t.Helper()
			got, err := f.Scopes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("scopes (-want +got):\n%s", diff)
			}
		}
		want()
		a := image("a", amd64)
		f.want(t, a)
		web := store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}
		for _, scope := range []string{"n/b", "n/a"} {
			if err := f.RecordUses(t.Context(), scope, []store.Use{{Image: a, Workload: web, Container: "c"}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, scope := range []string{"n/c", "n/a"} {
			row := store.ContainerCoverage{Workload: web, Container: "c", Image: a, Pods: 1, State: "Scanned"}
			if err := f.RecordCoverage(t.Context(), scope, []store.ContainerCoverage{row}); err != nil {
				t.Fatal(err)
			}
		}
		want("n/a", "n/b", "n/c")
		if err := f.RecordUses(t.Context(), "n/b", nil); err != nil {
			t.Fatal(err)
		}
		// Until when images ran in it is still kept.
		want("n/a", "n/b", "n/c")
		for _, scope := range []string{"n/b", "n/c"} {
			must(t, f.ForgetScope(t.Context(), scope))
		}
		want("n/a")
		if f.ForgetScope(t.Context(), "") == nil {
			t.Error("an empty scope is accepted")
		}
	},
	"A size class is that of the repository and never shrinks": func(t *testing.T, f *fixture) {
		a, again, other := image("a", amd64), image("a", amd64), image("bb", amd64)
		again.ImageID = strings.Replace(again.ImageID, "@sha256:0", "@sha256:1", 1)
		f.want(t, a, other)
		class := func(key model.ImageKey) model.SizeClass { return f.image(t, key).SizeClass }
		if class(a) != model.SizeSmall {
			t.Errorf("the class of a new image is %q", class(a))
		}
		for _, raise := range []model.SizeClass{model.SizeMedium, model.SizeLarge, model.SizeMedium} {
			must(t, f.RaiseSizeClass(t.Context(), a.Repository(), raise))
		}
		if got := f.want(t, again)[again].SizeClass; got != model.SizeLarge || class(a) != model.SizeLarge {
			t.Errorf("classes %q and %q, want L", class(a), got)
		}
		if class(other) != model.SizeSmall {
			t.Errorf("the class of another repository is %q", class(other))
		}
		for _, listed := range f.list(t, store.ImageQuery{Text: "registry.example/a@"}).Images {
			if listed.SizeClass != model.SizeLarge {
				t.Errorf("%s is listed with class %q", listed.Key, listed.SizeClass)
			}
		}
		if f.RaiseSizeClass(t.Context(), a.Repository(), "XL") == nil || f.RaiseSizeClass(t.Context(), "", model.SizeLarge) == nil {
			t.Error("an unknown class or an empty repository is accepted")
		}
	},
	"A registry is left alone until its time": func(t *testing.T, f *fixture) {
		f.clock.set(day)
		pause := func(host string, minutes int) store.RegistryPause {
			return store.RegistryPause{Host: host, Until: day.Add(time.Duration(minutes) * time.Minute), Reason: "429"}
		}
		must(t, f.PauseRegistry(t.Context(), pause("b.example", 10)))
		must(t, f.PauseRegistry(t.Context(), pause("a.example:5000", 5)))
		must(t, f.PauseRegistry(t.Context(), pause("b.example", 7)))
		if diff := cmp.Diff([]store.RegistryPause{pause("a.example:5000", 5), pause("b.example", 10)}, f.pauses(t)); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
		f.clock.set(day.Add(5 * time.Minute))
		must(t, f.PauseRegistry(t.Context(), pause("b.example", 20)))
		if diff := cmp.Diff([]store.RegistryPause{pause("b.example", 20)}, f.pauses(t)); diff != "" {
			t.Errorf("later (-want +got):\n%s", diff)
		}
		if f.PauseRegistry(t.Context(), store.RegistryPause{Until: day.Add(time.Hour)}) == nil {
			t.Error("an empty host is accepted")
		}
		// The clock was a year ahead when a pause was recorded.
		f.clock.set(day.AddDate(1, 0, 0))
		must(t, f.PauseRegistry(t.Context(), store.RegistryPause{Host: "b.example", Until: day.AddDate(1, 0, 0).Add(model.MaxRetryAfter), Reason: "429"}))
		f.clock.set(day)
		if got := f.pauses(t); len(got) != 0 {
			t.Errorf("pauses %+v of a clock that was ahead, want none", got)
		}
		must(t, f.PauseRegistry(t.Context(), pause("b.example", 60)))
		if diff := cmp.Diff([]store.RegistryPause{pause("b.example", 60)}, f.pauses(t)); diff != "" {
			t.Errorf("after the clock was corrected (-want +got):\n%s", diff)
		}
	},
	"A pause concerns the credentials of one namespace": func(t *testing.T, f *fixture) {
		f.clock.set(day)
		pause := func(namespace string, minutes int) store.RegistryPause {
			return store.RegistryPause{Host: "a.example", Namespace: namespace, Until: day.Add(time.Duration(minutes) * time.Minute), Reason: "429"}
		}
		must(t, f.PauseRegistry(t.Context(), pause("shop", 60)))
		must(t, f.PauseRegistry(t.Context(), pause("", 5)))
		must(t, f.PauseRegistry(t.Context(), pause("bank", 10)))
		must(t, f.PauseRegistry(t.Context(), pause("bank", 20)))
		must(t, f.PauseRegistry(t.Context(), pause("shop", 30)))
		if diff := cmp.Diff([]store.RegistryPause{pause("", 5), pause("bank", 20), pause("shop", 60)}, f.pauses(t)); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
		if f.PauseRegistry(t.Context(), pause(strings.Repeat("n", 256), 5)) == nil {
			t.Error("a namespace that is too long is accepted")
		}
	},
	"Images that nothing runs are forgotten": func(t *testing.T, f *fixture) {
		running, ended, fresh, never, reported := image("r", amd64), image("ee", amd64), image("fff", amd64), image("nnnn", amd64), image("ppppp", amd64)
		f.clock.set(day)
		f.catalog(t, ended, "d", catalogOf("x", "y"))
		f.want(t, running, never, reported)
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), reported.ImageID, store.Report{Content: []byte("{}")}))
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), image("outside", amd64).ImageID, store.Report{Content: []byte("{}")}))
		f.runAt(t, 1, "s1", runs("web", running, ended, fresh)...)
		f.runAt(t, 2, "s2", runs("web", running)...)
		f.runAt(t, 3, "s1")
		f.want(t, fresh)
		at := func(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }
		last := f.last(t)
		if keys := f.forget(t, at(0), 10); len(keys) != 0 {
			t.Errorf("too early: %v", keys)
		}
		if diff := cmp.Diff([]model.ImageKey{never}, f.forget(t, at(3), 10)); diff != "" {
			t.Errorf("what nothing ever ran (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]model.ImageKey{ended}, f.forget(t, at(4), 1)); diff != "" {
			t.Errorf("one of two (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]model.ImageKey{fresh}, f.forget(t, at(4), 1)); diff != "" {
			t.Errorf("the other (-want +got):\n%s", diff)
		}
		expectKinds(t, f.kinds(t, last), store.EventImageRemoved, store.EventImageRemoved, store.EventImageRemoved)
		if keys := f.forget(t, at(1000), 10); len(keys) != 0 {
			t.Errorf("%v was forgotten: it runs, or somebody reported it", keys)
		}
		// It runs again, and counts from the end of that.
		f.want(t, ended)
		f.runAt(t, 10, "s2", runs("web", ended)...)
		f.runAt(t, 20, "s2")
		if diff := cmp.Diff([]model.ImageKey{running}, f.forget(t, at(20), 10)); diff != "" {
			t.Errorf("what ended at 10 (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]model.ImageKey{ended}, f.forget(t, at(21), 10)); diff != "" {
			t.Errorf("what ran again until 20 (-want +got):\n%s", diff)
		}
	},
	"Each scope keeps the images that it ran for its own time": func(t *testing.T, f *fixture) {
		both, long, short := image("both", amd64), image("long", amd64), image("short", amd64)
		f.clock.set(day)
		f.want(t, both, long, short)
		f.runAt(t, 1, "short", runs("web", both, short)...)
		f.runAt(t, 1, "long", runs("web", both, long)...)
		at := func(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }
		forget := func(what string, before map[string]int, want ...model.ImageKey) {
			t.Helper()
			for scope, minutes := range before {
				must(t, f.ExpireUses(t.Context(), scope, at(minutes)))
			}
			keys, err := f.ForgetImages(t.Context(), at(1), 10)
			must(t, err)
			if diff := cmp.Diff(want, keys, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		f.runAt(t, 5, "short")
		forget("what still runs in a scope", map[string]int{"short": 6}, short)
		f.runAt(t, 7, "long")
		forget("what a scope keeps", map[string]int{"short": 100, "long": 7})
		// What was forgotten of a scope counts like it, and the later end of two.
		f.runAt(t, 8, "third", runs("web", both)...)
		f.runAt(t, 9, "third")
		must(t, f.ForgetScope(t.Context(), "third"))
		must(t, f.ForgetScope(t.Context(), "long"))
		forget("what a scope that is gone keeps", map[string]int{"short": 100, "long": 100, "third": 100, "": 7})
		forget("what the later of two keeps", map[string]int{"": 9}, long)
		forget("what nothing keeps", map[string]int{"": 10}, both)
	},
}
