package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// date is the beginning of a day that is so many days after the others of the tests.
func date(days int) time.Time { return day.Truncate(24*time.Hour).AddDate(0, 0, days) }

// of has an image of a distribution, which was created on a day.
func (f *fixture) of(t *testing.T, key model.ImageKey, distro string, created time.Time) {
	t.Helper()
	catalog := catalogOf("p")
	catalog.Distro, catalog.Created = distro, created
	f.catalog(t, key, "1", catalog)
}

// selects expects that a query selects images, in pages of one as well.
func (f *fixture) selects(t *testing.T, query store.ImageQuery, want ...model.ImageKey) {
	t.Helper()
	for _, size := range []int{0, 1} {
		query.Page = store.Page{Size: size}
		var got []model.ImageKey
		for {
			page := f.list(t, query)
			for _, i := range page.Images {
				got = append(got, i.Key)
			}
			if page.Total != len(want) {
				t.Errorf("%+v: %d images in total, want %d", query, page.Total, len(want))
			}
			if query.Token = page.NextToken; query.Token == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", query, diff)
		}
	}
}

func (f *fixture) expectOutdated(t *testing.T, build string, want ...string) {
	t.Helper()
	if got, err := f.OutdatedLifecycles(t.Context(), build, 10); err != nil || !cmp.Equal(got, want) {
		t.Errorf("OutdatedLifecycles(%q): %v, %v; want %v", build, got, err, want)
	}
}

