package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var reportTests = map[string]func(*testing.T, *fixture){
	"SaveReport": func(t *testing.T, f *fixture) {
		id := image("a", amd64).ImageID
		if _, err := f.Report(t.Context(), store.AllNamespaces(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Report before: %v", err)
		}
		save := func(content []byte, critical int) {
			t.Helper()
			if err := f.SaveReport(t.Context(), store.AllNamespaces(), id, store.Report{Content: content, Counts: store.Counts{SeverityCounts: model.SeverityCounts{Critical: critical}, KEV: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		for n, content := range [][]byte{[]byte(`{"bomFormat":"CycloneDX"}`), nil, bytes.Repeat([]byte("abc\x00\xff"), 1<<20)} {
			save(content, n)
			if got, err := f.Report(t.Context(), store.AllNamespaces(), id); err != nil || !bytes.Equal(got, content) {
				t.Errorf("Report: got %d bytes, %v, want %d", len(got), err, len(content))
			}
			i := f.image(t, model.ImageKey{ImageID: id})
			if i.State != store.StateReported || !i.HasReport || i.Counts.Critical != n || i.Counts.KEV != 1 || i.FirstSeen.IsZero() {
				t.Errorf("got %+v", i)
			}
		}
		expectKinds(t, f.kinds(t, 0), store.EventImageReported, store.EventImageReported, store.EventImageReported)
		if got := f.list(t, store.ImageQuery{}); got.Total != 1 || !got.Images[0].HasReport {
			t.Errorf("got %+v", got)
		}
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), "a b", store.Report{}); err == nil {
			t.Error("a bad image ID is no error")
		}
	},
	"A reported image becomes wanted": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}"), Counts: store.Counts{Fixable: 5}}); err != nil {
			t.Fatal(err)
		}
		last := f.last(t)
		got := f.want(t, key, image("a", arm64))
		if len(got) != 2 || got[key].State != store.StatePending || !got[key].HasReport || got[key].Nonce == "" {
			t.Errorf("got %+v", got)
		}
		expectKinds(t, f.kinds(t, last), store.EventImageDiscovered, store.EventImageDiscovered)
		if total := f.list(t, store.ImageQuery{}).Total; total != 2 {
			t.Errorf("got %d images, want 2", total)
		}
		if report, err := f.Report(t.Context(), store.AllNamespaces(), key.ImageID); err != nil || string(report) != "{}" {
			t.Errorf("Report: %q, %v", report, err)
		}
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		// A report does not touch the counts of what was matched.
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{1}"), Counts: store.Counts{Fixable: 9}}); err != nil {
			t.Fatal(err)
		}
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts.Fixable != 0 || i.Counts.Low != 1 || !i.HasReport {
			t.Errorf("got %+v", i)
		}
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Report(t.Context(), store.AllNamespaces(), key.ImageID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Report: %v", err)
		}
	},
	"A report with components": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: image("a", amd64).ImageID}
		catalog, sbom := catalogOf("p", "q"), store.SBOM{MediaType: "application/vnd.cyclonedx+xml", Content: []byte("zstd"), SHA256: "r", Size: 5}
		counts := store.Counts{SeverityCounts: model.SeverityCounts{Critical: 3}, Fixable: 2}
		with := store.Report{Content: []byte("<bom/>"), Counts: counts, SBOM: &sbom, Catalog: &catalog}
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		expectKinds(t, f.kinds(t, 0), store.EventImageReported, store.EventImageCataloged)
		expect := func(step string, state store.State, fromReport bool, packages int, shown store.Counts) {
			t.Helper()
			i := f.image(t, key)
			if i.State != state || i.FromReport != fromReport || i.PackageCount != packages || i.Counts != shown || i.Reported == nil || *i.Reported != counts {
				t.Errorf("%s: got %+v", step, i)
			}
		}
		expect("uploaded", store.StateCataloged, true, 2, counts)
		if got, err := f.SBOM(t.Context(), store.AllNamespaces(), key); err != nil || !cmp.Equal(got, sbom) {
			t.Errorf("SBOM: %+v, %v", got, err)
		}
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{key}) {
			t.Errorf("waiting: %v", got)
		}
		f.match(t, key, "r", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		expect("matched", store.StateScanned, true, 2, store.Counts{SeverityCounts: model.SeverityCounts{Low: 1}})
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("got %v", got)
		}
		// Another one takes its place: the same components, other ones, none.
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		expect("the same again", store.StateCataloged, true, 2, store.Counts{SeverityCounts: model.SeverityCounts{Low: 1}})
		catalog = catalogOf("r")
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		expect("other components", store.StateCataloged, true, 1, counts)
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}"), Counts: counts}))
		expect("no components", store.StateReported, false, 0, counts)
		if _, err := f.SBOM(t.Context(), store.AllNamespaces(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("SBOM: %v", err)
		}
		with.Catalog = nil
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with); err == nil {
			t.Error("an SBOM without components is no error")
		}
		with.SBOM, with.Catalog = nil, &catalog
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with); err == nil {
			t.Error("components without an SBOM are no error")
		}
	},
	"An image with a report for an SBOM is still to be cataloged": func(t *testing.T, f *fixture) {
		key, arm := image("a", amd64), image("a", arm64)
		catalog, sbom := catalogOf("p", "q"), sbomOf("r")
		counts := store.Counts{Fixable: 2}
		with := store.Report{Content: []byte("{}"), Counts: counts, SBOM: &sbom, Catalog: &catalog}
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		f.match(t, model.ImageKey{ImageID: key.ImageID}, "r", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		last := f.last(t)
		wanted := f.want(t, key, arm)
		expectKinds(t, f.kinds(t, last), store.EventImageDiscovered, store.EventImageDiscovered)
		expect := func(step string, key model.ImageKey, state store.State, attempts, packages int, findings ...string) {
			t.Helper()
			i := f.image(t, key)
			if i.State != state || i.Attempts != attempts || i.FromReport != (packages > 0) || i.PackageCount != packages || len(f.packages(t, key)) != packages {
				t.Errorf("%s: got %+v", step, i)
			}
			if got := f.found(t, key); !slices.Equal(got, findings) || (i.Database != nil) != (len(findings) > 0) {
				t.Errorf("%s: found %v, want %v", step, got, findings)
			}
		}
		expect("wanted", key, store.StatePending, 0, 2, "CVE-1 p")
		expect("wanted on another platform", arm, store.StatePending, 0, 0)
		if i := f.image(t, key); i.Nonce != wanted[key].Nonce || i.Counts.Low != 1 {
			t.Errorf("wanted: got %+v", i)
		}
		last = f.last(t)
		f.want(t, key, arm)
		expectKinds(t, f.kinds(t, last))
		// Attempts to catalog it go on beside what reports say.
		for attempt := range 2 {
			recorded, err := f.RecordFailure(t.Context(), key, attempt, model.Outcome{Reason: model.ReasonImagePullDenied, Message: "denied"}, day)
			if !recorded || err != nil {
				t.Errorf("attempt %d: %t, %v", attempt, recorded, err)
			}
		}
		expect("failed", key, store.StateFailed, 2, 2, "CVE-1 p")
		catalog = catalogOf("p", "q", "r")
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		expect("reported again", key, store.StateFailed, 2, 3)
		expect("reported while pending", arm, store.StatePending, 0, 3)
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{key, arm}) {
			t.Errorf("waiting: %v", got)
		}
		if got, err := f.WaitingImages(t.Context(), model.ImageKey{}, 1); err != nil || !slices.Equal(got, []model.ImageKey{key}) {
			t.Errorf("the first that waits: %v, %v", got, err)
		}
		f.match(t, key, "r", answers{"r": {finding("CVE-2", model.SeverityHigh)}})
		f.match(t, arm, "r", nil)
		expect("matched", key, store.StateFailed, 2, 3, "CVE-1 p", "CVE-2 r")
		expect("matched while pending", arm, store.StatePending, 0, 3, "CVE-1 p", "CVE-2 r")
		if i := f.image(t, key); i.Reason != model.ReasonImagePullDenied || i.Message != "denied" || !i.NextAttempt.Equal(day) || len(f.waiting(t)) != 0 {
			t.Errorf("matched: got %+v, waiting %v", i, f.waiting(t))
		}
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}"), Counts: counts}))
		expect("reported without components", key, store.StateFailed, 2, 0)
		expect("reported without components", arm, store.StatePending, 0, 0)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", nil)
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, with))
		if i := f.image(t, key); i.State != store.StateScanned || i.FromReport || i.PackageCount != 1 || i.Reported == nil || *i.Reported != counts {
			t.Errorf("reported once scanned: got %+v", i)
		}
		if sbom, err := f.SBOM(t.Context(), store.AllNamespaces(), key); err != nil || sbom.SHA256 != "1" {
			t.Errorf("SBOM: %+v, %v", sbom, err)
		}
		// Whoever wants it may not know the platform.
		plain := model.ImageKey{ImageID: "plain"}
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), plain.ImageID, with))
		if got := f.want(t, plain)[plain]; got.State != store.StatePending || !got.FromReport {
			t.Errorf("wanted without a platform: got %+v", got)
		}
		last = f.last(t)
		f.want(t, plain)
		expectKinds(t, f.kinds(t, last))
	},
	"Components of a report that cannot be matched": func(t *testing.T, f *fixture) {
		key, catalog, sbom := image("a", amd64), catalogOf("p"), sbomOf("r")
		f.want(t, key)
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}"), SBOM: &sbom, Catalog: &catalog}))
		current, id := f.current(t).Number, f.ids(t, key)["p"]
		f.save(t, current, id, failed)
		must(t, f.FinishImage(t.Context(), key, "r"))
		if i := f.image(t, key); i.State != store.StatePending || i.Reason != "" || i.Database != nil || len(f.waiting(t)) != 0 {
			t.Errorf("failed: got %+v, waiting %v", i, f.waiting(t))
		}
		f.save(t, current, id, answerOf(finding("CVE-1", model.SeverityLow)))
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{key}) {
			t.Errorf("waiting: %v", got)
		}
		must(t, f.FinishImage(t.Context(), key, "r"))
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) || len(f.waiting(t)) != 0 {
			t.Errorf("got %v, waiting %v", got, f.waiting(t))
		}
	},
}

