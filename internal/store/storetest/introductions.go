package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// introduced reports introductions, and lists "image in namespace: critical, high, exploited of owners" of the events after a sequence number.
func (f *fixture) introduced(t *testing.T, since int64, want int) []string {
	t.Helper()
	taken, err := f.ReportIntroductions(t.Context(), day.Add(-72*time.Hour), store.MaxIntroduced)
	must(t, err)
	if taken != want {
		t.Errorf("%d introductions were taken off the queue, want %d", taken, want)
	}
	all := []string{}
	for _, e := range f.events(t, since) {
		if e.Kind != store.EventImageIntroduced {
			continue
		}
		var data store.IntroducedEvent
		must(t, json.Unmarshal(e.Data, &data))
		if e.Namespace() != data.Namespace {
			t.Errorf("an event about %s is of the namespace %q", data.Namespace, e.Namespace())
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.ImageID, "registry.example/"), "@")
		all = append(all, fmt.Sprintf("%s in %s: %d, %d, %d of %s", name, data.Namespace, data.Findings.Critical, data.Findings.High, data.KEV, strings.Join(data.Owners, " ")))
	}
	return all
}

var introductionTests = map[string]func(*testing.T, *fixture){
	"Images begin to run in namespaces": func(t *testing.T, f *fixture) {
		f.at(0)
		one, two := image("one", amd64), image("two", amd64)
		// Not before it is known what they have.
		f.catalog(t, one, "1", catalogOf("a", "b"))
		must(t, f.RecordUses(t.Context(), "s", []store.Use{ownedUse(one, "n1", "web", "red"), ownedUse(one, "n1", "api", "blue"), ownedUse(one, "n2", "web", "")}))
		expectTexts(t, "not matched", f.introduced(t, 0, 0))
		f.match(t, one, "1", decided)
		d := exception("d", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil)
		d.Places = &store.DecisionPlaces{Selector: "n2", Namespaces: []string{"n2"}}
		f.decide(t, d)
		expectTexts(t, "matched", f.introduced(t, 0, 2), "one in n1: 2, 1, 0 of blue red", "one in n2: 2, 0, 0 of ")
		since := f.last(t)
		expectTexts(t, "again", f.introduced(t, since, 0))

		// A rollout has its own event. Another workload that runs the new image has none.
		f.running(t, two)
		web, api := ownedUse(two, "n1", "web", "red"), ownedUse(two, "n2", "api", "")
		must(t, f.RecordUses(t.Context(), "s", []store.Use{web, ownedUse(one, "n1", "api", "blue"), ownedUse(one, "n2", "web", ""), api}))
		expectTexts(t, "a rollout in n1, a new workload in n2", f.introduced(t, since, 2), "two in n2: 2, 0, 0 of ")
		since = f.last(t)

		// Another platform of a known image, as on the first node of another kind, is not new; nor is it without its rollout.
		arm := image("one", arm64)
		f.running(t, arm)
		must(t, f.RecordUses(t.Context(), "arm", []store.Use{ownedUse(arm, "n1", "agent", "")}))
		expectTexts(t, "another platform", f.introduced(t, since, 1))

		// What runs nothing any more, and what has no findings, is not worth an event.
		none, gone := image("none", amd64), image("gone", amd64)
		for _, key := range []model.ImageKey{none, gone} {
			f.catalog(t, key, "1", catalogOf("c"))
		}
		must(t, f.RecordUses(t.Context(), "t", []store.Use{ownedUse(none, "n3", "web", ""), ownedUse(gone, "n3", "api", "")}))
		must(t, f.RecordUses(t.Context(), "t", []store.Use{ownedUse(none, "n3", "web", "")}))
		f.match(t, none, "1", answers{})
		f.match(t, gone, "1", answers{"c": decided["b"]})
		expectTexts(t, "nothing to say", f.introduced(t, since, 2))

		// Who is not scanned in time is forgotten.
		late := image("late", amd64)
		f.catalog(t, late, "1", catalogOf("a"))
		must(t, f.RecordUses(t.Context(), "u", []store.Use{ownedUse(late, "n3", "late", "")}))
		taken, err := f.ReportIntroductions(t.Context(), day.Add(time.Hour), store.MaxIntroduced)
		must(t, err)
		if taken != 1 {
			t.Errorf("%d introductions timed out", taken)
		}
		f.match(t, late, "1", decided)
		expectTexts(t, "after the time", f.introduced(t, since, 0))

		// Nobody else says what a rollout brought whose previous image was not scanned.
		unknown, next := image("unknown", amd64), image("next", amd64)
		_, err = f.WantImages(t.Context(), []model.ImageKey{unknown})
		must(t, err)
		f.at(10)
		must(t, f.RecordUses(t.Context(), "v", []store.Use{ownedUse(unknown, "n4", "web", "")}))
		f.at(11)
		f.running(t, next)
		must(t, f.RecordUses(t.Context(), "v", []store.Use{ownedUse(next, "n4", "web", "")}))
		expectTexts(t, "by a rollout", f.introduced(t, since, 1))
		f.at(90)
		if n, err := f.EvaluateRollouts(t.Context(), day.Add(80*time.Hour), store.MaxEvaluated); err != nil || n == 0 {
			t.Errorf("%d rollouts timed out: %v", n, err)
		}
		expectTexts(t, "by a rollout that timed out", f.introduced(t, since, 1), "next in n4: 2, 1, 0 of ")

		present, err := f.PresentIntroductions(t.Context(), []store.Introduction{{Namespace: "n1", Image: one}, {Namespace: "n2", Image: one}, {Namespace: "n1", Image: image("unknown", amd64)}})
		must(t, err)
		if n1, n2 := present[store.Introduction{Namespace: "n1", Image: one}], present[store.Introduction{Namespace: "n2", Image: one}]; len(present) != 2 || n1.High != 1 || n2.High != 0 {
			t.Errorf("present: %+v", present)
		}
	},
}
