package matching

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

// pair returns the sample database and a later build that differs in a part of it.
func pair(t *testing.T, seed uint64) (before, after vulndb.Installed) {
	t.Helper()
	before = dbtest.Sample(t)
	return before, dbtest.Mutate(t, before, seed, dbtest.Fraction(0.1)...)
}

// fleet makes images of packages that a database knows: every fourth one as in a cluster, the others small and odd.
func fleet(t *testing.T, database vulndb.Installed, n int, seed uint64) map[model.ImageKey]string {
	t.Helper()
	pool, err := sbomgen.ReadPool(t.Context(), database.SQLiteDir())
	if err != nil {
		t.Fatal(err)
	}
	generator := sbomgen.New(pool, seed)
	alike := generator.Fleet(n)
	out := make(map[model.ImageKey]string, n)
	for i := range n {
		draw := alike.SBOM
		if i%4 > 0 {
			draw = generator.SBOM
		}
		document, err := draw(i)
		if err != nil {
			t.Fatal(err)
		}
		out[numbered(i)] = string(document)
	}
	return out
}

func numbered(i int) model.ImageKey {
	sum := sha256.Sum256([]byte{byte(i >> 8), byte(i)})
	return model.ImageKey{
		ImageID:  fmt.Sprintf("r.example/app-%d@sha256:%s", i, hex.EncodeToString(sum[:])),
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

func fill(t *testing.T, a *Matcher, s *sqlstore.Store, images map[model.ImageKey]string) {
	t.Helper()
	for image, document := range images {
		ingest(t, a, s, image, document)
	}
}

// fresh is what a store shows that has seen nothing but one database.
func fresh(t *testing.T, images map[model.ImageKey]string, database vulndb.Installed) map[model.ImageKey]picture {
	t.Helper()
	s := newStore(t)
	a, _ := newMatcher(t, s, newShelf(database))
	fill(t, a, s, images)
	settle(t, a)
	return pictures(t, s)
}

func packageCount(t *testing.T, s *sqlstore.Store) int {
	t.Helper()
	count := 0
	for after := int64(0); ; {
		page, err := s.AnsweredPackages(t.Context(), after, pageSize)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return count
		}
		count, after = count+len(page), page[len(page)-1].ID
	}
}

// TestFullEqualsIncremental goes through several builds, each matched only as far as it can touch, and expects what a match from
// scratch under the last one shows: every finding, every field, every count.
func TestFullEqualsIncremental(t *testing.T) {
	databases := map[string]struct {
		first  func(testing.TB) vulndb.Installed
		images int
		part   float64
	}{
		"sample": {dbtest.Sample, 8, 0.1},
		"real":   {dbtest.Shared, 5, 0.01},
	}
	const builds = 2
	for name, tt := range databases {
		t.Run(name, func(t *testing.T) {
			build := tt.first(t)
			images := fleet(t, build, tt.images, 1)
			s, library := newStore(t), newShelf(build)
			a, counted := newMatcher(t, s, library)
			fill(t, a, s, images)
			settle(t, a)
			same(t, fresh(t, images, build), pictures(t, s))
			all := counted.matched()
			for seed := range uint64(builds) {
				build = dbtest.Mutate(t, build, seed, dbtest.Fraction(tt.part)...)
				library.put(build)
				settle(t, a)
				if n := counted.matched(); n == 0 || n >= all {
					t.Errorf("build %d: matched %d packages of %d", seed+1, n, all)
				} else {
					t.Logf("build %d: matched %d packages of %d", seed+1, n, all)
				}
				same(t, fresh(t, images, build), pictures(t, s))
			}
			library.request(true)
			before := pictures(t, s)
			settle(t, a)
			if n, want := counted.matched(), packageCount(t, s); n != want {
				t.Errorf("a full re-match matched %d packages, want all %d", n, want)
			}
			same(t, before, pictures(t, s))
			last := counted.resultSets[len(counted.resultSets)-1]
			if !last.Full || last.Changes != (store.ChangeCounts{}) {
				t.Errorf("the full re-match of the same database says %+v", last)
			}
			if _, pending := library.RematchRequest(); pending {
				t.Error("the request is still pending")
			}
		})
	}
}

// TestEveryKindOfChange goes through builds that each differ in one way only.
func TestEveryKindOfChange(t *testing.T) {
	build := dbtest.Sample(t)
	images := fleet(t, build, 4, 9)
	s, library := newStore(t), newShelf(build)
	a, counted := newMatcher(t, s, library)
	fill(t, a, s, images)
	settle(t, a)
	kinds := append(dbtest.Kinds(), dbtest.Renumber)
	for i, kind := range kinds {
		counted.matched()
		build = dbtest.Mutate(t, build, uint64(i), dbtest.Change{Kind: kind, Fraction: 0.2})
		library.put(build)
		settle(t, a)
		got := pictures(t, s)
		t.Run(string(kind), func(t *testing.T) {
			n, all := counted.matched(), packageCount(t, s)
			t.Logf("matched %d packages of %d", n, all)
			if kind == dbtest.Renumber && n > 0 {
				t.Error("other row IDs are no change")
			}
			same(t, fresh(t, images, build), got)
		})
	}
}

// TestScoresWithoutMatching changes nothing but EPSS and KEV.
func TestScoresWithoutMatching(t *testing.T) {
	before := dbtest.Sample(t)
	after := dbtest.Mutate(t, before, 1, dbtest.Change{Kind: dbtest.EPSS, Fraction: 1}, dbtest.Change{Kind: dbtest.AddKEV, Fraction: 1})
	images := fleet(t, before, 4, 2)
	s, library := newStore(t), newShelf(before)
	a, counted := newMatcher(t, s, library)
	fill(t, a, s, images)
	settle(t, a)
	counted.matched()
	library.put(after)
	settle(t, a)
	if n := counted.matched(); n != 0 {
		t.Errorf("matched %d packages for nothing but scores", n)
	}
	same(t, fresh(t, images, after), pictures(t, s))
	if changes := counted.resultSets[0].Changes; changes.Changed == 0 || changes.NewKEV == 0 || changes.Opened+changes.Closed > 0 {
		t.Errorf("the changes are %+v; want findings that became exploited, and none opened or closed", changes)
	}
}

// watched is a store that calls back before answers are saved under another result set than the first.
type watched struct {
	*sqlstore.Store
	saving func()
}

func (w *watched) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	if resultSet > 1 {
		w.saving()
	}
	return w.Store.SaveAnswers(ctx, resultSet, answers)
}

