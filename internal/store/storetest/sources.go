package storetest

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// readFrom saves an SBOM of an image that was read in a way, of which some files could not be read.
func (f *fixture) readFrom(t *testing.T, key model.ImageKey, digest, job string, source model.ImageSource, unreadable int64) {
	t.Helper()
	sbom := sbomOf(digest)
	sbom.Delivery = store.Delivery{Job: job, Source: source, Unreadable: unreadable}
	must(t, f.SaveSBOM(t.Context(), key, sbom, catalogOf("p")))
}

func (f *fixture) expectRead(t *testing.T, key model.ImageKey, digest string, source model.ImageSource, unreadable int64) {
	t.Helper()
	if i := f.image(t, key); i.SBOMSHA256 != digest || i.Source != source || i.Unreadable != unreadable || i.Partial() != (unreadable > 0) {
		t.Errorf("got SBOM %q, source %q, %d unreadable; want %q, %q, %d", i.SBOMSHA256, i.Source, i.Unreadable, digest, source, unreadable)
	}
}

// retryPartial begins to replace the partial SBOM of an image.
func (f *fixture) retryPartial(t *testing.T, key model.ImageKey, attempt int, want bool) {
	t.Helper()
	if began, err := f.RetryPartial(t.Context(), key, attempt); began != want || err != nil {
		t.Errorf("RetryPartial(%s, %d): %t, %v; want %t", key, attempt, began, err, want)
	}
}

