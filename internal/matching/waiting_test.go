package matching

import (
	"fmt"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestImagesThatCannotBeMatchedBlockNoOthers has more images that wait for a database than are read at a time, and one that does not.
func TestImagesThatCannotBeMatchedBlockNoOthers(t *testing.T) {
	s := newStore(t)
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	ingest(t, a, s, numbered(1000), document)
	settle(t, a)

	a, _ = newMatcher(t, s, newShelf()) // another replica, which does not have the database
	for i := range 2*batchImages + 1 {
		ingest(t, a, s, numbered(i), goModules(module, fmt.Sprintf("v0.0.%d", i)))
	}
	late := numbered(2000)
	late.ImageID = "s" + late.ImageID // Its key comes after those of the others.
	ingest(t, a, s, late, document)
	settle(t, a)
	image, err := s.Image(t.Context(), store.AllNamespaces(), late)
	if err != nil {
		t.Fatal(err)
	}
	if image.State != store.StateScanned {
		t.Errorf("an image whose packages are all matched is %s", image.State)
	}
}
