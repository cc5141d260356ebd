package matching

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// goBinary is the SBOM of an image with one Go binary. Its n-th image has functions of its own, and every second one the one that
// dbtest.Imports names.
func goBinary(n int) string {
	symbols := fmt.Sprintf(`{%q:["function%d"]}`, module+"/http2", n)
	if n%2 == 0 {
		symbols = fmt.Sprintf(`{%q:["function%d"],%q:["Parse"]}`, module+"/http2", n, module+"/parse")
	}
	return strings.Replace(goModules(module, "v0.1.0"), `"language":"go"`,
		`"language":"go","metadataType":"go-module-buildinfo-entry","metadata":{"goCompiledVersion":"go1.22.1","architecture":"amd64","mainModule":"app","symbols":`+
			symbols+`}`, 1)
}

func goBinaries(n int) map[model.ImageKey]string {
	images := map[model.ImageKey]string{}
	for i := range n {
		images[numbered(i)] = goBinary(i)
	}
	return images
}

// naming is a later build whose records of the module name imports.
func naming(t *testing.T, installed vulndb.Installed) vulndb.Installed {
	t.Helper()
	return dbtest.Mutate(t, installed, 1, dbtest.Change{Kind: dbtest.Imports, Fraction: 1, Only: []string{module}})
}

// TestGoModulesAreMatchedOnce has binaries with different symbol tables. They share their module until advisories name imports.
func TestGoModulesAreMatchedOnce(t *testing.T) {
	plain := dbtest.Sample(t)
	named := naming(t, plain)
	images := goBinaries(8)
	s := newStore(t)
	library := newShelf(plain)
	a, counted := newMatcher(t, s, library)
	fill(t, a, s, images)
	settle(t, a)
	if n := counted.matched(); n != 1 {
		t.Errorf("%d packages were matched, want 1 that all images share", n)
	}
	same(t, fresh(t, images, plain), pictures(t, s))
	before := len(findingsOf(t.Context(), t, s, numbered(0)))
	since := firstSeen(t.Context(), t, s, numbered(0))

	library.put(named)
	settle(t, a)
	want := fresh(t, images, named)
	same(t, want, pictures(t, s))
	for i := range 8 {
		if got := len(want[numbered(i)].Findings); got != before-i%2 {
			t.Errorf("image %d has %d findings, without imports there were %d", i, got, before)
		}
	}
	if packages := packageCount(t, s); packages > 3 {
		t.Errorf("%d packages, want one for each set of symbols that advisories name", packages)
	}
	if got := firstSeen(t.Context(), t, s, numbered(0)); !got.Equal(since) {
		t.Errorf("the finding is known since %s, before it was since %s", got, since)
	}
	// New images need no more than the second build.
	images[numbered(8)] = goBinary(8)
	counted.matched()
	ingest(t, a, s, numbered(8), images[numbered(8)])
	settle(t, a)
	if n := counted.matched(); n != 0 {
		t.Errorf("%d packages of an image that is like others were matched", n)
	}
	same(t, fresh(t, images, named), pictures(t, s))
}

func firstSeen(ctx context.Context, t *testing.T, s *sqlstore.Store, image model.ImageKey) time.Time {
	t.Helper()
	page, err := s.Findings(ctx, store.AllNamespaces(), store.FindingQuery{Image: image, Page: store.Page{Size: store.MaxPageSize}})
	if err != nil || len(page.Findings) == 0 {
		t.Fatalf("%d findings, %v", len(page.Findings), err)
	}
	return page.Findings[0].FirstSeen
}

// TestSymbolsWithoutTheCurrentDatabase replaces a build that is not on disk any more.
func TestSymbolsWithoutTheCurrentDatabase(t *testing.T) {
	plain := dbtest.Sample(t)
	named := naming(t, plain)
	images := goBinaries(4)
	s := newStore(t)
	a, _ := newMatcher(t, s, newShelf(plain))
	fill(t, a, s, images)
	settle(t, a)
	a, _ = newMatcher(t, s, newShelf(named))
	images[numbered(4)] = goBinary(4)
	ingest(t, a, s, numbered(4), images[numbered(4)])
	settle(t, a)
	same(t, fresh(t, images, named), pictures(t, s))
}

// TestSBOMsWithUnreadableSymbols has an SBOM that cannot be read again: its packages are matched without symbols, and no other image
// waits for it.
func TestSBOMsWithUnreadableSymbols(t *testing.T) {
	named := naming(t, dbtest.Sample(t))
	images := goBinaries(2)
	s := newStore(t)
	a, _ := newMatcher(t, &broken{s, numbered(1)}, newShelf(named))
	fill(t, a, s, images)
	settle(t, a)
	got := pictures(t, s)
	for _, key := range []model.ImageKey{numbered(0), numbered(1)} {
		if p := got[key]; p.State != store.StateScanned || len(p.Findings) == 0 {
			t.Errorf("%s: %s with %d findings", key.ImageID, p.State, len(p.Findings))
		}
	}
}

// broken is a store in which the SBOM of an image is damaged.
type broken struct {
	*sqlstore.Store
	image model.ImageKey
}

func (b *broken) SBOM(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.SBOM, error) {
	sbom, err := b.Store.SBOM(ctx, in, key)
	if key == b.image {
		sbom.Content = sbom.Content[:len(sbom.Content)/2]
	}
	return sbom, err
}
