//go:build !race

// The race detector takes several times the memory, and time.

package setup

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// manyLocations and manyLicenses cost the most memory for their size.
func manyLocations(i int) string {
	return `"licenses":[],"cpes":[],"locations":[` + list(2000, func(k int) string { return fmt.Sprintf(`{"path":"/%d/%d"}`, k, i) }) + `]`
}

func manyLicenses(i int) string {
	return `"locations":[],"cpes":[],"licenses":[` + list(2000, func(k int) string { return fmt.Sprintf(`"l-%d-%d"`, k, i) }) + `]`
}

// TestMemoryOfUploads sends the largest documents that a server with a memory limit of 768 MiB takes, all at once. Decoded together they would
// take several times that.
func TestMemoryOfUploads(t *testing.T) {
	const limit, mega = 768 << 20, 1e6
	p := startServer(t, limit)
	ctx, cancel := context.WithTimeout(t.Context(), processPatience)
	defer cancel()

	// By the weights of matching, each of these takes most of the memory for decoding, 320 MiB.
	documents := [][]byte{syftOf(30*mega, likeReal), syftOf(12*mega, manyLocations), syftOf(10*mega, manyLicenses)}
	report := `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[` + list(60_000, func(i int) string {
		return fmt.Sprintf(`{"type":"library","name":"package-%d","version":"1.%d.0","purl":"pkg:npm/package-%d@1.%d.0","description":"%s"}`, i, i, i, i, strings.Repeat("d", 400))
	}) + `]}`
	var sending sync.WaitGroup
	for i, document := range documents {
		sending.Go(func() {
			status, answer, asked, err := p.putSBOM(ctx, i, document)
			if err != nil || status != http.StatusNoContent {
				t.Errorf("SBOM %d of %d bytes, sent %d times: %d %s %v", i, len(document), asked+1, status, answer, err)
			}
		})
	}
	sending.Go(func() {
		status, answer, asked, err := p.put(ctx, "/scan-results?imageId=reported", "application/vnd.cyclonedx+json", "", []byte(report))
		if err != nil || status != http.StatusOK {
			t.Errorf("a report of %d bytes, sent %d times: %d %.500s %v", len(report), asked+1, status, answer, err)
		}
	})
	sending.Wait()

	// One that takes more than there is, is refused with its bound, and nothing of it is decoded.
	status, answer, _, err := p.putSBOM(ctx, 7, syftOf(14*mega, manyLicenses))
	if err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(answer, "more than the limit of 320 MiB") {
		t.Errorf("%d %s %v", status, answer, err)
	}
	if peak := p.peak(); peak >= limit {
		t.Errorf("the server took %d MiB of memory, its limit is %d MiB", peak>>20, limit>>20)
	}
}