var sourceTests = map[string]func(*testing.T, *fixture){
	"How an image was read": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		f.expectRead(t, key, "", "", 0)
		f.readFrom(t, key, "1", "", model.SourceImageVolume, 7)
		f.expectRead(t, key, "1", model.SourceImageVolume, 7)
		f.readFrom(t, key, "2", "", model.SourceRegistry, 0)
		f.expectRead(t, key, "2", model.SourceRegistry, 0)
		f.readFrom(t, key, "3", "", "", store.MaxUnreadable)
		f.expectRead(t, key, "3", "", store.MaxUnreadable)
		f.readFrom(t, key, "4", "", "", 0)
		f.expectRead(t, key, "4", "", 0)
		for _, count := range []int64{-1, store.MaxUnreadable + 1} {
			sbom := sbomOf("5")
			sbom.Unreadable = count
			if err := f.SaveSBOM(t.Context(), key, sbom, catalogOf("p")); err == nil {
				t.Errorf("%d unreadable files: no error", count)
			}
		}
	},
	"Why layers are not known": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		for _, why := range []string{"", "the registry could not be asked", strings.Repeat("ä", model.MaxLayersUnknown), "denied", ""} {
			sbom := sbomOf("1")
			sbom.Source, sbom.LayersUnknown = model.SourceImageVolume, why
			must(t, f.SaveSBOM(t.Context(), key, sbom, catalogOf("p")))
			got := f.image(t, key).LayersUnknown
			if len(got) > model.MaxLayersUnknown || !utf8.ValidString(got) || !strings.HasPrefix(why, got) || (got == "") != (why == "") {
				t.Errorf("layers are not known because %q, want %q", got, why)
			}
		}
	},
	"Images by source, and those with a partial SBOM": func(t *testing.T, f *fixture) {
		volume, partial, registry, pending := image("a", amd64), image("bb", amd64), image("ccc", amd64), image("dddd", amd64)
		f.want(t, volume, partial, registry, pending)
		f.readFrom(t, volume, "1", "", model.SourceImageVolume, 0)
		f.readFrom(t, partial, "2", "", model.SourceImageVolume, 1)
		f.readFrom(t, registry, "3", "", model.SourceRegistry, 0)
		expect := func(query store.ImageQuery, want ...model.ImageKey) {
			t.Helper()
			page, err := f.ListImages(t.Context(), store.AllNamespaces(), query)
			if err != nil || page.Total != len(want) || len(page.Images) != len(want) {
				t.Errorf("%+v: %d images, %v; want %v", query, page.Total, err, want)
				return
			}
			for i := range want {
				if page.Images[i].Key != want[i] {
					t.Errorf("%+v: image %d is %s, want %s", query, i, page.Images[i].Key, want[i])
				}
			}
		}
		expect(store.ImageQuery{Partial: true}, partial)
		expect(store.ImageQuery{Source: model.SourceImageVolume}, volume, partial)
		expect(store.ImageQuery{Source: model.SourceRegistry}, registry)
		expect(store.ImageQuery{Source: model.SourceRegistry, Partial: true})
		first, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{Source: model.SourceImageVolume, Page: store.Page{Size: 1}})
		must(t, err)
		if _, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{Source: model.SourceRegistry, Page: store.Page{Size: 1, Token: first.NextToken}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("the token of another source: %v", err)
		}
		containers := make([]store.ContainerCoverage, 0, 4)
		for _, key := range []model.ImageKey{volume, partial, registry, pending} {
			one := covered("web", key.ImageID, "Scanned", "", 1)
			one.Image = key
			containers = append(containers, one)
		}
		f.coverAt(t, 1, "scope", containers...)
		got := map[model.ImageKey]model.ImageSource{}
		for _, container := range f.coverage(t, store.CoverageQuery{}).Containers {
			got[container.Image] = container.Source
		}
		want := map[model.ImageKey]model.ImageSource{
			volume: model.SourceImageVolume, partial: model.SourceImageVolume, registry: model.SourceRegistry, pending: "",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sources of containers (-want +got):\n%s", diff)
		}
	},
	"A partial SBOM stays until another replaces it": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		f.retryPartial(t, key, 0, false)
		f.readFrom(t, key, "1", "", model.SourceImageVolume, 3)
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		f.retryPartial(t, key, 1, false)
		f.retryPartial(t, key, 0, true)
		f.retryPartial(t, key, 0, true)
		if i := f.image(t, key); i.Recatalog != (store.Recatalog{Open: true}) || i.State != store.StateScanned || i.Counts.High != 1 {
			t.Errorf("begun: %+v", i)
		}
		// It takes none of the places of images that are cataloged again.
		other := image("bb", amd64)
		f.scanned(t, other)
		f.again(t, other, 0, 1, true)

		f.recordJob(t, scanJob("scan-2", key, 0), "uid-2")
		f.readFrom(t, key, "2", "uid-2", model.SourceImageVolume, 2) // Another partial one is at least newer.
		f.expectRead(t, key, "2", model.SourceImageVolume, 2)
		f.retryPartial(t, key, 0, true)
		f.recordJob(t, scanJob("scan-3", key, 0), "uid-3")
		f.readFrom(t, key, "3", "uid-3", model.SourceRegistry, 0)
		f.expectRead(t, key, "3", model.SourceRegistry, 0)
		f.retryPartial(t, key, 0, false)
		if i := f.image(t, key); i.Recatalog.Open || i.State != store.StateScanned || i.ScannedIn != "team" {
			t.Errorf("after the complete SBOM: %+v", i)
		}
	},
	"A partial SBOM does not replace a complete one": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		f.readFrom(t, key, "1", "", model.SourceRegistry, 0)
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		before := f.image(t, key)
		f.again(t, key, 0, 1, true)
		f.recordJob(t, scanJob("scan-2", key, 0), "uid-2")
		f.readFrom(t, key, "2", "uid-2", model.SourceImageVolume, 1)
		f.expectRead(t, key, "1", model.SourceRegistry, 0)
		// The attempt has ended, and the next one has a Job of its own.
		if i := f.image(t, key); i.Recatalog != (store.Recatalog{Cataloger: "syft v2"}) || i.Nonce == before.Nonce || i.State != store.StateScanned {
			t.Errorf("got %+v", i)
		}
		f.readFrom(t, key, "2", "uid-2", model.SourceImageVolume, 1) // From a pod that missed the answer.
		f.expectRead(t, key, "1", model.SourceRegistry, 0)
	},
	"The cataloger of an image with a partial SBOM stays known": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.scanned(t, key)
		f.again(t, key, 0, 1, true)
		f.readFrom(t, key, "2", "", model.SourceImageVolume, 0)
		f.readFrom(t, key, "3", "", model.SourceImageVolume, 1)
		f.retryPartial(t, key, 0, true)
		if got := f.image(t, key).Recatalog; got != (store.Recatalog{Cataloger: "syft v2", Open: true}) {
			t.Errorf("got %+v", got)
		}
	},
}