var lifecycleTests = map[string]func(*testing.T, *fixture){
	"The dates of distributions are those of the last database build": func(t *testing.T, f *fixture) {
		a, b, none := image("a", amd64), image("bb", amd64), image("ccc", amd64)
		f.of(t, a, "debian:11", time.Time{})
		f.of(t, b, "alpine:3.20", time.Time{})
		f.of(t, none, "", time.Time{})
		f.expectOutdated(t, "one", "alpine:3.20", "debian:11")
		if got, err := f.OutdatedLifecycles(t.Context(), "one", 1); err != nil || len(got) != 1 {
			t.Errorf("one of them: %v, %v", got, err)
		}
		debian := model.Lifecycle{EndOfSupport: date(-400), EndOfLife: date(-30)}
		must(t, f.SaveLifecycles(t.Context(), "one", map[string]model.Lifecycle{"debian:11": debian, "alpine:3.20": {}}))
		f.expectOutdated(t, "one")
		f.expectOutdated(t, "two", "alpine:3.20", "debian:11")
		if got := f.image(t, a).Lifecycle; got != debian {
			t.Errorf("got %+v", got)
		}
		if got := f.image(t, b).Lifecycle; got != (model.Lifecycle{}) {
			t.Errorf("unknown dates: %+v", got)
		}
		later := model.Lifecycle{EndOfLife: date(30)}
		must(t, f.SaveLifecycles(t.Context(), "two", map[string]model.Lifecycle{"debian:11": later, "alpine:3.20": {}}))
		if got := f.image(t, a).Lifecycle; got != later {
			t.Errorf("of the next build: %+v", got)
		}
		if got := f.list(t, store.ImageQuery{Text: "registry"}).Images[0].Lifecycle; got != later {
			t.Errorf("in the list: %+v", got)
		}
	},
	"Images by the end of life of their distribution": func(t *testing.T, f *fixture) {
		f.clock.set(date(0).Add(time.Hour))
		past, today, soon, unknown := image("a", amd64), image("bb", amd64), image("ccc", amd64), image("dddd", amd64)
		f.of(t, past, "past:1", time.Time{})
		f.of(t, today, "today:1", time.Time{})
		f.of(t, soon, "soon:1", time.Time{})
		f.of(t, unknown, "unknown:1", time.Time{})
		must(t, f.SaveLifecycles(t.Context(), "one", map[string]model.Lifecycle{
			"past:1": {EndOfLife: date(-900)}, "today:1": {EndOfLife: date(0)}, "soon:1": {EndOfLife: date(30)}, "unknown:1": {EndOfSupport: date(-1)},
		}))
		within := func(days int) store.ImageQuery { return store.ImageQuery{EndOfLifeWithin: &days} }
		f.selects(t, within(0), past, today)
		f.selects(t, within(29), past, today)
		f.selects(t, within(30), past, today, soon)
		f.selects(t, within(store.MaxDays), past, today, soon)
		first := f.list(t, store.ImageQuery{EndOfLifeWithin: new(int), Page: store.Page{Size: 1}})
		other := within(30)
		other.Page = store.Page{Size: 1, Token: first.NextToken}
		if _, err := f.ListImages(t.Context(), store.AllNamespaces(), other); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("the token of another filter: %v", err)
		}
	},
	"Images by age": func(t *testing.T, f *fixture) {
		f.clock.set(date(0))
		old, young, unknown, epoch, future := image("a", amd64), image("bb", amd64), image("ccc", amd64), image("dddd", amd64), image("eeeee", amd64)
		f.of(t, young, "", date(-10))
		f.of(t, old, "", date(-900))
		f.of(t, unknown, "", time.Time{})
		f.of(t, epoch, "", time.Unix(0, 0))
		f.of(t, future, "", date(3))
		f.selects(t, store.ImageQuery{Sort: store.SortCreated}, old, young, unknown, epoch, future)
		f.selects(t, store.ImageQuery{OlderThan: 1}, old, young)
		f.selects(t, store.ImageQuery{OlderThan: 10}, old, young)
		f.selects(t, store.ImageQuery{OlderThan: 11}, old)
		f.selects(t, store.ImageQuery{OlderThan: store.MaxDays})
		if got := f.image(t, old).Created; !got.Equal(date(-900)) {
			t.Errorf("created %s", got)
		}
		for _, key := range []model.ImageKey{unknown, epoch, future} {
			if got := f.image(t, key).Created; !got.IsZero() {
				t.Errorf("%s: created %s", key, got)
			}
		}
		// The time is that of the SBOM that the image has.
		f.of(t, old, "", time.Time{})
		f.selects(t, store.ImageQuery{OlderThan: 1}, young)
		again := catalogOf("p")
		again.Created = date(-20)
		f.match(t, young, "1", answers{})
		must(t, f.ReplaceCatalog(t.Context(), young, "1", again))
		if got := f.image(t, young).Created; !got.Equal(date(-20)) {
			t.Errorf("read again: created %s", got)
		}
	},
	"Running images by age": func(t *testing.T, f *fixture) {
		f.clock.set(date(0))
		one, two, three, idle := image("a", amd64), image("bb", amd64), image("ccc", amd64), image("dddd", amd64)
		f.of(t, one, "debian:10", date(-400))
		f.of(t, two, "debian:10", date(-100))
		f.of(t, three, "debian:9", time.Time{})
		f.of(t, idle, "debian:9", date(-500))
		must(t, f.SaveLifecycles(t.Context(), "one", map[string]model.Lifecycle{
			"debian:10": {Release: "debian:10", EndOfLife: date(-1)}, "debian:9": {Release: "debian:9", EndOfLife: date(-2)},
		}))
		var uses []store.Use
		for _, key := range []model.ImageKey{one, two, three} {
			for _, container := range []string{"app", "other"} {
				uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}, Container: container})
			}
		}
		must(t, f.RecordUses(t.Context(), "scope", uses))
		for distros, want := range map[int]store.RunningAges{
			0: {Ended: []store.DistroImages{}, OtherEnded: 3},
			1: {Ended: []store.DistroImages{{Distro: "debian:10", Images: 2}}, OtherEnded: 1},
			9: {Ended: []store.DistroImages{{Distro: "debian:10", Images: 2}, {Distro: "debian:9", Images: 1}}},
		} {
			want.Older, want.Unknown = map[int]int{90: 2, 365: 1}, 1
			got, err := f.RunningAges(t.Context(), distros, []int{90, 365})
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d distributions (-want +got):\n%s", distros, diff)
			}
		}
	},
	"Made-up versions count for the release that the database knows": func(t *testing.T, f *fixture) {
		f.clock.set(date(0))
		lifecycles := map[string]model.Lifecycle{"debian:10": {Release: "debian:10", EndOfLife: date(-1)}}
		honest := image("honest", amd64)
		f.of(t, honest, "debian:10", date(-1))
		uses := []store.Use{{Image: honest, Workload: store.Workload{Namespace: "shop", Kind: "Pod", Name: "p"}, Container: "c"}}
		for n := range 20 {
			key, name := image(fmt.Sprint("image", strings.Repeat("x", n)), amd64), fmt.Sprint("rhel:7.", 1000+n%10)
			f.of(t, key, name, date(-1))
			lifecycles[name] = model.Lifecycle{Release: "rhel:7", EndOfLife: date(-1)}
			uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: "dark", Kind: "Pod", Name: fmt.Sprint(n)}, Container: "c"})
		}
		must(t, f.SaveLifecycles(t.Context(), "one", lifecycles))
		must(t, f.RecordUses(t.Context(), "scope", uses))
		got, err := f.RunningAges(t.Context(), 2, nil)
		must(t, err)
		if diff := cmp.Diff([]store.DistroImages{{Distro: "rhel:7", Images: 20}, {Distro: "debian:10", Images: 1}}, got.Ended); diff != "" || got.OtherEnded != 0 {
			t.Errorf("%d others, %s", got.OtherEnded, diff)
		}
	},
	"Distributions that no image has are deleted": func(t *testing.T, f *fixture) {
		f.of(t, image("a", amd64), "debian:11", time.Time{})
		must(t, f.SaveLifecycles(t.Context(), "one", map[string]model.Lifecycle{"debian:11": {}, "debian:9": {EndOfLife: date(-1)}}))
		must(t, f.Prune(t.Context(), date(-90)))
		f.of(t, image("bb", amd64), "debian:9", time.Time{})
		f.expectOutdated(t, "one", "debian:9")
	},
	"Names of distributions that are too long are left out": func(t *testing.T, f *fixture) {
		// The second has fewer characters than the maximum, and more bytes.
		for i, long := range []string{strings.Repeat("a", 256), "debian:" + strings.Repeat("é", 200)} {
			f.of(t, image(strings.Repeat("b", i+1), amd64), long, time.Time{})
			f.expectOutdated(t, "one")
			if err := f.SaveLifecycles(t.Context(), "one", map[string]model.Lifecycle{long: {}}); err == nil {
				t.Error("it was saved")
			}
		}
	},
}
