package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

// TestPartial: a document about an image that could not be read completely says so, in the way of its format.
func TestPartial(t *testing.T) {
	for format, phrases := range map[report.Format][]string{
		report.FormatCycloneDX: {`"compositions":[{"aggregate":"incomplete","assemblies":["image"]}]`, `unreadable","value":"3"`},
		report.FormatSPDX:      {"Partial: 3 files or directories of the image could not be read."},
	} {
		for unreadable, want := range map[int64]bool{0: false, 3: true} {
			in := inputOf(nil, nil)
			in.Source, in.Unreadable = model.SourceImageVolume, unreadable
			var out bytes.Buffer
			if err := report.Write(&out, format, in); err != nil {
				t.Fatal(err)
			}
			if format == report.FormatCycloneDX && !strings.Contains(out.String(), `source","value":"ImageVolume"`) {
				t.Errorf("the source is not in %s", out.String())
			}
			for _, phrase := range phrases {
				if got := strings.Contains(out.String(), phrase); got != want {
					t.Errorf("%s, %d unreadable: %s is in the document: %t, want %t", format, unreadable, phrase, got, want)
				}
			}
		}
	}
}
