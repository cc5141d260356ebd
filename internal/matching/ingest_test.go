package matching

import (
	"errors"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

const (
	reportJSON = `{"bomFormat":"CycloneDX","specVersion":"1.5","components":[
		{"type":"library","name":"golang.org/x/net","version":"v0.1.0","purl":"pkg:golang/golang.org/x/net@v0.1.0"}]}`
	reportXML = `<bom xmlns="http://cyclonedx.org/schema/bom/1.5"><components><component type="library">
		<name>golang.org/x/net</name><version>v0.1.0</version><purl>pkg:golang/golang.org/x/net@v0.1.0</purl></component></components></bom>`
)

// Components of a report are matched as if Syft had found them, and again when the rules of reading change.
func TestIngestReport(t *testing.T) {
	s, library := newStore(t), newShelf(dbtest.Sample(t))
	a, _ := newMatcher(t, s, library)
	ingest(t, a, s, key("c"), document)
	settle(t, a)
	want := findingsOf(t.Context(), t, s, key("c"))
	if len(want) == 0 {
		t.Fatal("Syft's document has no findings")
	}
	for mediaType, text := range map[string]string{match.MediaTypeCycloneDXJSON: reportJSON, match.MediaTypeCycloneDXXML: reportXML} {
		image := model.ImageKey{ImageID: "reported/" + strings.TrimPrefix(mediaType, "application/")}
		report := store.Report{Content: []byte(`{"kept":1}`), Counts: store.Counts{KEV: 7}}
		if err := a.IngestReport(t.Context(), store.AllNamespaces(), image.ImageID, report, mediaType, []byte(text)); err != nil {
			t.Fatal(err)
		}
		settle(t, a)
		got := findingsOf(t.Context(), t, s, image)
		if len(got) != len(want) || got[0].Vulnerability.ID != want[0].Vulnerability.ID {
			t.Errorf("%s: %d findings, want %d", mediaType, len(got), len(want))
		}
		stored, err := s.Image(t.Context(), store.AllNamespaces(), image)
		if err != nil || !stored.FromReport || stored.State != store.StateScanned || stored.Reported == nil || stored.Reported.KEV != 7 {
			t.Errorf("%s: %+v, %v", mediaType, stored, err)
		}
		sbom, err := s.SBOM(t.Context(), store.AllNamespaces(), image)
		if err != nil || sbom.MediaType != mediaType || sbom.Size != int64(len(text)) {
			t.Errorf("%s: %+v, %v", mediaType, sbom, err)
		}
		if catalog, err := a.readSBOM(t.Context(), sbom, nil); err != nil || len(catalog.Packages) != 1 {
			t.Errorf("%s read again: %+v, %v", mediaType, catalog, err)
		}
		if kept, err := s.Report(t.Context(), store.AllNamespaces(), image.ImageID); err != nil || string(kept) != `{"kept":1}` {
			t.Errorf("%s: report %s, %v", mediaType, kept, err)
		}
	}
}

func TestIngestReportWithoutComponents(t *testing.T) {
	s := newStore(t)
	a, _ := newMatcher(t, s, newShelf())
	bare := []byte(`{"bomFormat":"CycloneDX","specVersion":"1.6"}`)
	if err := a.IngestReport(t.Context(), store.AllNamespaces(), "bare", store.Report{Content: bare}, match.MediaTypeCycloneDXJSON, bare); err != nil {
		t.Fatal(err)
	}
	if image, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: "bare"}); err != nil || image.State != store.StateReported || image.FromReport {
		t.Errorf("%+v, %v", image, err)
	}
	if err := a.IngestReport(t.Context(), store.AllNamespaces(), "odd", store.Report{}, match.MediaTypeCycloneDXJSON, []byte("{}")); !errors.Is(err, ErrRefused) {
		t.Errorf("an odd document: %v", err)
	}
	if _, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: "odd"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the odd document is known: %v", err)
	}
}