var eventTests = map[string]func(*testing.T, *fixture){
	"EventsSince": func(t *testing.T, f *fixture) {
		if got := f.events(t, 0); len(got) != 0 || f.last(t) != 0 {
			t.Errorf("empty: got %v", got)
		}
		for n := range 10 {
			f.want(t, model.ImageKey{ImageID: strconv.Itoa(n), Platform: amd64})
		}
		var since int64
		for n := 0; n < 10; n += 3 {
			events, err := f.EventsSince(t.Context(), store.AllNamespaces(), since, 3)
			if err != nil {
				t.Fatal(err)
			}
			for i, event := range events {
				if event.Sequence <= since || event.ImageID != strconv.Itoa(n+i) || event.At.IsZero() || event.Platform != "linux/amd64" {
					t.Errorf("got %+v behind %d", event, since)
				}
				since = event.Sequence
			}
		}
		if since != f.last(t) || len(f.events(t, since)) != 0 {
			t.Errorf("the walk ended at %d, the log at %d", since, f.last(t))
		}
		if events, err := f.EventsSince(t.Context(), store.AllNamespaces(), 0, 0); err != nil || len(events) != 0 {
			t.Errorf("limit 0: %v, %v", events, err)
		}
	},
	"Changed": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		changed := f.Changed()
		f.want(t, key)
		<-changed
		changed = f.Changed()
		f.want(t, key)
		if _, err := f.RecordFailure(t.Context(), key, 7, model.Outcome{}, oldBuild.Built); err != nil {
			t.Fatal(err)
		}
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), "unknown"); err == nil {
			t.Fatal("no error")
		}
		select {
		case <-changed:
			t.Error("calls that wrote nothing closed the channel")
		default:
		}
	},
}