// TestOldAnswerStaysVisible looks at everything, and takes in a new image, while a re-match is under way.
func TestOldAnswerStaysVisible(t *testing.T) {
	before, after := pair(t, 3)
	images := fleet(t, before, 4, 3)
	late := numbered(1000)
	document := fleet(t, before, 6, 4)[numbered(5)]
	s := newStore(t)
	w := &watched{Store: s, saving: func() {}}
	library := newShelf(before)
	a, _ := newMatcher(t, w, library)
	fill(t, a, s, images)
	settle(t, a)
	old := pictures(t, s)
	saves := 0
	w.saving = func() {
		if saves++; saves == 1 {
			ingest(t, a, s, late, document)
		}
		now := pictures(t, s)
		delete(now, late)
		same(t, old, now)
	}
	library.put(after)
	settle(t, a)
	if saves == 0 {
		t.Fatal("nothing was matched again")
	}
	images[late] = document
	same(t, fresh(t, images, after), pictures(t, s))
}

// TestSuperseded puts a third build on the shelf while the second is being matched.
func TestSuperseded(t *testing.T) {
	first, second := pair(t, 5)
	third := dbtest.Mutate(t, second, 6, dbtest.Fraction(0.1)...)
	images := fleet(t, first, 4, 5)
	s := newStore(t)
	library := newShelf(first)
	w := &watched{Store: s, saving: func() {}}
	a, counted := newMatcher(t, w, library)
	fill(t, a, s, images)
	settle(t, a)
	once := true
	w.saving = func() {
		if once {
			once = false
			library.put(third)
		}
	}
	library.put(second)
	settle(t, a)
	same(t, fresh(t, images, third), pictures(t, s))
	var builds []string
	for _, g := range counted.resultSets {
		builds = append(builds, g.PreviousBuild+" -> "+g.Build.ID)
	}
	if want := []string{first.Build.ID + " -> " + third.Build.ID}; !cmp.Equal(want, builds) {
		t.Errorf("people saw %v, want %v", builds, want)
	}
}

