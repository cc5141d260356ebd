package matching

import (
	"bytes"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestCatalogedAgain replaces the SBOM of an image that is matched. The runner has just read the SBOMs of other versions, so that it would look
// for more only an hour later.
func TestCatalogedAgain(t *testing.T) {
	database := dbtest.Sample(t)
	library := newShelf(database)
	s, image := newStore(t), numbered(0)
	a, _ := newMatcher(t, s, library)
	ingest(t, a, s, image, goModules(module, "v0.1.0", "golang.org/x/text", "v0.3.0"))
	r := &runner{Matcher: a, reread: time.Now()}
	defer r.close()
	pass := func() {
		t.Helper()
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	before := pictures(t, s)
	if len(before[image].Findings) == 0 {
		t.Fatal("there are no findings")
	}
	if began, err := s.BeginRecatalog(t.Context(), image, 0, "syft v2", 1); !began || err != nil {
		t.Fatal(began, err)
	}
	renewed := goModules(module, "v0.7.0", "golang.org/x/crypto", "v0.1.0")
	if err := a.IngestSBOM(t.Context(), image, store.Delivery{}, bytes.NewReader(compress(t, renewed))); err != nil {
		t.Fatal(err)
	}
	same(t, before, pictures(t, s))
	library.builds = nil // A replica without the database can match nothing.
	lacking := &runner{Matcher: a, reread: time.Now()}
	if err := lacking.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, before, pictures(t, s))
	library.put(database)
	pass()
	same(t, fresh(t, map[model.ImageKey]string{image: renewed}, database), pictures(t, s))
}
