package matching

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

type brokenBody struct{ content io.Reader }

var errBroken = errors.New("connection reset")

func (b brokenBody) Read(p []byte) (int, error) {
	n, err := b.content.Read(p)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}

func TestIngestSBOM(t *testing.T) {
	known := key("a")
	a := New(newStore(t, known), newShelf(), &counter{}, clock.RealClock{}, testr.New(t))
	valid := compress(t, document)
	tests := map[string]struct {
		key  model.ImageKey
		body io.Reader
		want error
	}{
		"accepted":              {known, bytes.NewReader(valid), nil},
		"delivered again":       {known, bytes.NewReader(valid), nil},
		"nobody wants it":       {key("b"), bytes.NewReader(valid), store.ErrNotFound},
		"not zstd":              {known, strings.NewReader("hello"), ErrRefused},
		"not an SBOM":           {known, bytes.NewReader(compress(t, `{"a":1}`)), ErrRefused},
		"cut off":               {known, bytes.NewReader(valid[:len(valid)-9]), ErrRefused},
		"empty":                 {known, bytes.NewReader(nil), ErrRefused},
		"a bomb":                {known, bytes.NewReader(compress(t, strings.Repeat(" ", 200<<20))), ErrRefused},
		"the connection breaks": {known, brokenBody{bytes.NewReader(valid[:len(valid)/2])}, errBroken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := a.IngestSBOM(t.Context(), tt.key, store.Delivery{}, tt.body)
			if !errors.Is(err, tt.want) {
				t.Errorf("IngestSBOM = %v, want %v", err, tt.want)
			}
			if errors.Is(tt.want, errBroken) && errors.Is(err, ErrRefused) {
				t.Error("a broken connection is the sender's fault")
			}
		})
	}
}

func TestIngestFileKeepsTheSameAsIngestSBOM(t *testing.T) {
	one, two := key("a"), key("b")
	s := newStore(t, one, two)
	a := New(s, newShelf(), &counter{}, clock.RealClock{}, testr.New(t))
	path := filepath.Join(t.TempDir(), "sbom.json")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.IngestFile(t.Context(), one, "operator", path), a.IngestSBOM(t.Context(), two, store.Delivery{}, bytes.NewReader(compress(t, document)))); err != nil {
		t.Fatal(err)
	}
	first, err := s.SBOM(t.Context(), store.AllNamespaces(), one)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.SBOM(t.Context(), store.AllNamespaces(), two)
	if err != nil {
		t.Fatal(err)
	}
	if image, err := s.Image(t.Context(), store.AllNamespaces(), one); err != nil || image.Cataloger != "syft 1.49.0" || image.Source != model.SourceRegistry || image.ScannedIn != "operator" {
		t.Errorf("got %+v, %v", image, err)
	}
	if first.SHA256 != second.SHA256 || first.Size != int64(len(document)) || first.Size != second.Size {
		t.Errorf("%s (%d bytes) and %s (%d bytes)", first.SHA256, first.Size, second.SHA256, second.Size)
	}
}

// TestMatchesWhenTheDatabaseArrives covers both orders: an SBOM that waits for a database, and one that comes later.
func TestMatchesWhenTheDatabaseArrives(t *testing.T) {
	g, early, late := gomega.NewWithT(t), key("a"), key("b")
	s, library := newStore(t, early, late), newShelf()
	a := New(s, library, &counter{}, clock.RealClock{}, testr.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	if err := a.IngestSBOM(t.Context(), early, store.Delivery{}, bytes.NewReader(compress(t, document))); err != nil {
		t.Fatal(err)
	}
	state := func(k model.ImageKey) func() store.State {
		return func() store.State {
			image, err := s.Image(t.Context(), store.AllNamespaces(), k)
			if err != nil {
				return store.State(err.Error())
			}
			return image.State
		}
	}
	g.Consistently(state(early), "300ms").Should(gomega.Equal(store.StateCataloged))
	if _, has := a.Build(); has {
		t.Error("a database is in use before there is one")
	}
	library.put(dbtest.Sample(t))
	g.Eventually(state(early), "20s").Should(gomega.Equal(store.StateScanned))
	if err := a.IngestSBOM(t.Context(), late, store.Delivery{}, bytes.NewReader(compress(t, document))); err != nil {
		t.Fatal(err)
	}
	g.Eventually(state(late), "20s").Should(gomega.Equal(store.StateScanned))
	page, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: late})
	if err != nil || page.Total == 0 {
		t.Errorf("%d findings of golang.org/x/net v0.1.0, %v", page.Total, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