var concurrencyTests = map[string]func(*testing.T, *fixture){
	"WantImages at once": func(t *testing.T, f *fixture) {
		keys := make([]model.ImageKey, 100)
		for i := range keys {
			keys[i] = model.ImageKey{ImageID: strconv.Itoa(i), Platform: amd64}
		}
		results := make([]map[model.ImageKey]store.Image, 8)
		var group sync.WaitGroup
		for i := range results {
			group.Go(func() {
				var err error
				if results[i], err = f.WantImages(t.Context(), keys); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, got := range results[1:] {
			if diff := cmp.Diff(results[0], got); diff != "" {
				t.Error(diff)
			}
		}
		if last := f.last(t); last != int64(len(keys)) {
			t.Errorf("got %d events, want %d", last, len(keys))
		}
	},
	"RecordFailure at once": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		var group sync.WaitGroup
		var mu sync.Mutex
		recorded := 0
		for range 8 {
			group.Go(func() {
				ok, err := f.RecordFailure(t.Context(), key, 0, model.Outcome{Reason: model.ReasonOutOfDisk}, oldBuild.Built)
				if err != nil {
					t.Error(err)
				}
				if ok {
					mu.Lock()
					recorded++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if i := f.image(t, key); recorded != 1 || i.Attempts != 1 {
			t.Errorf("recorded %d times, %d attempts", recorded, i.Attempts)
		}
	},
	"Matches of images that share packages, with readers": func(t *testing.T, f *fixture) {
		const images = 12
		names := make([]string, 60)
		all := map[string][]model.PackageFinding{}
		for i := range names {
			names[i] = fmt.Sprintf("p%02d", i)
			all[names[i]] = []model.PackageFinding{finding(fmt.Sprintf("CVE-%d", i%20), model.SeverityHigh)}
		}
		f.start(t, oldBuild)
		var writers, readers sync.WaitGroup
		done := make(chan struct{})
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					page, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{})
					if err != nil {
						t.Error(err)
						return
					}
					for _, i := range page.Images {
						// A reader sees an image before its match or after it, nothing between.
						found, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: i.Key, Page: store.Page{Size: 1}})
						if err != nil || found.Total != 0 && found.Total != 40 || i.Counts.Total() != 0 && i.Counts.Total() != 40 {
							t.Errorf("got %d findings, counts %+v, %v", found.Total, i.Counts, err)
						}
					}
				}
			})
		}
		for n := range images {
			writers.Go(func() {
				key := model.ImageKey{ImageID: fmt.Sprint("image", n), Platform: amd64}
				own := map[string][]model.PackageFinding{}
				var held []string
				for i := range 40 {
					name := names[(n*7+i)%len(names)]
					held, own[name] = append(held, name), all[name]
				}
				if _, err := f.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
					t.Error(err)
				}
				if err := f.SaveSBOM(t.Context(), key, sbomOf("1"), catalogOf(held...)); err != nil {
					t.Error(err)
				}
				if err := Match(t.Context(), f, key, "1", own); err != nil {
					t.Error(err)
				}
				if err := f.Store.Prune(t.Context(), time.Now()); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		close(done)
		readers.Wait()
		page := f.list(t, store.ImageQuery{States: []store.State{store.StateScanned}})
		if page.Total != images {
			t.Errorf("got %d scanned images, want %d", page.Total, images)
		}
		for _, i := range page.Images {
			if i.Counts.High != 40 {
				t.Errorf("%s: got %+v", i.Key, i.Counts)
			}
		}
		for n, event := range f.events(t, 0) {
			if event.Sequence != int64(n+1) {
				t.Fatalf("event %d has the number %d", n, event.Sequence)
			}
		}
	},
}
