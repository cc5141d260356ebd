package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// again begins to catalog an image again.
func (f *fixture) again(t *testing.T, key model.ImageKey, attempt, perHour int, want bool) {
	t.Helper()
	if began, err := f.BeginRecatalog(t.Context(), key, attempt, "syft v2", perHour); began != want || err != nil {
		t.Errorf("BeginRecatalog(%s, %d): %t, %v; want %t", key, attempt, began, err, want)
	}
}

// scanned has an image with the package p and a finding.
func (f *fixture) scanned(t *testing.T, key model.ImageKey) store.Image {
	t.Helper()
	f.catalog(t, key, "1", catalogOf("p"))
	f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
	return f.image(t, key)
}

func (f *fixture) expectRecataloged(t *testing.T, want ...model.ImageKey) {
	t.Helper()
	if got, err := f.RecatalogedImages(t.Context(), model.ImageKey{}, store.MaxKeys); err != nil || !slices.Equal(got, want) {
		t.Errorf("RecatalogedImages: %v, %v; want %v", got, err, want)
	}
	// One by one.
	var got []model.ImageKey
	for after := (model.ImageKey{}); len(got) <= len(want); after = got[len(got)-1] {
		keys, err := f.RecatalogedImages(t.Context(), after, 1)
		must(t, err)
		if len(keys) == 0 {
			break
		}
		got = append(got, keys...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("RecatalogedImages one by one: %v; want %v", got, want)
	}
}

var recatalogTests = map[string]func(*testing.T, *fixture){
	"An image that is cataloged again keeps its result": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		before := f.scanned(t, key)
		job := scanJob("scan-2", key, 0)
		if _, _, err := f.ReserveScanJob(t.Context(), job); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job for an image that is scanned: %v", err)
		}
		f.again(t, key, 0, 1, true)
		if got := f.image(t, key).Recatalog; got != (store.Recatalog{Cataloger: "syft v2", Open: true}) {
			t.Errorf("begun: %+v", got)
		}
		f.recordJob(t, job, "uid-2")
		must(t, f.deliver(t, key, "2", "uid-2"))
		after := f.image(t, key)
		if after.Nonce == before.Nonce || after.Recatalog != (store.Recatalog{Cataloger: "syft v2"}) || after.SBOMSHA256 != "2" || after.ScannedIn != "team" {
			t.Errorf("after the SBOM: %+v", after)
		}
		before.Nonce, before.Recatalog, before.SBOMSHA256, before.ScannedIn = after.Nonce, after.Recatalog, after.SBOMSHA256, after.ScannedIn
		before.CatalogedAt = after.CatalogedAt
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the result changed (-want +got):\n%s", diff)
		}
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("findings %v", got)
		}
		f.expectRecataloged(t, key)
		if err := f.deliver(t, key, "3", "uid-2"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("another SBOM: %v", err)
		}

		packages, err := f.StorePackages(t.Context(), catalogOf("p2").Packages)
		must(t, err)
		must(t, f.SaveAnswers(t.Context(), f.current(t).Number, map[int64]model.PackageAnswer{packages[0].ID: answerOf(finding("CVE-2", model.SeverityLow))}))
		must(t, f.ReplaceCatalog(t.Context(), key, "2", catalogOf("p2")))
		if i := f.image(t, key); i.State != store.StateScanned || i.Counts.High != 0 || i.Counts.Low != 1 {
			t.Errorf("after ReplaceCatalog: %+v", i)
		}
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-2 p2"}) {
			t.Errorf("findings %v", got)
		}
		f.expectRecataloged(t)
	},
	"A failed attempt to catalog an image again changes no result": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		before := f.scanned(t, key)
		fail := func(attempt int, want bool) {
			t.Helper()
			recorded, err := f.RecordFailure(t.Context(), key, attempt, model.Outcome{Reason: model.ReasonOutOfDisk, Message: "full"}, day)
			if recorded != want || err != nil {
				t.Errorf("RecordFailure(%d): %t, %v; want %t", attempt, recorded, err, want)
			}
		}
		fail(0, false)
		f.again(t, key, 0, 1, true)
		f.recordJob(t, scanJob("scan-2", key, 0), "uid-2")
		last := f.last(t)
		fail(0, true)
		fail(0, false)
		expectKinds(t, f.kinds(t, last))
		before.Attempts, before.NextAttempt, before.Recatalog = 1, day, store.Recatalog{Cataloger: "syft v2", Open: true}
		if diff := cmp.Diff(before, f.image(t, key)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := f.deliver(t, key, "2", "uid-2"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("the SBOM of the failed attempt: %v", err)
		}
		f.again(t, key, 0, 1, false)
		f.again(t, key, 1, 1, true)
		f.recordJob(t, scanJob("scan-3", key, 1), "uid-3")
		must(t, f.deliver(t, key, "3", "uid-3"))
		if i := f.image(t, key); i.Attempts != 0 || !i.NextAttempt.IsZero() || i.State != store.StateScanned || i.Recatalog.Open {
			t.Errorf("after the SBOM: %+v", i)
		}
	},
	"So many images in an hour are cataloged again": func(t *testing.T, f *fixture) {
		f.clock.set(day)
		a, b, c, pending := image("a", amd64), image("bb", amd64), image("ccc", amd64), image("dddd", amd64)
		for _, key := range []model.ImageKey{a, b, c} {
			f.scanned(t, key)
		}
		f.want(t, pending)
		f.again(t, pending, 0, 9, false)
		f.again(t, image("eeeee", amd64), 0, 9, false)
		f.again(t, a, 1, 9, false)
		f.again(t, a, 0, 0, false)
		f.again(t, a, 0, 2, true)
		f.again(t, b, 0, 2, true)
		f.again(t, c, 0, 2, false)
		f.again(t, a, 0, 2, true)
		f.clock.set(day.Add(time.Hour - time.Microsecond))
		f.again(t, c, 0, 2, false)
		f.clock.set(day.Add(time.Hour))
		f.again(t, c, 0, 2, true)
		if began, err := f.BeginRecatalog(t.Context(), a, 0, "", 9); began || err == nil {
			t.Errorf("without a cataloger: %t, %v", began, err)
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID))
		f.want(t, a)
		if got := f.image(t, a).Recatalog; got != (store.Recatalog{}) {
			t.Errorf("a new image: %+v", got)
		}
	},
	"An image without a result is cataloged again": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.again(t, key, 0, 1, true)
		f.catalog(t, key, "2", catalogOf("q", "r"))
		if i := f.image(t, key); i.State != store.StateCataloged || i.PackageCount != 2 || i.Recatalog.Open {
			t.Errorf("got %+v", i)
		}
		f.expectRecataloged(t)
	},
	"A report is not cataloged again": func(t *testing.T, f *fixture) {
		sbom, catalog := sbomOf("report"), catalogOf("p")
		key := image("a", model.Platform{})
		must(t, f.SaveReport(t.Context(), store.AllNamespaces(), key.ImageID, store.Report{Content: []byte("{}"), SBOM: &sbom, Catalog: &catalog}))
		f.again(t, key, 0, 9, false)
	},
	"A scan is requested": func(t *testing.T, f *fixture) {
		f.clock.set(day)
		all := store.AllNamespaces()
		scanned, failed, waiting, stopped := image("a", amd64), image("a", arm64), image("bb", amd64), image("ccc", amd64)
		request := func(in, may store.Namespaces, id string, want error) {
			t.Helper()
			if err := f.RequestScan(t.Context(), in, may, id); !errors.Is(err, want) {
				t.Errorf("RequestScan(%s): %v, want %v", id, err, want)
			}
		}
		before := f.scanned(t, scanned)
		f.scanned(t, stopped)
		f.want(t, failed, waiting)
		if recorded, err := f.RecordFailure(t.Context(), failed, 0, model.Outcome{Reason: model.ReasonOutOfDisk, Message: "full"}, day.Add(time.Hour)); !recorded || err != nil {
			t.Fatalf("RecordFailure: %t, %v", recorded, err)
		}
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{
			ownedUse(scanned, "x", "web", ""), ownedUse(failed, "x", "web", ""), ownedUse(waiting, "x", "web", ""), ownedUse(waiting, "y", "web", ""),
		}))
		x := store.OnlyNamespaces("x")
		request(all, all, "absent", store.ErrNotFound)
		request(store.OnlyNamespaces("z"), all, scanned.ImageID, store.ErrNotFound)
		request(x, x, waiting.ImageID, store.ErrOtherNamespaces)
		request(all, all, stopped.ImageID, store.ErrNotScanned)
		if got := f.image(t, stopped).Recatalog; got != (store.Recatalog{}) {
			t.Errorf("of an image that nothing runs: %+v", got)
		}
		last := f.last(t)
		request(x, x, scanned.ImageID, nil)
		expectKinds(t, f.kinds(t, last), store.EventScanRequested, store.EventScanRequested)
		if i := f.image(t, failed); i.State != store.StateFailed || i.Attempts != 1 || !i.NextAttempt.IsZero() || i.Recatalog.Open {
			t.Errorf("failed: %+v", i)
		}
		want := f.image(t, scanned)
		if want.Recatalog != (store.Recatalog{Cataloger: store.AnyCataloger, Open: true}) {
			t.Errorf("scanned: %+v", want.Recatalog)
		}
		request(x, x, scanned.ImageID, nil)
		if diff := cmp.Diff(want, f.image(t, scanned)); diff != "" {
			t.Errorf("requested again (-want +got):\n%s", diff)
		}
		if got := f.found(t, scanned); !slices.Equal(got, []string{"CVE-1 p"}) {
			t.Errorf("findings %v", got)
		}
		// It counts for no limit.
		f.again(t, stopped, 0, 1, true)
		f.recordJob(t, scanJob("scan-2", scanned, 0), "uid-2")
		must(t, f.deliver(t, scanned, "2", "uid-2"))
		if i := f.image(t, scanned); i.Recatalog.Open || i.SBOMSHA256 != "2" || i.Nonce == before.Nonce {
			t.Errorf("after the SBOM: %+v", i)
		}
		request(x, x, scanned.ImageID, nil)
		if !f.image(t, scanned).Recatalog.Open {
			t.Error("another request opens nothing")
		}
		// An attempt that the controller began may not be made any more.
		must(t, f.RecordUses(t.Context(), "other", []store.Use{ownedUse(stopped, "x", "job", "")}))
		request(x, x, stopped.ImageID, nil)
		if got := f.image(t, stopped).Recatalog; got != (store.Recatalog{Cataloger: store.AnyCataloger, Open: true}) {
			t.Errorf("beside an attempt that was begun: %+v", got)
		}
		report := image("dddd", model.Platform{})
		sbom, catalog := sbomOf("report"), catalogOf("p")
		must(t, f.SaveReport(t.Context(), all, report.ImageID, store.Report{Content: []byte("{}"), SBOM: &sbom, Catalog: &catalog}))
		request(all, all, report.ImageID, store.ErrNotScanned)
	},
}
