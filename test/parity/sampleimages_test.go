package parity_test

import (
	"path/filepath"
	"testing"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
)

// TestParityOnSampleImages compares the whole way: here our catalog with its slim SBOM and our matching, there the grype
// command on the image itself.
func TestParityOnSampleImages(t *testing.T) {
	images, err := sampleimages.Build(t.Context(), "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, installed := range databases(t) {
		if name == "invented" {
			continue // it knows nothing of what these images hold
		}
		database := openDatabase(t, installed)
		for _, image := range images {
			if image.Image == nil {
				// An index: its images are there by themselves.
				continue
			}
			t.Run(name+"/"+image.Name, func(t *testing.T) {
				archive := filepath.Join(t.TempDir(), "image.tar")
				if err := image.WriteDockerArchive(archive); err != nil {
					t.Fatal(err)
				}
				result, err := catalog.Run(t.Context(), catalog.Request{Image: archive, ScratchDir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				ours := ourFindings(t, database, result.SBOM)
				theirs := readReport(t, runGrypeOn(t, installed, "docker-archive:"+archive))
				if diff := difference(rows(t, grypeRows(t, theirs)), rows(t, ourRows(t, ours))); diff != "" {
					t.Errorf("findings differ (-grype +ours):\n%s", diff)
				}
				compared += len(theirs.Matches)
			})
		}
	}
	if compared == 0 {
		t.Error("nothing matched at all; the comparison says nothing")
	}
	t.Logf("%d matches compared", compared)
}
