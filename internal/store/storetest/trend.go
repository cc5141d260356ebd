package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func (f *fixture) trend(t *testing.T, query store.TrendQuery) []store.TrendDay {
	t.Helper()
	days, err := f.Trend(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("Trend: %v", err)
	}
	return days
}

// recordDayAt sets the clock to so many hours after day and records the sums.
func (f *fixture) recordDayAt(t *testing.T, hours int) {
	t.Helper()
	f.at(hours)
	must(t, f.RecordDay(t.Context()))
}

// march is a day of that month.
func march(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }

var trendTests = map[string]func(*testing.T, *fixture){
	"Trend": func(t *testing.T, f *fixture) {
		whole := store.TrendQuery{From: march(1).Add(23 * time.Hour), To: march(9)}
		if got := f.trend(t, whole); len(got) != 0 {
			t.Errorf("at first: got %+v", got)
		}
		a, arm, b, idle := image("a", amd64), image("a", arm64), image("bb", amd64), image("idle", amd64)
		f.at(0)
		f.recordDayAt(t, 0)
		for _, key := range []model.ImageKey{a, idle} {
			f.catalog(t, key, "1", catalogOf("p", "q"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh, "2"), scored(finding("CVE-2", model.SeverityLow), 0, true)}})
		}
		f.want(t, arm, b)
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), b.ImageID, store.Report{Content: []byte("{}"), Counts: store.Counts{Fixable: 7}}))
		other := store.Use{Image: a, Workload: store.Workload{Namespace: "other", Kind: "Pod", Name: "x"}, Container: "c"}
		must(t, f.RecordUses(t.Context(), "s", append(slices.Concat(runs("web", a, b), runs("db", a)), other)))
		must(t, f.RecordUses(t.Context(), "t", runs("web", a)))
		f.recordDayAt(t, 11)
		sums := func(n, images, scanned int, counts store.Counts) store.TrendDay {
			return store.TrendDay{Day: march(n), Images: images, Scanned: scanned, Counts: counts}
		}
		counts := store.Counts{SeverityCounts: model.SeverityCounts{High: 1, Low: 1}, KEV: 1, Fixable: 1}
		first, small := sums(1, 2, 1, counts), sums(1, 1, 1, counts)
		first.Databases, small.Databases = 1, 1
		expect := func(step, namespace string, want ...store.TrendDay) {
			t.Helper()
			query := whole
			query.Namespace = namespace
			if diff := cmp.Diff(append([]store.TrendDay{}, want...), f.trend(t, query)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step, diff)
			}
		}
		expect("the first day", "", first)
		expect("a namespace", "n", first)
		expect("another namespace", "other", small)
		expect("an unknown namespace", "x")
		// On the second day a database brings changes, and a namespace runs nothing any more.
		f.rematchAt(t, 20, answers{"p": {finding("CVE-1", model.SeverityHigh, "2"), finding("CVE-3", model.SeverityCritical)}, "q": {finding("CVE-3", model.SeverityCritical)}})
		f.rematchAt(t, 22, answers{"p": {finding("CVE-1", model.SeverityHigh, "2"), finding("CVE-3", model.SeverityCritical)}})
		must(t, f.RecordUses(t.Context(), "s", slices.Concat(runs("web", a, arm), runs("db", a))))
		f.recordDayAt(t, 23)
		second := sums(2, 2, 1, store.Counts{SeverityCounts: model.SeverityCounts{Critical: 1, High: 1}, Fixable: 1})
		second.Databases = 2
		second.Opened, second.Closed = model.SeverityCounts{Critical: 2}, model.SeverityCounts{Critical: 1, Low: 1}
		expect("two days", "", first, second)
		expect("nothing runs in the other namespace", "other", small)
		whole.From = march(2)
		expect("the second day only", "", second)
		whole.From, whole.To = march(1), march(1).Add(time.Hour)
		expect("the first day only", "", first)
		whole.To = march(1).Add(-time.Second)
		expect("no day", "")
		// The day after: nothing at all.
		must(t, f.RecordUses(t.Context(), "s", nil))
		must(t, f.RecordUses(t.Context(), "t", nil))
		f.recordDayAt(t, 40)
		whole.From, whole.To = march(3), march(3)
		expect("nothing runs", "", sums(3, 0, 0, store.Counts{}))
		expect("nothing runs in a namespace", "n")
	},
	"Databases by day are those that differ from the previous one": func(t *testing.T, f *fixture) {
		f.at(0)
		f.want(t, image("a", amd64))
		f.start(t, oldBuild)
		for _, build := range []model.DatabaseBuild{oldBuild, newBuild} {
			next := f.start(t, build).Number
			f.queueAll(t, next)
			f.answerQueue(t, next, nil)
			f.switchTo(t, next)
		}
		must(t, f.RecordDay(t.Context()))
		days := f.trend(t, store.TrendQuery{From: march(1), To: march(9)})
		if len(days) != 1 || days[0].Databases != 2 {
			t.Errorf("got %+v, want 2 databases on one day", days)
		}
	},
	"Rollouts by day": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.want(t, a, b)
		elsewhere := func(key model.ImageKey) store.Use {
			return store.Use{Image: key, Workload: store.Workload{Namespace: "other", Kind: "Pod", Name: "x"}, Container: "c"}
		}
		for _, step := range []struct {
			hours int
			uses  []store.Use
		}{
			{0, append(runs("web", a), elsewhere(a))}, {1, append(runs("web", b), elsewhere(a))}, {23, append(runs("web", a), elsewhere(b))},
			{36, append(runs("web", b), elsewhere(b))},
		} {
			f.at(step.hours)
			must(t, f.RecordUses(t.Context(), "s", step.uses))
			must(t, f.RecordDay(t.Context()))
		}
		for _, one := range []struct {
			in        store.Namespaces
			namespace string
			want      []int
		}{
			{store.AllNamespaces(), "", []int{1, 2, 1}},
			{store.AllNamespaces(), "n", []int{1, 1, 1}},
			{store.AllNamespaces(), "other", []int{0, 1, 0}},
			{store.OnlyNamespaces("n"), "", []int{1, 1, 1}},
			{store.OnlyNamespaces("other"), "", []int{0, 1, 0}},
			{store.OnlyNamespaces("other"), "n", nil},
		} {
			days, err := f.Trend(t.Context(), one.in, store.TrendQuery{From: march(1), To: march(9), Namespace: one.namespace})
			must(t, err)
			var got []int
			for _, day := range days {
				got = append(got, day.Rollouts)
			}
			if !slices.Equal(got, one.want) {
				t.Errorf("rollouts by day in namespace %q, of %v: got %d, want %d", one.namespace, one.in, got, one.want)
			}
		}
	},
	"Changes by day in a namespace": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.at(0)
		for key, one := range map[model.ImageKey]string{a: "p", b: "q"} {
			f.catalog(t, key, "1", catalogOf(one))
			f.match(t, key, "1", answers{one: {finding("CVE-1", model.SeverityLow, "")}})
		}
		elsewhere := store.Use{Image: b, Workload: store.Workload{Namespace: "other", Kind: "Pod", Name: "x"}, Container: "c"}
		must(t, f.RecordUses(t.Context(), "s", append(runs("web", a), elsewhere)))
		f.rematchAt(t, 20, answers{"p": {finding("CVE-2", model.SeverityHigh, "")}, "q": {finding("CVE-3", model.SeverityCritical, ""), finding("CVE-1", model.SeverityLow, "")}})
		f.recordDayAt(t, 21)
		low, high, critical := model.SeverityCounts{Low: 1}, model.SeverityCounts{High: 1}, model.SeverityCounts{Critical: 1}
		both := model.SeverityCounts{Critical: 1, High: 1}
		type changed struct{ Opened, Closed model.SeverityCounts }
		for _, one := range []struct {
			in        store.Namespaces
			namespace string
			want      []changed
		}{
			{store.AllNamespaces(), "", []changed{{both, low}}},
			{store.AllNamespaces(), "n", []changed{{high, low}}},
			{store.AllNamespaces(), "other", []changed{{critical, model.SeverityCounts{}}}},
			{store.AllNamespaces(), "x", nil},
			{store.OnlyNamespaces("n", "other"), "", []changed{{both, low}}},
			{store.OnlyNamespaces("n", "other"), "other", []changed{{critical, model.SeverityCounts{}}}},
			{store.OnlyNamespaces("other"), "other", []changed{{critical, model.SeverityCounts{}}}},
			{store.OnlyNamespaces("other"), "n", nil},
			{store.OnlyNamespaces("other"), "x' OR '1' = '1", nil},
		} {
			days, err := f.Trend(t.Context(), one.in, store.TrendQuery{From: march(1), To: march(9), Namespace: one.namespace})
			must(t, err)
			var got []changed
			for _, day := range days {
				got = append(got, changed{day.Opened, day.Closed})
			}
			if diff := cmp.Diff(one.want, got); diff != "" {
				t.Errorf("changes by day in namespace %q, of %v (-want +got):\n%s", one.namespace, one.in, diff)
			}
		}
	},
	"A day as it was last": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.want(t, a, b)
		for hours, uses := range [][]store.Use{runs("web", a, b), runs("web", a), nil, runs("web", b)} {
			f.at(hours)
			must(t, f.RecordUses(t.Context(), "s", uses))
			must(t, f.RecordDay(t.Context()))
			for _, namespace := range []string{"", "n"} {
				got := f.trend(t, store.TrendQuery{From: march(1), To: march(1), Namespace: namespace})
				if len(got) == 0 && namespace == "n" && len(uses) == 0 {
					continue
				}
				if len(got) != 1 || got[0].Images != len(uses) {
					t.Errorf("after %d hours, namespace %q: got %+v", hours, namespace, got)
				}
			}
		}
	},
	"Trend refuses": func(t *testing.T, f *fixture) {
		query := store.TrendQuery{From: march(1), To: march(1).AddDate(0, 0, store.MaxTrendDays-1)}
		f.trend(t, query)
		query.To = query.To.Add(24 * time.Hour)
		if _, err := f.Trend(t.Context(), store.AllNamespaces(), query); err == nil {
			t.Error("too many days are no error")
		}
		query.To = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		if _, err := f.Trend(t.Context(), store.AllNamespaces(), query); err == nil {
			t.Error("thousands of years are no error")
		}
	},
	"Prune of what is past": func(t *testing.T, f *fixture) {
		one, two := image("a", amd64), image("bb", amd64)
		f.want(t, one, two)
		for i := range 3 { // The same again and again, with gaps.
			f.runAt(t, i*60, "s", append(runs("web", one), runs(fmt.Sprint("job", i), one)...)...)
			f.runAt(t, i*60+30, "s")
		}
		f.runAt(t, 180, "s", append(runs("web", one), runs("db", one)...)...)
		f.runAt(t, 200, "s", append(runs("web", two), runs("db", one)...)...)
		f.runAt(t, 220, "s", append(runs("web", two), runs("db", two)...)...)
		f.runAt(t, 240, "s", append(runs("web", one), runs("db", two)...)...)
		f.recordDayAt(t, 0)
		must(t, f.Prune(t.Context(), day.Add(210*time.Minute)))
		f.expectRan(t, "what ended", one, "web 240-", "db 180-220", "web 180-200", "web 120-150", "web 60-90", "web 0-30")
		f.expectRolled(t, "what was before", "240 web bb/amd64>a/amd64", "220 db a/amd64>bb/amd64")
		f.at(24 * (store.MaxTrendDays - 1))
		must(t, f.Prune(t.Context(), day))
		if got := f.trend(t, store.TrendQuery{From: march(1), To: march(1)}); len(got) != 1 {
			t.Errorf("a day within reach is gone: %+v", got)
		}
		f.at(24 * (store.MaxTrendDays + 1))
		must(t, f.Prune(t.Context(), day))
		if got := f.trend(t, store.TrendQuery{From: march(1), To: march(1)}); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	},
}
