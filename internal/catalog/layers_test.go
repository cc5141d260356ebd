package catalog

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestDeepPaths counts the folders that a path only implies, since each costs as much memory as a file.
func TestDeepPaths(t *testing.T) {
	deep := strings.Repeat("d/", 1000) + "file"
	entryCounter := newEntryCounter(Limits{Files: 1500, DecompressedBytes: 1})
	if err := entryCounter.add(&tar.Header{Name: deep}); err != nil {
		t.Fatal(err)
	}
	if err := entryCounter.add(&tar.Header{Name: deep + "2"}); err != nil || entryCounter.files != 1002 {
		t.Fatalf("%d files after a sibling (%v)", entryCounter.files, err)
	}
	wantFailure(t, entryCounter.add(&tar.Header{Name: "other/" + deep}), model.ReasonImageTooLarge, "1500 files")
	wantFailure(t, newEntryCounter(DefaultLimits()).add(&tar.Header{Name: strings.Repeat("d", 5000)}), model.ReasonCatalogFailed, "4096")
	wantFailure(t, newEntryCounter(Limits{Files: 9, DecompressedBytes: 1 << 30}).add(&tar.Header{Name: "sparse", Size: 1 << 62}), model.ReasonImageTooLarge, "bytes")
}

func TestSameLayerTwice(t *testing.T) {
	content := debianTar(t)
	layer := newRawLayer(gzipped(t, content), content)
	result, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, imageOf(t, layer, layer))})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Error(diff)
	}
	if result.Stats.Files != 8 {
		t.Errorf("%d files counted", result.Stats.Files)
	}
}
