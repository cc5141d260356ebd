package storetest

import (
	"slices"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var failureTests = map[string]func(*testing.T, *fixture){
	"A package can be matched after all": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		ids := f.ids(t, key)
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": nil})
		next := f.start(t, newBuild).Number
		f.queueAll(t, next)
		f.save(t, next, ids["p"], failed)
		f.answerQueue(t, next, nil)
		f.switchTo(t, next)
		expect := func(packages []int64, images ...model.ImageKey) {
			t.Helper()
			found, err := f.FailedPackages(t.Context(), 0, store.MaxKeys)
			must(t, err)
			var got []int64
			for _, p := range found {
				got = append(got, p.ID)
			}
			recovered, err := f.RecoveredImages(t.Context(), model.ImageKey{}, store.MaxKeys)
			must(t, err)
			if !slices.Equal(got, packages) || !slices.Equal(recovered, images) {
				t.Errorf("got the packages %v and the images %v, want %v and %v", got, recovered, packages, images)
			}
		}
		expect([]int64{ids["p"]})
		if behind, err := f.FailedPackages(t.Context(), ids["p"], 1); err != nil || len(behind) > 0 {
			t.Errorf("behind the last one: %v, %v", behind, err)
		}
		f.save(t, next, ids["p"], answerOf(finding("CVE-2", model.SeverityLow)))
		expect(nil, key)
		must(t, f.FinishImage(t.Context(), key, "1"))
		expect(nil)
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts.High != 0 || i.Counts.Low != 1 || i.Reason != "" {
			t.Errorf("got %+v", i)
		}
	},
}
