package matching

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestWeigh(t *testing.T) {
	tests := map[string]struct {
		mediaType, document string
		want                weight
	}{
		"nothing":          {MediaTypeSyft, ``, weight{}},
		"an array":         {MediaTypeSyft, `["a","b",[]]`, weight{bytes: 12, elements: 4}},
		"an object":        {MediaTypeSyft, `{"a":1,"b":{"c":[1, 2]}}`, weight{bytes: 24, elements: 2, members: 3}},
		"within strings":   {MediaTypeSyft, `["a,[{\",[{","\\",":,"]`, weight{bytes: 23, elements: 3}},
		"behind an object": {MediaTypeSyft, `[{"a":[1],"b":2},3]`, weight{bytes: 19, elements: 3, members: 2}},
		"deeper than bits": {MediaTypeSyft, strings.Repeat("[", 100) + strings.Repeat("]", 100), weight{bytes: 200, elements: 100}},
		"XML":              {match.MediaTypeCycloneDXXML, `<a b="c"><d/></a>`, weight{bytes: 17, elements: 3, members: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.xml = test.mediaType == match.MediaTypeCycloneDXXML
			for _, reader := range []io.Reader{strings.NewReader(test.document), iotest.OneByteReader(strings.NewReader(test.document))} {
				got, err := weigh(test.mediaType, reader)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(weight{}), cmpopts.IgnoreFields(weight{}, "inString", "escaped", "nesting")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Whatever is decoded waits for the memory that it takes, and is refused when it waits too long, or takes more than there is.
func TestDecodingIsBounded(t *testing.T) {
	s := newStore(t, key("a"))
	a, _ := newMatcher(t, s, newShelf())
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func() error{
		"SBOM": func() error {
			return a.IngestSBOM(t.Context(), key("a"), store.Delivery{}, bytes.NewReader(compress(t, document)))
		},
		"file": func() error { return a.IngestFile(t.Context(), key("a"), "operator", file) },
		"JSON report": func() error {
			return a.IngestReport(t.Context(), store.AllNamespaces(), "r", store.Report{Content: []byte("{}")}, match.MediaTypeCycloneDXJSON, []byte(reportJSON))
		},
		"XML report": func() error {
			return a.IngestReport(t.Context(), store.AllNamespaces(), "r", store.Report{Content: []byte("{}")}, match.MediaTypeCycloneDXXML, []byte(reportXML))
		},
		"stored SBOM": func() error {
			_, err := a.readSBOM(t.Context(), store.SBOM{MediaType: MediaTypeSyft, Content: compress(t, document)}, nil)
			return err
		},
	}
	for name, decode := range kinds {
		t.Run(name, func(t *testing.T) {
			a.LimitDecoding(100 * byteCost)
			if err := decode(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "more than the limit of 0 MiB") {
				t.Errorf("with less memory than it takes: %v", err)
			}
			const enough = 1 << 20
			a.LimitDecoding(enough)
			release, err := a.reserve(t.Context(), weight{bytes: enough/byteCost - 100})
			if err != nil {
				t.Fatal(err)
			}
			// Only this wait ends soon: a busy machine lets a millisecond pass before memory is asked for.
			patience := a.patience
			a.patience = time.Millisecond
			if err := decode(); !errors.Is(err, ErrBusy) {
				t.Errorf("while others are decoded: %v", err)
			}
			a.patience = patience
			release()
			if err := decode(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if !a.decodes.TryAcquire(enough) {
				t.Error("memory was not given back")
			}
		})
	}
	if _, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: "r"}); err != nil {
		t.Error(err)
	}
}