// TestDatabaseBeforeIsGone has nothing to compare with.
func TestDatabaseBeforeIsGone(t *testing.T) {
	before, after := pair(t, 7)
	images := fleet(t, before, 4, 7)
	s := newStore(t)
	a, _ := newMatcher(t, s, newShelf(before))
	fill(t, a, s, images)
	settle(t, a)
	a, counted := newMatcher(t, s, newShelf(after))
	late := numbered(1000)
	ingest(t, a, s, late, document)
	settle(t, a)
	images[late] = document
	same(t, fresh(t, images, after), pictures(t, s))
	if !counted.resultSets[0].Full {
		t.Error("not every package was matched again")
	}
}

// TestSBOMsAreReadAgain stores SBOMs as an earlier version of the program read them.
func TestSBOMsAreReadAgain(t *testing.T) {
	database := dbtest.Sample(t)
	images := fleet(t, database, 4, 8)
	for _, scanned := range []bool{false, true} {
		t.Run(fmt.Sprintf("scanned=%t", scanned), func(t *testing.T) {
			s := newStore(t)
			a, _ := newMatcher(t, &earlier{s}, newShelf(database))
			fill(t, a, s, images)
			if scanned {
				r := &runner{Matcher: a, reread: time.Now()}
				if err := r.pass(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.close()
			}
			a, _ = newMatcher(t, s, newShelf(database))
			settle(t, a)
			same(t, fresh(t, images, database), pictures(t, s))
			left, err := s.OutdatedCatalogs(t.Context(), match.Stamp(), false, model.ImageKey{}, 1)
			if err != nil || len(left) > 0 {
				t.Errorf("%v are still read by old rules, %v", left, err)
			}
		})
	}
}

// earlier is a store that is given what an earlier projection made of an SBOM: no package has a context.
type earlier struct{ *sqlstore.Store }

func (e *earlier) SaveSBOM(ctx context.Context, key model.ImageKey, sbom store.SBOM, catalog model.Catalog) error {
	catalog.Stamp--
	catalog.Packages = catalog.Packages[:len(catalog.Packages)/2]
	return e.Store.SaveSBOM(ctx, key, sbom, catalog)
}

// TestFailedPackagesAreTriedOnRequest has one package that cannot be matched at first.
func TestFailedPackagesAreTriedOnRequest(t *testing.T) {
	database := dbtest.Sample(t)
	images := map[model.ImageKey]string{numbered(1): goModules("golang.org/x/net", "v0.1.0", "golang.org/x/text", "v0.3.0")}
	s := newStore(t)
	library := newShelf(database)
	a, _ := newMatcher(t, &failing{s, "golang.org/x/text"}, library)
	fill(t, a, s, images)
	settle(t, a)
	image, err := s.Image(t.Context(), store.AllNamespaces(), numbered(1))
	if err != nil {
		t.Fatal(err)
	}
	if image.State == store.StateScanned || image.Reason != model.ReasonMatchFailed {
		t.Errorf("the image is %s (%s), want it to say that matching failed", image.State, image.Reason)
	}
	a, counted := newMatcher(t, s, library)
	settle(t, a)
	if n := counted.matched(); n != 0 {
		t.Errorf("%d packages were tried again though nobody asked", n)
	}
	library.request(false)
	settle(t, a)
	if n := counted.matched(); n != 1 {
		t.Errorf("%d packages were tried again, want the one that failed", n)
	}
	same(t, fresh(t, images, database), pictures(t, s))
}

// failing is a store that is told that a package cannot be matched.
type failing struct {
	*sqlstore.Store
	name string
}

func (f *failing) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	_, unanswered, err := f.UnansweredPackages(ctx, numbered(1))
	if err != nil {
		return err
	}
	for _, p := range unanswered {
		if p.Name == f.name {
			answers[p.ID] = model.PackageAnswer{Failure: "it panics"}
		}
	}
	return f.Store.SaveAnswers(ctx, resultSet, answers)
}
