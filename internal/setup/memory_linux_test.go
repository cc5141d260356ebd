package setup

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// syftOf is a Syft document of about that many bytes, of artifacts that end with what more returns.
func syftOf(size int, more func(i int) string) []byte {
	var b strings.Builder
	b.WriteString(`{"artifacts":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%d","name":"package-%d","version":"1.%d.0","type":"npm","foundBy":"test","language":"javascript","purl":"pkg:npm/package-%d@1.%d.0",%s}`,
			i, i, i, i, i, more(i))
	}
	b.WriteString(`],"artifactRelationships":[],"source":{"id":"s","name":"s","version":"","type":"image","metadata":{"userInput":"s","layers":[]}},` +
		`"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},"schema":{"version":"16.1.10",` +
		`"url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`)
	return []byte(b.String())
}

// list joins elements.
func list(n int, element func(int) string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = element(i)
	}
	return strings.Join(elements, ",")
}

// likeReal is what Syft writes of a package of npm.
func likeReal(i int) string {
	return fmt.Sprintf(`"locations":[{"path":"/app/node_modules/package-%d/package.json","layerID":"sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a",`+
		`"accessPath":"/app/node_modules/package-%d/package.json","annotations":{"evidence":"primary"}}],`+
		`"licenses":[{"value":"MIT","spdxExpression":"MIT","type":"declared","urls":[],"locations":[]}],"cpes":[%s]`, i, i, list(6, func(k int) string {
		return fmt.Sprintf(`{"cpe":"cpe:2.3:a:vendor-%d-%d:package-%d:1.%d.0:*:*:*:*:*:*:*","source":"syft-generated"}`, i, k, i, i)
	}))
}

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
