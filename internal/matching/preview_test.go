package matching

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// A preview finds what packages have in other versions, with the database of the visible findings, however many ask at once; that of a package without an
// answer fails alone.
func TestPreviewer(t *testing.T) {
	older := dbtest.Sample(t)
	newer := dbtest.Mutate(t, older, 1, dbtest.Fraction(0.1)...)
	s, shelf := newStore(t), newShelf(older, newer)
	p := NewPreviewer(s, shelf)
	held := moduleOf(t)
	ids := func(packages []model.Package, versions ...string) (lists [][]string, build string) {
		answers, used, err := p.MatchVersions(t.Context(), packages, versions)
		if err != nil {
			t.Error(err)
			return nil, ""
		}
		for i := range answers {
			list := []string{answers[i].Failure}
			for j := range answers[i].Findings {
				list = append(list, answers[i].Findings[j].Vulnerability.ID)
			}
			lists = append(lists, list)
		}
		return lists, used.ID
	}
	if _, _, err := p.MatchVersions(t.Context(), []model.Package{held}, []string{"v0.2.0"}); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("without a result set: %v", err)
	}
	if _, err := s.StartResultSet(t.Context(), older.Build, match.Engine(), true); err != nil {
		t.Fatal(err)
	}
	broken := held
	broken.MatchInput = []byte("{}")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			lists, build := ids([]model.Package{held, broken, held}, "v0.1.0", "1", "v9.0.0")
			if len(lists) != 3 || len(lists[0]) < 2 || len(lists[2]) != 1 || lists[1][0] == "" || build != older.Build.ID {
				t.Errorf("%v with %s", lists, build)
			}
		})
	}
	all.Wait()
	// It is closed when nobody uses it any more, also if somebody does when it should be.
	closed := func() bool {
		if !p.turn.TryAcquire(1) {
			return false
		}
		defer p.turn.Release(1)
		return p.open == nil
	}
	if closed() {
		t.Error("the database is closed at once")
	}
	p.keep = time.Millisecond
	if err := p.turn.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	p.closeIdle()
	p.turn.Release(1)
	gomega.NewWithT(t).Eventually(closed, "10s", "1ms").Should(gomega.BeTrue())
	if lists, _ := ids([]model.Package{held}, "v0.1.0"); len(lists) != 1 || len(lists[0]) < 2 {
		t.Errorf("after it was closed: %v", lists)
	}

	// Another database comes into use; then this replica does not have it.
	current := &fixedResultSet{newer.Build}
	p.store = current
	if _, build := ids([]model.Package{held}, "v0.1.0"); build != newer.Build.ID {
		t.Errorf("matched with %s", build)
	}
	current.build.ID = "xxh64:0"
	if _, _, err := p.MatchVersions(t.Context(), []model.Package{held}, []string{"v0.2.0"}); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("without the database: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.MatchVersions(ended, []model.Package{held}, []string{"v0.2.0"}); !errors.Is(err, context.Canceled) {
		t.Errorf("for nobody: %v", err)
	}
}

// moduleOf is the package of document.
func moduleOf(t *testing.T) model.Package {
	t.Helper()
	_, catalog, err := decode(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(catalog.Packages, func(p model.HeldPackage) bool { return p.Package.Name == module })
	return catalog.Packages[i].Package
}

// fixedResultSet is a store with one result set.
type fixedResultSet struct{ build model.DatabaseBuild }

// CurrentResultSet implements PreviewStore.
func (f *fixedResultSet) CurrentResultSet(context.Context) (store.ResultSet, bool, error) {
	return store.ResultSet{Build: f.build}, true, nil
}
