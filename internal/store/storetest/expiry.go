package storetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var expiryTests = map[string]func(*testing.T, *fixture){
	"Prune removes reports of images that nothing runs": func(t *testing.T, f *fixture) {
		uploaded := time.Now().Truncate(time.Second)
		f.clock.set(uploaded)
		unused, running := image("a", amd64), image("bb", amd64)
		f.want(t, running)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: running, Workload: store.Workload{Namespace: "n", Kind: "Pod", Name: "p"}, Container: "c"}}))
		for _, key := range []model.ImageKey{unused, running} {
			must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}")}))
		}
		reported := func(key model.ImageKey) bool {
			t.Helper()
			_, err := f.Report(t.Context(), store.AllNamespaces(), key.ImageID)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil
		}
		must(t, f.Prune(t.Context(), uploaded))
		if !reported(unused) || !reported(running) {
			t.Error("a report was removed before its time")
		}
		must(t, f.Prune(t.Context(), uploaded.Add(time.Second)))
		if reported(unused) || !reported(running) {
			t.Errorf("reports: of the image that nothing runs %t, of the one that runs %t", reported(unused), reported(running))
		}
		forgotten, err := f.ForgetImages(t.Context(), uploaded.Add(time.Second), store.MaxForget)
		must(t, err)
		if len(forgotten) != 1 || forgotten[0].ImageID != unused.ImageID {
			t.Errorf("forgotten: %v", forgotten)
		}
		// An image that ran lately is still kept for a scope.
		must(t, f.RecordUses(t.Context(), "scope", nil))
		must(t, f.Prune(t.Context(), uploaded.Add(time.Second)))
		if !reported(running) {
			t.Error("the report of an image that ran lately was removed")
		}
	},
	"Prune removes size classes of repositories without images": func(t *testing.T, f *fixture) {
		began := time.Now().Truncate(time.Second)
		f.clock.set(began)
		key := model.ImageKey{ImageID: "r.example/app@sha256:1", Platform: amd64}
		must(t, f.RaiseSizeClass(t.Context(), "r.example/app", model.SizeMedium))
		must(t, f.RaiseSizeClass(t.Context(), "r.example/kept", model.SizeMedium))
		kept := model.ImageKey{ImageID: "r.example/kept@sha256:1", Platform: amd64}
		f.want(t, kept)
		must(t, f.Prune(t.Context(), began.Add(time.Second)))
		f.want(t, key)
		if got := f.image(t, key).SizeClass; got != model.SizeSmall {
			t.Errorf("without an image: %s", got)
		}
		if got := f.image(t, kept).SizeClass; got != model.SizeMedium {
			t.Errorf("with an image: %s", got)
		}
	},
	"Prune forgets objects that are gone": func(t *testing.T, f *fixture) {
		began := time.Now().Truncate(time.Second)
		f.clock.set(began)
		change := func(name string) store.ObjectChange {
			return store.ObjectChange{Kind: store.EventScannerChanged, ObjectEvent: store.ObjectEvent{
				Object: store.ObjectName{Namespace: "team", Name: name}, Detail: json.RawMessage(`{}`),
			}}
		}
		must(t, f.RecordChange(t.Context(), change("gone")))
		must(t, f.RecordChange(t.Context(), change("stays")))
		f.clock.set(began.Add(72 * time.Hour))
		last := f.last(t)
		must(t, f.RecordChange(t.Context(), change("stays")))
		must(t, f.Prune(t.Context(), began.Add(time.Hour)))
		must(t, f.RecordChange(t.Context(), change("stays")))
		expectKinds(t, f.kinds(t, last))
		must(t, f.RecordChange(t.Context(), change("gone")))
		expectKinds(t, f.kinds(t, last), store.EventScannerChanged)
	},
}
