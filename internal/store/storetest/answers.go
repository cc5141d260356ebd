package storetest

import (
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

var failed = model.PackageAnswer{Failure: "it is\x00 broken"}

// save keeps the answer to one package.
func (f *fixture) save(t *testing.T, resultSet, id int64, answer model.PackageAnswer) {
	t.Helper()
	if err := f.SaveAnswers(t.Context(), resultSet, map[int64]model.PackageAnswer{id: answer}); err != nil {
		t.Fatalf("SaveAnswers: %v", err)
	}
}

func (f *fixture) answered(t *testing.T) []store.AnsweredPackage {
	t.Helper()
	packages, err := f.AnsweredPackages(t.Context(), 0, store.MaxKeys)
	must(t, err)
	return packages
}

var answerTests = map[string]func(*testing.T, *fixture){
	"AnsweredPackages": func(t *testing.T, f *fixture) {
		if got := f.answered(t); len(got) != 0 {
			t.Errorf("at first: got %v", got)
		}
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q", "r", "unanswered"))
		ids, current := f.ids(t, key), f.current(t).Number
		keys := []model.SearchKey{0, 1, 1 << 63, 1<<64 - 1}
		must(t, f.SaveAnswers(t.Context(), current, map[int64]model.PackageAnswer{
			ids["p"]: {SearchKeys: keys}, ids["q"]: {}, ids["r"]: failed, 99999: {SearchKeys: keys}, // The last one is gone.
		}))
		f.save(t, current, 99999, model.PackageAnswer{SearchKeys: keys}) // All of them are gone.
		want := []store.AnsweredPackage{
			{ID: ids["p"], SearchKeys: keys}, {ID: ids["q"], SearchKeys: []model.SearchKey{}}, {ID: ids["r"], SearchKeys: []model.SearchKey{}, Failed: true},
		}
		slices.SortFunc(want, func(a, b store.AnsweredPackage) int { return int(a.ID - b.ID) })
		for _, limit := range []int{1, 2, 9} {
			var got []store.AnsweredPackage
			for after := int64(0); ; {
				page, err := f.AnsweredPackages(t.Context(), after, limit)
				must(t, err)
				if len(page) == 0 {
					break
				}
				got, after = append(got, page...), page[len(page)-1].ID
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("limit %d: %s", limit, diff)
			}
		}
		if got, err := f.AnsweredPackages(t.Context(), 0, 0); err != nil || len(got) != 0 {
			t.Errorf("limit 0: %v, %v", got, err)
		}
		// Other keys replace those of before: at once under the current result set, with the switch under the next one.
		f.save(t, current, ids["p"], model.PackageAnswer{SearchKeys: keys[:1]})
		if got := f.answered(t); len(got) != 3 || len(got[0].SearchKeys) != 1 {
			t.Errorf("got %v", got)
		}
		next := f.start(t, newBuild).Number
		f.queueAll(t, next)
		f.answerQueue(t, next, nil)
		if got := f.answered(t); len(got) != 3 || got[0].SearchKeys[0] != keys[0] {
			t.Errorf("before the switch: got %v", got)
		}
		f.switchTo(t, next)
		for _, p := range f.answered(t) {
			if p.Failed || !slices.Equal(p.SearchKeys, []model.SearchKey{1}) {
				t.Errorf("after the switch: got %+v", p)
			}
		}
	},
	"SaveAnswers refuses": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		if err := f.SaveAnswers(t.Context(), 0, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("without a result set: %v", err)
		}
		id, current := f.ids(t, key)["p"], f.current(t).Number
		for _, resultSet := range []int64{0, -1, current + 1} {
			if err := f.SaveAnswers(t.Context(), resultSet, map[int64]model.PackageAnswer{id: {}}); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("result set %d: %v", resultSet, err)
			}
		}
		long := strings.Repeat("x", 300)
		bad := finding("CVE-1", model.SeverityLow)
		bad.Vulnerability.Namespace = "\xff"
		for name, found := range map[string]model.PackageFinding{
			"no ID": finding("", model.SeverityLow), "long ID": finding(long, model.SeverityLow), "bad ID": finding("\xff", model.SeverityLow), "namespace": bad,
		} {
			if err := f.SaveAnswers(t.Context(), current, map[int64]model.PackageAnswer{id: answerOf(found)}); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		many := make(map[int64]model.PackageAnswer, store.MaxKeys+1)
		for i := range int64(store.MaxKeys + 1) {
			many[i+1] = model.PackageAnswer{}
		}
		if err := f.SaveAnswers(t.Context(), current, many); err == nil {
			t.Error("too many answers are no error")
		}
		if got := f.answered(t); len(got) != 0 {
			t.Errorf("refused answers left %v", got)
		}
	},
	"SaveAnswers again": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		id, current := f.ids(t, key)["p"], f.current(t).Number
		one, two, three := finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow), finding("CVE-3", model.SeverityLow)
		f.save(t, current, id, answerOf(one, two))
		f.save(t, current, id, answerOf(two, three))
		must(t, f.FinishImage(t.Context(), key, "1"))
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-2 p", "CVE-3 p"}) {
			t.Errorf("under the current result set: got %v", got)
		}
		// The last answer under the next result set counts, whatever came before; the same goes for those in between.
		next := f.start(t, newBuild).Number
		f.queueAll(t, next)
		for _, answer := range []model.PackageAnswer{answerOf(one), answerOf(two, three), answerOf(three, one), answerOf(), answerOf(one, three)} {
			f.save(t, next, id, answer)
		}
		f.save(t, current, id, answerOf(one)) // Visible at once.
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("under the current result set: got %v", got)
		}
		f.save(t, next, id, answerOf(three, one))
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("before the switch: got %v", got)
		}
		f.switchTo(t, next)
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p", "CVE-3 p"}) {
			t.Errorf("after the switch: got %v", got)
		}
	},
	"A package that the next result set answered first": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		id, current := f.ids(t, key)["p"], f.current(t).Number
		next := f.start(t, newBuild).Number
		must(t, f.StartMatching(t.Context(), next))
		then := answerOf(finding("CVE-1", model.SeverityLow))
		f.save(t, next, id, then)
		if got := f.answered(t); len(got) != 0 {
			t.Errorf("before the switch: got %v", got)
		}
		f.save(t, current, id, answerOf())
		f.save(t, next, id, then)
		f.switchTo(t, next)
		if got := f.answered(t); len(got) != 1 || !slices.Equal(got[0].SearchKeys, then.SearchKeys) {
			t.Errorf("after the switch: got %v", got)
		}
		f.match(t, key, "1", nil)
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("got %v", got)
		}
	},
	"WaitingImages": func(t *testing.T, f *fixture) {
		f.want(t, image("pending", amd64))
		var want []model.ImageKey
		for n := range 5 {
			for _, platform := range []model.Platform{amd64, arm64} {
				key := model.ImageKey{ImageID: fmt.Sprintf("i%d", n), Platform: platform}
				f.catalog(t, key, "1", catalogOf("p"))
				want = append(want, key)
			}
		}
		f.match(t, want[3], "1", nil)
		want = slices.Delete(want, 3, 4)
		for _, limit := range []int{1, 2, 100} {
			var got []model.ImageKey
			var after model.ImageKey
			for {
				keys, err := f.WaitingImages(t.Context(), after, limit)
				must(t, err)
				if len(keys) == 0 {
					break
				}
				got, after = append(got, keys...), keys[len(keys)-1]
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: got %v, want %v", limit, got, want)
			}
		}
	},
	"UnansweredPackages": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		for _, step := range []func(){func() {}, func() { f.want(t, key) }} {
			step()
			if _, _, err := f.UnansweredPackages(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("without an SBOM: %v", err)
			}
		}
		catalog := catalogOf("p", "q", "excluded")
		catalog.Packages[2].Excluded = true
		f.catalog(t, key, "1", catalog)
		digest, packages, err := f.UnansweredPackages(t.Context(), key)
		if err != nil || digest != "1" || len(packages) != 2 {
			t.Fatalf("got %s, %v, %v", digest, packages, err)
		}
		if diff := cmp.Diff(pkg("p"), packages[0].Package); diff != "" {
			t.Error(diff)
		}
		f.save(t, f.current(t).Number, packages[0].ID, answerOf())
		if _, left, err := f.UnansweredPackages(t.Context(), key); err != nil || len(left) != 1 || left[0].ID != packages[1].ID {
			t.Errorf("got %v, %v", left, err)
		}
		// An answer that only the next result set has is none.
		next := f.start(t, newBuild).Number
		f.save(t, next, packages[1].ID, answerOf())
		if _, left, err := f.UnansweredPackages(t.Context(), key); err != nil || len(left) != 1 {
			t.Errorf("got %v, %v", left, err)
		}
	},
	"FinishImage refuses": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		refuses := func(digest string) {
			t.Helper()
			if err := f.FinishImage(t.Context(), key, digest); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("FinishImage of the SBOM %q: %v", digest, err)
			}
		}
		refuses("1")
		f.want(t, key)
		refuses("")
		f.catalog(t, key, "1", catalogOf("p"))
		refuses("1") // There is no result set.
		current := f.current(t).Number
		refuses("1") // The package has no answer.
		f.save(t, current, f.ids(t, key)["p"], answerOf())
		refuses("2")
		if i := f.image(t, key); i.State != store.StateCataloged || i.Database != nil {
			t.Errorf("got %+v", i)
		}
		must(t, f.FinishImage(t.Context(), key, "1"))
	},
	"An image without packages": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf())
		f.match(t, key, "1", nil)
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts != (store.Counts{}) {
			t.Errorf("got %+v", i)
		}
	},
	"A package cannot be matched": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.catalog(t, a, "1", catalogOf("p", "q"))
		ids, current := f.ids(t, a), f.current(t).Number
		f.save(t, current, ids["p"], failed)
		if got := f.waiting(t); len(got) != 1 {
			t.Errorf("before the failure is noted: got %v", got)
		}
		f.save(t, current, ids["q"], answerOf(finding("CVE-1", model.SeverityLow)))
		last := f.last(t)
		for range 2 {
			must(t, f.FinishImage(t.Context(), a, "1"))
		}
		expectKinds(t, f.kinds(t, last), store.EventImageFailed)
		i := f.image(t, a)
		if i.State != store.StateCataloged || i.Reason != model.ReasonMatchFailed || !strings.Contains(i.Message, "it is\uFFFD broken") ||
			!strings.Contains(i.Message, "p 1.0-p") || i.Database != nil {
			t.Errorf("got %+v", i)
		}
		if got := f.waiting(t); len(got) != 0 {
			t.Errorf("after the failure was noted: got %v", got)
		}
		// A second image learns of it too.
		f.catalog(t, b, "1", catalogOf("p"))
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{b}) {
			t.Errorf("got %v", got)
		}
		f.match(t, b, "1", nil)
		if i := f.image(t, b); i.State != store.StateCataloged || i.Reason != model.ReasonMatchFailed {
			t.Errorf("got %+v", i.ImageState)
		}
		// The next result set can match it.
		f.rematch(t, newBuild, answers{"p": {finding("CVE-2", model.SeverityHigh)}, "q": {finding("CVE-1", model.SeverityLow)}})
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{a, b}) {
			t.Fatalf("got %v", got)
		}
		f.match(t, a, "1", nil)
		if i := f.image(t, a); i.State != store.StateScanned || i.Reason != "" || i.Message != "" || i.Counts.High != 1 || len(f.found(t, a)) != 2 {
			t.Errorf("got %+v", i)
		}
	},
	"A package cannot be matched again": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		ids := f.ids(t, key)
		old := answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": {finding("CVE-1", model.SeverityHigh)}}
		f.match(t, key, "1", old)
		next := f.start(t, newBuild).Number
		f.queueAll(t, next)
		f.save(t, next, ids["p"], answerOf(finding("CVE-2", model.SeverityLow))) // A failure takes the place of this one too.
		f.save(t, next, ids["p"], failed)
		f.answerQueue(t, next, nil)
		switched := f.switchTo(t, next)
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) || switched.Changes != (store.ChangeCounts{Closed: 1, Images: 1}) {
			t.Errorf("got %v, %+v", got, switched.Changes)
		}
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts.High != 1 || i.Reason != model.ReasonMatchFailed ||
			!strings.Contains(i.Message, "package p") {
			t.Errorf("got %+v", i)
		}
		if got := f.answered(t); len(got) != 2 || !got[0].Failed || got[1].Failed {
			t.Errorf("got %+v", got)
		}
		// When it can be matched again, the difference to what was shown meanwhile is told.
		switched = f.rematch(t, thirdBuild, answers{"p": {finding("CVE-3", model.SeverityHigh)}})
		if switched.Changes != (store.ChangeCounts{Opened: 1, Closed: 1, Images: 1}) {
			t.Errorf("got %+v", switched.Changes)
		}
		if i := f.image(t, key); i.Reason != "" || i.Message != "" {
			t.Errorf("after it could be matched again: got %+v", i)
		}
	},
	"StorePackages and ReplaceCatalog": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh)}})
		other := catalogOf("q", "r", "excluded")
		other.Packages[2].Excluded, other.Stamp, other.Distro = true, 7, "debian:13"
		if err := f.ReplaceCatalog(t.Context(), key, "1", other); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a package without an answer: %v", err)
		}
		if got := f.packages(t, key); len(got) != 2 || got[0].Package.Name != "p" {
			t.Errorf("a refused catalog left %v", got)
		}
		stored, err := f.StorePackages(t.Context(), other.Packages)
		if err != nil || len(stored) != 1 {
			t.Fatalf("got %v, %v", stored, err)
		}
		if diff := cmp.Diff(pkg("r"), stored[0].Package); diff != "" {
			t.Error(diff)
		}
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p", "CVE-2 q"}) {
			t.Errorf("meanwhile: got %v", got)
		}
		f.save(t, f.current(t).Number, stored[0].ID, answerOf(finding("CVE-3", model.SeverityCritical)))
		if again, err := f.StorePackages(t.Context(), other.Packages); err != nil || len(again) != 0 {
			t.Errorf("once answered: got %v, %v", again, err)
		}
		if err := f.ReplaceCatalog(t.Context(), key, "2", other); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another SBOM: %v", err)
		}
		last := f.last(t)
		must(t, f.ReplaceCatalog(t.Context(), key, "1", other))
		expectKinds(t, f.kinds(t, last), store.EventImageMatched)
		i := f.image(t, key)
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-2 q", "CVE-3 r"}) || i.State != store.StateScanned || i.PackageCount != 3 ||
			i.Counts != (store.Counts{SeverityCounts: model.SeverityCounts{Critical: 1, High: 1}}) || i.Distro != "debian:13" {
			t.Errorf("got %v, %+v", got, i)
		}
		// The same again changes nothing.
		last = f.last(t)
		must(t, f.ReplaceCatalog(t.Context(), key, "1", other))
		expectKinds(t, f.kinds(t, last))
		bad := []model.HeldPackage{{Package: model.Package{Name: "no fingerprint"}}}
		if _, err := f.StorePackages(t.Context(), bad); err == nil {
			t.Error("StorePackages: a package without a fingerprint is no error")
		}
		if err := f.ReplaceCatalog(t.Context(), key, "1", model.Catalog{Packages: bad}); err == nil {
			t.Error("ReplaceCatalog: a package without a fingerprint is no error")
		}
	},
	"ReplaceCatalog of an image that waits": func(t *testing.T, f *fixture) {
		key, again := image("a", amd64), image("bb", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		must(t, f.ReplaceCatalog(t.Context(), key, "1", catalogOf("q")))
		if i := f.image(t, key); i.State != store.StateCataloged || len(f.ids(t, key)) != 1 || f.ids(t, key)["q"] == 0 {
			t.Errorf("got %+v", i)
		}
		// Its earlier findings are not those of the packages any more.
		f.catalog(t, again, "1", catalogOf("r"))
		f.match(t, again, "1", answers{"r": {finding("CVE-1", model.SeverityLow)}})
		f.catalog(t, again, "2", catalogOf("r"))
		must(t, f.ReplaceCatalog(t.Context(), again, "2", catalogOf("r", "s")))
		if i := f.image(t, again); i.State != store.StateCataloged || i.Counts.Low != 0 || i.Database != nil || len(f.found(t, again)) != 0 {
			t.Errorf("got %+v", i)
		}
	},
	"OutdatedCatalogs": func(t *testing.T, f *fixture) {
		f.want(t, image("pending", amd64))
		var want []model.ImageKey
		for n := range 6 {
			key := model.ImageKey{ImageID: fmt.Sprintf("i%d", n), Platform: amd64}
			catalog := catalogOf("p")
			if catalog.Stamp = n % 3; n%3 != 2 {
				want = append(want, key)
			}
			f.catalog(t, key, "1", catalog)
		}
		list := func(unmatched bool) []model.ImageKey {
			t.Helper()
			var got []model.ImageKey
			var after model.ImageKey
			for {
				keys, err := f.OutdatedCatalogs(t.Context(), 2, unmatched, after, 3)
				must(t, err)
				if len(keys) == 0 {
					return got
				}
				got, after = append(got, keys...), keys[len(keys)-1]
			}
		}
		if got := list(false); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		catalog := catalogOf("p")
		catalog.Stamp = 2
		must(t, f.ReplaceCatalog(t.Context(), want[0], "1", catalog))
		if got := list(false); !slices.Equal(got, want[1:]) {
			t.Errorf("got %v, want %v", got, want[1:])
		}
		f.match(t, want[1], "1", answers{"p": nil})
		if got := list(true); !slices.Equal(got, want[2:]) {
			t.Errorf("of those that were never matched: got %v, want %v", got, want[2:])
		}
	},
	"Prune": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		f.catalog(t, a, "1", catalogOf("p", "q"))
		f.catalog(t, b, "1", catalogOf("r"))
		f.match(t, a, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityLow)}})
		f.match(t, b, "1", answers{"r": {finding("CVE-3", model.SeverityLow)}})
		f.rematch(t, newBuild, answers{"p": {finding("CVE-4", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityLow)}, "r": {finding("CVE-3", model.SeverityLow)}})
		prepared := f.prepare(t, thirdBuild, answers{"p": {finding("CVE-5", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityLow)}, "r": {finding("CVE-3", model.SeverityLow)}})
		known := func() []string {
			t.Helper()
			vulnerabilities, err := f.Vulnerabilities(t.Context(), 0, store.MaxKeys)
			must(t, err)
			var ids []string
			for i := range vulnerabilities {
				ids = append(ids, vulnerabilities[i].Vulnerability.ID)
			}
			slices.Sort(ids)
			return ids
		}
		prune := func(before time.Time, changes, resultSets int, vulnerabilities ...string) {
			t.Helper()
			if err := f.Store.Prune(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			page, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{})
			listed, listErr := f.ListResultSets(t.Context(), store.AllNamespaces(), 9)
			if err != nil || listErr != nil || page.Total != changes || len(listed) != resultSets || !slices.Equal(known(), vulnerabilities) {
				t.Errorf("got %d changes, %+v, %v", page.Total, listed, known())
			}
			if got := f.found(t, a); !slices.Equal(got, []string{"CVE-2 q", "CVE-4 p"}) {
				t.Errorf("got %v", got)
			}
		}
		past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		prune(past, 2, 3, "CVE-1", "CVE-2", "CVE-3", "CVE-4", "CVE-5")
		prune(future, 0, 3, "CVE-2", "CVE-3", "CVE-4", "CVE-5") // The first result set is where findings come from.
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), b.ImageID))
		prune(future, 0, 3, "CVE-2", "CVE-4", "CVE-5")
		if got := f.answered(t); len(got) != 2 {
			t.Errorf("got %v", got)
		}
		f.switchTo(t, prepared.Number)
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-2 q", "CVE-5 p"}) {
			t.Errorf("after the switch: got %v", got)
		}
		// Packages without an image go when no change tells of them any more, and come back complete.
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID))
		must(t, f.Store.Prune(t.Context(), past))
		if page, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{}); err != nil || page.Total != 2 || page.Changes[0].Images != 0 || page.Changes[0].Package.Name != "p" {
			t.Errorf("got %+v, %v", page, err)
		}
		must(t, f.Store.Prune(t.Context(), future))
		if listed, err := f.ListResultSets(t.Context(), store.AllNamespaces(), 9); err != nil || len(listed) != 1 || len(known()) != 0 || len(f.answered(t)) != 0 {
			t.Errorf("got %+v, %v, %v", listed, known(), err)
		}
		f.catalog(t, a, "1", catalogOf("p"))
		f.match(t, a, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		if got := f.found(t, a); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("got %v", got)
		}
	},
}
