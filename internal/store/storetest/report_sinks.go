package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sinkCursors lists "sink sequence".
func (f *fixture) sinkCursors(t *testing.T) []string {
	t.Helper()
	cursors, err := f.ReportCursors(t.Context())
	must(t, err)
	all := []string{}
	for _, c := range cursors {
		all = append(all, fmt.Sprintf("%s %d", c.Sink, c.Sequence))
	}
	return all
}

// itemsOf lists key, version, due, gone, digest and problem of the items of a sink.
func (f *fixture) itemsOf(t *testing.T, sink string) []string {
	t.Helper()
	items, err := f.ReportItems(t.Context(), sink)
	must(t, err)
	all := []string{}
	for i := range items {
		r := &items[i]
		all = append(all, fmt.Sprintf("%s %d due=%t gone=%t %s %s", r.Key, r.Version, r.Due, r.Gone, r.Digest, r.Problem))
	}
	return all
}

// planned moves a sink with items, and expects whether that was done.
func (f *fixture) planned(t *testing.T, sink string, from, to int64, want bool, deleted []string, items ...store.ReportItem) {
	t.Helper()
	done, err := f.PlanReports(t.Context(), store.ReportCursor{Sink: sink, Sequence: from}, store.ReportCursor{Sink: sink, Sequence: to, SyncedAt: day}, items, deleted)
	must(t, err)
	if done != want {
		t.Errorf("from %d to %d: done %t, want %t", from, to, done, want)
	}
}

// itemOf is an item that is due.
func itemOf(key string, version int64) store.ReportItem {
	return store.ReportItem{Key: key, Target: `{"parts":["` + key + `"]}`, Stamp: "s", Version: version, Due: true}
}

var reportSinkTests = map[string]func(*testing.T, *fixture){
	"Sinks begin at the end of the event log": func(t *testing.T, f *fixture) {
		f.at(0)
		must(t, f.SyncReportSinks(t.Context(), []string{"a"}))
		f.want(t, image("i", amd64), image("j", amd64))
		must(t, f.SyncReportSinks(t.Context(), []string{"a", "b"}))
		expectTexts(t, "begin", f.sinkCursors(t), "a 0", "b 2")
		f.planned(t, "a", 0, 2, true, nil, itemOf("x", 1))
		f.planned(t, "b", 2, 2, true, nil, itemOf("x", 1))
		must(t, f.SyncReportSinks(t.Context(), []string{"b"}))
		expectTexts(t, "fewer", f.sinkCursors(t), "b 2")
		expectTexts(t, "items of a sink that is gone", f.itemsOf(t, "a"))
		expectTexts(t, "items of the other", f.itemsOf(t, "b"), "x 1 due=true gone=false  ")
		if err := f.SyncReportSinks(t.Context(), []string{""}); err == nil {
			t.Error("a sink without a name is recorded")
		}
	},
	"A position moves with its items": func(t *testing.T, f *fixture) {
		f.at(0)
		must(t, f.SyncReportSinks(t.Context(), []string{"a"}))
		f.planned(t, "a", 0, 5, true, nil, itemOf("x", 1), itemOf("y", 1))
		// Another process was first.
		f.planned(t, "a", 0, 6, false, []string{"x"}, itemOf("z", 1))
		f.planned(t, "unknown", 0, 6, false, nil, itemOf("z", 1))
		expectTexts(t, "first plan", f.itemsOf(t, "a"), "x 1 due=true gone=false  ", "y 1 due=true gone=false  ")
		f.planned(t, "a", 5, 5, true, []string{"x"}, itemOf("y", 2))
		expectTexts(t, "replaced", f.itemsOf(t, "a"), "y 2 due=true gone=false  ")
		expectTexts(t, "position", f.sinkCursors(t), "a 5")
		if _, err := f.PlanReports(t.Context(), store.ReportCursor{Sink: "a", Sequence: 5}, store.ReportCursor{Sink: "a", Sequence: 5}, []store.ReportItem{{
			Key: "long", Stamp: "s", Target: strings.Repeat("x", store.MaxReportTarget+1),
		}}, nil); err == nil {
			t.Error("a target without a bound is kept")
		}
		many := make([]store.ReportItem, store.MaxReportPart)
		for i := range many {
			many[i] = itemOf(fmt.Sprint("many-", i), 1)
		}
		at := store.ReportCursor{Sink: "a", Sequence: 5}
		if _, err := f.PlanReports(t.Context(), at, at, many, []string{"y"}); err == nil || !strings.Contains(err.Error(), "the maximum is 1000: write them in parts") {
			t.Errorf("more than the bound at a time: %v", err)
		}
		// A part of a plan leaves the position as it is.
		f.planned(t, "a", 5, 5, true, nil, many...)
		f.planned(t, "a", 5, 6, true, []string{"y"}, many[1:]...)
		items, err := f.ReportItems(t.Context(), "a")
		must(t, err)
		if len(items) != len(many) {
			t.Errorf("%d items, want %d", len(items), len(many))
		}
		expectTexts(t, "position after the last part", f.sinkCursors(t), "a 6")
	},
	"Attempts end for the version that they were about": func(t *testing.T, f *fixture) {
		f.at(0)
		must(t, f.SyncReportSinks(t.Context(), []string{"a"}))
		f.planned(t, "a", 0, 1, true, nil, itemOf("x", 1), itemOf("y", 1))
		items, err := f.ReportItems(t.Context(), "a")
		must(t, err)
		end := func(item store.ReportItem, want bool) {
			t.Helper()
			done, err := f.EndReport(t.Context(), &item)
			must(t, err)
			if done != want {
				t.Errorf("%+v: done %t", item, done)
			}
		}
		failed := items[0]
		failed.Attempts, failed.NextAt, failed.Problem = 1, day, strings.Repeat("é", store.MaxReportProblem)
		end(failed, true)
		items, err = f.ReportItems(t.Context(), "a")
		must(t, err)
		if got := items[0]; got.Attempts != 1 || !got.NextAt.Equal(day) || len(got.Problem) != store.MaxReportProblem || !got.Due {
			t.Errorf("after a failure: %+v", got)
		}
		cursors, err := f.ReportCursors(t.Context())
		must(t, err)
		if !cursors[0].DeliveredAt.IsZero() || !cursors[0].SyncedAt.Equal(day) {
			t.Errorf("after a failure: %+v", cursors[0])
		}
		// It changed while it was delivered.
		f.planned(t, "a", 1, 2, true, nil, itemOf("x", 2))
		delivered := items[0]
		delivered.Due, delivered.Digest, delivered.Problem, delivered.DeliveredAt = false, "d", "", day.Add(time.Hour)
		end(delivered, false)
		delivered.Version = 2
		end(delivered, true)
		gone := items[1]
		gone.Gone = true
		end(gone, true)
		expectTexts(t, "still to be removed", f.itemsOf(t, "a"), "x 2 due=false gone=false d ", "y 1 due=true gone=false  ")
		gone.Due, gone.DeliveredAt = false, day.Add(2*time.Hour)
		end(gone, true)
		end(gone, false)
		expectTexts(t, "removed", f.itemsOf(t, "a"), "x 2 due=false gone=false d ")
		// It did not have to be delivered again.
		end(delivered, true)
		cursors, err = f.ReportCursors(t.Context())
		must(t, err)
		if !cursors[0].DeliveredAt.Equal(day.Add(2 * time.Hour)) {
			t.Errorf("delivered at %s", cursors[0].DeliveredAt)
		}
	},
	"Running images are reported": func(t *testing.T, f *fixture) {
		f.at(0)
		one, two, three := image("one", amd64), image("longer", amd64), image("waiting", amd64)
		f.running(t, one, "n1", "n2")
		f.running(t, two, "n2")
		f.want(t, three)
		must(t, f.RecordUses(t.Context(), "waits", []store.Use{ownedUse(three, "n3", "web", "o")}))
		expect := func(what string, want ...string) {
			t.Helper()
			running, err := f.RunningReports(t.Context())
			must(t, err)
			got := []string{}
			for i := range running {
				r := &running[i]
				for _, w := range r.Workloads {
					got = append(got, fmt.Sprintf("%s %s %d %s %d", r.Repository(), w.Namespace, r.Counts.Total(), r.SBOMSHA256, r.CatalogStamp))
				}
			}
			expectTexts(t, what, got, want...)
		}
		expect("running", "registry.example/longer n2 3 1 0", "registry.example/one n1 3 1 0", "registry.example/one n2 3 1 0")
		// The packages follow another SBOM later.
		f.again(t, two, 0, 1, true)
		must(t, f.SaveSBOM(t.Context(), two, sbomOf("2"), catalogOf("a")))
		expect("not read", "registry.example/longer n2 3 2 -1", "registry.example/one n1 3 1 0", "registry.example/one n2 3 1 0")
		read := catalogOf("a", "b")
		read.Stamp = 7
		must(t, f.ReplaceCatalog(t.Context(), two, "2", read))
		expect("read", "registry.example/longer n2 3 2 7", "registry.example/one n1 3 1 0", "registry.example/one n2 3 1 0")
	},
}
